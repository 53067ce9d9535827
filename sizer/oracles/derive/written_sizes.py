"""The sizes of a derived model as Python: fields of a configuration, axes, and code that computes them."""

from __future__ import annotations

import keyword
import re
from fractions import Fraction
from math import lcm

from sizer.core.poly import Poly
from sizer.oracles.derive.closed import Closed
from sizer.oracles.derive.expressions import Atom, arguments, atoms, is_whole

# Fields that every configuration of sizer has.
TAKEN = frozenset(("layout", "task", "n_labels", "letters", "meanings", "may_be_zero", "derive"))
BUILDERS = frozenset(("linear", "embedding", "layer_norm", "rms_norm", "symbol", "divide", "build", "c"))


class Sizes:
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
        """Python for an argument, or for a rounding."""
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
