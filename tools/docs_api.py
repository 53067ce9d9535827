"""docs/reference/api.md: the public names, with their signatures and docstrings from the source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module

# What a page lists: modules with the names of each, in the order a reader needs them.
PUBLIC = {
    "sizer": ("load", "Model", "load_checkpoint", "Checkpoint", "presets", "summary", "SizerError"),
    "sizer.measures.count": ("Count",),
    "sizer.measures.formula": ("Formula",),
    "sizer.measures.flops": ("Flops", "flops"),
    "sizer.measures.kv_cache": ("KVCache", "kv_cache"),
    "sizer.measures.memory": ("Training",),
    "sizer.measures.inference": ("Inference",),
    "sizer.measures.sharding": ("Shards",),
    "sizer.measures.size.result": ("Size",),
    "sizer.measures.size.size": ("size",),
    "sizer.planning.solving.solve": ("solve",),
    "sizer.planning.sweeping.sweep": ("sweep",),
    "sizer.testing": ("count_module", "assert_params"),
}
HEAD = """# Python

`import sizer` costs nothing; what is asked for is imported then.
Sizes are Python integers, or numpy arrays where one was given; bytes and FLOPs are integers too.
Every error that a user can cause is a `sizer.SizerError`, whose text is one sentence.
This page is written by `tools/docs.py` from the docstrings, whose examples run as tests.
"""


def page() -> str:
    """The reference of the Python API."""
    lines = [HEAD.rstrip()]
    for module, members in PUBLIC.items():
        for name in members:
            found = getattr(import_module(module), name)
            lines += ["", f"## `{module}.{name}`", "", *described(found, name)]
            if inspect.isclass(found):
                lines += methods(found)
    return "\n".join(lines) + "\n"


def described(found: object, name: str) -> list[str]:
    """A signature, where there is one, and the docstring: text as text, examples as Python."""
    call = [] if inspect.isclass(found) else ["```text", signature(found, name), "```", ""]
    return [*call, *docstring(found)]


def signature(found: object, name: str) -> str:
    """`load(target, **overrides) -> Model`, as it is written."""
    node = ast.parse(inspect.cleandoc("\n" + _source(found))).body[0]
    assert isinstance(node, ast.FunctionDef)
    node.args.args = [arg for arg in node.args.args if arg.arg not in ("self", "cls")]
    result = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{name}({ast.unparse(node.args)}){result}"


def _source(found: object) -> str:
    lines = inspect.getsource(inspect.unwrap(found)).splitlines()  # type: ignore[arg-type]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def docstring(found: object) -> list[str]:
    """A docstring in Markdown."""
    lines: list[str] = []
    for part in (inspect.getdoc(found) or "").split("\n\n"):
        example = part.lstrip().startswith(">>>")
        lines += ["```pycon", *part.splitlines(), "```", ""] if example else [*part.splitlines(), ""]
    return lines[:-1]


def methods(found: type) -> Iterator[str]:
    """The public methods and properties of a class, in the order of its source."""
    for name, member in vars(found).items():
        described_ = inspect.isfunction(member) or isinstance(member, property | classmethod)
        cached = type(member).__name__ == "cached_property"
        if name.startswith("_") or not (described_ or cached):
            continue
        inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
        inner = getattr(inner, "__func__", inner)
        if not inspect.getdoc(inner):
            continue
        yield from ("", f"### `.{name}`", "")
        if inspect.isfunction(member):
            yield from ("```text", signature(inner, name), "```", "")
        yield from docstring(inner)
