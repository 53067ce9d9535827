"""Where the repository's files lie, and how tests start its programs."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"


def unwatched() -> dict[str, str]:
    """The environment of a program whose time and memory are bounded: as a person's, without coverage.py."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
