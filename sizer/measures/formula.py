"""The closed form of a count: one block, each component, and the total.

The hot path works on `Poly`; sympy is imported when an expression is asked for as sympy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sizer.core.config import Config, letter, meaning, size_names
from sizer.core.dims import Dim
from sizer.core.poly import Monomial, Poly, as_poly, exact_quotient, term_text
from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.core.walk import Row, walk
from sizer.measures.count import count

if TYPE_CHECKING:
    import sympy

    from sizer.model import Model


# More flags than this make a line nobody reads.
FEW_SWITCHES = 8


class Group(Record):
    """What some repeats of one part of a model hold, each.

    `name` is the repeated module ("transformer.h"), `times` how many repeats hold it.
    """

    __slots__ = ("each", "name", "times")

    def __init__(self, name: str, times: Poly | int, each: Poly) -> None:
        self.name = name
        self.times = times
        self.each = each


class ClosedForm(NamedTuple):
    """A count as a sum over letters, kept as the tree has it: what stands alone, and the groups."""

    alone: Poly
    groups: list[Group]
    order: list[Monomial | int]  # monomials of `alone`, and places in `groups`, as they occur

    @property
    def total(self) -> Poly:
        """The whole sum, multiplied out."""
        return sum((group.each * group.times for group in self.groups), start=self.alone)

    def text(self, *, ascii_only: bool = False) -> str:
        """`2VD + CD + L(12D² + 10D) + 2D`: in the order of the model, blocks in brackets."""
        pieces = [self.groups[part] if isinstance(part, int) else part for part in self.order]
        texts = [
            _group_text(piece, ascii_only)
            if isinstance(piece, Group)
            else _term(piece, self.alone.terms[piece], ascii_only)
            for piece in pieces
            if isinstance(piece, Group) or piece in self.alone.terms
        ]
        return " + ".join(texts).replace("+ -", "- ") or "0"


def closed_form(rows: Iterable[Row]) -> ClosedForm:
    """The closed form of the parameters in the rows of a symbolic tree."""
    alone = Poly({})
    order: list[Monomial | int] = []
    groups: dict[tuple[str, str], Group] = {}
    for row in rows:
        if not isinstance(row.leaf, Param) or row.leaf.tied_to is not None:
            continue
        numel = as_poly(row.numel)
        if not row.frames:
            for monomial, coefficient in numel.terms.items():
                if monomial not in order:
                    order.append(monomial)
                alone = alone + Poly({monomial: coefficient})
            continue
        outer, *inner = row.frames
        name = row.name.partition(".{}")[0]
        times = 1 if outer.shared else outer.count
        key = (name, str(times))
        each = numel
        for frame in inner:
            if not frame.shared:
                each = each * frame.count
        if key not in groups:
            order.append(len(groups))
            groups[key] = Group(name, _poly_or_int(times), each)
        else:
            groups[key] = groups[key]._replace(each=groups[key].each + each)
    return ClosedForm(alone, list(groups.values()), order)


class Formula:
    """The closed form of a model's count; expressions are sympy's.

    `total`, `block` (one block, or a dictionary of several kinds), `components`, and `legend`:
    for each letter its field, value and meaning.
    """

    def __init__(
        self, form: ClosedForm, components: Mapping[str, Poly], legend: Mapping[str, Letter]
    ) -> None:
        self.form = form
        self.component_polys = dict(components)
        self.letters = dict(legend)

    def __repr__(self) -> str:
        return f"<Formula {self.form.text()}>"

    def _repr_html_(self) -> str:
        from sizer.core.html import table

        groups = [(f"{label(group, self.form)}, each", group.each.text()) for group in self.form.groups]
        parts = [(name, poly.text()) for name, poly in self.component_polys.items()]
        legend = [f"{code} = {entry.value}  {entry.meaning}" for code, entry in self.letters.items()]
        rows = [*groups, *parts, ("total", self.form.text())]
        return table(("part", "formula"), rows, below=legend)

    @cached_property
    def total(self) -> sympy.Expr:
        """Parameters in all."""
        return self.form.total.to_sympy()

    @cached_property
    def blocks(self) -> dict[str, sympy.Expr]:
        """What each kind of repeat holds."""
        return {label(group, self.form): group.each.to_sympy() for group in self.form.groups}

    @property
    def block(self) -> sympy.Expr | dict[str, sympy.Expr]:
        """One block, where all are alike; else each kind under its name."""
        blocks = self.blocks
        return next(iter(blocks.values())) if len(blocks) == 1 else blocks

    @cached_property
    def components(self) -> dict[str, sympy.Expr]:
        """Each component in all."""
        return {name: poly.to_sympy() for name, poly in self.component_polys.items()}

    @property
    def legend(self) -> dict[str, str]:
        """What each letter means."""
        return {code: entry.meaning for code, entry in self.letters.items()}


class Letter(NamedTuple):
    """What a letter in a formula stands for."""

    field: str
    value: int
    meaning: str


def formula(model: Model) -> Formula:
    """The closed form of a model's count."""
    rows = walk(model.symbolic_tree())
    form = closed_form(rows)
    components = {name: as_poly(value) for name, value in count(rows).components.items()}
    return Formula(form, components, legend(model, form.total.letters))


