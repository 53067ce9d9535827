"""T5 and its kin: an encoder and a decoder whose first blocks hold the relative positions of all."""

from __future__ import annotations

from sizer.architectures.encoder_decoders.bart_layers import classification_head
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import FIRST, attention_core, embedding, gated_mlp, linear, mlp, residual, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Leaf, Module, Op, heads_axis


@configuration
class T5Config(Config):
    """Sizes and switches of a T5.

    `task` "encoder" is the encoder alone; "token" puts a classifier on it.
    `gated`: T5 1.1's MLP with two input matrices.
    `tie_head`: what transformers 5 ties in memory whatever the files hold (T5 1.1 and its kin have a
    head of their own, which `tie_embeddings=False` says). `tie_tokens`: both stacks share a table.
    `own_positions`: every block has relative positions (UMT5), not the first alone.
    `encoder_attention`: "full", or LongT5's "local" and "transient_global", over a `window`.
    `scales_tied_head`: what goes into a head that is tied is multiplied with a number (not in mT5).
    `encoder_kinds`, `decoder_kinds`: "dense" or "sparse" for each block of a Switch Transformer.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    n_decoder_layers: Dim | None = None
    n_buckets: Dim = 32
    n_experts: Dim | None = None
    window: Dim | None = None
    encoder_kinds: Pattern | None = None
    decoder_kinds: Pattern | None = None
    gated: bool = False
    act: str = "relu"
    tie_embeddings: bool = True
    tie_head: bool = False
    tie_tokens: bool = True
    own_positions: bool = False
    encoder_attention: str = "full"
    router_bias: bool = False
    mlp_name: str = "DenseReluDense"
    scales_tied_head: bool = True
    task: str = "seq2seq"

    letters = {"n_decoder_layers": "M", "n_buckets": "Nb", "encoder_kinds": "L", "decoder_kinds": "M"}
    meanings = {
        "n_layers": "encoder blocks",
        "n_decoder_layers": "decoder blocks",
        "n_buckets": "buckets of relative distance",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_decoder_layers=self.n_layers)


def t5(c: T5Config) -> Module:
    """T5 (Raffel et al. 2020), with the tensor names of `T5ForConditionalGeneration`.

    Source: transformers `modeling_t5.py`, and those of the types in `t5_types.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    inside = "transformer." if c.task in ("sequence", "token") else ""
    shared = f"{inside}shared.weight" if c.tie_tokens else None
    tokens = embedding("embed_tokens", vocab, embed, tied_to=shared)
    # The others differ in what their attention or their experts keep for a backward pass.
    usual = not c.own_positions and c.encoder_attention == "full" and c.n_experts is None
    flow = "block" if usual and c.task == "seq2seq" else ""
    encoder = Module(
        "encoder",
        (
            tokens,
            Module(
                "block",
                (_encoder_attention(c, embed), *_feed_forward(c, embed, 1)),
                repeat=c.n_layers,
                flow=flow,
            ),
            _norm("final_layer_norm", embed),
        ),
        stream="encoder",
    )
    decoder = Module(
        "decoder",
        (
            tokens,
            Module(
                "block",
                (_self_attention(c, embed), _cross_attention(c, embed), *_feed_forward(c, embed, 2)),
                repeat=c.n_decoder_layers,
                flow=flow,
            ),
            _norm("final_layer_norm", embed),
        ),
    )
    decoders = () if c.task in ("encoder", "token") else (decoder,)
    return _with_head(c, embed, vocab, (embedding("shared", vocab, embed), encoder, *decoders))


def _with_head(c: T5Config, embed: Axis, vocab: Axis, model: tuple[Module, ...]) -> Module:
    labels = Axis("labels", c.n_labels)
    if c.task == "seq2seq":
        tied = c.tie_embeddings or (c.tie_head and c.layout == "transformers")
        head = linear("lm_head", vocab, embed, tied_to="shared.weight" if tied else None, component="head")
        scaled = (Op("scale", "scaled", {}),) if c.tie_embeddings and c.scales_tied_head else ()
        return Module("", (*model, *scaled, head))
    if c.task == "sequence":
        return Module("", (Module("transformer", model), classification_head(c, embed)))
    if c.task == "token":
        head = linear("classifier", labels, embed, bias=True, component="head")
        return Module("", (Module("transformer", model), head))
    if c.task == "qa":
        return Module("", (*model, linear("qa_outputs", labels, embed, bias=True, component="head")))
    return Module("", model)


def _encoder_attention(c: T5Config, embed: Axis) -> Module:
    if c.encoder_attention == "local":
        return _self_attention(c, embed, name="LocalSelfAttention", cached=False, window=c.window)
    if c.encoder_attention == "transient_global":
        # Blocks of tokens are summed into global ones, with a norm and relative positions of their own.
        extra = (
            _positions(c, "global_relative_attention_bias"),
            rms_norm("global_input_layer_norm", embed),
        )
        name = "TransientGlobalSelfAttention"
        return _self_attention(c, embed, name=name, cached=False, window=c.window, extra=extra)
    return _self_attention(c, embed, cached=False)


def _self_attention(
    c: T5Config,
    embed: Axis,
    *,
    name: str = "SelfAttention",
    cached: bool = True,
    window: Dim | None = None,
    extra: tuple[Module, ...] = (),
) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    traits = ("causal",) if cached else ()
    attention = Module(
        name,
        (
            linear("q", heads, embed),
            linear("k", heads, embed),
            linear("v", heads, embed),
            _positions(c, "relative_attention_bias"),
            *extra,
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=cached, window=window, traits=traits),
            linear("o", embed, heads),
        ),
        component="attention",
        flow="relative",
    )
    return Module("layer.0", (residual(_norm("layer_norm", embed), attention),))


def _norm(name: str, embed: Axis) -> Module:
    """T5's RMSNorm, whose factor is in fp32 and whose input is not."""
    return rms_norm(name, embed)._replace(kind="mixed_rms_norm")


def _positions(c: T5Config, name: str) -> Module:
    """A number for each head and bucket of distances; the first block has them for all."""
    buckets, per_head = Axis("buckets", c.n_buckets), Axis("heads", c.n_heads)
    table = embedding(name, buckets, per_head, component="position")
    return table if c.own_positions else table._replace(at=FIRST)


def _cross_attention(c: T5Config, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attention = Module(
        "EncDecAttention",
        (
            linear("q", heads, embed),
            linear("k", heads, embed)._replace(stream="encoder"),
            linear("v", heads, embed)._replace(stream="encoder"),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cross=True),
            linear("o", embed, heads),
        ),
        component="attention",
        flow="relative",
    )
    return Module("layer.1", (residual(_norm("layer_norm", embed), attention),))


def _feed_forward(c: T5Config, embed: Axis, index: int) -> tuple[Module, ...]:
    ffn = Axis("ffn", c.d_ff)
    dense = (
        gated_mlp(c.mlp_name, ffn, embed, act=c.act, names=("wi_0", "wi_1", "wo"))
        if c.gated
        else mlp(c.mlp_name, ffn, embed, bias=False, act=c.act, names=("wi", "wo"))
    )
    layers = c.encoder_kinds if index == 1 else c.decoder_kinds
    before = _norm("layer_norm", embed)
    if layers is None:
        return (Module(f"layer.{index}", (residual(before, dense._replace(flow="widened")),)),)
    sparse = Module(c.mlp_name, _switch(c, embed, ffn), at=layers.layers("sparse"))
    return (Module(f"layer.{index}", (before, dense._replace(at=layers.layers("dense")), sparse)),)


def _switch(c: T5Config, embed: Axis, ffn: Axis) -> tuple[Module | Leaf, ...]:
    """Switch Transformer (Fedus et al. 2021): of all experts, a token visits one."""
    router = linear(
        "router.classifier", Axis("expert", c.n_experts), embed, bias=c.router_bias, component="router"
    )
    expert = mlp(
        "experts.expert_{}", ffn, embed, bias=False, act=c.act, names=("wi", "wo"), component="experts"
    )
    return (router, expert._replace(repeat=c.n_experts, active=1))


ARCHITECTURES = {"t5": Architecture(T5Config, t5)}
