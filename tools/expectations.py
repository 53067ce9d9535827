"""Write the presets' part of sizer.toml: the totals that each preset's file expects, for `sizer check`.

    python tools/expectations.py [--check]

The part above the line that begins it is written by hand, each figure with its source.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import sizer  # noqa: E402

OUT = ROOT / "sizer.toml"
BEGIN = "# -- every preset, written by tools/expectations.py --\n"


def main(check: bool) -> int:
    """Write the file, or say with 1 that it is not current."""
    before = OUT.read_text()
    by_hand = before.partition(BEGIN)[0]
    parts = [by_hand + BEGIN]
    for preset in sizer.presets():
        expected = {key: preset.expect[key] for key in ("params", "active") if key in preset.expect}
        if expected:
            lines = [f"{key} = {value:_}" for key, value in expected.items()]
            parts.append("\n".join(["", "[[model]]", f'preset = "{preset.name}"', *lines, ""]))
    text = "".join(parts)
    if check:
        return int(text != before)
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