def legend(model: Model, letters: Iterable[str]) -> dict[str, Letter]:
    """The entries of the letters that occur, in the order of the configuration's fields."""
    config, values = model.symbolic
    kind: type[Config] = type(config)
    wanted = set(letters)
    entries: dict[str, Letter] = {}
    for name in size_names(kind):
        code = letter(kind, name)
        if code in wanted and code in values:
            entries[code] = Letter(name, values[code], meaning(kind, name))
    for code, value in values.items():
        if code in wanted and code not in entries:
            base, _, rest = code.partition("_")
            what = f"{rest.replace('_', ' ')} layers" if base == "L" else f"{base} of some layers"
            entries[code] = Letter(code, value, what)
    return entries


def switches(model: Model) -> dict[str, Any]:
    """The flags of a model's configuration that shape its formula.

    Of a builder with many, those that are not as usual, and the tie of the head.
    """
    config = model.config
    flags = {f.name: f for f in fields(config) if isinstance(getattr(config, f.name), bool | str)}
    flags.pop("layout")
    few = len(flags) <= FEW_SWITCHES
    return {
        name: getattr(config, name)
        for name, field in flags.items()
        if few or name == "tie_embeddings" or getattr(config, name) != field.default
    }


def label(group: Group, form: ClosedForm) -> str:
    """The name of a group of equal repeats: its module, and how many where that is not all."""
    alike = [other for other in form.groups if other.name == group.name]
    return group.name if len(alike) == 1 else f"{group.name} × {group.times}"


def elasticity(total: Poly, letter_: str, values: Mapping[str, int]) -> float:
    """How many per cent the total grows for one per cent more of a size."""
    slope = total.derivative(letter_).value(values)
    return float(exact_quotient(slope * values[letter_], total.value(values)))


def _group_text(group: Group, ascii_only: bool) -> str:
    each = group.each.text(ascii_only=ascii_only)
    times = group.times
    if isinstance(times, int):
        return each if times == 1 else f"{times}{'*' if ascii_only else ''}({each})"
    text = times.text(ascii_only=ascii_only)
    if len(times.terms) > 1:
        text = f"({text})"
    glue = "*" if ascii_only else "·" if text[-1] != ")" and len(text) > 1 else ""
    return f"{text}{glue}({each})"


def _term(monomial: Monomial, coefficient: Any, ascii_only: bool) -> str:
    sign = "-" if coefficient < 0 else ""
    return sign + term_text(monomial, abs(coefficient), ascii_only=ascii_only)


def _poly_or_int(size: Dim) -> Poly | int:
    return size if isinstance(size, Poly) else int(size)
