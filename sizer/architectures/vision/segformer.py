"""SegFormer and GLPN: stages of attention whose keys and values are those of squares of patches."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.grid import Grid, ImageConfig, image_sides, steps
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Op, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
THREE = Axis("kernel", 3)


@configuration
class SegformerConfig(ImageConfig):
    """Sizes of each stage. `ratios`: the side of the squares of its keys, none for 1.

    `steps`: kernel, step and padding of the convolution before each stage.

    `early`: the names of transformers 4 in memory too.
    """

    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffns: PerLayer
    kernels: PerLayer
    ratios: PerLayer
    n_channels: Dim = 3
    act: str = "gelu"
    early: bool = False
    steps: tuple[tuple[int, int, int], ...] = ()
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "ffns": "F",
        "kernels": "K",
        "ratios": "R",
        "n_channels": "Nc",
    }
    meanings = {**ImageConfig.meanings, "n_channels": "colour channels"}

    @cached_property
    def grids(self) -> list[Grid]:
        """The image, and what is left of it in each stage."""
        found = [self.image]
        for step in self.steps:
            found.append(found[-1].convolved(*step))
        return found


def segformer(c: SegformerConfig) -> Module:
    """SegFormer (arXiv:2105.15203), with the names of `SegformerModel`.

    Source: transformers `modeling_segformer.py`, `modeling_glpn.py`.
    """
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    inputs = [Axis("image", c.n_channels), *widths[:-1]]
    early = c.early or c.layout == "checkpoint"
    model: list[Module] = []
    for i, depth in enumerate(c.depths.sizes()):
        kernel = Axis("kernel", c.kernels.sizes()[i])
        first, blocks, norm = (
            (f"encoder.patch_embeddings.{i}", f"encoder.block.{i}", f"encoder.layer_norm.{i}")
            if early
            else (f"stages.{i}.patch_embeddings", f"stages.{i}.blocks", f"stages.{i}.layer_norm")
        )
        patches = (
            convolution("proj", widths[i], inputs[i], kernel, kernel),
            layer_norm("layer_norm", widths[i]),
        )
        model += [
            Module(first, patches, places=c.grids[i + 1].places),
            Module(blocks, _block(c, i, widths[i], early), repeat=depth, places=c.grids[i + 1].places),
            layer_norm(norm, widths[i]),
        ]
    if c.task == "base":
        return Module("", tuple(model))
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier", labels, widths[-1], bias=True, component="head", places=ONCE)
    return Module("", (Module("segformer", tuple(model)), classifier))


def _block(c: SegformerConfig, i: int, embed: Axis, early: bool) -> Children:
    ffn = Axis("ffn", c.ffns.sizes()[i])
    before, after = ("layer_norm_1", "layer_norm_2") if early else ("layernorm_before", "layernorm_after")
    up, down = ("dense1", "dense2") if early else ("fc1", "fc2")
    mlp = (
        linear(up, ffn, embed, bias=True),
        convolution("dwconv.dwconv", ffn, ONE, THREE, THREE, component="mlp"),
        Op("act", c.act, {"width": ffn.size}),
        linear(down, embed, ffn, bias=True),
    )
    return (
        layer_norm(before, embed),
        Module("attention", _attention(c, i, embed, early), component="attention"),
        layer_norm(after, embed),
        Module("mlp", mlp, component="mlp"),
    )


def _attention(c: SegformerConfig, i: int, embed: Axis, early: bool) -> Children:
    n_heads, d_head = c.heads.sizes()[i], c.head_widths.sizes()[i]
    heads = heads_axis("heads", n_heads, d_head)
    names = ("self.query", "self.key", "self.value") if early else ("q_proj", "k_proj", "v_proj")
    conv, norm = "sequence_reduction.sequence_reduction", "sequence_reduction.layer_norm"
    if early:
        conv, norm = "self.sr", "self.layer_norm"
    reduce: Children = ()
    keys = c.grids[i + 1]
    if c.ratios.values[i] is not None:
        side, keys = Axis("square", c.ratios.sizes()[i]), keys.patched(c.ratios.sizes()[i])
        conv_ = convolution(conv, embed, embed, side, side, component="attention", places=keys.places)
        reduce = (conv_, layer_norm(norm, embed))
    query, *others = (linear(name, heads, embed, bias=True) for name in names)
    return (
        *reduce,
        query,
        *(other._replace(places=keys.places) for other in others),
        *attention_core(n_heads, n_heads, d_head, window=keys.places.fixed, cached=False),
        linear("output.dense" if early else "o_proj", embed, heads, bias=True),
    )


ARCHITECTURES = {"segformer": Architecture(SegformerConfig, segformer)}


def _segformer(hf: HFConfig) -> Reading:
    lists = ("hidden_sizes", "depths", "num_attention_heads", "patch_sizes", "sr_ratios", "mlp_ratios")
    found = {key: tuple(hf[key]) for key in lists}
    stages = hf["num_encoder_blocks"]
    for key, values in found.items():
        if len(values) != stages:
            raise InvalidConfig(f"{key} lists {len(values)} stages and num_encoder_blocks is {stages}")
    widths, heads = found["hidden_sizes"], found["num_attention_heads"]
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(found["depths"]),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(w // h for w, h in zip(widths, heads, strict=True))),
        "ffns": PerLayer(tuple(int(w * r) for w, r in zip(widths, found["mlp_ratios"], strict=True))),
        "kernels": PerLayer(found["patch_sizes"]),
        "ratios": PerLayer(tuple(ratio if ratio > 1 else None for ratio in found["sr_ratios"])),
        "n_channels": hf["num_channels"],
        "act": hf["hidden_act"],
        "early": hf.model_type == "glpn",
        "steps": steps(hf, "patch_sizes", "strides"),
        **image_sides(hf),
    }
    return Reading("segformer", given)


HF_READERS = {"glpn": _segformer, "segformer": _segformer}
