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


PAGES = sorted(ROOT.glob("docs/**/*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_a_page_shows_what_is_printed(
    sizer_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """The blocks of a page run in order in one empty folder.

    A block with `title="NAME"` is a file. Below a command stands what it prints, on standard error
    too, and `# exit 1` where its answer is no. `<!-- needs: torch -->` names what a page cannot do without.
    """
    monkeypatch.chdir(tmp_path)
    for module in re.findall(r"<!-- needs: (\w+) -->", path.read_text()):
        pytest.importorskip(module)
    for info, body in re.findall(r"^```(\S[^\n]*)\n(.*?)^```$", path.read_text(), flags=re.S | re.M):
        if title := re.search(r'title="([^"]+)"', info):
            file = tmp_path / title[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(body)
        if info.split()[0] != "console":
            continue
        for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            program, *words = shlex.split(command)
            assert program == "sizer", command
            code, out, err = sizer_cli(*words)

            assert shown == err + out + (f"# exit {code}\n" if code else ""), command


@pytest.mark.parametrize("path", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda p: p.name)
def test_python_in_the_documents_is_right(path: Path) -> None:
    assert doctest.testfile(str(path), module_relative=False).failed == 0


def test_the_readme_never_installs_somebody_elses_package() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert not re.search(r"pip install (-\S+ )*sizer\b", path.read_text()), path
