"""`sizer count` of a checkpoint: what is stored, and what it stands for."""

from __future__ import annotations

from typing import Any

from sizer import __version__, units
from sizer.checkpoint import Checkpoint
from sizer.errors import printable
from sizer.measures.stored import StoredCount
from sizer.report.report import Report, Table, View
from sizer.sources.checkpoints.logical.weights import Weight

CONVENTIONS = (
    "params: the weights that the stored tensors stand for; scales, zero points and buffers are none",
    "components are told by the tensors' names",
    "active: the parameters one token visits, input embedding included",
)
# Widths that the size of an index is read at, where none of its files is here.
WIDTHS = (4, 2, 1)


def report(checkpoint: Checkpoint, *, by: str = "component", depth: int | None = None) -> Report:
    """Logical parameters by component, layer, module or tensor, with what is stored; exit 1 if partial."""
    if not len(checkpoint.contents) and checkpoint.stated:
        return _index_alone(checkpoint)
    found = checkpoint.count()

    def document() -> dict[str, Any]:
        return _document(checkpoint, found, by, depth)

    def view() -> View:
        return View(
            table=_table(checkpoint, found, by, depth),
            above=[f"{checkpoint.name}  ({what(checkpoint)})"],
            below=_below(checkpoint, found),
            notes=[*CONVENTIONS, *map(printable, checkpoint.remarks)],
        )

    return Report(str(found.total), document, view, int(not checkpoint.complete), talk(checkpoint))


def talk(checkpoint: Checkpoint) -> list[str]:
    """What must be said aloud: files that are missing, and problems."""
    lines = []
    for missing in checkpoint.missing[:5]:
        size = f" of {missing.bytes:,} bytes, a Git LFS pointer not downloaded" if missing.bytes else ""
        tensors = f", with {missing.tensors:,} of the tensors" if missing.tensors else ""
        lines.append(f"missing: {printable(missing.file)}{size}{tensors}")
    if len(checkpoint.missing) > 5:
        lines.append(f"missing: {len(checkpoint.missing) - 5:,} more files")
    lines += map(printable, checkpoint.problems[:10])
    if lines:
        lines.append(f"{checkpoint.name} is not whole or not clear: the count is of what is known so far")
    return lines


def what(checkpoint: Checkpoint) -> str:
    """The format, the architecture and the schemes, in one line."""
    names = [checkpoint.format, checkpoint.architecture, *checkpoint.schemes]
    return ", ".join(printable(name) for name in names[:6] if name)


def head(checkpoint: Checkpoint) -> dict[str, Any]:
    """The keys every document begins with."""
    return {
        "sizer_version": __version__,
        "model": checkpoint.name,
        "architecture": checkpoint.architecture or None,
        "format": checkpoint.format,
        "complete": checkpoint.complete,
    }


def tail(checkpoint: Checkpoint) -> dict[str, Any]:
    """The keys every document ends with."""
    return {
        "missing": [{"file": m.file, "tensors": m.tensors, "bytes": m.bytes} for m in checkpoint.missing],
        "problems": checkpoint.problems,
        "remarks": checkpoint.remarks,
        "stated": checkpoint.stated,
        "assumptions": list(CONVENTIONS),
        "sources": [f"headers of {file}" for file in checkpoint.contents.files[:1000]],
    }


def _document(checkpoint: Checkpoint, found: StoredCount, by: str, depth: int | None) -> dict[str, Any]:
    groupings = {"component": _records(checkpoint, found, "component", None)}
    if by not in groupings:
        groupings[by] = _records(checkpoint, found, by, depth)
    return {
        **head(checkpoint),
        "params": {
            "total": found.total,
            "active": found.active,
            "embedding": found.embedding,
            "non_embedding": found.non_embedding,
        },
        "buffers": {"total": found.buffers},
        "tied": {"total": found.tied},
        "stored": {"tensors": found.tensors, "elements": found.elements, "bytes": found.bytes},
        "dtypes": [
            {"dtype": s.name, "tensors": s.tensors, "elements": s.elements, "bytes": s.bytes}
            for s in found.dtypes
        ],
        **{f"{name}s": records for name, records in groupings.items()},
        "schemes": [{"scheme": name, "weights": count} for name, count in checkpoint.schemes.items()],
        **tail(checkpoint),
    }


def _records(checkpoint: Checkpoint, found: StoredCount, by: str, depth: int | None) -> list[dict[str, Any]]:
    if by == "component":
        rows = [(s.name, s.params, s.elements, s.bytes) for s in found.shares]
    else:
        rows = _grouped(checkpoint.logical.weights, by, depth)
    return [
        {
            by: name,
            "params": params,
            "share": params / found.total if found.total else 0.0,
            "formula": None,
            "elements": elements,
            "bytes": bytes_,
        }
        for name, params, elements, bytes_ in rows
    ]


