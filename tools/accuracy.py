"""Write docs/coverage.md: how many measured rows of each model type sizer equals.

    python tools/accuracy.py

A row is a class of transformers built from one configuration on the meta device; equal means its
total, trainable total, every name and shape in both layouts, every tie and every buffer.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "architectures")]

from test_seeing_rows import ROWS as SEEING  # noqa: E402
from test_transformers_rows import ROWS, test_a_class_is_what_transformers_builds  # noqa: E402

OUT = ROOT / "docs" / "coverage.md"
# What a kind of class of transformers is called in the table, and one that is of several kinds
# counts as the first of them.
KINDS = {
    "vlm": "images and text to text",
    "speech_seq2seq": "sound to text",
    "ctc": "sound to letters",
    "image_cls": "classes of images",
    "detection": "objects in images",
    "pretraining": "before training",
    "base": "no head",
}


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
    lines = [*text_lines(equal, total, classes, disputed), *seeing_lines()]
    OUT.write_text("\n".join(lines) + "\n")


def is_equal(row: dict[str, Any]) -> bool:
    """Whether a row is equal, files included; a type without a reader is not."""
    if "config" not in row:
        return False
    try:
        test_a_class_is_what_transformers_builds(row)
    except AssertionError as error:
        print(f"{row['model_type']} {row['cls']} {row['variant']}: {str(error)[:80]}", file=sys.stderr)
        return False
    return True


def seeing_lines() -> list[str]:
    """The other kinds: how many classes are equal in every row, by kind, and which types are read."""
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    kinds: dict[tuple[str, str], set[str]] = {}
    for row in SEEING:
        key = (row["model_type"], row["cls"])
        found[key].append(is_equal(row))
        kinds.setdefault(key, set()).update(row["kinds"])
    by_kind: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    by_type: dict[str, list[bool]] = defaultdict(list)
    for key, rows in found.items():
        kind = next((kind for kind in KINDS if kind in own_kinds(key[1], kinds[key])), "base")
        by_kind[kind].append(all(rows))
        by_type[key[0]].append(all(rows))
    classes = [one for rows in by_kind.values() for one in rows]
    read = sorted({row["model_type"] for row in SEEING if "config" in row})
    missing = sorted(set(by_type) - set(read))
    return [
        "",
        "# Models that see or hear",
        "",
        f"{sum(classes)} of {len(classes)} measured classes of {len(by_type)} model types are equal in all "
        "their rows; `tests/architectures/test_seeing_rows.py` holds them.",
        "A class without a reader is refused by name, and counted with `--with torch`.",
        "",
        "| kind | classes | equal |",
        "| --- | ---: | ---: |",
        *(f"| {KINDS[kind]} | {len(rows)} | {sum(rows)} |" for kind, rows in by_kind.items() if rows),
        "",
        f"Types read: {', '.join(read)}.",
        "",
        f"Not read yet: {', '.join(missing)}.",
    ]


def own_kinds(cls: str, kinds: set[str]) -> set[str]:
    """The kinds of a class; a row has those of its type, of which "base" is that of a bare model."""
    return {"base"} if cls.endswith(("Model", "Encoder", "VQVAE")) else kinds - {"base"}


def text_lines(
    equal: dict[str, int], total: dict[str, int], classes: dict[str, set[str]], disputed: dict[str, int]
) -> list[str]:
    """The table of text models."""
    return [
        "# Text models of transformers, type by type",
        "",
        f"{sum(equal.values())} of {len(ROWS)} measured rows of {len(total)} model types are equal: totals, "
        "names and shapes in both layouts, ties, buffers.",
        "The rows were read off transformers 5.24 and torch 2.13 on the meta device; the file is written by "
        "`tools/accuracy.py`, and `tests/architectures/test_transformers_rows.py` holds every row.",
        "Disputed rows are those where transformers 4 and 5 build different models from one configuration; "
        "there the published checkpoint's total, or that of the version that wrote the file, is right.",
        "",
        "| model type | classes | rows | equal | disputed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ] + [
        f"| {name} | {len(classes[name])} | {total[name]} | {equal[name]} | {disputed[name] or ''} |"
        for name in sorted(total)
    ]


if __name__ == "__main__":
    main()
