"""What the documents show is what the program prints."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from consoles import blocks, commands, played

from sizer.cli import COMMANDS, cli

Run = Callable[..., tuple[int, str, str]]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_page_shows_what_is_printed(
    sizer_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown, printed in played(path.read_text(), sizer_cli, tmp_path, pytest.importorskip):
        assert shown == printed, command


# The examples of the reference are those of docstrings, which run where they stand.
WRITTEN = ROOT / "docs/reference/api.md"


@pytest.mark.parametrize("path", [path for path in PAGES if path != WRITTEN], ids=name)
def test_python_in_the_documents_is_right(path: Path) -> None:
    assert doctest.testfile(str(path), module_relative=False).failed == 0


def shell_lines(text: str) -> list[list[str]]:
    """The calls of sizer in the blocks that are not run, word by word."""
    bodies = [body for info, body in blocks(text) if info.split()[0] in ("sh", "bash", "yaml")]
    lines = re.findall(r"(?:^|/|: |\$\()sizer( .*)$", "\n".join(bodies).replace("\\\n", " "), flags=re.M)
    return [shlex.split(re.split(r"[|<>;)]|&&", line)[0], comments=True) for line in lines]


# Its lines run in a copy of the repository: tests/test_contributing.py.
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


@pytest.mark.parametrize("path", [path for path in PAGES if path != CONTRIBUTING], ids=name)
def test_a_command_that_is_not_run_is_one_that_there_is(path: Path) -> None:
    for words in shell_lines(path.read_text()):
        command: click.Command = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, path
            command = found
        known = {option for param in command.params for option in param.opts} | {"--help", "-h"}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, words


def test_both_readmes_show_the_same_commands_and_outputs() -> None:
    english, chinese = (list(blocks(path.read_text())) for path in READMES)

    assert english == chinese


def test_the_readme_shows_every_command() -> None:
    text = READMES[0].read_text()
    shown = {command.split()[1] for _, body in blocks(text) for command, _ in commands(body)}
    shown |= {words[0] for words in shell_lines(text) if words}

    assert sorted(COMMANDS) == sorted(shown & set(COMMANDS))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert re.match(r"https?://", link) or (path.parent / link).exists(), link


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    listed = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]

    assert sorted(listed) == sorted(pages), "add the page to `nav` in mkdocs.yml"


def test_what_is_written_from_the_code_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "docs.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_never_installs_somebody_elses_package() -> None:
    for path in PAGES:
        assert not re.search(r"pip install (-\S+ )*sizer\b", path.read_text()), path
