"""GIT: CLIP's tower, whose patches stand before the words of a BERT that writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import few
from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, layer, stack
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class GitConfig(BertConfig):
    """Sizes and switches of a GIT. `n_images`: frames of a video, with a learned vector each."""

    vision: Part
    d_vision: Dim
    n_images: Dim | None = None

    letters = {**BertConfig.letters, "vision": "img", "d_vision": "D_img", "n_images": "Ni"}
    meanings = {
        **BertConfig.meanings,
        "d_vision": "width of the vision tower",
        "n_images": "frames of a video",
    }


def git(c: GitConfig) -> Module:
    """GIT (arXiv:2205.14100), with the tensor names of `GitForCausalLM`.

    Source: transformers `modeling_git.py`.
    """
    embed, vision = Axis("embed", c.d_model), Axis("vision", c.d_vision)
    inside = "" if c.task == "base" else "git"
    projection = (linear("0", embed, vision, bias=True), layer_norm("1", embed))
    model = (
        *embeddings(c),
        c.vision.module("image_encoder.vision_model", layout=c.layout, inside=inside, stream="encoder"),
        *_frames(c, vision),
        Module("visual_projection.visual_projection", projection, component="other", stream="encoder"),
        *stack(c, layer(c)),
    )
    if c.task == "base":
        return Module("", model)
    table = "git.embeddings.word_embeddings.weight" if c.tie_embeddings else None
    head = linear("output", Axis("vocab", c.vocab_size), embed, bias=True, tied_to=table, component="head")
    return Module("", (Module("git", model), head))


def _frames(c: GitConfig, vision: Axis) -> tuple[Module, ...]:
    """A vector for each frame of a video, in a list whose tensors are named by their index alone."""
    if c.n_images is None:
        return ()
    vector = Param("0", (Axis("one", 1), Axis("one", 1), vision), component="position")
    if isinstance(c.n_images, int):
        vectors = tuple(vector._replace(name=str(i)) for i in range(c.n_images))
        return (Module("img_temporal_embedding", vectors),)
    return (Module("img_temporal_embedding", (vector,), repeat=c.n_images),)


ARCHITECTURES = {"git": Architecture(GitConfig, git)}


def _git(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    given: dict[str, Any] = {
        "vision": bare(vision),
        "d_vision": vision["hidden_size"],
        "n_images": few(hf, "num_image_with_embedding") if hf["num_image_with_embedding"] else None,
        "n_token_types": None,
        "pooled": (),
        "causal": True,
        "cross_attention": False,
        "id_buffers": ("position_ids",),
    }
    return Reading("git", fields_of(hf, GitConfig, **given))


HF_READERS = {"git": _git}
