"""The accelerators that are known by name: one TOML file a vendor, each value with source and date.

Vendors write GB and mean 2³⁰ bytes for memory; `usable_bytes` is what a program can have of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownName
from sizer.sources.presets import directory, plain_toml

GIB = 2**30
# Words in front of a name that tell nothing apart: "NVIDIA GeForce RTX 4090" is "rtx-4090".
_MAKERS = ("nvidia", "amd", "intel", "google", "apple", "tesla", "geforce", "instinct", "cloud")


class Accelerator(Record):
    """One accelerator.

    `memory_bytes`: the vendor's figure. `usable_bytes`: what a program sees of it, measured or, where
    `usable_label` says so, an estimate. `peak`, `sparse`: FLOP/s by type of number, dense and with
    structured sparsity. `link_bytes_per_s`: one way, to all neighbours together, inside a node of
    `node_gpus`; `network_bytes_per_s`: one way, out of the node, for one accelerator. `None`: not known.
    """

    __slots__ = (
        "aliases",
        "bandwidth_bytes_per_s",
        "date",
        "form",
        "link_bytes_per_s",
        "memory",
        "memory_bytes",
        "memory_gb",
        "name",
        "network_bytes_per_s",
        "node_gpus",
        "notes",
        "peak",
        "price_per_hour",
        "sources",
        "sparse",
        "usable_bytes",
        "usable_label",
        "vendor",
        "watts",
    )

    def __init__(
        self,
        name: str,
        vendor: str,
        memory_gb: float,
        memory_bytes: int,
        usable_bytes: int,
        usable_label: str,
        bandwidth_bytes_per_s: int | None,
        peak: Mapping[str, int],
        sparse: Mapping[str, int],
        watts: float | None = None,
        memory: str = "",
        form: str = "",
        node_gpus: int | None = None,
        link_bytes_per_s: int | None = None,
        network_bytes_per_s: int | None = None,
        price_per_hour: float | None = None,
        aliases: tuple[str, ...] = (),
        sources: tuple[str, ...] = (),
        date: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.vendor = vendor
        self.memory_gb = memory_gb
        self.memory_bytes = memory_bytes
        self.usable_bytes = usable_bytes
        self.usable_label = usable_label
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.peak = peak
        self.sparse = sparse
        self.watts = watts
        self.memory = memory
        self.form = form
        self.node_gpus = node_gpus
        self.link_bytes_per_s = link_bytes_per_s
        self.network_bytes_per_s = network_bytes_per_s
        self.price_per_hour = price_per_hour
        self.aliases = aliases
        self.sources = sources
        self.date = date
        self.notes = notes

    def __hash__(self) -> int:
        return hash((self.name, self.vendor, self.usable_bytes))

    def need(self, field: str) -> Any:
        """A value that an answer cannot do without.

        >>> hardware("h100-sxm").need("network_bytes_per_s")
        50000000000
        """
        value = getattr(self, field)
        if value is None:
            raise InvalidConfig(
                f"{self.name}: {field} is not known, and this answer needs it; "
                f"give it in a file of your own (--hardware-file)"
            )
        return value

    def flops_per_s(self, dtype: str, *, sparse: bool = False) -> int:
        """The peak for a type of number, dense unless asked for.

        >>> hardware("h100-sxm").flops_per_s("bf16"), hardware("h100-sxm").flops_per_s("bf16", sparse=True)
        (989000000000000, 1979000000000000)
        """
        table = self.sparse if sparse else self.peak
        if dtype not in table:
            known = ", ".join(table) or "none"
            raise InvalidConfig(
                f"{self.name}: its {'sparse' if sparse else 'dense'} peak for {dtype} is not known "
                f"(known: {known}); give it in a file of your own (--hardware-file)"
            )
        return table[dtype]


def hardware(name: str, *, file: str | None = None) -> Accelerator:
    """The accelerator of that name, in any spelling; one of `file`, a user's own, comes first.

    >>> hardware("NVIDIA H100 80GB HBM3").name, hardware("h100").usable_bytes
    ('h100-sxm5-80gb', 84932978278)
    """
    if file is not None:
        from sizer.planning.hardware_file import read

        for one in read(file):
            if key(name) in {key(known) for known in (one.name, *one.aliases)}:
                return one
    index = _index()
    # `A100-80GB-SXM` is `a100-sxm-80gb`: the words in another order.
    found = index.get(key(name)) or index.get(" ".join(sorted(_words(name))))
    if found is None:
        own = [] if file is None else [one.name for one in read(file)]
        known = [*own, *dict.fromkeys(label for _, _, label in index.values())]
        raise UnknownName("accelerator", name, known, hint="sizer hardware list")
    head, table, label = found
    document = plain_toml(f"{head}\n[{table}")
    return next(one for one in accelerators(document) if label in (one.name, *one.aliases))


def hardwares(vendor: str | None = None) -> list[Accelerator]:
    """All that ship with the package, by vendor and in the order of their files.

    >>> len(hardwares()) > 60, hardwares("amd")[0].name
    (True, 'mi100')
    """
    found = []
    for text in _texts():
        found += accelerators(plain_toml(text))
    if vendor is None:
        return found
    vendors = {one.vendor for one in found}
    if vendor.lower() not in {known.lower() for known in vendors}:
        raise UnknownName("vendor", vendor, vendors, hint=", ".join(sorted(vendors)))
    return [one for one in found if one.vendor.lower() == vendor.lower()]


def key(name: str) -> str:
    """A name without what spellings differ in.

    >>> key("NVIDIA GeForce RTX 4090"), key("rtx_4090"), key("H100-SXM5") == key("h100-sxm")
    ('rtx4090', 'rtx4090', True)
    """
    return "".join(_words(name))


def _words(name: str) -> list[str]:
    plain = re.sub(r"[^a-z0-9]+", " ", name[:200].lower())
    words = re.sub(r"sxm\d\b", "sxm", plain).split()
    while len(words) > 1 and words[0] in _MAKERS:
        words = words[1:]
    return words


@cache
def _texts() -> list[str]:
    folder = directory("hardware")
    names = [name for name in os.listdir(folder) if name.endswith(".toml")]
    texts = []
    for name in sorted(names, key=lambda name: (name != "nvidia.toml", name)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            texts.append(file.read())
    return texts


@cache
def _index() -> dict[str, tuple[str, str, str]]:
    """Each spelling: the head of its file, the text of its table, and the name it stands for.

    Only the table that is asked for is parsed.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for text in _texts():
        head, *tables = text.split("\n[")
        for table in tables:
            name = table.partition("]")[0]
            aliases = re.search(r"^aliases = \[(.*)\]$", table, flags=re.M)
            sizes = re.search(r"^memory_options = \[(.*)\]$", table, flags=re.M)
            names = [name, *(re.findall(r'"([^"]*)"', aliases[1]) if aliases else [])]
            names += [f"{name}-{size.strip()}gb" for size in sizes[1].split(",")] if sizes else []
            for one in names:
                found.setdefault(key(one), (head, table, one))
                found.setdefault(" ".join(sorted(_words(one))), (head, table, one))
    return found