def _grouped(weights: list[Weight], by: str, depth: int | None) -> list[tuple[str, int, int, int]]:
    sums: dict[str, list[int]] = {}
    for weight in weights:
        if weight.kind == "param" and weight.tied_to is None:
            found = sums.setdefault(group(weight.name, by, depth), [0, 0, 0])
            found[0] += weight.params
            found[1] += weight.stored.elements
            found[2] += weight.stored.bytes
    return [(name, *values) for name, values in sums.items()]  # type: ignore[misc]


def group(name: str, by: str, depth: int | None) -> str:
    """The group of a tensor: layers keep their index, modules and tensors of equal layers are one.

    >>> group("model.layers.3.mlp.up_proj.weight", "module", None)
    'model.layers.*.mlp.up_proj'
    >>> group("model.layers.3.mlp.up_proj.weight", "layer", None)
    'model.layers.3'
    """
    steps = name.split(".")
    if by == "layer":
        index = next((i for i, step in enumerate(steps) if step.isdigit()), None)
        return ".".join(steps[: index + 1] if index is not None else steps[:-1]) or name
    joined: list[str] = []
    for step in steps[:-1] if by == "module" else steps:
        if step.isdigit() and joined:
            joined[-1] += ".*"
        else:
            joined.append(step)
    return ".".join(joined[:depth] if depth and by == "module" else joined) or name


def _table(checkpoint: Checkpoint, found: StoredCount, by: str, depth: int | None) -> Table:
    records = _records(checkpoint, found, by, depth)
    rows = [
        (
            printable(r[by]),
            f"{r['params']:,}",
            units.share(r["params"], found.total),
            f"{r['elements']:,}",
            f"{r['bytes']:,}",
        )
        for r in records
    ]
    total = [sum(r[key] for r in records) for key in ("params", "elements", "bytes")]
    rows.append(("total", f"{total[0]:,}", "", f"{total[1]:,}", f"{total[2]:,}"))
    return Table(
        (by, "params", "share", "stored elements", "bytes"), rows, numbers=(1, 2, 3, 4), records=records
    )


def _below(checkpoint: Checkpoint, found: StoredCount) -> list[str]:
    partial = "" if checkpoint.complete else "  known so far; not all is here, or not all is clear"
    active = (
        "unknown: no configuration says how many experts" if found.active is None else f"{found.active:,}"
    )
    same = "  (every parameter)" if found.active == found.total else ""
    lines = [
        f"total          {found.total:>18,}  ({units.count(found.total)}){partial}",
        f"active         {active:>18}{same}",
        f"non-embedding  {found.non_embedding:>18,}",
    ]
    if found.tied:
        lines.append(f"tied           {found.tied:>18,}  share the storage of another tensor")
    if found.buffers:
        lines.append(f"buffers        {found.buffers:>18,}  stored and not learned, not in the total")
    if found.helpers:
        names = ", ".join(found.helpers)
        lines.append(f"beside them    {sum(found.helpers.values()):>18,}  elements not in the total: {names}")
    lines += [
        f"stored         {found.bytes:>18,}  bytes of {_number(found.tensors, 'tensor')} in "
        f"{_number(len(checkpoint.contents.files), 'file')} "
        f"({units.size(found.bytes)}, {units.size(found.bytes, binary=True)})",
        "",
        *(
            f"{s.name:<14} {s.bytes:>18,}  bytes of {_number(s.elements, 'element')} in "
            f"{_number(s.tensors, 'tensor')}"
            for s in found.dtypes
        ),
    ]
    return lines


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _index_alone(checkpoint: Checkpoint) -> Report:
    """An index of which no file is here: what it states, read at several widths."""
    total = checkpoint.stated.get("total_size", 0)
    readings = [(f"{width} bytes each" if width > 1 else "1 byte each", total // width) for width in WIDTHS]
    if "total_parameters" in checkpoint.stated:
        readings.insert(0, ("as the index states", checkpoint.stated["total_parameters"]))
    records = [{"reading": name, "params": params} for name, params in readings]
    tensors = sum(m.tensors or 0 for m in checkpoint.missing)

    def document() -> dict[str, Any]:
        return {
            **head(checkpoint),
            "params": {"total": None, "active": None, "embedding": None, "non_embedding": None},
            "stored": {"tensors": tensors, "elements": None, "bytes": total},
            "components": [],
            "readings": records,
            **tail(checkpoint),
        }

    def view() -> View:
        return View(
            table=Table(
                ("if elements take", "params"),
                [(name, f"{params:,}") for name, params in readings],
                numbers=(1,),
                records=records,
            ),
            above=[f"{checkpoint.name}  (an index; none of its {len(checkpoint.missing):,} files is here)"],
            below=[
                f"It names {tensors:,} tensors and states {total:,} bytes; their shapes are in the files."
            ],
            notes=checkpoint.remarks,
        )

    return Report("unknown", document, view, 1, talk(checkpoint))
