"""Llama 4: a tower whose patches are shuffled into fewer, and the text model with its head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import part_of
from sizer.architectures.registry import Architecture, Reading, hf_reader
from sizer.architectures.tower import LLAMA_LIKE, TowerConfig, blocks
from sizer.architectures.vision.clip import patches, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class Llama4VisionConfig(TowerConfig):
    """Sizes of the tower; its adapter's two matrices have widths of their own."""

    n_patches: Dim
    patch_size: Dim
    n_channels: Dim
    d_adapter: Dim
    d_adapter_out: Dim

    letters = {
        **TowerConfig.letters,
        "n_patches": "Np",
        "patch_size": "p",
        "n_channels": "Nc",
        "d_adapter": "Da",
        "d_adapter_out": "Do",
    }
    meanings = {
        **TowerConfig.meanings,
        "n_patches": "patches of an image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "d_adapter": "width after the adapter's first matrix",
        "d_adapter_out": "width after its second",
    }


def vision(c: Llama4VisionConfig) -> Module:
    """The tower, with the names of `Llama4VisionModel`. Source: transformers `modeling_llama4.py`."""
    embed, rows = Axis("embed", c.d_model), Axis("patches", c.n_patches + 1)
    pixels = Axis("pixels", c.n_channels * c.patch_size * c.patch_size)
    out, hidden = Axis("adapter", c.d_adapter_out), Axis("adapter", c.d_adapter)
    # Four neighbours are one token of the adapter, as wide as the MLP of a block.
    shuffled = Axis("ffn", c.d_ff)
    table = buffer("freqs_ci", rows, Axis("one", 1), Axis("rotary", c.d_rotary), persistent=False)
    rotary = (Module("rotary_embedding", (table,)),) if c.layout == "transformers" else ()
    return Module(
        "",
        (
            Param("class_embedding", (embed,), component="embedding"),
            linear("patch_embedding.linear", embed, pixels, component="embedding"),
            Param("positional_embedding_vlm", (rows, embed), component="position"),
            *rotary,
            layer_norm("layernorm_pre", embed),
            blocks(c, name="model.layers"),
            layer_norm("layernorm_post", embed),
            Module(
                "vision_adapter.mlp",
                (
                    linear("fc1", hidden, shuffled),
                    Op("act", "gelu", {"width": hidden.size}),
                    linear("fc2", out, out),
                ),
                component="other",
            ),
        ),
    )


def llama4(c: MultimodalConfig) -> Module:
    """Llama 4 (Meta 2025), with the names of `Llama4ForConditionalGeneration`.

    The text is a whole language model here, with its own head, in memory as in files.
    """
    bridge = Module("", (linear("linear_1", Axis("embed", c.d_model), Axis("vision", c.d_joined)),))
    return Module(
        "",
        (
            c.vision.module("vision_model", layout=c.layout, stream="encoder")
            if c.vision
            else Module("", ()),
            bridge._replace(name="multi_modal_projector", component="other", stream="encoder"),
            c.text.module("language_model", layout=c.layout),
        ),
    )


ARCHITECTURES = {
    "llama4": Architecture(MultimodalConfig, llama4),
    "llama4_vision": Architecture(Llama4VisionConfig, vision),
}


def _vision(hf: HFConfig) -> Reading:
    axis = whole(hf, "hidden_size") // whole(hf, "num_attention_heads") // 2
    given = vision_sizes(
        hf,
        n_patches=patches(hf),
        d_rotary=axis // 2 * 2,
        d_adapter=hf["projector_input_dim"],
        d_adapter_out=hf["projector_output_dim"],
        module_names=LLAMA_LIKE._replace(mlp=("mlp", "fc1", "fc2")),
    )
    return Reading("llama4_vision", given)


def _llama4(hf: HFConfig) -> Reading:
    """With the class of its language model alone, that."""
    text = hf.nested("text_config")
    if hf.cls == "Llama4ForCausalLM":
        return hf_reader(text.model_type)(text)
    vision = hf.nested("vision_config")
    given = {
        "task": "causal",
        "text": part_of(text.as_task("causal")),
        "vision": bare(vision),
        "d_model": text["hidden_size"],
        "vocab_size": text["vocab_size"],
        "d_joined": vision["vision_output_dim"],
    }
    return Reading("llama4", given)


HF_READERS = {"llama4": _llama4, "llama4_vision_model": _vision}
