"""Write docs/derive-coverage.md: for which text model types of transformers a formula is derived.

    nice python tools/derive_coverage.py ROWS.jsonl [--processes N] [TYPE …]

Rows are added to ROWS.jsonl as they come. Those that are there already are not derived again, but for
types that are named and types that the time limit stopped. The page says how many types have no row
yet. Seconds are of the processor, so that a busy machine does not change them.

Each of the model types of docs/coverage.md is derived from its class alone, under its configuration's
defaults, and compared with the module at twenty random configurations that the derivation has not seen.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
ROWS = ROOT / "tests" / "fixtures" / "transformers.jsonl.gz"
OUT = ROOT / "docs" / "derive-coverage.md"
TIMEOUT = 400.0
CHECKS = 20
# How the error of a derivation begins that ran out of time.
STOPPED = "no formula after"


@cache
def classes() -> dict[str, tuple[str, dict[str, Any]]]:
    """A class of each model type, the first that was measured, and the configuration it had."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    with gzip.open(ROWS, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            found.setdefault(row["model_type"], (row["cls"], row["config"]))
    return found


def outcome(entry: tuple[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The formula of one class, or why there is none."""
    import transformers

    from sizer.errors import SizerError
    from sizer.oracles.derive.derive import derive
    from sizer.oracles.derive.proof import disagreements

    model_type, (cls, config) = entry
    getattr(transformers, cls, None)  # imported before the clock starts
    begun = time.process_time()
    found: dict[str, Any] = {"model_type": model_type, "cls": cls}
    try:
        try:
            closed = derive(f"transformers:{cls}", timeout=TIMEOUT, checks=CHECKS)
        except SizerError as refusal:
            # Some classes have defaults that they cannot build; then from the configuration measured.
            if not any(said in str(refusal) for said in ("cannot be built", "refuses these values")):
                raise
            given = _fields(getattr(transformers, cls).config_class, config)
            closed = derive(f"transformers:{cls}", given, timeout=TIMEOUT, checks=CHECKS)
            found["given"] = True
        found |= {
            "without_effect": closed.without_effect,
            "differs": len(disagreements(closed, points=CHECKS)),
            "points": closed.checked.points,
            "bound": closed.checked.bound,
            "fixed": [f"{f.letter} = {f.value}" for f in closed.fixed],
            "total": closed.total.text(ascii_only=True),
        }
    except SizerError as error:
        found["error"] = str(error)
    except Exception as error:
        found["error"] = f"BUG {type(error).__name__}: {error}"
    return {**found, "seconds": time.process_time() - begun}


def _fields(kind: Any, config: dict[str, Any]) -> dict[str, Any]:
    """What a configuration says of the fields that its class declares, in the configurations inside too."""
    from sizer.oracles.derive.hugging import NOT_ARGUMENTS

    known = {f.name for f in dataclasses.fields(kind)} - NOT_ARGUMENTS
    inner = getattr(kind, "sub_configs", None) or {}
    kept = {key: value for key, value in config.items() if key in known}
    for key in inner.keys() & kept.keys():
        if dataclasses.is_dataclass(inner[key]) and isinstance(kept[key], dict):
            kept[key] = _fields(inner[key], kept[key])
        else:
            del kept[key]
    return kept


def main() -> None:
    """Derive every type that has no row yet, and write the table."""
    options = argparse.ArgumentParser()
    options.add_argument("file", type=Path)
    options.add_argument("types", nargs="*")
    options.add_argument("--processes", type=int, default=2)
    options = options.parse_intermixed_args()
    # Imported once, for all processes that are made of this one.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers.modeling_utils  # noqa: F401

    wanted = classes()
    rows = _rows(options.file)
    finished = {name for name, row in rows.items() if STOPPED not in row.get("error", "")}
    chosen = set(options.types) or wanted.keys() - finished
    missing = [entry for entry in sorted(wanted.items()) if entry[0] in chosen]
    with ProcessPoolExecutor(options.processes) as pool, options.file.open("a") as out:
        for row in as_completed(pool.submit(outcome, entry) for entry in missing):
            print(json.dumps(row.result()), file=out, flush=True)
    rows = _rows(options.file)
    OUT.write_text(page([rows[name] for name in sorted(wanted) if name in rows], len(wanted)))


def _rows(file: Path) -> dict[str, dict[str, Any]]:
    """The rows of a file by type, the last of each."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {row["model_type"]: row for row in map(json.loads, lines)}


def page(rows: list[dict[str, Any]], wanted: int) -> str:
    """The table as Markdown."""
    good = [row for row in rows if "error" not in row]
    stopped = [row for row in rows if STOPPED in row.get("error", "")]
    refused = len(rows) - len(good) - len(stopped)
    seconds = sorted(row["seconds"] for row in good if row["seconds"] is not None)
    proved = [row for row in good if "differs" in row]
    lines = [
        "# Text models of transformers, derived from their modules",
        "",
        f"{len(good)} of {len(rows)} model types that were tried have a formula that is equal to the module, "
        f"by shapes, at {CHECKS} random configurations that its derivation had not seen, and at the class's "
        f"defaults; {refused} have none.",
        *([f"{len(stopped)} were stopped by a limit of time."] if stopped else []),
        f"Half of those with a formula took under {seconds[len(seconds) // 2]:.1f} s of the processor, the "
        f"slowest {seconds[-1]:.0f} s ({len(seconds)} were measured).",
        *(
            [
                f"{sum(not row['differs'] for row in proved)} of {len(proved)} formulas that were compared "
                f"with sizer's own architecture are equal to it at {CHECKS} random configurations of another "
                "draw; BigBird-Pegasus follows its published checkpoint, whose head is tied."
            ]
            if proved
            else []
        ),
        "`tools/derive_coverage.py` writes this page and goes on where it was stopped. Fixed arguments keep "
        "their values in the formula.",
        *(
            [f"{wanted - len(rows)} of the {wanted} types have not been tried yet."]
            if len(rows) < wanted
            else []
        ),
        "",
        "| model type | class | seconds | fixed, or why there is no formula |",
        "| --- | --- | ---: | --- |",
    ]
    for row in rows:
        if STOPPED in row.get("error", ""):
            said = f"**stopped** {row['error'][row['error'].index(STOPPED) :].partition(';')[0]}"
        else:
            said = f"**none:** {row['error']}" if "error" in row else ", ".join(row["fixed"])
        if row.get("differs"):
            said += f" Differs from sizer's own at {row['differs']} of {CHECKS} configurations."
        # Every configuration counts labels, whatever its model's head is.
        idle = [name for name in row.get("without_effect", []) if not name.endswith("num_labels")]
        if idle:
            said += f" Without effect: {', '.join(idle)}."
        if row.get("given"):
            said = f"from a measured configuration, since the defaults cannot be built. {said}".strip()
        lines.append(
            f"| {row['model_type']} | {row['cls']} | {_seconds(row)} | {said.strip().replace('|', '/')} |"
        )
    return "\n".join(lines) + "\n"


def _seconds(row: dict[str, Any]) -> str:
    return "" if row["seconds"] is None else f"{row['seconds']:.1f}"


if __name__ == "__main__":
    main()
