"""What the documents show is what the program prints."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

Run = Callable[..., tuple[int, str, str]]
README = ROOT / "README.md"


def consoles(path: Path) -> list[tuple[str, str]]:
    """Each command of the console blocks, with what is shown below it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", path.read_text(), flags=re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


@pytest.mark.parametrize(("command", "shown"), consoles(README), ids=lambda x: x[:60])
def test_the_readme_shows_what_is_printed(sizer_cli: Run, tmp_path: Path, command: str, shown: str) -> None:
    words = shlex.split(command)
    if words[0] == "echo":
        config = tmp_path / "config.json"
        config.write_text(words[1])
        words = [str(config) if word == "-" else word for word in words[3:]]

    assert words[0] == "sizer"
    code, out, err = sizer_cli(*words[1:])

    assert (code, err) == (0, "")
    assert shown == out


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda p: p.name)
def test_python_in_the_documents_is_right(path: Path) -> None:
    assert doctest.testfile(str(path), module_relative=False).failed == 0


def test_the_readme_never_installs_somebody_elses_package() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert not re.search(r"pip install (-\S+ )*sizer\b", path.read_text()), path
