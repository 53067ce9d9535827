"""What SECURITY.md promises of the code as a whole; the tests that it names are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from repository import ROOT

Run = Callable[..., tuple[int, str, str]]
SOURCES = sorted((ROOT / "sizer").rglob("*.py"))

# Calls that make code of text, or run what a file says; and the one place that may.
FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "sympy.sympify", "sympy.parse_expr", "sympy.S"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "shelve.open", "dill.loads"),
    *("torch.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all"),
    *("os.system", "os.popen", "subprocess.run", "subprocess.Popen", "runpy.run_path"),
}
ALLOWED = {
    # Work of our own, back from a worker of Dask, which passes it as a pickle in any case.
    ("planning/sweeping/spread.py", "pickle.loads"),
    # With a loader that is PyYAML's safe one, without aliases.
    ("sources/yaml_text.py", "yaml.load"),
}
LOADERS = ("import_module", "exec_module")
# Modules that import by a name which is not written there, and where the name is from.
IMPORTERS = {
    "__init__.py": "a table of the module itself",
    "architectures/registry.py": "the index that ships",
    "cli/__init__.py": "the table of commands",
    "oracles/derive/target.py": "package.module:Class, as the user wrote it",
    "oracles/derive/written.py": "the file that was written a moment before",
    "oracles/factory.py": "package.module:name, as the user wrote it",
    "service/endpoints.py": "the table of endpoints",
    "sources/hub/client.py": "the module of an exception that was caught",
    "testing/__init__.py": "a table of the module itself",
}


def place(path: Path) -> str:
    return path.relative_to(ROOT / "sizer").as_posix()


def calls(path: Path) -> Iterator[str]:
    """What a file calls, as it is written: `pickle.loads`, `eval`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_no_call_turns_text_into_code() -> None:
    found = {(place(path), call) for path in SOURCES for call in calls(path) if call in FORBIDDEN}

    assert found == ALLOWED
    for path in SOURCES:
        # Nothing of these comes in under another name, and no repository's code is asked for.
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not {f"{node.module}.{alias.name}" for alias in node.names} & FORBIDDEN, path
            if isinstance(node, ast.keyword):
                assert node.arg != "trust_remote_code", path


def test_names_are_imported_in_few_places() -> None:
    found = {place(path) for path in SOURCES for call in calls(path) if call.endswith(LOADERS)}

    assert found == set(IMPORTERS)


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("count", "gpt2-small", "--set", f"d_model={10**40}"), "d_model"),
        (("flops", "gpt2-small", "--seq-len", str(10**40)), "over 10^30"),
        (("count", "gpt2-small", "--set", "n_layers=9e99"), "n_layers"),
    ],
    ids=["size", "option", "exponent"],
)
def test_numbers_beyond_any_use_are_refused(sizer_cli: Run, args: tuple[str, ...], part: str) -> None:
    code, out, err = sizer_cli(*args)

    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1


def test_the_service_listens_on_this_machine_alone() -> None:
    from sizer.cli.serve import command

    host = next(option for option in command.params if option.name == "host")

    assert host.default == "127.0.0.1"


def test_every_test_that_the_promises_name_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())

    assert len(named) >= 20
    for path, function in named:
        assert f"def {function}(" in (ROOT / path).read_text(), (path, function)
