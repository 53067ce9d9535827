"""The pytest plugin: `pytest --sizer` runs the models of a `sizer.toml` as tests.

Without the option, and without `sizer = true` in pytest's configuration, it does nothing; loading it
imports nothing of sizer's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sizer.checking.entries import Entry
    from sizer.checking.files import Watched
    from sizer.checking.lock import Locked

FILES = ("sizer.toml", "pyproject.toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--sizer`, and `sizer` in pytest's configuration."""
    group = parser.getgroup("sizer", "totals of models")
    group.addoption("--sizer", action="store_true", help="Run the models of sizer.toml as tests.")
    parser.addini("sizer", "Run the models of sizer.toml as tests.", type="bool", default=False)


def _wanted(config: pytest.Config) -> bool:
    return bool(config.getoption("--sizer") or config.getini("sizer"))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Add the file at the root to what is collected, where it is not in a folder of tests."""
    # Asked for parts by name (`pytest tests/test_x.py`), pytest runs these alone, unless told by the option.
    if not _wanted(config):
        return
    if config.args_source is pytest.Config.ArgsSource.ARGS and not config.getoption("--sizer"):
        return
    path = _at(config.rootpath)
    if path is not None and str(path) not in config.args:
        folders = [Path(arg.partition("::")[0]).absolute() for arg in config.args]
        if not any(folder == path.parent for folder in folders):
            config.args.append(str(path))


def _at(folder: Path) -> Path | None:
    for name in FILES:
        path = folder / name
        if path.is_file() and (name == FILES[0] or "[tool.sizer" in path.read_text(encoding="utf-8")):
            return path
    return None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A `sizer.toml`, or a `pyproject.toml` with `[tool.sizer]`, where it is asked for."""
    if file_path.name in FILES and _wanted(parent.config) and _at(file_path.parent) == file_path:
        return SizerFile.from_parent(parent, path=file_path)
    return None


class SizerFile(pytest.File):
    """A file of expectations."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each model."""
        from sizer.checking import files, lock
        from sizer.errors import SizerError

        try:
            watched = files.read(os.path.relpath(self.path))
            locks = lock.read(watched.lock_path) if watched.lock else {}
        except SizerError as error:
            raise self.CollectError(str(error)) from None
        for wrong in watched.wrong:
            yield SizerItem.from_parent(
                self, name=wrong.name, wrong=f"{watched.path}:{wrong.line}: {wrong.reason}"
            )
        for entry in watched.entries:
            yield SizerItem.from_parent(
                self, name=entry.name, watched=watched, entry=entry, before=locks.get(entry.name)
            )


class SizerItem(pytest.Item):
    """One model."""

    def __init__(
        self,
        *,
        watched: Watched | None = None,
        entry: Entry | None = None,
        before: Locked | None = None,
        wrong: str = "",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.watched = watched
        self.entry = entry
        self.before = before
        self.wrong = wrong

    def runtest(self) -> None:
        """Count the model and compare."""
        from sizer.report.check import why

        said = self.wrong
        if self.watched is not None and self.entry is not None:
            said = why(self.watched, self.entry, self.before)
        if said:
            pytest.fail(said, pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the entry stands."""
        line = self.entry.line - 1 if self.entry is not None else None
        return self.path, line, f"sizer check: {self.name}"
