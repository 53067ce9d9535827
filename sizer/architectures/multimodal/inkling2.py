"""Inkling 2 with eyes: a tower with learned and rotary positions, which merges squares of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.step3p7 import NAMES
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, blocks, norm, rotary
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

FILES = (
    (r"vision_tower\.merger\.linear_1\.", "vision_tower.proj_in."),
    (r"vision_tower\.merger\.linear_2\.", "vision_tower.proj_out."),
    (r"vision_tower\.(embeddings|layers|pre_layernorm)\.", r"vision_tower.backbone.\1."),
    (r"\.backbone\.pre_layernorm\.", ".backbone.ln_pre."),
    (r"\.position_embedding\.weight", ".position_embedding"),
    (r"\.layernorm_before\.", ".ln_1."),
    (r"\.layernorm_after\.", ".ln_2."),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    (r"\.lambda_(1|2)", r".ls_\1.gamma"),
    (r"^model\.vision_tower\.", "model.visual."),
    (r"^model\.language_model\.", "model.llm."),
    (r"^lm_head\.", "model.llm.unembed."),
)


@configuration
class Inkling2VisionConfig(TowerConfig):
    """Sizes of the tower.

    `n_side`: learned positions along a side of the grid, resampled to the image. `merge`: patches along
    each side of a square that becomes one token of width `d_out`, by two matrices, `d_bridge` between.
    """

    patch_size: Dim
    n_side: Dim
    merge: Dim
    d_bridge: Dim
    d_out: Dim
    n_channels: Dim = 3
    bridge_bias: bool = False

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_side": "Ns",
        "merge": "Mg",
        "d_bridge": "Fm",
        "d_out": "Do",
        "n_channels": "Nc",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_side": "positions along a side of the grid",
        "merge": "patches along a side that become one token",
        "d_bridge": "hidden width of the merger",
        "d_out": "width that the text is given",
        "n_channels": "colour channels",
    }


@configuration
class Inkling2MultimodalConfig(MultimodalConfig):
    """The parts. `n_vocab`: rows of the head, which files pad to those of the embedding."""

    n_vocab: Dim

    letters = {**MultimodalConfig.letters, "n_vocab": "Vh"}
    meanings = {**MultimodalConfig.meanings, "n_vocab": "rows of the head"}


def inkling2_vision(c: Inkling2VisionConfig) -> Module:
    """The tower, with the names of `Inkling2VisionModel`.

    Source: transformers `modeling_inkling2.py`.
    """
    embed, hidden = Axis("embed", c.d_model), Axis("bridge", c.d_bridge)
    pixels = Axis("pixels", c.n_channels * c.patch_size * c.patch_size)
    embeddings = (
        Param("class_embedding", (embed,), component="embedding"),
        Param("cls_position_embedding", (embed,), component="position"),
        linear("patch_embedding", embed, pixels, component="embedding"),
        embedding("position_embedding", Axis("positions", c.n_side * c.n_side), embed, component="position"),
    )
    merger = (
        linear("linear_1", hidden, Axis("square", c.merge * c.merge * c.d_model), bias=c.bridge_bias),
        Op("act", c.act, {"width": c.d_bridge}),
        linear("linear_2", Axis("out", c.d_out), hidden, bias=c.bridge_bias),
    )
    return Module(
        "",
        (
            Module("embeddings", embeddings),
            norm(c, "pre_layernorm", embed),
            *rotary(c),
            blocks(c),
            Module("merger", merger, component="other"),
        ),
    )


def inkling2_multimodal(c: Inkling2MultimodalConfig) -> Module:
    """Inkling 2 (Thinking Machines 2026), with the names of `Inkling2ForConditionalGeneration`.

    Source: transformers `modeling_inkling2.py`, `modeling_inkling2_loop.py`.
    """
    tree = multimodal(c)
    if c.task == "base":
        return tree
    *model, head = tree.children
    assert isinstance(head, Module)
    rows = Axis("vocab", c.n_vocab, padded=c.vocab_size if c.layout == "checkpoint" else None)
    (weight,) = (leaf for leaf in head.children if isinstance(leaf, Param))
    padded = weight._replace(axes=(rows, weight.axes[1]))
    return tree._replace(children=(*model, head._replace(children=(padded,))))


ARCHITECTURES = {
    "inkling2_multimodal": Architecture(Inkling2MultimodalConfig, inkling2_multimodal),
    "inkling2_vision": Architecture(Inkling2VisionConfig, inkling2_vision),
}


def _vision(hf: HFConfig) -> Reading:
    """An axis of the image rotates half of each head."""
    width = whole(hf, "hidden_size")
    half = width // whole(hf, "num_attention_heads") // 2
    given = vision_sizes(
        hf,
        d_ff=hf["intermediate_size"] or int(width * hf["mlp_ratio"]),
        d_rotary=half + half % 2,
        n_side=hf["posemb_grid_size"],
        merge=hf["spatial_merge_size"],
        d_bridge=hf["projection_hidden_dim"],
        d_out=hf["text_hidden_size"],
        bridge_bias=bool(hf["projector_bias"]),
        module_names=NAMES,
    )
    return Reading("inkling2_vision", given)


def _inkling2(hf: HFConfig) -> Reading:
    return reading(
        hf,
        "inkling2_multimodal",
        vision=hf.nested("vision_config"),
        n_vocab=hf.nested("text_config")["unpadded_vocab_size"],
        # The class declares no tie, whatever a file says.
        tie_embeddings=False,
        stored=FILES,
    )


HF_READERS = {"inkling2": _inkling2, "inkling2_loop": _inkling2, "inkling2_vision": _vision}
