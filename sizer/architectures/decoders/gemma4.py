"""Gemma 4's text models, and the small assistants that draft for them."""

from __future__ import annotations

from sizer.architectures.decoders.gemma3n import (
    per_layer_embeddings,
    per_layer_inputs,
    rotary_by_kind,
    scaled_embedding,
)
from sizer.architectures.heads import Children, with_head
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import (
    attention_core,
    buffer,
    gated_mlp,
    linear,
    rms_norm,
    routed_experts,
)
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis


@configuration
class Gemma4Config(Config):
    """Sizes and switches of a Gemma 4.

    `layers`: "window" or "full", with "_shared" after it where a layer uses the keys and values of
    an earlier one. Full layers have heads of their own width and number.
    `keys_are_values`: full layers have no projection of values. `double_wide`: the MLP of shared
    layers is twice as wide. `d_per_layer`: width of the embedding of each layer, if it has one.
    `n_experts`: routed experts beside the MLP of each layer.
    `d_backbone`: the assistant alone: width of the model it drafts for. `n_centroids`: groups of
    tokens that its head scores first.
    """

    d_model: Dim
    n_layers: Dim
    layers: Pattern
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    n_full_kv_heads: Dim | None = None
    d_full_head: Dim | None = None
    d_rotary: Dim | None = None
    d_full_rotary: Dim | None = None
    window: Dim | None = None
    d_per_layer: Dim | None = None
    per_layer_vocab_size: Dim | None = None
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_ff_expert: Dim | None = None
    d_backbone: Dim | None = None
    n_centroids: Dim | None = None
    attention_bias: bool = False
    keys_are_values: bool = False
    double_wide: bool = False
    tie_embeddings: bool = True
    act: str = "gelu_pytorch_tanh"

    letters = {
        "n_full_kv_heads": "Kf",
        "d_full_head": "Df",
        "d_rotary": "Dr",
        "d_full_rotary": "Drf",
        "d_per_layer": "Dp",
        "per_layer_vocab_size": "Vp",
        "d_backbone": "Db",
        "n_centroids": "Nc",
    }
    meanings = {
        "n_full_kv_heads": "key/value heads of a full layer",
        "d_full_head": "width of a head of a full layer",
        "d_rotary": "width of the rotary part of a head",
        "d_full_rotary": "the same of a full layer",
        "d_per_layer": "width of the embedding of each layer",
        "per_layer_vocab_size": "rows of the embeddings of each layer",
        "d_backbone": "width of the model that the assistant drafts for",
        "n_centroids": "groups of tokens that the assistant scores first",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_full_kv_heads=self.n_kv_heads, d_full_head=self.d_head)
        self.derive(d_rotary=self.d_head, d_full_rotary=self.d_full_head)


def gemma4(c: Gemma4Config) -> Module:
    """Gemma 4's text model, with the tensor names of `Gemma4ForCausalLM`.

    Source: transformers `modeling_gemma4.py`, `modeling_gemma4_unified.py`.
    """
    return with_head(c, gemma4_model(c))


def gemma4_assistant(c: Gemma4Config) -> Module:
    """A Gemma 4 that drafts for a larger one, whose keys and values all its layers use.

    It reads the larger model's last state and its own, side by side, and hands a state back.
    Source: transformers `modeling_gemma4_assistant.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    backbone = Axis("backbone", c.d_backbone)
    centroids: Children = ()
    if c.n_centroids is not None:
        scores = linear("centroids", Axis("centroids", c.n_centroids), embed)
        centroids = (Module("masked_embedding", (scores, buffer("token_ordering", vocab)), component="head"),)
    tied_to = "model.embed_tokens.weight" if c.tie_embeddings else None
    return Module(
        "",
        (
            linear("pre_projection", embed, 2 * backbone, component="other"),
            Module("model", gemma4_model(c)),
            *centroids,
            linear("lm_head", vocab, embed, tied_to=tied_to, component="head"),
            linear("post_projection", backbone, embed, component="other"),
        ),
    )


def gemma4_model(c: Gemma4Config) -> Children:
    """The decoder without a head."""
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            buffer("layer_scalar", Axis("one", 1)),
            rms_norm("input_layernorm", embed),
            *(_attention(c, embed, kind) for kind in c.layers.kinds_like("")),
            rms_norm("post_attention_layernorm", embed),
            rms_norm("pre_feedforward_layernorm", embed),
            *_feed_forward(c, embed),
            *_experts(c, embed),
            rms_norm("post_feedforward_layernorm", embed),
            *(() if c.d_per_layer is None else per_layer_inputs(c, embed)),
        ),
        repeat=c.n_layers,
    )
    return (
        scaled_embedding("embed_tokens", Axis("vocab", c.vocab_size), embed, layout=c.layout),
        *(() if c.d_per_layer is None else per_layer_embeddings(c, embed)),
        block,
        rms_norm("norm", embed),
        *rotary_by_kind(c, {"full": c.d_full_rotary, "window": c.d_rotary}),
    )


def _attention(c: Gemma4Config, embed: Axis, kind: str) -> Module:
    full, shared, bias = kind.startswith("full"), kind.endswith("_shared"), c.attention_bias
    n_kv_heads, d_head = (c.n_full_kv_heads, c.d_full_head) if full else (c.n_kv_heads, c.d_head)
    heads, head = heads_axis("heads", c.n_heads, d_head), Axis("head", d_head)
    kv_heads = heads_axis("kv_heads", n_kv_heads, d_head)
    values = () if full and c.keys_are_values else (linear("v_proj", kv_heads, embed, bias=bias),)
    keys_values = (linear("k_proj", kv_heads, embed, bias=bias), *values, rms_norm("k_norm", head))
    window = None if full else c.window
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed, bias=bias),
            rms_norm("q_norm", head),
            *(() if shared else keys_values),
            *attention_core(c.n_heads, n_kv_heads, d_head, window=window, cached=not shared),
            linear("o_proj", embed, heads, bias=bias),
        ),
        at=c.layers.layers(kind),
        component="attention",
    )


def _feed_forward(c: Gemma4Config, embed: Axis) -> Children:
    ffn = Axis("ffn", c.d_ff)
    if not c.double_wide:
        return (gated_mlp("mlp", ffn, embed, act=c.act),)
    shared = [kind for kind in c.layers.kinds_like("") if kind.endswith("_shared")]
    own = [kind for kind in c.layers.kinds_like("") if kind not in shared]
    return (
        gated_mlp("mlp", ffn, embed, act=c.act)._replace(at=c.layers.layers(*own)),
        gated_mlp("mlp", 2 * ffn, embed, act=c.act)._replace(at=c.layers.layers(*shared)),
    )


def _experts(c: Gemma4Config, embed: Axis) -> Children:
    """Routed experts beside the MLP, each branch with a norm after it; the router scales its input."""
    if c.n_experts is None:
        return ()
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    scales = (Param("scale", (embed,)), Param("per_expert_scale", (experts,)))
    return (
        rms_norm("post_feedforward_layernorm_1", embed),
        Module("router", (*scales, linear("proj", experts, embed)), component="router"),
        rms_norm("pre_feedforward_layernorm_2", embed),
        # Published files hold all experts of a layer in two tensors, as memory does.
        routed_experts("experts", experts, c.top_k, ffn, embed, layout="transformers", act=c.act),
        rms_norm("post_feedforward_layernorm_2", embed),
    )


ARCHITECTURES = {
    "gemma4": Architecture(Gemma4Config, gemma4),
    "gemma4_assistant": Architecture(Gemma4Config, gemma4_assistant),
}
