"""What can be compared: a formula, a checkpoint, or a torch module, as lists of tensors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from sizer.core.record import Record
from sizer.errors import BadInput, SizerError, UnknownName, clip
from sizer.sources.checkpoints.logical.names import classify
from sizer.sources.checkpoints.stored import StoredTensor

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint
    from sizer.model import Model
    from sizer.oracles.compare import Found

KINDS = ("formula", "checkpoint", "torch")


class Item(NamedTuple):
    """A tensor of a side. `dtype` is empty where the side has none, or packs the weight."""

    name: str
    shape: tuple[int, ...]
    kind: str
    component: str
    tied_to: str | None
    trainable: bool
    dtype: str


class Side(Record):
    """One side: what it is, and where its tensors come from. `incomplete` says what is missing."""

    __slots__ = ("checkpoint", "found", "kind", "model", "name")

    def __init__(
        self,
        kind: str,
        name: str,
        *,
        model: Model | None = None,
        checkpoint: Checkpoint | None = None,
        found: list[Found] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.model = model
        self.checkpoint = checkpoint
        self.found = found

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.kind}:{self.name}"

    @property
    def complete(self) -> bool:
        """Whether all its tensors are known."""
        return self.checkpoint is None or self.checkpoint.complete

    def items(self, *, layout: str = "checkpoint", mtp: bool = False) -> list[Item]:
        """Its tensors; of a formula, in a layout, and with its prediction layers where asked for."""
        if self.checkpoint is not None:
            return [
                Item(
                    *(w.name, tuple(w.shape), w.kind, w.component, w.tied_to, w.kind == "param"),
                    "" if w.scheme else w.dtype,
                )
                for w in self.checkpoint.logical.weights
            ]
        if self.found is not None:
            return [
                Item(f.name, f.shape, f.kind, _component(f), f.tied_to, f.trainable, "") for f in self.found
            ]
        assert self.model is not None
        model = self.model.with_values(count_mtp=True) if mtp else self.model
        return [
            Item(t.name, tuple(t.shape), t.kind, t.component, t.tied_to, t.trainable, "")
            for t in model.tensors(layout)
            if t.persistent or layout == "transformers"
        ]


def _component(found: Found) -> str:
    return classify(found.name, StoredTensor(found.name, found.shape, "", 0, 0, ""))[0]


def side(text: str) -> Side:
    """A side from `formula:WHAT`, `checkpoint:WHAT`, `torch:WHAT`, or WHAT as `sizer count` takes it."""
    from sizer import loading
    from sizer.checkpoint import load_checkpoint
    from sizer.sources.checkpoints.read import is_checkpoint

    kind, colon, rest = text.partition(":")
    if colon and kind not in KINDS and not os.path.exists(text):
        raise UnknownName("side", kind, KINDS, hint=f"{', '.join(f'{k}:…' for k in KINDS)}, or no prefix")
    if not colon or kind not in KINDS:
        kind, rest = ("checkpoint" if os.path.exists(text) and is_checkpoint(text) else "formula"), text
    if not rest:
        raise BadInput(f"{clip(text)!r} names nothing; write {kind}:MODEL")
    if kind == "checkpoint":
        return Side(kind, rest, checkpoint=load_checkpoint(rest))
    if kind == "formula":
        return Side(kind, rest, model=loading.load(rest))
    return _torch(rest)


def _torch(target: str) -> Side:
    from sizer import loading
    from sizer.oracles import torch as oracle

    try:
        model = loading.load(target)
    except SizerError:
        # A class that sizer does not describe may still be one that transformers builds.
        if not os.path.exists(target):
            raise
        from sizer.sources.config_text import config_at

        return Side(
            "torch", target, found=oracle.tensors(oracle.build_from_config(config_at(target), None, target))
        )
    return Side("torch", target, model=model, found=oracle.tensors(oracle.build(model)))