def accelerators(document: Mapping[str, Any]) -> list[Accelerator]:
    """Those of a parsed file: what stands above the tables holds for each."""
    shared = {name: value for name, value in document.items() if not isinstance(value, Mapping)}
    found = []
    for name, table in document.items():
        if not isinstance(table, Mapping):
            continue
        values = {**shared, **table}
        found.append(_accelerator(name, values, values["memory_gb"]))
        found += [
            _accelerator(f"{name}-{size}gb", {**values, "aliases": []}, size)
            for size in values.get("memory_options", ())
        ]
    return found


def _accelerator(name: str, values: Mapping[str, Any], memory_gb: float) -> Accelerator:
    memory = round(memory_gb * GIB)
    measured = values.get("usable_gib")
    usable = memory * values["usable_share"] if measured is None else measured * GIB
    sources = [values["source"]]
    if measured is None:
        sources.append(f"usable memory: {values['usable_share']:.1%} of it, an estimate")
    else:
        sources.append(f"usable memory: {values['usable_source']}")
    return Accelerator(
        name,
        values.get("vendor", ""),
        memory_gb,
        memory,
        int(usable),
        "estimate" if measured is None else "measured",
        _rate(values, "bandwidth_gb_s", 10**9),
        {dtype: round(number * 10**12) for dtype, number in values.get("dense_tflops", {}).items()},
        {dtype: round(number * 10**12) for dtype, number in values.get("sparse_tflops", {}).items()},
        values.get("watts"),
        values.get("memory", ""),
        values.get("form", ""),
        values.get("node_gpus"),
        # Vendors print both ways together.
        _rate(values, "link_gb_s", 5 * 10**8),
        _rate(values, "network_gbit_s", 10**9 / 8),
        values.get("price_per_hour"),
        tuple(values.get("aliases", ())),
        tuple(sources),
        str(values.get("date", "")),
        tuple(values.get("notes", ())),
    )


def _rate(values: Mapping[str, Any], name: str, scale: float) -> int | None:
    number = values.get(name)
    return None if number is None else round(number * scale)
