"""ColPali and its kin: a model of images and text that gives a small vector for every token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

USUAL = {"colpali": "paligemma", "colqwen2": "qwen2_vl", "colmodernvbert": "modernvbert"}


@configuration
class LateInteractionConfig(Config):
    """The model, the width of its text, and that of the vectors that are compared."""

    model: Part
    d_model: Dim
    d_embedding: Dim

    letters = {"model": "vlm", "d_model": "D_txt", "d_embedding": "De"}
    meanings = {"d_model": "width of the text", "d_embedding": "width of the vector of a token"}

    def __post_init__(self) -> None:
        check_sizes(self)


def late_interaction(c: LateInteractionConfig) -> Module:
    """ColPali (arXiv:2407.01449), with the names of `ColPaliForRetrieval`.

    Source: transformers `modeling_colpali.py`, `modeling_colqwen2.py`, `modeling_colmodernvbert.py`.
    """
    vector, embed = Axis("vector", c.d_embedding), Axis("embed", c.d_model)
    head = linear("embedding_proj_layer", vector, embed, bias=True, component="head")
    return Module("", (c.model.module("vlm", layout=c.layout), head))


ARCHITECTURES = {"late_interaction": Architecture(LateInteractionConfig, late_interaction)}


def _read(hf: HFConfig) -> Reading:
    whole = hf.nested("vlm_config", USUAL[hf.model_type])
    model = bare(whole)
    given = {
        "task": "embedding",
        "model": model,
        "d_model": model.config.d_model,  # type: ignore[attr-defined]
        "d_embedding": hf["embedding_dim"],
    }
    return Reading("late_interaction", given)


HF_READERS = dict.fromkeys(USUAL, _read)
