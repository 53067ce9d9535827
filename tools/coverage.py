"""Write docs/coverage.md: how many measured rows of each text model type sizer equals.

    python tools/coverage.py

A row is a class of transformers built from one configuration on the meta device; equal means its
total, trainable total, every name and shape in both layouts, every tie and every buffer.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "architectures")]

from test_transformers_rows import ROWS, test_a_class_is_what_transformers_builds  # noqa: E402

OUT = ROOT / "docs" / "coverage.md"


def main() -> None:
    """Compare every row and write the table."""
    equal: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    classes: dict[str, set[str]] = defaultdict(set)
    disputed: dict[str, int] = defaultdict(int)
    for row in ROWS:
        name = row["model_type"]
        total[name] += 1
        classes[name].add(row["cls"])
        disputed[name] += "disputed" in row
        try:
            test_a_class_is_what_transformers_builds(row)
            equal[name] += 1
        except AssertionError as error:
            print(f"{name} {row['cls']} {row['variant']}: {str(error)[:80]}", file=sys.stderr)
    lines = [
        "# Text models of transformers, type by type",
        "",
        f"{sum(equal.values())} of {len(ROWS)} measured rows of {len(total)} model types are equal: totals, "
        "names and shapes in both layouts, ties, buffers.",
        "The rows were read off transformers 5.24 and torch 2.13 on the meta device; the file is written by "
        "`tools/coverage.py`, and `tests/architectures/test_transformers_rows.py` holds every row.",
        "Disputed rows are those where transformers 4 and 5 build different models from one configuration; "
        "there the published checkpoint's total, or that of the version that wrote the file, is right.",
        "",
        "| model type | classes | rows | equal | disputed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {name} | {len(classes[name])} | {total[name]} | {equal[name]} | {disputed[name] or ''} |"
        for name in sorted(total)
    ]
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
