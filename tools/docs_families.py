"""docs/families.md: each architecture as a table of operations, from its tree over letters."""

from __future__ import annotations

from collections.abc import Iterator

import sizer
from sizer.architectures.index import ARCHITECTURE_MODULES
from sizer.core.poly import as_poly, symbol
from sizer.core.tree import Op, Param
from sizer.core.walk import Row, walk
from sizer.measures.closed_forms import flops_forms
from sizer.measures.flops import flops_of
from sizer.measures.passes import Pass
from sizer.measures.products import as_products
from sizer.model import Model
from sizer.sources.presets import presets

GROUPS = {
    "decoders": "Decoders",
    "moe": "Mixtures of experts",
    "recurrent": "Recurrent and hybrid models",
    "encoders": "Encoders",
    "encoder_decoders": "Encoder-decoders",
    "multimodal": "Models that see and hear",
}
HEAD = """# Derivations, family by family

Each table is the tree of one architecture over letters, with one of its presets as the example.
A row is an operation, the shape of its tensor, the FLOPs of a forward pass over B sequences of T tokens,
and its parameters, all copies together.
The last row is their sum, and below it stand the same sums with the numbers in.
A multiply-add is 2 FLOPs ([conventions](conventions.md)).
A tensor that is tied to another has no parameters and still does its product.
Attention and other operations without a tensor show their sizes where others have a shape.
`sizer explain MODEL` and `sizer flops MODEL --explain` print this for any model.
This page is written by `tools/docs.py`.
"""


def page() -> str:
    """The page: a section for each architecture that a preset has, in groups."""
    examples: dict[str, Model] = {}
    for entry in presets():
        model = sizer.load(entry.name)
        examples.setdefault(model.architecture, model)
    lines = [HEAD]
    for group, title in GROUPS.items():
        members = sorted(n for n in examples if ARCHITECTURE_MODULES[n].partition(".")[0] == group)
        lines += [f"## {title}", ""]
        for name in members:
            lines += [*section(name, examples[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def section(name: str, model: Model) -> Iterator[str]:
    """The table of one architecture."""
    rows = walk(model.symbolic_tree())
    run = Pass(symbol("B"), symbol("T"), encoder=symbol("Te"))
    found = flops_of(rows, run, products=as_products(model.rows(), "eager"))
    forward = {id(part.row): part.forward for part in found.parts}
    form, step = model.formula(), flops_forms(model, encoder_len=1024)
    yield from (f"### {name}", "", f"`sizer explain {model.name}`", "")
    yield from ("| operation | shape | FLOPs | params |", "| --- | --- | --- | --- |")
    for row in rows:
        if isinstance(row.leaf, Param) or id(row) in forward:
            flops = as_poly(forward.get(id(row), 0)).text()
            yield f"| `{row.name.replace('{}', '*')}` | {shape(row)} | {flops} | {params(row)} |"
    yield f"| **sum** | | {step.forms['forward'].text()} | {form.form.total.text()} |"
    yield ""
    yield (
        f"{model.name}, one sequence of 1,024 tokens: {step.value('forward'):,} FLOPs, "
        f"{model.count().total:,} parameters."
    )
    yield ""
    letters = {**step.letters, **form.letters}
    yield "; ".join(f"{code} = {entry.value:,} ({entry.meaning})" for code, entry in letters.items()) + "."


def shape(row: Row) -> str:
    """`[V, D]`, or the sizes of an operation that has no tensor."""
    if isinstance(row.leaf, Param):
        return f"[{', '.join(str(axis.size) for axis in row.leaf.axes)}]"
    assert isinstance(row.leaf, Op)
    return f"{row.leaf.kind}: " + ", ".join(f"{k} {v}" for k, v in row.leaf.sizes.items() if v is not None)


def params(row: Row) -> str:
    """What a tensor counts, over all its copies."""
    if not isinstance(row.leaf, Param):
        return ""
    if row.leaf.tied_to is not None:
        return f"0, `{row.leaf.tied_to.replace('{}', '*')}`"
    return as_poly(row.numel * row.copies).text()
