"""Kimi K2.5 by its own code: a DeepSeek-V3 that sees pictures and films through MoonViT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear, mlp
from sizer.core.tree import Axis, Buffer, Leaf, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class KimiK25Config(Config):
    """The language model, and the sizes of the tower and of the way between the two.

    `n_rows`, `n_columns`: of the grid of learned positions. `n_merged`: patches that the projector
    takes as one.
    """

    text: Part
    d_text: Dim
    d_image: Dim
    n_image_layers: Dim
    n_image_heads: Dim
    d_image_ff: Dim
    patch_size: Dim
    n_rows: Dim
    n_columns: Dim
    n_merged: Dim
    d_image_head: Dim | None = None

    letters = {
        "text": "txt",
        "d_text": "D",
        "d_image": "Di",
        "n_image_layers": "Li",
        "n_image_heads": "Hi",
        "d_image_ff": "Fi",
        "d_image_head": "Dhi",
        "patch_size": "p",
        "n_rows": "Nr",
        "n_columns": "Nc",
        "n_merged": "M",
    }
    meanings = {
        "d_text": "width of the language model",
        "d_image": "width of the image tower",
        "n_image_layers": "blocks of the image tower",
        "n_image_heads": "heads of the image tower",
        "d_image_ff": "hidden width of the image tower's MLP",
        "d_image_head": "width of one head of the image tower",
        "patch_size": "side of a patch",
        "n_rows": "rows of the grid of positions",
        "n_columns": "columns of the grid of positions",
        "n_merged": "patches that become one",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_image_head", "d_image", "n_image_heads")


def kimi_k25(c: KimiK25Config) -> Module:
    """Kimi K2.5 (Moonshot AI 2026), with the tensor names of `KimiK25ForConditionalGeneration`.

    Source: moonshotai/Kimi-K2.5 `modeling_kimi_k25.py`. Positions in time have no parameters.
    """
    image, text = Axis("embed", c.d_image), Axis("embed", c.d_text)
    merged = Axis("merged", c.n_merged * c.d_image)
    projector = Module(
        "mm_projector",
        (
            layer_norm("pre_norm", image),
            linear("proj.0", merged, merged, bias=True),
            Op("act", "gelu", {"width": merged.size}),
            linear("proj.2", text, merged, bias=True),
        ),
        stream="image",
    )
    # The language model, too, is of the repository's own code, with the names of the checkpoint.
    language_model = _learned(c.text.module("language_model", layout="checkpoint"))
    return Module("", (_tower(c, image), projector, language_model))


def _learned(module: Module) -> Module:
    """The same with the routers' biases as parameters, as Kimi's code has them, not as buffers."""
    children: list[Module | Leaf] = []
    for child in module.children:
        if isinstance(child, Module):
            children.append(_learned(child))
        elif isinstance(child, Buffer) and child.name == "e_score_correction_bias":
            children.append(Param(child.name, child.axes, component="router"))
        else:
            children.append(child)
    return module._replace(children=tuple(children))


def _tower(c: KimiK25Config, image: Axis) -> Module:
    side, heads = Axis("patch", c.patch_size), heads_axis("heads", c.n_image_heads, c.d_image_head)
    grid = (Axis("rows", c.n_rows), Axis("columns", c.n_columns), image)
    kernel = Param("weight", (image, Axis("channels", 3), side, side), "matmul")
    block = Module(
        "encoder.blocks",
        (
            layer_norm("norm0", image),
            Module(
                "",
                (
                    linear("wqkv", 3 * heads, image, bias=True),
                    *attention_core(c.n_image_heads, c.n_image_heads, c.d_image_head, cached=False),
                    linear("wo", image, heads, bias=True),
                ),
                component="attention",
            ),
            layer_norm("norm1", image),
            mlp("mlp", Axis("ffn", c.d_image_ff), image, names=("fc0", "fc1")),
        ),
        repeat=c.n_image_layers,
    )
    return Module(
        "vision_tower",
        (
            Module("patch_embed.proj", (kernel, Param("bias", (image,))), component="embedding"),
            Module("patch_embed.pos_emb", (Param("weight", grid),), component="position"),
            block,
            layer_norm("encoder.final_layernorm", image),
        ),
        stream="image",
    )


ARCHITECTURES = {"kimi_k25_own": Architecture(KimiK25Config, kimi_k25)}


def _kimi_k25(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    if vision["mm_projector_type"] != "patchmerger":
        raise InvalidConfig(
            f"mm_projector_type = {vision['mm_projector_type']!r}: only 'patchmerger' is known"
        )
    width, rows_merged = vision["vt_hidden_size"], vision["merge_kernel_size"]
    if not isinstance(rows_merged, list) or not all(isinstance(side, int) for side in rows_merged):
        raise InvalidConfig(f"merge_kernel_size = {rows_merged!r} is not a height and a width")
    merged = 1
    for side in rows_merged:
        merged *= side
    given = {
        "text": part_of(hf.nested("text_config", "deepseek_v3").as_task("causal")),
        "d_text": vision["text_hidden_size"],
        "d_image": width,
        "n_image_layers": vision["vt_num_hidden_layers"],
        "n_image_heads": vision["vt_num_attention_heads"],
        "d_image_ff": vision["vt_intermediate_size"],
        "patch_size": vision["patch_size"],
        "n_rows": vision["init_pos_emb_height"],
        "n_columns": vision["init_pos_emb_width"],
        "n_merged": merged,
        "task": hf.task,
    }
    return Reading("kimi_k25_own", given)


HF_READERS = {"kimi_k25_own": _kimi_k25}
