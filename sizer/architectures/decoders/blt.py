"""The Byte Latent Transformer: bytes in, a large model over patches of them, bytes out."""

from __future__ import annotations

from typing import NamedTuple

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, round_up
from sizer.core.layers import attention_core, embedding, gated_mlp, linear, rms_norm
from sizer.core.tree import Axis, Leaf, Module, Param, heads_axis

STACKS = ("encoder", "global", "decoder", "patcher")
_LETTERS = {"d_model": "D", "n_layers": "L", "n_heads": "H", "n_kv_heads": "K", "d_head": "Dh", "d_ff": "F"}
_MEANINGS = {
    "d_model": "width of the residual stream",
    "n_layers": "blocks",
    "n_heads": "query heads",
    "n_kv_heads": "key/value heads",
    "d_head": "width of one head",
    "d_ff": "hidden width of the MLP",
}
_WHERE = {
    "encoder": "local encoder",
    "global": "global model",
    "decoder": "local decoder",
    "patcher": "patcher",
}


@configuration
class BltConfig(Config):
    """Sizes and switches of a Byte Latent Transformer, by stack.

    `*_cross_all`: every layer of that stack has a cross-attention, rather than the first alone.
    `*_cross_k`: local vectors that one patch is split into, on its way in or out.
    `d_patch`: width of a patch from the encoder, where it is not that of the global model.
    `d_decoder_patch`: width of a patch as the decoder expects it.
    `n_hash_groups`, `n_hash_functions`: tables of hashed n-grams, `hash_vocab_size` rows each.
    `patcher`: the small model that finds the ends of patches; it is not trained.
    """

    vocab_size: Dim
    encoder_d_model: Dim
    encoder_n_layers: Dim
    encoder_n_heads: Dim
    encoder_d_ff: Dim
    global_d_model: Dim
    global_n_layers: Dim
    global_n_heads: Dim
    global_d_ff: Dim
    decoder_d_model: Dim
    decoder_n_layers: Dim
    decoder_n_heads: Dim
    decoder_d_ff: Dim
    patcher_d_model: Dim
    patcher_n_layers: Dim
    patcher_n_heads: Dim
    patcher_d_ff: Dim
    encoder_n_kv_heads: Dim | None = None
    global_n_kv_heads: Dim | None = None
    decoder_n_kv_heads: Dim | None = None
    patcher_n_kv_heads: Dim | None = None
    encoder_d_head: Dim | None = None
    global_d_head: Dim | None = None
    decoder_d_head: Dim | None = None
    patcher_d_head: Dim | None = None
    encoder_d_rotary: Dim | None = None
    global_d_rotary: Dim | None = None
    decoder_d_rotary: Dim | None = None
    patcher_d_rotary: Dim | None = None
    encoder_vocab_size: Dim = 260
    patcher_vocab_size: Dim = 260
    encoder_cross_k: Dim = 2
    decoder_cross_k: Dim = 2
    d_patch: Dim | None = None
    d_decoder_patch: Dim = 2048
    hash_vocab_size: Dim = 500002
    n_hash_groups: Dim = 6
    n_hash_functions: Dim = 1
    window: Dim | None = None
    encoder_cross_all: bool = False
    decoder_cross_all: bool = True
    patcher: bool = True
    tie_embeddings: bool = False

    letters = {
        **{f"{stack}_{size}": f"{code}{stack[0]}" for stack in STACKS for size, code in _LETTERS.items()},
        **{f"{stack}_d_rotary": f"Dr{stack[0]}" for stack in STACKS},
        "encoder_vocab_size": "Ve",
        "patcher_vocab_size": "Vp",
        "encoder_cross_k": "Xe",
        "decoder_cross_k": "Xd",
        "d_patch": "Dx",
        "d_decoder_patch": "Dy",
        "hash_vocab_size": "Vh",
        "n_hash_groups": "Gh",
        "n_hash_functions": "Nf",
    }
    meanings = {
        f"{stack}_{size}": f"{words}, {_WHERE[stack]}"
        for stack in STACKS
        for size, words in _MEANINGS.items()
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        for stack in STACKS:
            self.derive(**{f"{stack}_n_kv_heads": getattr(self, f"{stack}_n_heads")})
            self.derive_quotient(f"{stack}_d_head", f"{stack}_d_model", f"{stack}_n_heads")
            d_head = getattr(self, f"{stack}_d_head")
            self.derive(**{f"{stack}_d_rotary": round_up(d_head, 2) if isinstance(d_head, int) else d_head})


class Stack(NamedTuple):
    """The sizes of one of the four transformers."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff: Dim
    d_rotary: Dim


def _stack(c: BltConfig, name: str) -> Stack:
    return Stack(*(getattr(c, f"{name}_{size}") for size in Stack._fields))


def blt(c: BltConfig) -> Module:
    """The Byte Latent Transformer (arXiv:2412.09871), with the tensor names of `BltForCausalLM`.

    Source: transformers `modeling_blt.py`.
    """
    width = Axis("embed", c.encoder_d_model)
    hashes = Axis("vocab", c.hash_vocab_size * c.n_hash_functions * c.n_hash_groups)
    model = (
        *((_patcher(c),) if c.patcher else ()),
        embedding("encoder_hash_tok_embedding", hashes, width),
        _local_encoder(c, width),
        _global_transformer(c),
        _local_decoder(c),
    )
    if c.task == "base":
        return Module("", model)
    head = linear("lm_head", Axis("vocab", c.vocab_size), Axis("embed", c.decoder_d_model), component="head")
    return Module("", (Module("model", model), head))


def _patcher(c: BltConfig) -> Module:
    """A language model over bytes, whose entropy says where a patch ends."""
    s = _stack(c, "patcher")
    embed, vocab = Axis("embed", s.d_model), Axis("vocab", c.patcher_vocab_size)
    module = Module(
        "patcher",
        (
            embedding("embed_tokens", vocab, embed),
            _layers(s, cached=False),
            rms_norm("norm", embed),
            linear("lm_head", vocab, embed, component="head"),
            *rotary_buffers(s.d_rotary, layout=c.layout),
        ),
    )
    return _frozen(module)


def _local_encoder(c: BltConfig, embed: Axis) -> Module:
    """Bytes to patches: each patch attends to the bytes that it is made of."""
    s = _stack(c, "encoder")
    if c.tie_embeddings and c.task != "base":
        # The shared matrix is the head's, whatever the encoder's own vocabulary.
        rows, width = Axis("vocab", c.vocab_size), Axis("embed", c.decoder_d_model)
        table = embedding("embed_tokens", rows, width, tied_to="lm_head.weight")
    else:
        table = embedding("embed_tokens", Axis("vocab", c.encoder_vocab_size), embed)
    return Module(
        "local_encoder",
        (
            table,
            _layers(s, window=c.window),
            linear("patch_embedding_projection", Axis("patch", s.d_model * c.encoder_cross_k), embed),
            _cross_attention(s, s.n_layers if c.encoder_cross_all else 1),
            *rotary_buffers(s.d_rotary, layout=c.layout),
        ),
    )


def _global_transformer(c: BltConfig) -> Module:
    """The large model, over patches."""
    s = _stack(c, "global")
    projection = (
        ()
        if c.d_patch is None
        else (linear("token_embedding_projection", Axis("embed", s.d_model), Axis("patch", c.d_patch)),)
    )
    return Module(
        "global_transformer",
        (*projection, _layers(s), *rotary_buffers(s.d_rotary, layout=c.layout)),
        stream="patches",
    )


def _local_decoder(c: BltConfig) -> Module:
    """Patches to bytes: each byte attends to the patch before it."""
    s = _stack(c, "decoder")
    patch, out = Axis("patch", c.d_decoder_patch), Axis("patch", s.d_model * c.decoder_cross_k)
    return Module(
        "local_decoder",
        (
            linear("patch_embedding_projection", out, patch)._replace(stream="patches"),
            _cross_attention(s, s.n_layers if c.decoder_cross_all else 1),
            _layers(s),
            rms_norm("norm", Axis("embed", s.d_model)),
            *rotary_buffers(s.d_rotary, layout=c.layout),
        ),
    )


def _layers(s: Stack, *, window: Dim | None = None, cached: bool = True) -> Module:
    """LLaMA's block without biases."""
    embed = Axis("embed", s.d_model)
    attention = _attention(s, attention_core(s.n_heads, s.n_kv_heads, s.d_head, window=window, cached=cached))
    return Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            Module("self_attn", attention, component="attention"),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", s.d_ff), embed),
        ),
        repeat=s.n_layers,
    )


