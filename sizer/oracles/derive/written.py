"""A derived model as an architecture file of sizer: a configuration and a builder."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Iterable
from fractions import Fraction
from math import lcm
from random import Random
from typing import Any

from sizer.core.poly import Poly
from sizer.core.tree import Param
from sizer.core.walk import walk
from sizer.errors import BadInput, clip
from sizer.oracles.derive.derive import Closed
from sizer.oracles.derive.expressions import Atom, arguments, atoms, evaluate, is_whole
from sizer.oracles.derive.groups import Derived, folded

# Fields that every configuration of sizer has.
TAKEN = frozenset(("layout", "task", "n_labels", "letters", "meanings", "may_be_zero", "derive"))
BUILDERS = frozenset(("linear", "embedding", "layer_norm", "rms_norm", "symbol", "divide", "build", "c"))
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
    sizes = _Sizes(closed)
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
    if spec is None or spec.loader is None:
        raise BadInput(f"{clip(path)} cannot be loaded; give --write a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    ((_, made),) = module.ARCHITECTURES.items()
    sizes = _Sizes(closed)
    random = Random(seed)
    tried = [closed.values] + [closed.draw(random) for _ in range(points)]
    for point in tried:
        config = made.config(**{sizes.names[letter]: point[letter] for letter in sizes.letters})
        rows = [r for r in walk(made.build(config)) if isinstance(r.leaf, Param) and r.leaf.tied_to is None]
        counted = sum(row.numel * row.copies for row in rows)
        if counted != evaluate(closed.total, point):
            raise BadInput(
                f"{clip(path)} counts {counted:,} where the module has {evaluate(closed.total, point):,}"
            )
    return len(tried)


class _Sizes:
    """Which fields the configuration has, and how a size is written in the builder."""

    def __init__(self, closed: Closed) -> None:
        used = [poly for t in closed.tensors for poly in (*t.shape, *t.levels, t.times)]
        occurring = {name for poly in used for name in arguments(poly)}
        self.letters = [name for name in closed.values if name in occurring]
        self.values = closed.values
        self.names: dict[str, str] = {}
        for letter in self.letters:
            name = re.sub(r"\W", "_", letter)
            self.names[letter] = f"{name}_" if name in TAKEN or keyword.iskeyword(name) else name
        self.derived: dict[Poly, str] = {}
        for poly in used:
            if poly not in self.derived and (not is_whole(poly) or atoms(poly)):
                self.derived[poly] = f"size_{len(self.derived) + 1}"

        self._axes: dict[Poly, str] = {}

    def axis(self, poly: Poly) -> str:
        """The variable that holds an axis of that size."""
        if poly not in self._axes:
            name = re.sub(r"\W+", "_", poly.text(ascii_only=True).replace("**", "_to_")).strip("_")
            if self.derived.get(poly) or len(name) > 40:
                name = self.derived.get(poly, f"axis_{len(self._axes) + 1}")
            word = f"axis_{name}" if name[:1].isdigit() else name
            taken = set(self._axes.values()) | BUILDERS
            self._axes[poly] = (
                word if word.isidentifier() and word not in taken else f"axis_{len(self._axes) + 1}"
            )
        return self._axes[poly]

    def axes(self) -> list[str]:
        """Lines that name the axes."""
        return [f'    {name} = Axis("{name}", {self.code(poly)})' for poly, name in self._axes.items()]

    def fields(self) -> list[str]:
        """Lines that declare the fields."""
        lines = [f"    {self.names[x]}: Dim = {self.values[x]}" for x in self.letters]
        lines += [f"    {name}: Dim | None = None" for name in self.derived.values()]
        zero = [self.names[x] for x in self.letters if self.values[x] <= 0]
        return [*lines, *(["", f"    may_be_zero = frozenset({zero!r})"] if zero else [])]

    def derivations(self) -> list[str]:
        """Lines that derive the sizes that a builder may not compute: quotients and roundings."""
        lines = []
        for poly, name in self.derived.items():
            over, under = _fraction(poly)
            if not atoms(poly):
                words = f"{over.text(ascii_only=True)} / {under.text(ascii_only=True)}".replace('"', "")
                code = f'divide({self.code(over, "self")}, {self.code(under, "self")}, names="{words}")'
            else:
                known = " or ".join(f"is_symbolic(self.{self.names[x]})" for x in sorted(arguments(poly)))
                code = f'symbol("{name}") if {known} else {self.rounded(poly)}'
            lines.append(f"        # {poly.text(ascii_only=True)}")
            lines.append(f"        self.derive({name}={code})")
        return lines

    def rounded(self, poly: Poly) -> str:
        """Python for an expression with roundings, over whole numbers."""
        over, under = _fraction(poly)
        top = self.code(over, "self")
        return top if under == 1 else f"({top}) // ({self.code(under, 'self')})"

    def code(self, poly: Poly, owner: str = "c") -> str:
        """Python for a size."""
        if owner == "c" and poly in self.derived:
            return f"c.{self.derived[poly]}"
        terms = []
        for monomial, coefficient in poly.sorted_terms():
            factors = [self.letter(x, owner) for x, power in monomial for _ in range(power)]
            head = [] if coefficient == 1 and factors else [str(coefficient)]
            terms.append(" * ".join([*head, *factors]))
        return " + ".join(terms).replace("+ -", "- ") or "0"

    def letter(self, letter: str, owner: str) -> str:
        if not isinstance(letter, Atom):
            return f"{owner}.{self.names[letter]}"
        kind = letter.partition("(")[0]
        parts = [_fraction(part) for part in letter.parts]
        if kind in ("Max", "Min"):
            return f"{kind.lower()}({', '.join(self.rounded(part) for part in letter.parts)})"
        if kind in ("floor", "ceiling"):
            if len(parts) == 2:
                return f"(({self.rounded(letter.parts[0])}) // ({self.rounded(letter.parts[1])}))"
            ((over, under),) = parts
            top, below = self.code(over, owner), self.code(under, owner)
            return f"(({top}) // ({below}))" if kind == "floor" else f"(-(-({top}) // ({below})))"
        if kind == "Mod":
            return f"(({self.rounded(letter.parts[0])}) % ({self.rounded(letter.parts[1])}))"
        base = letter.strip("(").partition("**")[0]
        return f"({base} ** ({self.rounded(letter.parts[0])}))"


def _fraction(poly: Poly) -> tuple[Poly, Poly]:
    """An expression as one whole polynomial over another that is a single product."""
    under: dict[str, int] = {}
    for monomial in poly.terms:
        for letter, power in monomial:
            under[letter] = max(under.get(letter, 0), -power)
    number = lcm(*(Fraction(c).denominator for c in poly.terms.values())) if poly.terms else 1
    divisor = Poly({tuple(sorted((x, p) for x, p in under.items() if p > 0)): number})
    return poly * divisor, divisor


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
    node: _Node, sizes: _Sizes, kinds: dict[str, str], path: tuple[str, ...], depth: int
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


def _layer(name: str, kind: str, node: _Node, sizes: _Sizes) -> str | None:
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


def _param(name: str, tensor: Derived, sizes: _Sizes) -> str:
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
