"""A derived model as an architecture file of sizer: a configuration and a builder."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from random import Random
from typing import Any

from sizer.core.poly import Poly
from sizer.core.tree import Param
from sizer.core.walk import walk
from sizer.oracles.derive.closed import Closed
from sizer.oracles.derive.expressions import evaluate
from sizer.oracles.derive.folding import Derived, folded
from sizer.oracles.derive.written_sizes import Sizes

HEAD = '''"""{title}, derived from the module by `sizer derive`.

Equal to it, shape by shape, at {points} random configurations. It states the tensors; what a forward
pass does with those outside of linear layers, tables and norms is not known here.
"""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration, is_symbolic
from sizer.core.dims import Dim, divide
from sizer.core.layers import embedding, layer_norm, linear, rms_norm
from sizer.core.poly import symbol
from sizer.core.tree import Axis, Module, Param
'''


def source(closed: Closed) -> str:
    """The text of the file."""
    sizes = Sizes(closed)
    kinds = closed.builder.kinds()
    body = _Node()
    for tensor in closed.tensors:
        body.add(tensor.name.split("."), tensor, iter(tensor.levels))
    built = ",\n".join(_lines(body, sizes, kinds, (), 2)) + ","
    name = re.sub(r"\W", "_", closed.name.rpartition(":")[2])
    title = re.sub(r'["\\]', "", closed.name)
    text = "\n".join(
        [
            HEAD.format(title=title, points=closed.checked.points),
            "",
            "@configuration",
            f"class {name}Config(Config):",
            f'    """Sizes of {name}, under the names of its own arguments."""',
            "",
            *sizes.fields(),
            "",
            "    def __post_init__(self) -> None:",
            "        check_sizes(self)",
            *sizes.derivations(),
            "",
            "",
            f"def build(c: {name}Config) -> Module:",
            f'    """The tensors of {name}."""',
            *sizes.axes(),
            '    return Module(\n        "",\n        (',
            _indented(built, 3),
            "        ),\n    )",
            "",
            "",
            f'ARCHITECTURES = {{"{_snake(name)}": Architecture({name}Config, build)}}',
            "",
        ]
    )
    unused = [
        w
        for w in ("divide", "embedding", "layer_norm", "linear", "rms_norm", "symbol")
        if f"{w}(" not in text
    ]
    return _without(text, [*unused, *(["is_symbolic"] if "is_symbolic(" not in text else []), *_leaves(text)])


def recounted(path: str, closed: Closed, points: int = 5, seed: int = 1) -> int:
    """Load a written file and count it at the given values and at random ones; how many were equal."""
    spec = importlib.util.spec_from_file_location("sizer_derived", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    ((_, made),) = module.ARCHITECTURES.items()
    sizes = Sizes(closed)
    random = Random(seed)
    tried = [closed.values] + [closed.draw(random, far=i % 2 == 1) for i in range(points)]
    for point in tried:
        config = made.config(**{sizes.names[letter]: point[letter] for letter in sizes.letters})
        rows = [r for r in walk(made.build(config)) if isinstance(r.leaf, Param) and r.leaf.tied_to is None]
        counted = sum(row.numel * row.copies for row in rows)
        assert counted == evaluate(closed.total, point), f"{path} counts {counted:,} at {point}"
    return len(tried)


class _Node:
    """A module of the tree: its tensors and the modules in it, repeated or not."""

    def __init__(self) -> None:
        self.tensors: list[tuple[str, Derived]] = []
        self.children: dict[tuple[str, Poly | None], _Node] = {}

    def add(self, steps: list[str], tensor: Derived, levels: Any) -> None:
        """Put a tensor in its place; a `{}` repeats the module before it."""
        if len(steps) == 1:
            if "{}" in steps[0]:
                # A tensor with an index in its name is a repeated module without a name inside.
                self.children.setdefault((steps[0], next(levels, None)), _Node()).add([""], tensor, levels)
            else:
                self.tensors.append((steps[0], tensor))
            return
        name, rest = steps[0], steps[1:]
        count = None
        if name == "{}":
            count, name = next(levels, None), ""
        elif "{}" in name:
            count = next(levels, None)
        elif rest[0] == "{}":
            count, rest = next(levels, None), rest[1:]
        if not rest:
            # A list of tensors: the last index is the tensor's own name.
            rest = [""]
        self.children.setdefault((name, count), _Node()).add(rest, tensor, levels)


def _lines(
    node: _Node, sizes: Sizes, kinds: dict[str, str], path: tuple[str, ...], depth: int
) -> Iterable[str]:
    for name, tensor in node.tensors:
        yield _param(name, tensor, sizes)
    for (name, count), child in node.children.items():
        here = (*path, name, *(["{}"] if count is not None else []))
        kind = kinds.get(folded(".".join(x for x in here if x))[0], "")
        made = _layer(name, kind, child, sizes) if count is None and not child.children else None
        if made is not None:
            yield made
            continue
        inside = ",\n".join(_lines(child, sizes, kinds, here, depth + 1)) + ","
        repeat = f",\n    repeat={sizes.code(count)}" if count is not None else ""
        yield f'Module(\n    "{name}",\n    (\n{_indented(inside, 2)}\n    ){repeat},\n)'


def _layer(name: str, kind: str, node: _Node, sizes: Sizes) -> str | None:
    """A layer of `sizer.core.layers`, where the module is one."""
    held = dict(node.tensors)
    weight, bias = held.get("weight"), held.get("bias")
    if weight is None or not set(held) <= {"weight", "bias"} or (weight.tied_to and "{}" in weight.tied_to):
        return None
    ends = [sizes.axis(poly) for poly in weight.shape]
    tie = f', tied_to="{weight.tied_to}"' if weight.tied_to else ""
    flag = ", bias=True" if bias is not None else ""
    if kind == "Linear" and len(ends) == 2 and not (bias and bias.tied_to):
        return f'linear("{name}", {ends[0]}, {ends[1]}{flag}{tie})'
    if kind == "Conv1D" and len(ends) == 2 and not (bias and bias.tied_to):
        return f'linear("{name}", {ends[1]}, {ends[0]}{flag}{tie}, transposed=True)'
    if kind == "Embedding" and len(ends) == 2 and bias is None:
        return f'embedding("{name}", {ends[0]}, {ends[1]}{tie})'
    if len(ends) == 1 and not tie and kind == "LayerNorm":
        return f'layer_norm("{name}", {ends[0]}{"" if bias is not None else ", bias=False"})'
    if len(ends) == 1 and not tie and kind.endswith("RMSNorm") and bias is None:
        return f'rms_norm("{name}", {ends[0]})'
    return None


def _param(name: str, tensor: Derived, sizes: Sizes) -> str:
    axes = ", ".join(sizes.axis(poly) for poly in tensor.shape)
    tie = f', tied_to="{tensor.tied_to}"' if tensor.tied_to else ""
    return f'Param("{name}", ({axes}{"," if len(tensor.shape) == 1 else ""}){tie})'


def _indented(text: str, by: int) -> str:
    return "\n".join("    " * by + line for line in text.split("\n"))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _leaves(text: str) -> list[str]:
    return [] if "Param(" in text else ["Param"]


def _without(text: str, names: Iterable[str]) -> str:
    """The text without the imports of these names."""
    gone = set(names)
    lines = []
    for line in text.split("\n"):
        if line.startswith("from sizer") and " import " in line:
            module, _, listed = line.partition(" import ")
            kept = [name for name in listed.split(", ") if name not in gone]
            if not kept:
                continue
            line = f"{module} import {', '.join(kept)}"
        lines.append(line)
    return "\n".join(lines)
