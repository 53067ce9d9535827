"""A language model that also reads images or sound: towers, what joins them to the text, the text.

The parts are whole architectures, each read by the reader of its own model type. A family in
`multimodal/` says what stands between them, and calls `multimodal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sizer.architectures.heads import with_head
from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Reading
from sizer.architectures.stored import Rules, stored_names
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Leaf, Module
from sizer.errors import UnknownName
from sizer.sources.model_types import classes_of, record_of

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


class PartNames(NamedTuple):
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
    `files`: how files from before transformers 4.52 name the parts, where they differ: "whole_text"
    (a text model with its head, and towers beside it) or "plain_text" (the names of a text model
    alone, and towers beside it); "nested_text" is the names in memory with a level more in the text's.
    `stored`: rules that make the names of files of those in memory.
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
    files: str = ""
    token_bias: bool = True
    stored: Rules = ()
    places: PartNames = PartNames()

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
    """The parts and the head, under the names of the layout."""
    tree = _in_memory(c, *bridge)
    return stored_names(tree, c.stored) if c.layout == "checkpoint" else tree


def _in_memory(c: MultimodalConfig, *bridge: Module | Leaf) -> Module:
    """The towers, what joins them to the text (`bridge`), the text, and the head of its task."""
    files = c.files if c.layout == "checkpoint" else ""
    nested, files = files == "nested_text", "" if files == "nested_text" else files
    inside = "" if files or c.task == "base" else "model"
    places, text = c.places, c.places.text
    if files == "whole_text" or nested:
        text = f"{text}.model"
    elif files == "plain_text" and c.task != "base":
        text = "model"
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
    if not files or c.task == "base":
        return with_head(
            c, model, embedding=f"{text}.{places.embedding}", qa_prefix="model", token_bias=c.token_bias
        )
    vocab, embed = Axis("vocab", c.vocab_size), Axis("embed", c.d_model)
    if c.task != "causal":
        bias = c.task == "token" and c.token_bias
        head = linear("score", Axis("labels", c.n_labels), embed, bias=bias, component="head")
        return Module("", (*model, head))
    name = f"{places.text}.{places.head}" if files == "whole_text" else places.head
    tied_to = f"{text}.{places.embedding}.weight" if c.tie_embeddings else None
    return Module("", (*model, linear(name, vocab, embed, tied_to=tied_to, component="head")))


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


def text_of(hf: HFConfig, model_type: str) -> HFConfig:
    """The text of a model whose older files have its keys beside those of the towers."""
    if hf.given("text_config"):
        return hf.nested("text_config")
    return hf.as_type(model_type)


def language_model(hf: HFConfig, model_type: str) -> HFConfig:
    """The configuration of a multimodal model's language model, for a class that is that alone.

    Its keys stand in `text_config`, or in the file itself where there is none.
    """
    known = classes_of(record_of(model_type))
    if hf.cls not in known:
        raise UnknownName(
            "class", hf.cls, known, hint=f"of {hf.model_type}, the language model alone is known"
        )
    return hf.as_type(model_type) if hf["text_config"] is None else hf.nested("text_config", model_type)


# Types whose whole takes over what the text says where it says no itself.
TIED_BY_EITHER = frozenset(
    [
        *("glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "llava", "llava_next_video"),
        *("llava_onevision", "minimax_m3_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl", "shieldgemma2"),
    ]
)


def tied(hf: HFConfig, text: HFConfig) -> bool:
    """Whether the head is tied: as the whole says, from transformers 5 on.

    Earlier versions went by the text, so what it says or assumes holds in their files where the
    whole says nothing. Types without such a key never tie.
    """
    if "tie_word_embeddings" not in hf:
        return False
    if hf.read_as in TIED_BY_EITHER:
        return bool(hf["tie_word_embeddings"] or text.get("tie_word_embeddings", False))
    if hf.given("tie_word_embeddings") or hf.saved_by_transformers_5:
        return bool(hf["tie_word_embeddings"])
    early = str(hf.get("transformers_version", "")).startswith("4.")
    if early or text.given("tie_word_embeddings"):
        return bool(text.get("tie_word_embeddings", False))
    return bool(hf["tie_word_embeddings"])


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
        "tie_embeddings": tied(hf, text),
    }
    return Reading(architecture, {**fields, **given})
