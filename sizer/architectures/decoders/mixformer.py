"""Phi-1, Phi-1.5 and Phi-2 as they were first published: one block for all, or a plain sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward
from sizer.architectures.decoders.decoder_names import Names
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.core.dims import Dim, round_up
from sizer.core.layers import embedding, layer_norm, linear
from sizer.core.tree import Axis, Layers, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_NAMES = Names(attention="mixer", qkv=("Wqkv",), output="out_proj", mlp=("fc1", "fc2"))


def phi_msft(c: DecoderConfig) -> Module:
    """Phi with the tensor names of microsoft/phi-2's first `modeling_phi.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    model = (embedding("embd.wte", vocab, embed), Module("h", _block(c, embed), repeat=c.n_layers))
    if c.task == "base":
        return Module("", model)
    return Module("", (Module("transformer", model), Module("lm_head", _head(c, embed, vocab))))


def mixformer(c: DecoderConfig) -> Module:
    """The same as a sequence of numbered layers: the embedding, the blocks, the head.

    Source: microsoft/phi-1_5, `modeling_mixformer_sequential.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    return Module(
        "",
        (
            embedding("layers.0.wte", vocab, embed),
            Module("layers", _block(c, embed), repeat=_numbered(c.n_layers, after=1)),
            Module("layers", _head(c, embed, vocab), repeat=_numbered(1, after=c.n_layers + 1)),
        ),
    )


def _block(c: DecoderConfig, embed: Axis) -> tuple[Module, ...]:
    """Attention and MLP side by side, after one norm."""
    return layer_norm("ln", embed), attention(c, "mixer", names=_NAMES), feed_forward(c, names=_NAMES)


def _head(c: DecoderConfig, embed: Axis, vocab: Axis) -> tuple[Module, ...]:
    tied_to = "transformer.embd.wte.weight" if c.tie_embeddings else None
    return (
        layer_norm("ln", embed),
        linear("linear", vocab, embed, bias=True, tied_to=tied_to, component="head"),
    )


def _numbered(count: Dim, *, after: Dim) -> Layers:
    """Layers whose numbers begin after those of others."""
    if isinstance(count, int) and isinstance(after, int):
        return Layers(count, range(after, after + count))
    return Layers(count)


ARCHITECTURES = {
    "mixformer": Architecture(DecoderConfig, mixformer),
    "phi_msft": Architecture(DecoderConfig, phi_msft),
}


def _mixformer(hf: HFConfig) -> Reading:
    return _phi(hf, "mixformer", tied=False)


def _phi_msft(hf: HFConfig) -> Reading:
    return _phi(hf, "phi_msft", tied=hf["tie_word_embeddings"])


def _phi(hf: HFConfig, architecture: str, *, tied: bool) -> Reading:
    return dense(
        hf,
        architecture,
        module_names=_NAMES,
        # The configuration itself pads the vocabulary.
        vocab_size=round_up(whole(hf, "vocab_size"), whole(hf, "pad_vocab_size_multiple")),
        d_ff=hf["n_inner"] or 4 * whole(hf, "n_embd"),
        d_head=None,
        d_rotary=None,
        norm="layer",
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        gated=False,
        act=hf["activation_function"],
        tie_embeddings=tied,
    )


HF_READERS = {"mixformer-sequential": _mixformer, "phi-msft": _phi_msft}
