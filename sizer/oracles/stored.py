"""Our tensors against the header of a checkpoint, by the rules by which a checkpoint is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sizer.checkpoint import Checkpoint
from sizer.core.fold import fold
from sizer.core.record import Record
from sizer.measures.tensors import OLD_MASKS, Tensor
from sizer.model import Model
from sizer.oracles.compare import Difference, Found, compare, odd_dtypes

# Buffers that some versions store and others make anew.
REMADE = (*OLD_MASKS, ".attention.bias", "masked_bias", "inv_freq", "position_ids")
MOST_NAMED = 6


class Rules(Record):
    """What the class of a model says of loading: names to ignore, what stays in 32 bits, the prefix."""

    __slots__ = ("fp32", "ignored", "prefix")

    def __init__(self, ignored: Sequence[str] = (), fp32: Sequence[str] = (), prefix: str = "") -> None:
        self.ignored = ignored
        self.fp32 = fp32
        self.prefix = prefix


def rules_of(module: Any) -> Rules:
    """The rules of a class of transformers; of any other module there are none."""

    def listed(*names: str) -> list[str]:
        return [str(entry) for name in names for entry in (getattr(module, name, None) or ())]

    return Rules(
        listed("_keys_to_ignore_on_load_unexpected"),
        listed("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict"),
        str(getattr(module, "base_model_prefix", "") or ""),
    )


def compare_stored(
    model: Model, checkpoint: Checkpoint, *, level: str, rules: Rules | None = None, dtype: str = ""
) -> tuple[list[Difference], list[str]]:
    """What differs between a model and a checkpoint, and what was set aside.

    A tensor that is tied may be stored under any of its names, or under all of them.
    """
    rules = rules or Rules()
    notes: list[str] = []
    stored = [
        Found(w.name, w.shape, w.kind, w.tied_to, True, "" if w.scheme else w.dtype)
        for w in checkpoint.logical.weights
    ]
    if checkpoint.format == "gguf" and level != "total":
        level = "total"
        notes.append("tensors of a GGUF file have names of their own: totals of parameters are compared")
    stored = _prefixed(stored, model.tensors(), rules.prefix, notes)
    tried = []
    for layout in ("checkpoint", "transformers"):
        ours, theirs = _aligned(model.tensors(layout), stored, rules)
        found = compare(ours, theirs, level=level)
        if level == "names":
            found += odd_dtypes(theirs, wanted=dtype, fp32=rules.fp32)
        tried.append((found, theirs))
        if not found:
            break
    found, theirs = min(tried, key=lambda entry: len(entry[0]))
    if checkpoint.format == "gguf":
        found = [d for d in found if d.name != "buffer"]
    kept = {t.name for t in theirs}
    aside = [t for t in stored if t.name not in kept]
    if aside:
        names = [name for name, _ in fold((t.name, 0) for t in aside)]
        more = ", …" if len(names) > MOST_NAMED else ""
        notes.append(f"{len(aside):,} stored tensors set aside: {', '.join(names[:MOST_NAMED])}{more}")
    if tried[0][0] and not found:
        notes.append("the file has the names of the module in memory, not those of published checkpoints")
    notes += checkpoint.remarks
    return [*_not_here(checkpoint), *found], notes


def _not_here(checkpoint: Checkpoint) -> list[Difference]:
    return [
        *(Difference("file", m.file, "part of the checkpoint", "missing") for m in checkpoint.missing),
        *(Difference("file", checkpoint.name, "sound", problem) for problem in checkpoint.problems),
    ]


def _prefixed(stored: list[Found], ours: Iterable[Tensor], prefix: str, notes: list[str]) -> list[Found]:
    """Names of a base model, as old files have them, under the prefix of the whole one."""
    names = {t.name for t in ours}
    if not prefix or any(t.name.startswith(prefix + ".") for t in stored):
        return stored
    found = [t if t.name in names else t._replace(name=f"{prefix}.{t.name}") for t in stored]
    if sum(t.name in names for t in found) <= sum(t.name in names for t in stored):
        return stored
    notes.append(f"the file names the base model alone; read under {prefix}.")
    return found


def _aligned(ours: list[Tensor], stored: list[Found], rules: Rules) -> tuple[list[Tensor], list[Found]]:
    """Both sides without what a loader does not ask for, kinds and ties as the model has them."""
    known = {t.name: t for t in ours}
    names = {t.name for t in stored}
    group = {t.name: t.tied_to or t.name for t in ours}
    # Of a tied tensor, the names that are stored; where none is, the first one is lacking.
    present: dict[str, list[str]] = {}
    for name, first in group.items():
        if name in names:
            present.setdefault(first, []).append(name)
    mine = [
        t._replace(tied_to=None)
        for t in ours
        if t.persistent
        and t.name == present.get(group[t.name], [group[t.name]])[0]
        and (t.kind == "param" or t.name in names or not t.name.endswith(REMADE))
    ]
    theirs = []
    for tensor in stored:
        own = known.get(tensor.name)
        if own is None:
            if tensor.kind == "buffer" or any(_matches(rule, tensor.name) for rule in rules.ignored):
                continue
            theirs.append(tensor)
        elif tensor.name == present[group[tensor.name]][0]:
            # Storage that a file shares where the model has two tensors stays a tie, and differs.
            shared = tensor.tied_to if group.get(tensor.tied_to or "") != group[tensor.name] else None
            theirs.append(tensor._replace(kind=own.kind, trainable=own.trainable, tied_to=shared))
        elif tuple(own.shape) != tensor.shape:
            # The second name of a tie, stored in another shape: that is no copy.
            theirs.append(tensor)
    return mine, theirs


def _matches(rule: str, name: str) -> bool:
    try:
        return re.search(rule, name) is not None
    except re.error:
        return rule in name
