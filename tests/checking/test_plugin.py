"""The pytest plugin in a session of its own, as a user has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

FILE = '[[model]]\nname = "right"\npreset = "gpt2-small"\nparams = 124_439_808\n\n'
WRONG = FILE + '[[model]]\nname = "wrong"\npreset = "gpt2-small"\nparams = 163_037_184\n'


def run(folder: Path, *args: str) -> tuple[int, str]:
    """A session with the plugin alone, as its entry point loads it."""
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "sizer.testing.plugin", "-p", "no:cacheprovider", "-rA"]
    done = subprocess.run([*command, *args], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def team(tmp_path: Path) -> Path:
    (tmp_path / "sizer.toml").write_text(WRONG)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("def test_one(): pass\n")
    return tmp_path


def test_it_does_nothing_until_it_is_asked(team: Path) -> None:
    code, out = run(team)

    assert code == 0
    assert "1 passed" in out


def test_with_the_option(team: Path) -> None:
    code, out = run(team, "--sizer")

    assert code == 1
    assert "1 failed, 2 passed" in out
    assert "PASSED sizer.toml::right" in out
    assert "params    163,037,184  124,439,808  -38,597,376" in out
    assert "Traceback" not in out


def test_a_file_that_is_named_runs_once(team: Path) -> None:
    for arguments in (("sizer.toml",), (".",), ("tests", "sizer.toml")):
        code, out = run(team, "--sizer", *arguments)

        assert code == 1
        assert "1 failed" in out
        assert out.count("PASSED sizer.toml::right") == 1


def test_without_a_file_of_models(team: Path) -> None:
    (team / "sizer.toml").unlink()

    assert "1 passed" in run(team, "--sizer")[1]


def test_with_the_setting(team: Path) -> None:
    (team / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nsizer = true\n")

    assert "1 failed, 2 passed" in run(team)[1]
    # Whoever asks for one test gets one test.
    assert "1 passed" in run(team, "tests/test_one.py")[1]


def test_a_pyproject(team: Path) -> None:
    (team / "sizer.toml").unlink()
    (team / "pyproject.toml").write_text(FILE.replace("[[model]]", "[[tool.sizer.model]]"))

    assert "2 passed" in run(team, "--sizer")[1]


def test_a_file_that_is_wrong(team: Path) -> None:
    (team / "sizer.toml").write_text("[[model]\n")
    code, out = run(team, "--sizer")
    assert code == 2
    assert "sizer.toml:1: not valid TOML" in out

    (team / "sizer.toml").write_text(FILE + '[[model]]\npreset = "x"\nparms = 3\n')
    code, out = run(team, "--sizer")
    assert code == 1
    assert "sizer.toml:6: no key named 'parms'" in out
