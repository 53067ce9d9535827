"""A language model that also reads images or sound: towers, what joins them to the text, the text.

The parts are whole architectures, each read by the reader of its own model type. A family in a
file beside this one says what stands between them, and calls `multimodal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sizer.architectures.heads import with_head
from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Leaf, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


class Places(NamedTuple):
    """The names of the parts of a model."""

    text: str = "language_model"
    vision: str = "vision_tower"
    audio: str = "audio_tower"
    bridge: str = "multi_modal_projector"
    embedding: str = "embed_tokens"
    head: str = "lm_head"


@configuration
class MultimodalConfig(Config):
    """The parts, and the sizes of what joins them.

    `d_bridge`: hidden width of what joins a tower to the text, `bridge_bias`: whether it has biases.
    `merge`: tokens of the tower that stand side by side in one of the text; `d_joined`: their width
    together, where a configuration gives that instead.
    `early_names`: files name the parts as before transformers 4.52, the text model whole inside.
    """

    text: Part
    d_model: Dim
    vocab_size: Dim
    vision: Part | None = None
    audio: Part | None = None
    d_vision: Dim | None = None
    d_audio: Dim | None = None
    d_bridge: Dim | None = None
    d_joined: Dim | None = None
    merge: Dim = 1
    bridge_bias: bool = True
    tie_embeddings: bool = False
    early_names: bool = False
    token_bias: bool = True
    places: Places = Places()

    # The widths are those of the parts, and so are their letters.
    letters = {
        "text": "txt",
        "vision": "img",
        "audio": "aud",
        "d_model": "D_txt",
        "vocab_size": "V_txt",
        "d_vision": "D_img",
        "d_audio": "D_aud",
        "d_bridge": "D_br",
        "d_joined": "D_jn",
        "merge": "Mg",
    }
    meanings = {
        "d_vision": "width of the vision tower",
        "d_audio": "width of the audio tower",
        "d_bridge": "hidden width between tower and text",
        "d_joined": "width of the tokens of a tower in one of the text",
        "merge": "tokens of a tower in one of the text",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def multimodal(c: MultimodalConfig, *bridge: Module | Leaf) -> Module:
    """The towers, what joins them to the text (`bridge`), the text, and the head of its task."""
    places = c.places
    early = c.early_names and c.layout == "checkpoint"
    inside = "" if early or c.task == "base" else "model"
    text = f"{places.text}.model" if early else places.text
    towers = ((c.vision, places.vision), (c.audio, places.audio))
    model = (
        *(
            tower.module(name, layout=c.layout, inside=inside, stream="encoder")
            for tower, name in towers
            if tower is not None
        ),
        *bridge,
        c.text.module(text, layout=c.layout, inside=inside),
    )
    if c.task == "base":
        return Module("", model)
    if not early:
        return with_head(c, model, embedding=f"{places.text}.{places.embedding}", qa_prefix="model", token_bias=c.token_bias)
    if c.task != "causal":
        head = linear("score", Axis("labels", c.n_labels), Axis("embed", c.d_model), component="head")
        return Module("", (*model, head))
    tied_to = f"{text}.{places.embedding}.weight" if c.tie_embeddings else None
    vocab, embed = Axis("vocab", c.vocab_size), Axis("embed", c.d_model)
    head = linear(f"{places.text}.{places.head}", vocab, embed, tied_to=tied_to, component="head")
    return Module("", (*model, head))


# -- readers --------------------------------------------------------------------------------------


def task_of(hf: HFConfig) -> str:
    """What stands on the text: a class that writes text has a language head, whatever it reads."""
    if hf.cls.endswith(("ForConditionalGeneration", "ForCausalLM")):
        return "causal"
    return hf.task if hf.task in ("base", "sequence", "token") else "causal"


def bare(hf: HFConfig) -> Part:
    """A nested model without a head, read by the reader of its own type."""
    part = part_of(hf.as_task("base") if hf.has_task("base") else hf)
    return part._replace(given={**part.given, "task": "base"})


def reading(hf: HFConfig, architecture: str, *, text: HFConfig | None = None, **given: Any) -> Reading:
    """A model around the text of `text_config`; towers are given as nested configurations."""
    text = hf.nested("text_config") if text is None else text
    for tower in ("vision", "audio"):
        nested = given.get(tower)
        if nested is not None and not isinstance(nested, Part):
            given[tower] = bare(nested)
    fields = {
        "task": task_of(hf),
        "n_labels": hf.n_labels,
        "text": bare(text),
        "d_model": text["hidden_size"],
        "vocab_size": text["vocab_size"],
        "tie_embeddings": bool(hf.get("tie_word_embeddings", False)),
    }
    return Reading(architecture, {**fields, **given})

