"""MusicGen: a decoder of audio tokens, with a table and a head for each codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoder_decoders.bart import BartConfig
from sizer.architectures.encoder_decoders.bart_layers import decoder_layer, final_norm, position_table
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MusicgenConfig(BartConfig):
    """Sizes and switches of MusicGen's decoder; a `vocab_size` for each of `n_codebooks`."""

    n_codebooks: Dim

    letters = {**BartConfig.letters, "n_codebooks": "Nc"}
    meanings = {
        **BartConfig.meanings,
        "n_codebooks": "codebooks of the audio codec",
    }


def musicgen(c: MusicgenConfig) -> Module:
    """MusicGen (Copet et al. 2023), with the tensor names of `MusicgenForCausalLM`.

    Source: transformers `modeling_musicgen.py`, `modeling_musicgen_melody.py`. Each codebook has
    one more row than it has tokens, for padding.
    """
    embed, tokens = Axis("embed", c.d_model), Axis("vocab", c.vocab_size + 1)
    model = Module(
        "decoder",
        (
            embedding("embed_tokens", tokens, embed)._replace(repeat=c.n_codebooks),
            *position_table(c, c.n_ctx, embed),
            decoder_layer(c, embed),
            *final_norm(c, embed),
        ),
    )
    if c.task == "base":
        return Module("", (model,))
    head = linear("lm_heads", Axis("vocab", c.vocab_size), embed, component="head")
    return Module("", (Module("model", (model,)), head._replace(repeat=c.n_codebooks)))


ARCHITECTURES = {"musicgen": Architecture(MusicgenConfig, musicgen)}


def _musicgen(hf: HFConfig, *, cross_attention: bool = True) -> Reading:
    if hf.task not in ("base", "causal"):
        raise InvalidConfig(
            f"{hf.cls} holds a text encoder and an audio codec, which are not described; "
            f"its decoder is {hf.cls.removesuffix('ForConditionalGeneration')}ForCausalLM"
        )
    if "decoder" in hf:
        hf = hf.nested("decoder")
    given = hf.fill(
        MusicgenConfig,
        n_layers=None,
        n_heads=None,
        d_ff=None,
        n_decoder_layers=hf["num_hidden_layers"],
        n_decoder_heads=hf["num_attention_heads"],
        d_ff_decoder=hf["ffn_dim"],
        n_codebooks=hf["num_codebooks"],
        d_source=None,
        act=hf["activation_function"],
        positions="buffer",
        position_offset=0,
        final_norm=True,
        cross_attention=cross_attention,
        attention_bias=False,
        mlp_bias=False,
    )
    return Reading("musicgen", given)


def _musicgen_melody(hf: HFConfig) -> Reading:
    # Text and melody stand before the audio tokens, in place of cross-attention.
    return _musicgen(hf, cross_attention=False)


HF_READERS = {
    "musicgen": _musicgen,
    "musicgen_decoder": _musicgen,
    "musicgen_melody": _musicgen_melody,
    "musicgen_melody_decoder": _musicgen_melody,
}
