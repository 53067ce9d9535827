"""Ovis 2: a tower that gives each patch as a mixture of words of a visual vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerNames
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes, vision_tower
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, rms_norm
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    attention="attention",
    mlp=("ffn", "gate_proj", "up_proj", "down_proj"),
    norms=("rms_norm1", "", "rms_norm2", ""),
)


@configuration
class OvisVisionConfig(VisionConfig):
    """Sizes of the tower. `n_words`: of the visual vocabulary; `n_joined`: patches that share one."""

    n_words: Dim
    n_joined: Dim = 1

    letters = {**VisionConfig.letters, "n_words": "Vi", "n_joined": "Nj"}
    meanings = {
        **VisionConfig.meanings,
        "n_words": "words that the tower chooses among",
        "n_joined": "patches that share a choice",
    }


@configuration
class OvisConfig(MultimodalConfig):
    """The parts; `n_visual_words` and `d_words` are the rows and the width of their table."""

    n_visual_words: Dim
    d_words: Dim

    letters = {
        **MultimodalConfig.letters,
        "vocab_size": "V_lm",
        "n_visual_words": "V_vis",
        "d_words": "D_w",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "n_visual_words": "rows of the table of visual words",
        "d_words": "width of the table of visual words, and of an untied head",
    }


def ovis2_vision(c: OvisVisionConfig) -> Module:
    """The tower, with the names of `Ovis2VisionModel`. Source: transformers `modeling_ovis2.py`."""
    embed, words = Axis("embed", c.d_model), Axis("vocab", c.n_words)
    first, *rest = vision_tower(c).children
    assert isinstance(first, Module)
    embeddings = first._replace(children=(*first.children, rms_norm("rms_norm", embed)))
    return Module(
        "",
        (
            Module("transformer", (embeddings, *rest)),
            linear("head_linear", words, Axis("joined", c.d_model * c.n_joined), component="head"),
            layer_norm("head_norm", words),
        ),
    )


def ovis2(c: OvisConfig) -> Module:
    """Ovis 2 (arXiv:2405.20797), with the names of `Ovis2ForConditionalGeneration`."""
    rows, width = Axis("vocab", c.n_visual_words), Axis("embed", c.d_words)
    table = Module(
        "visual_embeddings_table",
        (Param("weight", (rows, width), "matmul"),),
        component="embedding",
        stream="encoder",
    )
    tree = multimodal(c, table)
    if c.task == "base" or c.tie_embeddings:
        return tree
    # An untied head has sizes of its own, which the whole says, not the text.
    return Module(
        "", (tree.children[0], linear("lm_head", Axis("vocab", c.vocab_size), width, component="head"))
    )


ARCHITECTURES = {
    "ovis2": Architecture(OvisConfig, ovis2),
    "ovis2_vision": Architecture(OvisVisionConfig, ovis2_vision),
}


def _vision(hf: HFConfig) -> Reading:
    given = vision_sizes(
        hf,
        n_patches=patches(hf),
        bias="qkvo" if hf["qkv_bias"] else "",
        mlp_bias=bool(hf["mlp_bias"]),
        down_bias=bool(hf["mlp_bias"]),
        gated=True,
        norm="rms",
        post_norm="rms_norm",
        module_names=NAMES,
        n_words=whole(hf, "vocab_size") - whole(hf, "num_visual_indicator_tokens"),
        n_joined=whole(hf, "hidden_stride") ** 2,
    )
    return Reading("ovis2_vision", given)


def _ovis2(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    tied = bool(hf["tie_word_embeddings"])
    given = {"vocab_size": hf["vocab_size"]} if not tied else {}
    return reading(
        hf,
        "ovis2",
        vision=vision,
        n_visual_words=vision["vocab_size"],
        d_words=hf["hidden_size"],
        tie_embeddings=tied,
        **given,
    )


HF_READERS = {"ovis2": _ovis2, "ovis2_vision": _vision}