def _cross_attention(s: Stack, repeat: Dim) -> Module:
    """Attention between bytes and patches, each side with a norm of its own."""
    embed = Axis("embed", s.d_model)
    norms = (rms_norm("q_norm", embed), rms_norm("k_norm", embed))
    core = attention_core(s.n_heads, s.n_kv_heads, s.d_head, cached=False, cross=True)
    return Module("cross_attn_layers", (*norms, *_attention(s, core)), repeat=repeat, component="attention")


def _attention(s: Stack, core: tuple[Leaf, ...]) -> tuple[Module | Leaf, ...]:
    embed, heads = Axis("embed", s.d_model), heads_axis("heads", s.n_heads, s.d_head)
    kv_heads = heads_axis("kv_heads", s.n_kv_heads, s.d_head)
    return (
        linear("q_proj", heads, embed),
        linear("k_proj", kv_heads, embed),
        linear("v_proj", kv_heads, embed),
        *core,
        linear("o_proj", embed, heads),
    )


def _frozen(module: Module) -> Module:
    """The same module, none of whose tensors are trained."""
    return module._replace(
        children=tuple(
            _frozen(child)
            if isinstance(child, Module)
            else child._replace(trainable=False)
            if isinstance(child, Param)
            else child
            for child in module.children
        )
    )


ARCHITECTURES = {"blt": Architecture(BltConfig, blt)}
