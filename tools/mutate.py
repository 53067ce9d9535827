"""Change the code a little, and see whether a test notices.

    python tools/mutate.py --seconds 600 [--seed 1] [--least 80] [--map FILE] [sizer/core sizer/measures]

A sample of small changes (an operator, a comparison, a number, a condition), one at a time, in memory
alone. First the tests run once under coverage.py, which says what each test executes; a change then runs
the tests that execute its line, the fastest of each file in turn, for at most `BUDGET` seconds.
What survives is printed; the last line is the score, and the exit code is 1 where it is under `--least`
percent. `--map` keeps what the tests execute for the next time.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec
from itertools import chain, zip_longest
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ["sizer/core", "sizer/measures"]
# Tests of other things, which run the core and the measures all the same and take minutes.
LEFT_OUT = (
    *("derive", "service", "hub", "checkpoints", "benchmark", "contributing", "offline", "docs", "fuzz"),
    *("verify", "ledger", "_rows", "remote_code", "presets", "files_of_transformers", "imports"),
)
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Seconds that the tests of one change take together where none fails, and those of a processor after
# which a change counts as one that never ends.
BUDGET, MOST_SECONDS = 25, 150


def changes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The number of each node that can change, and how; annotations and messages stay."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            part = getattr(node, field, None)
            if isinstance(part, ast.AST):
                skipped.update(map(id, ast.walk(part)))
        if isinstance(node, ast.Raise) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            skipped.update(map(id, ast.walk(node)))
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield number, "arithmetic"
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            yield number, "comparison"
        elif isinstance(node, ast.BoolOp):
            yield number, "and/or"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield number, "not"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield number, "constant"
        elif isinstance(node, ast.IfExp):
            yield number, "condition"


def changed(tree: ast.Module, number: int) -> tuple[ast.Module, str]:
    """A copy with that node changed, and what it was and is."""
    tree = copy.deepcopy(tree)
    node = list(ast.walk(tree))[number]
    before = ast.unparse(node)
    if isinstance(node, ast.BinOp):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
    elif isinstance(node, ast.Constant):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    tree = ast.fix_missing_locations(tree)
    return tree, f"line {node.lineno}: {before}  →  {ast.unparse(node)}"  # type: ignore[attr-defined]


def load_changed(name: str, path: Path, tree: ast.Module) -> None:
    """Let the next import of a module load a changed tree in its place."""

    class Loader(importlib.machinery.SourceFileLoader):
        def source_to_code(self, data: object, path: object = "", **_: object) -> CodeType:
            return compile(tree, str(path), "exec")

        def get_code(self, fullname: str) -> CodeType:
            return self.source_to_code(b"", self.path)

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
            if fullname != name:
                return None
            return importlib.util.spec_from_file_location(name, path, loader=Loader(name, str(path)))

    sys.meta_path.insert(0, Finder())


class Ranked:
    """For pytest: a module's own examples, then the given tests in the given order, and no others."""

    def __init__(self, own: str, names: list[str]) -> None:
        self.own = own
        self.rank = {name: number for number, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out and sort."""
        ranked = [
            (-1 if item.nodeid.startswith(self.own) else self.rank[item.nodeid], number, item)
            for number, item in enumerate(items)
            if item.nodeid.startswith(self.own) or item.nodeid in self.rank
        ]
        items[:] = [item for *_, item in sorted(ranked, key=lambda one: one[:2])]


class Watch:
    """For pytest: tell coverage.py which test runs, and note how long each took."""

    def __init__(self, measured: Any) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """What is executed from now on is this test's."""
        self.measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up, and let a test that fails without a change tell nothing."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.seconds[report.nodeid] = float("inf")


def run_tests(names: list[str], *plugins: object) -> int:
    """Run tests in this process, quietly; pytest's exit code."""
    import pytest

    # Plain asserts: what pytest rewrites, it loads past the finder of the changed tree.
    without = (word for plugin in ("cacheprovider", "randomly", "xdist") for word in ("-p", f"no:{plugin}"))
    return int(pytest.main(["-q", "--assert=plain", *without, *names], plugins=list(plugins)))


def in_a_child(work: Callable[[], int]) -> int:
    """The exit code of work done in a fork of this process, without what it prints."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def survives(path: Path, tree: ast.Module, tests: list[str]) -> bool:
    """Whether all of these tests pass with the changed module; one that never ends is noticed too."""

    def work() -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        own = path.relative_to(ROOT)
        load_changed(".".join(own.with_suffix("").parts).removesuffix(".__init__"), path, tree)
        files = {test.partition("::")[0]: None for test in tests}
        return run_tests(["-x", str(own), *files], Ranked(str(own), tests))

    return in_a_child(work) == 0


def executed(tests: list[Path], out: Path) -> None:
    """Run tests, one process a file, and write what each of them executes."""
    files: dict[str, dict[str, list[int]]] = {}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for test in tests:
            print(f"reading {test.relative_to(ROOT)}", file=sys.stderr, flush=True)
            part = Path(folder) / "part.json"
            part.unlink(missing_ok=True)
            in_a_child(partial(watch, test, part))
            if part.exists():
                found, took = json.loads(part.read_text())
                seconds |= {name: s for name, s in took.items() if s < float("inf")}
                number = {name: i for i, name in enumerate(seconds)}
                for path, lines in found.items():
                    for line, names in lines.items():
                        kept = (number[name] for name in names if name in number)
                        files.setdefault(path, {}).setdefault(line, []).extend(kept)
    out.write_text(json.dumps([files, seconds]))


def set_apart(test: Path) -> bool:
    """Whether a file of tests is of other things."""
    return any(word in str(test.relative_to(ROOT)) for word in LEFT_OUT)


def watch(test: Path, out: Path) -> int:
    """Run one file of tests and write which lines each of its tests executes."""
    import coverage

    measured = coverage.Coverage(data_file=None, source=SOURCE, config_file=False)
    seen = Watch(measured)
    measured.start()
    run_tests([str(test)], seen)
    measured.stop()
    data = measured.get_data()
    found = {
        str(Path(path).relative_to(ROOT)): {
            line: [name for name in names if name in seen.seconds]
            for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    out.write_text(json.dumps([found, seen.seconds]))
    return 0


def tests_of(
    lines: dict[str, list[str]], seconds: dict[str, float], node: ast.AST, tree: ast.Module
) -> list[str]:
    """The tests that execute a place, or else its function or what reads its name, or else the module."""
    around = function_of(node, tree)
    if around is None:
        # What stands outside of functions is executed by whoever imports it first.
        chances = [reading(node, tree), [tree]]
    elif any(part is node for one in around.body for part in ast.walk(one)):
        chances = [[node], around.body, [tree]]
    else:
        chances = [around.body, [tree]]
    names = next(
        filter(None, ({n for one in chance for n in places(lines, one)} for chance in chances)), set()
    )
    by_file: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (seconds[name], name)):
        by_file.setdefault(name.partition("::")[0], []).append(name)
    chosen, budget = [], BUDGET
    for name in filter(None, chain.from_iterable(zip_longest(*by_file.values()))):
        budget -= seconds[name] + 0.02
        if budget < 0 and chosen:
            break
        chosen.append(name)
    return chosen


def places(lines: dict[str, list[str]], node: ast.AST) -> set[str]:
    """The tests that execute any line of a node."""
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 10**6)
    return {name for line, names in lines.items() if first <= int(line) <= last for name in names}


def function_of(node: ast.AST, tree: ast.Module) -> ast.FunctionDef | None:
    """The innermost function that a node stands in."""
    around = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and any(part is node for part in ast.walk(one))
    ]
    return around[-1] if around else None


def reading(node: ast.AST, tree: ast.Module) -> list[ast.AST]:
    """Where the names are read that a statement outside of functions sets."""
    statement = next(one for one in tree.body if any(part is node for part in ast.walk(one)))
    names = {
        part.id
        for part in ast.walk(statement)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    return [
        part
        for one in tree.body
        if one is not statement
        for part in ast.walk(one)
        if isinstance(part, ast.Name) and part.id in names
    ]


def main() -> int:
    """Sample changes until the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=SOURCE)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--map", type=Path, metavar="FILE")
    tests = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if not set_apart(path)]
    parser.add_argument("--tests", nargs="+", type=Path, default=tests, metavar="FILE")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]
    os.environ["HYPOTHESIS_PROFILE"] = "same"
    for heavy in ("numpy", "sympy", "pydantic", "hypothesis", "torch", "transformers"):
        if importlib.util.find_spec(heavy):
            importlib.import_module(heavy)
    with tempfile.TemporaryDirectory() as folder:
        kept = chosen.map or Path(folder) / "map.json"
        if not kept.exists():
            executed([path.resolve() for path in chosen.tests], kept)
        numbered, seconds = json.loads(kept.read_text())
    known = list(seconds)
    lines = {
        path: {line: [known[i] for i in numbers] for line, numbers in of_file.items()}
        for path, of_file in numbered.items()
    }
    files = [
        p for f in chosen.folders for p in ([ROOT / f] if f.endswith(".py") else (ROOT / f).rglob("*.py"))
    ]
    trees = {p: ast.parse(p.read_text()) for p in sorted(files)}
    possible = [(path, number) for path, tree in trees.items() for number, _ in changes(tree)]
    random.Random(chosen.seed).shuffle(possible)
    # Nothing changed must pass, and nothing at all must not, or the score would say nothing.
    largest = max(trees, key=lambda path: path.stat().st_size)
    some = tests_of(lines[str(largest.relative_to(ROOT))], seconds, trees[largest].body[-1], trees[largest])
    if not survives(largest, trees[largest], some) or survives(largest, ast.Module([], []), some):
        sys.exit("the tests fail without a change, or pass without the module")
    end, tried, left = time.monotonic() + chosen.seconds, 0, 0
    for path, number in possible:
        if time.monotonic() > end:
            break
        name = str(path.relative_to(ROOT))
        tests = tests_of(lines.get(name, {}), seconds, list(ast.walk(trees[path]))[number], trees[path])
        tree, what = changed(trees[path], number)
        tried += 1
        if not tests or survives(path, tree, tests):
            left += 1
            print(f"survives {len(tests)} tests: {name} {what}", flush=True)
    print(f"{tried - left} of {tried} changes were noticed, of {len(possible)} possible (seed {chosen.seed})")
    return int(100 * (tried - left) < chosen.least * tried)


if __name__ == "__main__":
    sys.exit(main())
