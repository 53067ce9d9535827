"""Change the code a little, and see whether a test notices.

    python tools/mutate.py --seconds 600 [--seed 1] [sizer/core sizer/measures]

A sample of small changes (an operator, a comparison, a number, a condition), one at a time, in memory
alone. Each runs the tests that are named after its module first, then those of all measures. What
survives is printed; the last line is the score.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
GENERAL = [
    "tests/test_tree.py",
    "tests/test_closed_forms.py",
    "tests/test_depth.py",
    "tests/measures/test_kv_cache.py",
    "tests/measures/test_sharding.py",
    "tests/measures/test_flops.py",
    "tests/measures/test_memory.py",
]
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
# Seconds of a processor, so that a busy machine does not count as a test that noticed.
MOST_SECONDS = 150


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


def survives(path: Path, tree: ast.Module) -> bool:
    """Whether all tests pass in a child of this process with the changed module."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        import pytest

        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        load_changed(name, path, tree)
        # Plain asserts: what pytest rewrites, it loads past the finder of the changed tree.
        without = (
            word for plugin in ("cacheprovider", "randomly", "xdist") for word in ("-p", f"no:{plugin}")
        )
        os._exit(int(pytest.main(["-x", "-q", "--assert=plain", *without, *tests_of(path)])))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0  # one that never ends is noticed too


def tests_of(path: Path) -> list[str]:
    """A module's own examples, the tests named after it or its folder, then those of all measures."""
    words = {path.stem, path.parent.name} - {"core", "measures"}
    own = [
        str(test.relative_to(ROOT))
        for test in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(word.rstrip("s") in test.stem for word in words) and "torch" not in test.stem
    ]
    return [str(path.relative_to(ROOT)), *own, *(test for test in GENERAL if test not in own)]


def main() -> None:
    """Sample changes until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", default=["sizer/core", "sizer/measures"])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    for heavy in ("numpy", "sympy", "pydantic"):
        importlib.import_module(heavy)
    trees = {p: ast.parse(p.read_text()) for f in chosen.folders for p in sorted((ROOT / f).rglob("*.py"))}
    places = [(path, number) for path, tree in trees.items() for number, _ in changes(tree)]
    random.Random(chosen.seed).shuffle(places)
    # Nothing changed must pass, and nothing at all must not, or the score would say nothing.
    largest = max(trees, key=lambda path: path.stat().st_size)
    if not survives(largest, trees[largest]) or survives(largest, ast.Module([], [])):
        sys.exit("the tests fail without a change, or pass without the module")
    end, tried, left = time.monotonic() + chosen.seconds, 0, 0
    for path, number in places:
        if time.monotonic() > end:
            break
        tree, what = changed(trees[path], number)
        tried += 1
        if survives(path, tree):
            left += 1
            print(f"survives: {path.relative_to(ROOT)} {what}", flush=True)
    print(f"{tried - left} of {tried} changes were noticed, of {len(places)} possible (seed {chosen.seed})")


if __name__ == "__main__":
    main()
