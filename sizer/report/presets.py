"""`sizer presets`: which models are known by name, and what each is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sizer import __version__, units
from sizer.errors import UnknownName, nearest
from sizer.report import report
from sizer.report.report import Report, Table, View
from sizer.sources.presets import Preset, presets


def listing(
    *,
    family: str | None = None,
    kinds: Iterable[str] = (),
    search: str | None = None,
    least: int = 0,
    most: int | None = None,
) -> Report:
    """The presets, of one family, of all the kinds, with a word in their name, or within a range of sizes."""
    if family is not None:
        _check_family(family)
    found = [
        preset
        for preset in presets()
        if (family is None or family in (preset.family, preset.architecture, preset.model_type))
        and set(kinds) <= set(preset.kinds)
        and (search is None or search.lower() in preset.name.lower() or _called(preset, search))
        and least <= preset.expect.get("params", 0)
        and (most is None or preset.expect.get("params", 0) <= most)
    ]

    def document() -> dict[str, Any]:
        return {"sizer_version": __version__, "presets": [_record(preset) for preset in found]}

    def view() -> View:
        if not found:
            near = nearest(search or "", [preset.name for preset in presets()])
            hint = f"; near that: {', '.join(near)}" if near else ""
            return View(below=[f"no preset matches{hint}"])
        # Names and kinds are long: the exact numbers, and names that nobody looks for, are in the documents.
        rows = [
            (
                p.name,
                p.architecture or p.model_type,
                " ".join(p.kinds),
                units.count(p.expect.get("params", 0)),
                ", ".join(_called(p, search)),
            )
            for p in found
        ]
        headers = ("name", "architecture", "kind", "params", "also")
        width = 5 if any(row[4] for row in rows) else 4
        return View(
            Table(headers[:width], [row[:width] for row in rows], (3,), [_record(p) for p in found]),
        )

    return Report("\n".join(preset.name for preset in found), document, view)


def _called(preset: Preset, word: str | None) -> list[str]:
    """The other names of a preset that a word is in."""
    return [name for name in preset.aliases if word is not None and word.lower() in name.lower()]


def _check_family(name: str) -> None:
    known = {word for p in presets() for word in (p.family, p.architecture, p.model_type) if word}
    if name not in known:
        raise UnknownName("family", name, sorted(known), hint="sizer presets list shows the architectures")


def shown(preset: Preset) -> Report:
    """One preset: its sizes, its expected totals, its source."""

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            **_record(preset),
            "config": preset.config,
            "expect": preset.expect,
            "assumptions": list(preset.assumptions),
            "sources": [preset.source],
        }

    def view() -> View:
        rows = [(key, str(value)) for key, value in preset.config.items()]
        return View(
            Table(("field", "value"), rows),
            above=[f"{preset.name}  ({preset.architecture or preset.model_type})"],
            below=[
                *([f"also: {', '.join(preset.aliases)}"] if preset.aliases else []),
                *(
                    f"expected {key}: {value:,}" if isinstance(value, int) else f"{key}: {value}"
                    for key, value in preset.expect.items()
                ),
                *(f"assumed: {line}" for line in preset.assumptions),
                f"source: {preset.source} (checked {preset.date})",
            ],
        )

    return Report(toml(preset), document, view)


def as_config_json(preset: Preset) -> Report:
    """One preset as a `config.json`, whatever the form asked for."""
    from sizer.report.config_json import config_json

    values = config_json(preset)
    text = report.json(values)
    return Report(text, lambda: values, lambda: View(below=[text]))


def toml(preset: Preset) -> str:
    """A preset as a file that `sizer count FILE.toml` reads."""

    def value(item: Any) -> str:
        if isinstance(item, bool):
            return str(item).lower()
        if isinstance(item, list | tuple):
            return f"[{', '.join(map(value, item))}]"
        if isinstance(item, dict):
            return f"{{ {', '.join(f'{key} = {value(below)}' for key, below in item.items())} }}"
        return (
            str(item) if isinstance(item, int | float) else '"' + re.sub(r'(["\\])', r"\\\1", str(item)) + '"'
        )

    lines = [
        f'["{preset.name}"]',
        f"architecture = {value(preset.architecture)}"
        if preset.architecture
        else f"model_type = {value(preset.model_type)}",
        f"source = {value(preset.source)}",
    ]
    lines += [f"cls = {value(preset.cls)}"] if preset.cls else []
    lines += [f"assumptions = {value(preset.assumptions)}"] if preset.assumptions else []
    lines += [f"date = {preset.date}"] if preset.date else []
    lines += [f"config.{key} = {value(item)}" for key, item in preset.config.items()]
    lines += [f"expect.{key} = {value(item)}" for key, item in preset.expect.items()]
    return "\n".join(lines)


def _record(preset: Preset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "family": preset.family,
        "architecture": preset.architecture or preset.model_type,
        "kinds": list(preset.kinds),
        "params": preset.expect.get("params"),
        "aliases": list(preset.aliases),
        "source": preset.source,
        "date": preset.date,
    }
