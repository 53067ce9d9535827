"""`sizer size`: the bytes of a checkpoint that does not exist yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sizer import units
from sizer.errors import UnknownName
from sizer.measures.count import COMPONENTS
from sizer.measures.size.stored import PARTS
from sizer.model import Model
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

if TYPE_CHECKING:
    from sizer.measures.size.result import Size

UNITS = ("auto", "bytes", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")


def report(
    model: Model,
    *,
    quant: str = "none",
    container: str | None = None,
    group_size: int | None = None,
    dtype: str = "bf16",
    skip: Sequence[str] = (),
    quantize: Sequence[str] = (),
    max_shard_size: str | int = "50GB",
    metadata_bytes: int = 0,
    pure: bool = False,
    imatrix: bool = False,
    tensors: bool = False,
    unit: str = "auto",
) -> Report:
    """Bytes by component and stored type, or every stored tensor with `tensors`."""
    if unit not in UNITS:
        raise UnknownName("unit", unit, UNITS, hint=f"known are {', '.join(UNITS)}")
    found = model.size(
        quant=quant,
        container=container,
        group_size=group_size,
        dtype=dtype,
        skip=skip,
        quantize=quantize,
        max_shard_size=max_shard_size,
        metadata_bytes=metadata_bytes,
        pure=pure,
        imatrix=imatrix,
    )
    if tensors:
        return _listed(model, found)
    told = [*found.assumptions, *(f"source: {source}" for source in found.sources)]

    def view() -> View:
        return View(
            table=_table(found, unit),
            above=[
                f"{model.name}  ({model.architecture}), {found.quant} in {found.container}: {found.label}"
            ],
            below=_below(found, unit),
            notes=[*notes(model), *told],
        )

    return Report(
        str(found.bytes),
        lambda: _document(model, found),
        view,
        talk=[f"warning: {text}" for text in found.warnings],
    )


def _document(model: Model, found: Size) -> dict[str, Any]:
    return {
        **head(model),
        "quant": found.quant,
        "container": found.container,
        "bytes": found.bytes,
        **{f"{part}_bytes": found.parts.get(part, 0) for part in PARTS},
        "header_bytes": found.header_bytes,
        "index_bytes": found.index_bytes,
        "padding_bytes": found.padding_bytes,
        "metadata_bytes": found.metadata_bytes,
        "files": [
            {
                "name": file.name,
                "bytes": file.bytes,
                "header_bytes": file.header_bytes,
                "tensors": file.tensors,
            }
            for file in found.files
        ],
        "stored": [record for _, record in _shares(found)],
        "params": found.params,
        "bits_per_weight": found.bits_per_weight,
        "ratio_to_bf16": found.bytes / (2 * found.params),
        "label": found.label,
        "warnings": list(found.warnings),
        "assumptions": [*model.assumptions, *found.assumptions],
        "sources": [*model.sources, *found.sources],
    }


def _shares(found: Size) -> list[tuple[tuple[int, int, int], dict[str, Any]]]:
    """A record for each component, part and type, in the order of the forward pass."""
    order = {name: i for i, name in enumerate((*COMPONENTS, "buffers"))}
    records = []
    for (component, part, dtype), (count, n_bytes) in found.shares.items():
        place = (order.get(component, len(order)), PARTS.index(part), -n_bytes)
        record = {"component": component, "part": part, "dtype": dtype, "tensors": count, "bytes": n_bytes}
        records.append((place, record))
    return sorted(records, key=lambda item: item[0])


def _table(found: Size, unit: str) -> Table:
    records = [record for _, record in _shares(found)]
    rows = [
        (
            record["component"],
            record["part"],
            record["dtype"],
            f"{record['tensors']:,}",
            f"{record['bytes']:,}" if unit in ("auto", "bytes") else units.in_unit(record["bytes"], unit),
            units.share(record["bytes"], found.bytes),
        )
        for record in records
    ]
    headers = ("component", "stored", "type", "tensors", "bytes", "share")
    return Table(headers, rows, numbers=(3, 4, 5), records=records)


def _below(found: Size, unit: str) -> list[str]:
    count = len(found.files)
    lines = [
        (f"header{'s' if count > 1 else ''}", found.header_bytes, f"{count:,} file{'s' if count > 1 else ''}")
    ]
    if found.index_bytes:
        lines.append(("index", found.index_bytes, "model.safetensors.index.json"))
    if found.container == "gguf":
        lines.append(("padding", found.padding_bytes, "between tensors"))
        lines.append(("keys", found.metadata_bytes, "tokenizer and the rest: not known, --metadata-bytes"))
    lines.append(("total", found.bytes, units.both(found.bytes, unit)))
    bits = f"{'bits per weight':<18} {found.bits_per_weight:>22.4f}"
    return [
        *(f"{name:<18} {number:>22,}  ({what})" for name, number, what in lines),
        f"{bits}  ({units.share(found.bytes, 2 * found.params)} of bf16)",
    ]


def _listed(model: Model, found: Size) -> Report:
    """Every stored tensor; as JSON one object a line."""

    def records() -> Iterator[dict[str, Any]]:
        for tensor in found.tensors():
            yield {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "dtype": tensor.dtype,
                "bytes": tensor.bytes,
                "part": tensor.part,
                "component": tensor.component,
            }

    def view() -> View:
        listed = list(records())
        rows = [
            (r["name"], f"[{', '.join(map(str, r['shape']))}]", r["dtype"], f"{r['bytes']:,}", r["part"])
            for r in listed
        ]
        plain = [{**r, "shape": "×".join(map(str, r["shape"]))} for r in listed]
        return View(
            table=Table(("name", "shape", "type", "bytes", "stored"), rows, numbers=(3,), records=plain),
            above=[
                f"{model.name}  ({model.architecture}), {found.quant} in {found.container}: {found.label}"
            ],
            notes=notes(model),
        )

    talk = [f"warning: {text}" for text in found.warnings]
    return Report(str(sum(file.tensors for file in found.files)), records, view, talk=talk)
