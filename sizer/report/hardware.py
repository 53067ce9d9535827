"""`sizer hardware`: which accelerators are known by name, and what is known of each."""

from __future__ import annotations

from typing import Any

from sizer import __version__, units
from sizer.planning.hardware import Accelerator, hardware, hardwares
from sizer.report.report import Report, Table, View

# Types of numbers in the order in which a table shows them.
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")


def listing(
    *,
    vendor: str | None = None,
    search: str | None = None,
    least_memory: int = 0,
    hardware_file: str | None = None,
    explain: bool = False,
) -> Report:
    """The accelerators, of one vendor, with a word in their name, or with that much usable memory."""
    found = hardwares(vendor)
    if hardware_file is not None:
        from sizer.planning.hardware_file import read

        own = read(hardware_file)
        found = [*(one for one in own if vendor is None or one.vendor.lower() == vendor.lower()), *found]
    found = [
        one
        for one in found
        if (search is None or search.lower() in " ".join((one.name, *one.aliases)).lower())
        and one.usable_bytes >= least_memory
    ]

    def document() -> dict[str, Any]:
        return {"sizer_version": __version__, "hardware": [record(one) for one in found]}

    def view() -> View:
        if not found:
            return View(below=["no accelerator matches"])
        rows = [
            (
                one.name,
                one.vendor,
                f"{one.memory_gb:g} GB",
                f"{one.usable_bytes / 2**30:.1f} GiB" + ("" if one.usable_label == "measured" else " est."),
                _rate(one.bandwidth_bytes_per_s),
                _tera(one.peak.get("bf16") or one.peak.get("fp16")),
                "–" if one.watts is None else f"{one.watts:g} W",
            )
            for one in found
        ]
        headers = ("name", "vendor", "memory", "usable", "bandwidth", "16-bit dense", "power")
        said = [f"{one.name}: {'; '.join([*one.sources, *one.notes])} ({one.date})" for one in found]
        table = Table(headers, rows, (2, 3, 4, 5, 6), [_flat(one) for one in found])
        return View(table, below=said if explain else [])

    return Report("\n".join(one.name for one in found), document, view)


def shown(name: str, *, hardware_file: str | None = None, explain: bool = False) -> Report:
    """One accelerator: every value, its source, and where tables disagree."""
    one = hardware(name, file=hardware_file)

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            **record(one),
            "values": explained(one),
            "assumptions": list(one.notes),
            "sources": list(one.sources),
        }

    def view() -> View:
        peaks = [
            (f"{dtype} dense", _tera(one.peak.get(dtype)), _sparse(one, dtype))
            for dtype in DTYPES
            if dtype in one.peak or dtype in one.sparse
        ]
        link, network = one.link_bytes_per_s, one.network_bytes_per_s
        rows = [
            ("memory", f"{one.memory_gb:g} GB", one.memory),
            ("usable", f"{one.usable_bytes / 2**30:.2f} GiB", one.usable_label),
            ("bandwidth", _rate(one.bandwidth_bytes_per_s), "of the memory"),
            *peaks,
            ("power", "–" if one.watts is None else f"{one.watts:g} W", one.form),
            ("a node", "–" if one.node_gpus is None else f"{one.node_gpus:,}", "joined by the link"),
            ("link", _rate(link), "–" if link is None else f"each way; {_rate(2 * link)} both"),
            ("network", _rate(network), "each way, of one accelerator"),
        ]
        if explain:
            return _explanation(one)
        return View(
            Table(("field", "value", "what"), rows, (1,), [_flat(one)]),
            above=[f"{one.name}  ({one.vendor})"],
            below=[*one.notes, *(f"source: {line}" for line in one.sources), f"entered {one.date}"],
        )

    return Report(str(one.usable_bytes), document, view)


def explained(one: Accelerator) -> list[dict[str, Any]]:
    """Each value that is known: exactly, its source, its date, and what other tables say."""
    plain: dict[str, tuple[str, Any]] = {
        "memory": ("bytes", one.memory_bytes),
        "usable": ("bytes", one.usable_bytes),
        "bandwidth": ("bytes/s", one.bandwidth_bytes_per_s),
        **{f"{dtype} dense": ("FLOP/s", one.peak.get(dtype)) for dtype in DTYPES},
        **{f"{dtype} sparse": ("FLOP/s", one.sparse.get(dtype)) for dtype in DTYPES},
        "power": ("W", one.watts),
        "a node": ("accelerators", one.node_gpus),
        "link": ("bytes/s each way", one.link_bytes_per_s),
        "network": ("bytes/s each way", one.network_bytes_per_s),
        "price": ("an hour", one.price_per_hour),
    }
    source, usable = one.sources[0], one.sources[-1].removeprefix("usable memory: ")
    return [
        {
            "field": field,
            "value": value,
            "unit": unit,
            "source": usable if field == "usable" else source,
            "date": one.date,
            "otherwise": [note for note in one.notes if _about(note, field)],
        }
        for field, (unit, value) in plain.items()
        if value is not None
    ]


def _about(note: str, field: str) -> bool:
    """Whether a note is about a value: it begins with its name, of a peak with the type of number."""
    return note.partition(":")[0] in (field, field.partition(" ")[0])


def _explanation(one: Accelerator) -> View:
    values = explained(one)
    sources = list(dict.fromkeys(value["source"] for value in values))
    rows = []
    for v in values:
        place = f"{sources.index(v['source']) + 1}" + (", and others differ" if v["otherwise"] else "")
        rows.append((v["field"], f"{v['value']:,}", v["unit"], v["date"], place))
    numbered = [f"{i}: {source}" for i, source in enumerate(sources, 1)]
    return View(
        Table(("field", "value", "unit", "entered", "source"), rows, (1,), values),
        above=[f"{one.name}  ({one.vendor})"],
        below=[*numbered, *one.notes],
    )


def record(one: Accelerator) -> dict[str, Any]:
    """One accelerator as JSON; bytes and operations a second are whole numbers."""
    return {
        "name": one.name,
        "vendor": one.vendor,
        "aliases": list(one.aliases),
        "memory": one.memory,
        "memory_gb": one.memory_gb,
        "memory_bytes": one.memory_bytes,
        "usable_bytes": one.usable_bytes,
        "usable_label": one.usable_label,
        "bandwidth_bytes_per_s": one.bandwidth_bytes_per_s,
        "peak_flops_per_s": dict(one.peak),
        "sparse_flops_per_s": dict(one.sparse),
        "watts": one.watts,
        "form": one.form,
        "node_gpus": one.node_gpus,
        "link_bytes_per_s": one.link_bytes_per_s,
        "network_bytes_per_s": one.network_bytes_per_s,
        "price_per_hour": one.price_per_hour,
        "date": one.date,
        "sources": list(one.sources),
        "notes": list(one.notes),
    }


def _flat(one: Accelerator) -> dict[str, Any]:
    plain = {name: value for name, value in record(one).items() if not isinstance(value, list | dict)}
    return plain | {f"{dtype}_flops_per_s": one.peak.get(dtype) for dtype in DTYPES}


def _rate(number: int | None) -> str:
    return "–" if number is None else f"{units.size(number)}/s"


def _tera(number: int | None) -> str:
    return "–" if number is None else f"{number / 10**12:,.4g} TFLOP/s"


def _sparse(one: Accelerator, dtype: str) -> str:
    return f"{_tera(one.sparse[dtype])} with sparsity" if dtype in one.sparse else ""
