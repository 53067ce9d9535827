"""Write the pages that follow from the code; `--check` writes nothing and exits 1 if one is old.

    python tools/docs.py

- docs/reference/cli.md and docs/sizer.1, the manual page: every command, from click
- docs/reference/api.md: the Python API, from the docstrings
- docs/families.md: the derivation of each architecture, from its tree
- README.zh-CN.md: its blocks, from README.md

The outputs below commands are written by `tools/consoles.py`, the accuracy table by `tools/accuracy.py`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import docs_api  # noqa: E402
import docs_commands  # noqa: E402
import docs_families  # noqa: E402
from consoles import blocks  # noqa: E402

CHINESE = ROOT / "README.zh-CN.md"


def chinese() -> str:
    """The Chinese README with the blocks of the English one."""
    source = iter(blocks((ROOT / "README.md").read_text()))

    def block(_: re.Match[str]) -> str:
        info, body = next(source)
        return f"```{info}\n{body}```"

    text = re.sub(r"^```\S.*?^```$", block, CHINESE.read_text(), flags=re.S | re.M)
    if next(source, None):
        sys.exit(f"{CHINESE.name} has fewer blocks than README.md: add what is new there")
    return text


PAGES = {
    ROOT / "docs/reference/cli.md": docs_commands.page,
    ROOT / "docs/sizer.1": docs_commands.man,
    ROOT / "docs/reference/api.md": docs_api.page,
    ROOT / "docs/families.md": docs_families.page,
    CHINESE: chinese,
}


def main(check: bool) -> int:
    """Write the pages, or say which are old."""
    code = 0
    for path, make in PAGES.items():
        text = make()
        if path.exists() and path.read_text() == text:
            continue
        if check:
            print(f"{path.relative_to(ROOT)} is old: run python tools/docs.py", file=sys.stderr)
            code = 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return code


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
