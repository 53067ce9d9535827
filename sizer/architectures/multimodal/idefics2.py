"""Idefics2: learned latents read the patches of an image, however many, and are its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, gated_mlp, linear, rms_norm
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

PLACES = PartNames(text="text_model", vision="vision_model", bridge="connector")


@configuration
class Idefics2Config(MultimodalConfig):
    """The parts, and the sizes of the resampler, which is as wide as the text."""

    n_latents: Dim
    n_resampler_layers: Dim
    n_resampler_heads: Dim
    n_resampler_kv_heads: Dim
    d_resampler_head: Dim
    d_resampler_ff: Dim
    act: str = "silu"

    letters = {
        **MultimodalConfig.letters,
        "n_latents": "Nlt",
        "n_resampler_layers": "L_rs",
        "n_resampler_heads": "H_rs",
        "n_resampler_kv_heads": "Hkv_rs",
        "d_resampler_head": "Dh_rs",
        "d_resampler_ff": "F_rs",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "n_latents": "learned latents, the tokens of an image",
        "n_resampler_layers": "layers of the resampler",
        "n_resampler_heads": "query heads of the resampler",
        "n_resampler_kv_heads": "key and value heads of the resampler",
        "d_resampler_head": "width of a head of the resampler",
        "d_resampler_ff": "hidden width of the resampler's MLP",
    }


def idefics2(c: Idefics2Config) -> Module:
    """Idefics2 (arXiv:2405.02246), with the names of `Idefics2ForConditionalGeneration`.

    Source: transformers `modeling_idefics2.py`.
    """
    embed, vision = Axis("embed", c.d_model), Axis("vision", c.d_vision)
    hidden = Axis("bridge", c.d_bridge)
    projection = (
        linear("gate_proj", hidden, vision),
        linear("up_proj", hidden, vision),
        linear("down_proj", embed, hidden),
    )
    connector = (Module("modality_projection", projection), _resampler(c, embed))
    return multimodal(c, Module(c.places.bridge, connector, component="other", stream="encoder"))


def _resampler(c: Idefics2Config, embed: Axis) -> Module:
    """Each latent attends to all latents and all patches."""
    heads = heads_axis("heads", c.n_resampler_heads, c.d_resampler_head)
    kv_heads = heads_axis("kv_heads", c.n_resampler_kv_heads, c.d_resampler_head)
    attention = (
        linear("q_proj", heads, embed),
        linear("k_proj", kv_heads, embed),
        linear("v_proj", kv_heads, embed),
        *attention_core(c.n_resampler_heads, c.n_resampler_kv_heads, c.d_resampler_head, cached=False),
        linear("o_proj", embed, heads),
    )
    block = (
        rms_norm("input_latents_norm", embed),
        rms_norm("input_context_norm", embed),
        Module("self_attn", attention, component="attention"),
        rms_norm("post_attention_layernorm", embed),
        gated_mlp("mlp", Axis("ffn", c.d_resampler_ff), embed, act=c.act),
    )
    return Module(
        "perceiver_resampler",
        (
            Param("latents", (Axis("latents", c.n_latents), embed), component="embedding"),
            Module("layers", block, repeat=c.n_resampler_layers),
            rms_norm("norm", embed),
        ),
    )


ARCHITECTURES = {"idefics2": Architecture(Idefics2Config, idefics2)}


def _idefics2(hf: HFConfig) -> Reading:
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    resampler = hf.nested("perceiver_config")
    return reading(
        hf,
        "idefics2",
        vision=vision,
        d_vision=vision["hidden_size"],
        d_bridge=text["intermediate_size"],
        n_latents=resampler["resampler_n_latents"],
        n_resampler_layers=resampler["resampler_depth"],
        n_resampler_heads=resampler["resampler_n_heads"],
        n_resampler_kv_heads=resampler["num_key_value_heads"],
        d_resampler_head=resampler["resampler_head_dim"],
        d_resampler_ff=4 * whole(text, "hidden_size"),
        act=resampler["hidden_act"],
        places=PLACES,
    )


HF_READERS = {"idefics2": _idefics2}
