"""A model against what others say it is: the real torch module, a checkpoint, a module of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sizer.checkpoint import Checkpoint, load_checkpoint
from sizer.core.record import Record
from sizer.errors import UnknownName
from sizer.measures.tensors import OLD_MASKS
from sizer.model import Model
from sizer.oracles import torch as oracle
from sizer.oracles.compare import LEVELS, Difference, Found, compare, odd_dtypes
from sizer.oracles.stored import REMADE, compare_stored, rules_of

# The torch types of a user's word for them.
TORCH_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
}


class Comparison(Record):
    """A model and one other side: what differs, and what was set aside on the way."""

    __slots__ = ("against", "differences", "notes")

    def __init__(self, against: str, differences: list[Difference], notes: list[str]) -> None:
        self.against = against
        self.differences = differences
        self.notes = notes


def verify(
    model: Model,
    *,
    level: str = "names",
    checkpoint: str | None = None,
    module: str | None = None,
    dtype: str | None = None,
    arguments: dict[str, Any] | None = None,
) -> list[Comparison]:
    """Compare a model with the real module, with the header of a checkpoint, with a user's module.

    `module`: `package.module:factory`; it takes the place of the public module. `dtype`: the type that
    every parameter must have; by itself, that of most of them.
    """
    if level not in LEVELS:
        raise UnknownName("level", level, LEVELS, hint=", ".join(LEVELS))
    if dtype is not None and dtype not in TORCH_DTYPES:
        raise UnknownName("dtype", dtype, TORCH_DTYPES, hint=", ".join(TORCH_DTYPES))
    # What is at hand is opened before a module is built, which takes seconds.
    files = load_checkpoint(checkpoint) if checkpoint is not None else None
    done: list[Comparison] = []
    rules = None
    if module is not None:
        from sizer.oracles.factory import module_of

        theirs = oracle.tensors(module_of(module, arguments=arguments))
        done.append(own_module(model, module, theirs, level=level, dtype=dtype))
    else:
        try:
            real = oracle.build(model)
            rules = rules_of(real)
            done.append(Comparison("torch", compare_with(model, oracle.tensors(real), level=level), []))
        except oracle.NoModule as error:
            if files is None:
                raise
            done.append(Comparison("torch", [], [f"not compared with torch: {error}"]))
    if files is not None:
        done.append(_files(model, files, level, rules, dtype))
    return done


def differences(model: Model, *, level: str = "names") -> list[Difference]:
    """What differs between a model and the module it describes."""
    return compare_with(model, oracle.tensors(oracle.build(model)), level=level)


def compare_with(model: Model, theirs: Iterable[Found], *, level: str = "names") -> list[Difference]:
    """What differs between a model and the tensors of its public module."""
    found = list(theirs)
    ours = model.tensors(layout="transformers")
    # The masks that old checkpoints carry are no part of today's modules.
    names = {tensor.name for tensor in found}
    ours = [
        t
        for t in ours
        if t.kind == "param" or t.name in names or not t.persistent or not t.name.endswith(OLD_MASKS)
    ]
    odd = odd_dtypes(found) if level == "names" else []
    return [*compare(ours, found, level=level), *odd]


def own_module(
    model: Model, name: str, theirs: list[Found], *, level: str = "names", dtype: str | None = None
) -> Comparison:
    """A model and somebody's module, in the layout that is nearer to its names.

    Buffers that a module makes anew, such as masks and tables of rotary positions, may be there or not.
    """
    tried = []
    for layout in ("transformers", "checkpoint"):
        ours = model.tensors(layout)
        mine, other = {t.name for t in ours}, {t.name for t in theirs}
        kept = [t for t in ours if t.name in other or t.kind == "param" or not _is_remade(t)]
        found = [t for t in theirs if t.name in mine or t.kind == "param" or not _is_remade(t)]
        tried.append((compare(kept, found, level=level), layout))
        if not tried[-1][0]:
            break
    found_differences, layout = min(tried, key=lambda entry: len(entry[0]))
    if level == "names":
        found_differences += odd_dtypes(theirs, wanted=TORCH_DTYPES.get(dtype or "", ""))
    return Comparison(name, found_differences, [f"names of the layout {layout!r}"])


def _files(model: Model, files: Checkpoint, level: str, rules: Any, dtype: str | None) -> Comparison:
    found, notes = compare_stored(model, files, level=level, rules=rules, dtype=dtype or "")
    return Comparison(files.name, found, notes)


def _is_remade(tensor: Any) -> bool:
    return not tensor.persistent or tensor.name.endswith(REMADE)
