"""Names that files have, told from those in memory by rules on whole names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from sizer.core.tree import Buffer, Module, Param

# What a name in memory is matched with, and what stands in its place in a file, in order.
Rules: TypeAlias = Sequence[tuple[str, str]]


def stored_names(tree: Module, rules: Rules) -> Module:
    r"""The same tree under the names that files have; an index in a name is written `{}`.

    >>> from sizer.core.tree import Axis
    >>> block = Module("model.layers", (Param("norm1.weight", (Axis("embed", 8),)),), repeat=2)
    >>> stored_names(Module("", (block,)), [(r"^model\.layers", "blocks")]).children[0].name
    'blocks.{}'
    """
    if not rules:
        return tree
    return _renamed(tree, "", "", [(re.compile(pattern), new) for pattern, new in rules])


def _renamed(module: Module, path: str, done: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> Module:
    """`path`: the name in memory of what is around it; `done`: how much of the new one stands above."""
    path, name = _joined(path, module.name), ""
    if module.repeat is not None:
        if "{}" not in module.name:
            path = _joined(path, "{}")
        upto = _told(f"{path}.", rules)
        upto = upto[: upto.rindex("{}") + 2]
        name, done = _after(upto, done), upto
    children: list[object] = []
    for child in module.children:
        if isinstance(child, Module):
            children.append(_renamed(child, path, done, rules))
            continue
        inner = child._replace(name=_after(_told(_joined(path, child.name), rules), done))
        if isinstance(inner, Param | Buffer) and inner.tied_to is not None:
            inner = inner._replace(tied_to=_told(inner.tied_to, rules))
        children.append(inner)
    return module._replace(name=name, children=tuple(children))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _told(name: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for pattern, new in rules:
        name = pattern.sub(new, name)
    return name


def _after(name: str, done: str) -> str:
    assert name.startswith(done), f"{name} does not begin with {done}, where its layers stand"
    return name[len(done) :].lstrip(".")
