"""Configurations in other tools' words, and how to tell them apart.

A file of this folder describes one format: its keys, and what they say about a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sizer.errors import BadInput, InvalidConfig, UnknownKey, clip
from sizer.sources.formats import (
    deepseek,
    gpt_neox,
    litgpt,
    llm_analysis,
    llms_from_scratch,
    megatron,
    meta,
    nanogpt,
    openai,
)
from sizer.sources.formats.settings import Described, Format, Settings
from sizer.sources.spelling import slipped
from sizer.sources.values import canonical_name

FORMATS = (
    litgpt.FORMAT,
    nanogpt.FORMAT,
    openai.FORMAT,
    llms_from_scratch.FORMAT,
    deepseek.FORMAT,
    meta.FORMAT,
    megatron.FORMAT,
    gpt_neox.FORMAT,
    llm_analysis.FORMAT,
)


# Files that lie beside a configuration, by the keys they have.
OTHER_FILES = (
    ({"quantization"}, "the description of a quantization (hf_quant_config.json)"),
    ({"prompts", "default_prompt_name"}, "a configuration of sentence-transformers"),
    ({"__version__"}, "a configuration of sentence-transformers"),
    ({"peft_type"}, "the configuration of an adapter"),
    ({"weight_map"}, "the index of a checkpoint"),
    ({"image_mean"}, "the configuration of an image processor"),
    ({"added_tokens_decoder"}, "the configuration of a tokenizer"),
    ({"do_sample"}, "a configuration for generating text"),
)


def recognise(values: Mapping[str, Any], name: str) -> Format:
    """The one format that a configuration is of.

    >>> recognise({"n_layer": 2, "n_head": 2, "n_embd": 8, "block_size": 16}, "x").title
    'nanoGPT'
    """
    found = [known for known in FORMATS if known.fits(values)]
    if not found:
        found = [known for known in FORMATS if known.fits(values, weakly=True)]
    if len(found) == 1:
        return found[0]
    if found:
        both = " and of ".join(f"{known.title} ({_seen(known, values)})" for known in found)
        raise BadInput(f"{name} has keys of {both}; leave those of one tool")
    for keys, kind in OTHER_FILES:
        if keys <= values.keys():
            raise BadInput(f"{name} is {kind}, which says nothing of a model's sizes; name its config.json")
    for known in FORMATS:
        _check_required(known, values, name)
    raise BadInput(
        f"{name} has no model_type, so its architecture is unknown; add it, or --class with the name of "
        f"its class. It is no configuration of {', '.join(known.title for known in FORMATS)} "
        f"either{_nearest(values)}"
    )


def _nearest(values: Mapping[str, Any]) -> str:
    """The format of which a file has most of what it needs, and what is missing."""
    near = max(
        FORMATS, key=lambda known: len(values.keys() & set(known.required)) / (len(known.required) or 1)
    )
    missing = [key for key in near.required if key not in values]
    if len(missing) == len(near.required):
        return ""
    return f"; of {near.title} it lacks {', '.join(missing) or near.marked()}"


def _check_required(known: Format, values: Mapping[str, Any], name: str) -> None:
    """Name the keys that a file would have to have, where it has all of them but for their spelling."""
    missing = [key for key in known.required if key not in values]
    others = [key for key in values if key not in known.required]
    written = {near: key for key in others if (near := slipped(key, missing)) is not None}
    repaired = [*(key for key in values if key not in written.values()), *written]
    if (
        missing
        and len(written) == len(missing) < len(known.required)
        and (known.fits(repaired) or known.fits(repaired, weakly=True))
    ):
        near, key = next(iter(written.items()))
        raise UnknownKey(f"{name}: unknown key {clip(key)!r}; did you mean {near!r}, as in {known.title}?")


def _seen(known: Format, values: Mapping[str, Any]) -> str:
    return ", ".join(key for key in (*known.marks, *known.weak, *known.required) if key in values)


class Read(NamedTuple):
    """A configuration that was read: its format, what it describes, and what is left.

    `overrides`: those that the format has no key for. `unknown`: keys that say nothing about the model.
    """

    known: Format
    model: Described
    overrides: dict[str, Any]
    unknown: list[str]


def read(values: Mapping[str, Any], *, name: str, overrides: Mapping[str, Any]) -> Read:
    """A configuration in another tool's words; overrides may be in those, or in ours."""
    plain = _plain(values, name)
    known = recognise(plain, name)
    in_its_words, others = _overrides(known, overrides)
    settings = Settings({**plain, **in_its_words}, name)
    known.check_spelling(settings)
    model = known.read(settings)
    return Read(known, model, others, known.unknown(settings))


def _plain(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The keys as Python writes them: `--hidden-size` is `hidden_size`."""
    plain: dict[str, Any] = {}
    for key, value in megatron.flattened(values).items():
        word = key.removeprefix("--").replace("-", "_")
        if word in plain:
            raise InvalidConfig(f"{name}: {word} is given twice, once as {clip(key)!r}")
        plain[word] = True if key.startswith("--") and value in (None, "") else value
    return plain


def _overrides(known: Format, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Overrides that the format has a key for, and those that only the architecture has."""
    changed: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in overrides.items():
        word = key.removeprefix("--").replace("-", "_")
        if word not in known.sizes.values() and canonical_name(key) not in known.sizes:
            others[key] = value
            continue
        word = word if word in known.sizes.values() else known.sizes[canonical_name(key)]
        if word in changed:
            raise InvalidConfig(f"{word} is set twice, once as {clip(key)!r}")
        changed[word] = value
    return changed, others
