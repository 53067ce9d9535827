"""BART and its kin: an encoder and a decoder that share one embedding.

One builder with flags; `bart_types.py` says which flags each model type sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sizer.architectures.encoder_decoders.bart_layers import (
    classification_head,
    decoder_layer,
    encoder_layer,
    final_norm,
    position_table,
)
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Leaf, Module, Op


@configuration
class BartConfig(Config):
    """Sizes and switches of a BART-like model.

    `task` "causal" is the decoder alone, which keeps its cross-attention.
    `embeddings`: "shared" (one table for both sides), "separate" (Marian), or "target" (FSMT: the
    head is part of the decoder, and what is tied is tied to the decoder's table).
    `positions`: "learned", "frozen" (sinusoids stored as a parameter), "buffer" (sinusoids that no
    file holds) or "none"; their tables have `position_offset` more rows than the context.
    `embedding_norm`: a norm after the embeddings. `final_norm`: one after the last layer.
    `encoder_attention`: "full", "block_sparse", "longformer" or "global_local".
    `windows`: the attention window of each encoder layer. `causal_tie`: the decoder alone has a tied
    head in published files only.
    `d_source`: width of the states that cross-attention reads; without it there may be no
    cross-attention either (`cross_attention`).
    """

    d_model: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_decoder_layers: Dim
    n_decoder_heads: Dim
    d_ff_decoder: Dim
    n_layers: Dim | None = None
    n_heads: Dim | None = None
    d_ff: Dim | None = None
    n_source_ctx: Dim | None = None
    decoder_vocab_size: Dim | None = None
    d_head: Dim | None = None
    d_decoder_head: Dim | None = None
    d_source: Dim | None = None
    window: Dim | None = None
    windows: PerLayer | None = None
    n_global_tokens: Dim | None = None
    prompt_length: Dim | None = None
    d_prompt: Dim | None = None
    task: str = "seq2seq"
    tie_embeddings: bool = True
    causal_tie: bool = True
    embeddings: str = "shared"
    positions: str = "learned"
    position_offset: int = 2
    embedding_norm: bool = True
    final_norm: bool = False
    encoder_attention: str = "full"
    cross_attention: bool = True
    attention_bias: bool = True
    key_bias: bool = True
    mlp_bias: bool = True
    logits_bias: bool = True
    act: str = "gelu"
    prefix: str = "model"
    head_name: str = "lm_head"

    letters = {
        "n_decoder_layers": "M",
        "n_decoder_heads": "Hd",
        "d_ff_decoder": "Fd",
        "d_decoder_head": "Dd",
        "n_source_ctx": "Cs",
        "decoder_vocab_size": "Vd",
        "d_source": "Ds",
        "windows": "W",
        "n_global_tokens": "G",
        "prompt_length": "P",
        "d_prompt": "Dp",
    }
    meanings = {
        "n_layers": "encoder blocks",
        "n_heads": "heads of the encoder",
        "d_ff": "hidden width of the encoder's MLP",
        "n_decoder_layers": "decoder blocks",
        "n_decoder_heads": "heads of the decoder",
        "d_ff_decoder": "hidden width of the decoder's MLP",
        "d_decoder_head": "width of one head of the decoder",
        "n_source_ctx": "positions of the encoder",
        "decoder_vocab_size": "rows of the decoder's embedding",
        "d_source": "width of the states that cross-attention reads",
        "n_global_tokens": "global tokens of the encoder",
        "prompt_length": "tokens of a learned prompt",
        "d_prompt": "hidden width of the prompt's MLP",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_source_ctx=self.n_ctx, decoder_vocab_size=self.vocab_size, d_source=self.d_model)
        self.derive_quotient("d_decoder_head", "d_model", "n_decoder_heads")
        if self.n_heads is not None and self.task != "causal":
            self.derive_quotient("d_head", "d_model", "n_heads")


Layer = Callable[[Any, Axis], Module]


def bart(c: BartConfig, layers: tuple[Layer, Layer] = (encoder_layer, decoder_layer)) -> Module:
    """BART (Lewis et al. 2019), with the tensor names of `BartForConditionalGeneration`.

    Source: transformers `modeling_bart.py`, and those of the types in `bart_types.py`.
    `layers` builds a block of each side, for families whose blocks differ.
    """
    embed = Axis("embed", c.d_model)
    if c.task == "causal":
        tokens = f"{c.prefix}.decoder.embed_tokens.weight"
        tied = c.tie_embeddings and (c.causal_tie or c.layout == "checkpoint")
        vocab = Axis("vocab", c.decoder_vocab_size if tied else c.vocab_size)
        head = linear(c.head_name, vocab, embed, tied_to=tokens if tied else None, component="head")
        return Module("", (Module(f"{c.prefix}.decoder", decoder(c, embed, layer=layers[1])), head))

    inside = "" if c.task == "base" else f"{c.prefix}."
    model = (
        *_shared(c, embed),
        Module("encoder", encoder(c, embed, inside, layer=layers[0]), stream="encoder"),
        Module("decoder", decoder(c, embed, inside, layer=layers[1])),
    )
    if c.task == "base":
        return Module("", model)
    return Module("", (Module(c.prefix, model), *_head(c, embed)))


def encoder(
    c: BartConfig, embed: Axis, inside: str = "", *, layer: Layer = encoder_layer
) -> tuple[Module, ...]:
    """The encoder's embeddings and layers; `inside` is the name of the module around it."""
    vocab = Axis("vocab", c.vocab_size)
    norms = (layer_norm("layernorm_embedding", embed),) if c.embedding_norm else ()
    tokens = embedding("embed_tokens", vocab, embed, tied_to=_tied_tokens(c, inside))
    if c.embeddings == "target" and c.tie_embeddings:
        # A tie takes the shape of what it is tied to.
        tokens = embedding(
            "embed_tokens",
            Axis("vocab", c.decoder_vocab_size),
            embed,
            tied_to=f"{inside}decoder.embed_tokens.weight",
        )
    global_tokens = (
        (embedding("embed_global", Axis("global", c.n_global_tokens), embed),)
        if c.encoder_attention == "global_local"
        else ()
    )
    # Published files hold the encoder's prompt, which transformers 5 leaves out.
    prompts = (
        (prompt(c, "self_attn_prompt", embed, c.n_layers),)
        if c.prompt_length is not None and c.layout == "checkpoint"
        else ()
    )
    return (
        tokens,
        *global_tokens,
        *position_table(c, c.n_source_ctx, embed),
        *norms,
        *prompts,
        layer(c, embed),
        *final_norm(c, embed),
    )


def decoder(
    c: BartConfig, embed: Axis, inside: str = "", *, layer: Layer = decoder_layer
) -> tuple[Module, ...]:
    """The decoder's embeddings and layers."""
    shared = c.task != "causal" and c.embeddings == "shared" and c.tie_embeddings
    vocab = Axis("vocab", c.vocab_size if shared else c.decoder_vocab_size)
    norms = (layer_norm("layernorm_embedding", embed),) if c.embedding_norm else ()
    tied_to = _tied_tokens(c, inside) if c.task != "causal" else None
    # The decoder alone is built without prompts, whatever the configuration says.
    prompts = (
        tuple(prompt(c, f"{x}_attn_prompt", embed, c.n_decoder_layers) for x in ("self", "cross"))
        if c.prompt_length is not None and c.task != "causal"
        else ()
    )
    own = f"{inside}decoder.embed_tokens.weight" if c.tie_embeddings else None
    projection = (
        (linear("output_projection", vocab, embed, tied_to=own, component="head"),)
        if c.embeddings == "target"
        else ()
    )
    return (
        embedding("embed_tokens", vocab, embed, tied_to=tied_to),
        *position_table(c, c.n_ctx, embed),
        *norms,
        *prompts,
        layer(c, embed),
        *final_norm(c, embed),
        *projection,
    )


def prompt(c: BartConfig, name: str, embed: Axis, n_layers: Dim) -> Module:
    """MVP's learned prompt: keys and values of every layer, from an MLP over P embeddings."""
    keys_values, hidden = Axis("prompt_kv", 2 * n_layers * c.d_model), Axis("prompt_ffn", c.d_prompt)
    return Module(
        name,
        (
            embedding("prompt_embedding", Axis("prompt", c.prompt_length), embed),
            linear("prompt_trans.0", hidden, embed, bias=True),
            Op("act", "gelu", {"width": c.d_prompt}),
            linear("prompt_trans.2", keys_values, hidden, bias=True),
        ),
        component="other",
    )


def _shared(c: BartConfig, embed: Axis) -> tuple[Module, ...]:
    return (embedding("shared", Axis("vocab", c.vocab_size), embed),) if c.embeddings == "shared" else ()


def _tied_tokens(c: BartConfig, inside: str) -> str | None:
    return f"{inside}shared.weight" if c.embeddings == "shared" and c.tie_embeddings else None


def _head(c: BartConfig, embed: Axis) -> tuple[Module | Leaf, ...]:
    if c.task == "sequence":
        return (classification_head(c, embed),)
    if c.task == "qa":
        return (linear("qa_outputs", Axis("span", 2), embed, bias=True, component="head"),)
    if c.embeddings == "target":
        return ()
    separate = c.embeddings == "separate"
    vocab = Axis("vocab", c.decoder_vocab_size if separate else c.vocab_size)
    tokens = "decoder.embed_tokens.weight" if separate else "shared.weight"
    tied_to = f"{c.prefix}.{tokens}" if c.tie_embeddings else None
    head = linear(c.head_name, vocab, embed, tied_to=tied_to, component="head")
    if not c.logits_bias:
        return (head,)
    return (head, buffer("final_logits_bias", Axis("one", 1), vocab, component="head"))


ARCHITECTURES = {"bart": Architecture(BartConfig, bart)}
