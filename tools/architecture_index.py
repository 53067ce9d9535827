"""Write sizer/architectures/index.py: which module describes which architecture and model type.

Every module below `sizer/architectures` may have `ARCHITECTURES` and `HF_READERS`. The index lets
one of them be imported without the others. `--check` writes nothing and exits 1 if it is old.

    python tools/architecture_index.py
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1] / "sizer" / "architectures"
INDEX = ROOT / "index.py"


def text() -> str:
    """The index as Python."""
    tables: dict[str, dict[str, str]] = {"ARCHITECTURES": {}, "HF_READERS": {}}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.name in ("__init__.py", "index.py", "registry.py"):
            continue
        module = import_module(f"sizer.architectures.{name}")
        for table, entries in tables.items():
            for key in getattr(module, table, {}):
                if key in entries:
                    sys.exit(f"{key!r} is in both {entries[key]} and {name}")
                entries[key] = name
    return "\n".join(
        [
            '"""Which module describes what; written by tools/architecture_index.py."""',
            "",
            *_table("ARCHITECTURE_MODULES", tables["ARCHITECTURES"]),
            "",
            *_table("HF_MODULES", tables["HF_READERS"]),
            "",
        ]
    )


def _table(name: str, entries: dict[str, str]) -> list[str]:
    rows = [f'    "{key}": "{module}",' for key, module in sorted(entries.items())]
    return [f"{name}: dict[str, str] = {{", *rows, "}"]


if __name__ == "__main__":
    new = text()
    if "--check" in sys.argv:
        sys.exit(0 if INDEX.read_text() == new else f"{INDEX} is not current: run {__file__}")
    INDEX.write_text(new)
