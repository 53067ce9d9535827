"""Write docs/derive-coverage.md: for which text model types of transformers a formula is derived.

    nice python tools/derive_coverage.py [--only TYPE,TYPE]

Each of the model types of docs/coverage.md is derived from its class alone, under its configuration's
defaults, and compared with the module at twenty random configurations that the derivation has not seen.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
ROWS = ROOT / "tests" / "fixtures" / "transformers.jsonl.gz"
OUT = ROOT / "docs" / "derive-coverage.md"
TIMEOUT = 120.0
CHECKS = 20


def classes() -> dict[str, str]:
    """A class of each model type: the first that was measured."""
    found: dict[str, str] = {}
    with gzip.open(ROWS, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            found.setdefault(row["model_type"], row["cls"])
    return found


def outcome(entry: tuple[str, str]) -> dict[str, Any]:
    """The formula of one class, or why there is none."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    from sizer.errors import SizerError
    from sizer.oracles.derive.derive import derive

    model_type, cls = entry
    getattr(transformers, cls, None)  # imported before the clock starts
    begun = time.monotonic()
    found: dict[str, Any] = {"model_type": model_type, "cls": cls}
    try:
        closed = derive(f"transformers:{cls}", timeout=TIMEOUT, checks=CHECKS)
        found |= {
            "points": closed.checked.points,
            "bound": closed.checked.bound,
            "fixed": [f"{f.letter} = {f.value}" for f in closed.fixed],
            "total": closed.total.text(ascii_only=True),
        }
    except SizerError as error:
        found["error"] = str(error)
    except Exception as error:
        found["error"] = f"BUG {type(error).__name__}: {error}"
    return {**found, "seconds": time.monotonic() - begun}


def main() -> None:
    """Derive every type and write the table."""
    chosen = sys.argv[sys.argv.index("--only") + 1].split(",") if "--only" in sys.argv else None
    entries = [e for e in sorted(classes().items()) if chosen is None or e[0] in chosen]
    begun = time.monotonic()
    rows = []
    with ProcessPoolExecutor(2, max_tasks_per_child=40) as pool:
        for row in pool.map(outcome, entries):
            rows.append(row)
            print(json.dumps(row), flush=True)
    minutes = (time.monotonic() - begun) / 60
    if chosen is None:
        OUT.write_text(page(rows, minutes))


def page(rows: list[dict[str, Any]], minutes: float) -> str:
    """The table as Markdown."""
    good = [row for row in rows if "error" not in row]
    seconds = sorted(row["seconds"] for row in good)
    lines = [
        "# Text models of transformers, derived from their modules",
        "",
        f"{len(good)} of {len(rows)} model types have a formula that is equal to the module, shape by shape, at "
        f"{CHECKS} random configurations that its derivation had not seen, and at the class's defaults.",
        f"Half of them take under {seconds[len(seconds) // 2]:.0f} s, the slowest {seconds[-1]:.0f} s; all took "
        f"{minutes:.0f} minutes in two processes.",
        "The file is written by `tools/derive_coverage.py`. Fixed are arguments that the formula does not vary.",
        "",
        "| model type | class | seconds | fixed, or why there is no formula |",
        "| --- | --- | ---: | --- |",
    ]
    for row in rows:
        said = row["error"] if "error" in row else ", ".join(row["fixed"])
        lines.append(f"| {row['model_type']} | {row['cls']} | {row['seconds']:.0f} | {said.replace('|', '/')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
