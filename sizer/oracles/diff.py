"""Two sides, each a formula, a checkpoint or a torch module, compared tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from sizer.core.record import Record
from sizer.errors import UnknownName
from sizer.measures.tensors import OLD_MASKS
from sizer.oracles.compare import LEVELS, shape_text
from sizer.oracles.naming import folded, matched
from sizer.oracles.sides import Item, Side


class Divergence(Record):
    """What differs, of one kind, in tensors of one name but for their layer: both values."""

    __slots__ = ("kind", "left", "name", "names", "right")

    def __init__(self, kind: str, name: str, names: tuple[str, ...], left: str, right: str) -> None:
        self.kind = kind
        self.name = name
        self.names = names
        self.left = left
        self.right = right


class Comparison(Record):
    """Two sides compared: what differs, how names were matched, what was left aside, and totals."""

    __slots__ = ("differences", "left", "level", "mapping", "remarks", "right", "shared", "totals")

    def __init__(
        self,
        left: Side,
        right: Side,
        level: str,
        mapping: str,
        differences: list[Divergence],
        remarks: list[str],
        shared: int,
        totals: tuple[int, int],
    ) -> None:
        self.left = left
        self.right = right
        self.level = level
        self.mapping = mapping
        self.differences = differences
        self.remarks = remarks
        self.shared = shared
        self.totals = totals

    @property
    def equal(self) -> bool:
        """Whether nothing differs and all of both sides is known."""
        return not self.differences and self.left.complete and self.right.complete


def diff(left: Side, right: Side, *, level: str = "names") -> Comparison:
    """Compare two sides at a level: "total", "component" or "names".

    Of quantized weights the logical ones are compared. A buffer that a file or its formula alone has is
    said and is no difference; a module knows its buffers, but for the masks of old checkpoints.
    """
    if level not in LEVELS:
        raise UnknownName("level", level, LEVELS, hint=", ".join(LEVELS))
    naming = matched(left, right)
    ours, theirs = naming.left, naming.right
    remarks: list[str] = []
    kinds = {left.kind, right.kind}
    if kinds != {"formula"} and kinds != {"torch"}:
        ours, theirs, remarks = _without_lone_buffers(ours, theirs, masks_alone="checkpoint" not in kinds)
    totals = _total(ours), _total(theirs)
    if level == "names":
        lines = list(_by_name(left, right, ours, theirs, remarks))
    else:
        lines = [("total", "params", *_pair(*totals))] if totals[0] != totals[1] else []
        if level == "component":
            lines += _by_component(ours, theirs)
    return Comparison(left, right, level, naming.how, _grouped(lines), remarks, naming.shared, totals)


Line = tuple[str, str, str, str]


def _pair(left: int, right: int) -> tuple[str, str]:
    return f"{left:,}", f"{right:,}"


def _total(items: Iterable[Item]) -> int:
    return sum(prod(i.shape) for i in items if i.kind == "param" and i.tied_to is None)


def _without_lone_buffers(
    ours: list[Item], theirs: list[Item], *, masks_alone: bool
) -> tuple[list[Item], list[Item], list[str]]:
    names = {i.name for i in ours}, {i.name for i in theirs}
    remarks = []
    kept = []
    for items, others, word in ((ours, names[1], "first"), (theirs, names[0], "second")):
        lone = [
            i.name
            for i in items
            if i.kind == "buffer" and i.name not in others and (i.name.endswith(OLD_MASKS) or not masks_alone)
        ]
        for name, members in folded(lone):
            count = f"{len(members):,} buffers {name} are" if len(members) > 1 else f"the buffer {name} is"
            remarks.append(f"{count} of the {word} side alone, and no difference")
        left_aside = set(lone)
        kept.append([i for i in items if i.name not in left_aside])
    return kept[0], kept[1], remarks


def _by_name(
    left: Side, right: Side, ours: list[Item], theirs: list[Item], remarks: list[str]
) -> Iterator[Line]:
    mine, other = {i.name: i for i in ours}, {i.name: i for i in theirs}
    unknown = 0
    for here, there, across, word in ((mine, other, right, "only in A"), (other, mine, left, "only in B")):
        for name, item in here.items():
            if name in there or (item.tied_to is not None and across.kind == "checkpoint"):
                continue
            if not across.complete:
                unknown += 1
                continue
            shape = shape_text(item.shape)
            yield (word, name, shape, "–") if word == "only in A" else (word, name, "–", shape)
    if unknown:
        remarks.append(f"{unknown:,} tensors are not known of the side whose files are missing")
    stored = left.kind == "checkpoint" or right.kind == "checkpoint"
    for name, item in mine.items():
        found = other.get(name)
        if found is None:
            continue
        if item.shape != found.shape:
            yield "shape", name, shape_text(item.shape), shape_text(found.shape)
        if item.dtype and found.dtype and item.dtype != found.dtype:
            yield "dtype", name, item.dtype, found.dtype
        # A file does not say what is learned: that is told by names alone.
        if not stored and item.kind != found.kind:
            yield "kind", name, item.kind, found.kind
        elif not stored and item.kind == "param" and item.trainable != found.trainable:
            words = {True: "trainable", False: "frozen"}
            yield "trainable", name, words[item.trainable], words[found.trainable]
        if item.kind == "param" and (item.tied_to is None) != (found.tied_to is None):
            yield "tie", name, _tie(item), _tie(found)


def _tie(item: Item) -> str:
    return f"is {item.tied_to}" if item.tied_to is not None else "stored apart"


def _by_component(ours: list[Item], theirs: list[Item]) -> Iterator[Line]:
    """Sums by component; a tensor of both sides is of the component that the first side says."""
    component = {i.name: i.component for i in ours}
    sums: list[dict[str, int]] = [{}, {}]
    for found, items in zip(sums, (ours, theirs), strict=True):
        for item in items:
            if item.kind == "param" and item.tied_to is None:
                name = component.get(item.name, item.component)
                found[name] = found.get(name, 0) + prod(item.shape)
    for name in {**sums[0], **sums[1]}:
        pair = sums[0].get(name, 0), sums[1].get(name, 0)
        if pair[0] != pair[1]:
            yield "component", name, *_pair(*pair)


def _grouped(lines: Iterable[Line]) -> list[Divergence]:
    """Differences that are alike but for the layer, as one."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for kind, name, left, right in lines:
        groups.setdefault((kind, left, right), []).append(name)
    return [
        Divergence(kind, name, members, left, right)
        for (kind, left, right), names in groups.items()
        for name, members in folded(names)
    ]
