"""The terms of a checkpoint: what its files hold beside the weights, and what others leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sizer.checkpoint import Checkpoint
from sizer.core.record import Record
from sizer.errors import BadInput
from sizer.oracles.reconcile.of_model import TOWERS
from sizer.oracles.reconcile.term import Term, Variant
from sizer.sources.checkpoints.logical.weights import Weight

_COMPONENTS = {
    "embedding": ("token embedding left out", 0),
    "position": ("positions left out", 0),
    "head": ("head left out", 0),
    "norm": ("norms left out", 1),
    "router": ("routers left out", 1),
}


class _Cell(Record):
    """Weights that no term tells apart: their traits, and how many elements they have."""

    __slots__ = ("params", "traits")

    def __init__(self, traits: frozenset[str], params: int) -> None:
        self.traits = traits
        self.params = params


def variants_of(checkpoint: Checkpoint) -> Iterator[Variant]:
    """The variants of a checkpoint: logical weights with what lies beside them, active, and bytes."""
    found = checkpoint.count()
    if not found.total:
        raise BadInput(f"{checkpoint.name} holds no weights to reconcile a number with")
    weights = checkpoint.logical.weights
    cells = _cells(weights)
    beside = tuple(_beside(checkpoint, weights))
    pool = [*beside, *_tied(weights, cells), *_left_out(cells)]
    vocabulary = _vocabulary(weights)
    yield Variant(found.total, (), pool, per_row=vocabulary)
    if found.active not in (None, found.total):
        assert found.active is not None
        why = "what one token visits: of the routed experts, the chosen ones alone"
        idle = Term(
            "active parameters instead of all", found.active - found.total, "− idle experts", why, 0, 0
        )
        kept = _left_out([cell for cell in cells if "experts" not in cell.traits])
        yield Variant(found.total, (idle,), kept)
    yield Variant(found.bytes, (), (), stored=True)
    # A naive count of elements has all of it at once, however much that is.
    yield Variant(found.total, beside, (), weight=1)


def _traits(weight: Weight, further: Callable[[str], bool]) -> frozenset[str]:
    steps = weight.name.split(".")
    found = {weight.component}
    if steps[-1] == "bias":
        found.add("bias")
    if "pooler" in steps:
        found.add("pooler")
    if any("shared_expert" in step or "_shexp" in step for step in steps):
        found.add("shared experts")
    found |= {name for name, words in TOWERS.items() if not words.isdisjoint(steps)}
    if further(weight.name):
        found.add("prediction layers")
    return frozenset(found)


def _cells(weights: list[Weight]) -> list[_Cell]:
    further = _further_layers(weights)
    sums: dict[frozenset[str], int] = {}
    for weight in weights:
        if weight.kind == "param" and weight.tied_to is None:
            traits = _traits(weight, further)
            sums[traits] = sums.get(traits, 0) + weight.params
    return [_Cell(traits, params) for traits, params in sums.items()]


def _further_layers(weights: list[Weight]) -> Callable[[str], bool]:
    """Whether a name is of a layer for multi-token prediction: below `mtp`, or of one with an `eh_proj`."""
    joined = tuple(w.name[: w.name.index(".eh_proj.") + 1] for w in weights if ".eh_proj." in w.name)

    def test(name: str) -> bool:
        return name.startswith(joined) or any(
            step.startswith("mtp") or step == "nextn" for step in name.split(".")
        )

    return test


def _left_out(cells: list[_Cell]) -> Iterator[Term]:
    def term(name: str, test: Callable[[frozenset[str]], bool], why: str, cost: int = 1) -> Term:
        chosen = [i for i, cell in enumerate(cells) if test(cell.traits)]
        amount = sum(cells[i].params for i in chosen)
        return Term(name, -amount, f"−{amount:,}", why, sum(1 << i for i in chosen), cost)

    def having(trait: str) -> Callable[[frozenset[str]], bool]:
        return lambda traits: trait in traits

    def of(component: str, *, further: bool = False) -> Callable[[frozenset[str]], bool]:
        return lambda t: component in t and ("prediction layers" in t) == further and "pooler" not in t

    for component, (name, cost) in _COMPONENTS.items():
        yield term(name, of(component), f"tensors of the {component}", cost)
    for component in ("embedding", "head"):
        why = f"the {component} of the model, stored again"
        yield term(f"{component} of the prediction layers left out", of(component, further=True), why, 0)
    yield term("all embeddings left out", lambda t: not t.isdisjoint(("embedding", "position")), "tables", 0)
    yield term("pooler left out", having("pooler"), "the pooler of a base model", 0)
    yield term("biases of matrices left out", lambda t: "bias" in t and "norm" not in t, "no biases")
    yield term("all biases left out", having("bias"), "biases of matrices and of norms")
    yield term("shared experts left out", having("shared experts"), "those that all tokens visit", 2)
    yield term(
        "layers for multi-token prediction left out",
        having("prediction layers"),
        "the class of transformers does not build them",
        0,
    )
    for name in TOWERS:
        yield term(f"{name} left out", having(name), "the language model alone", 0)


def _beside(checkpoint: Checkpoint, weights: list[Weight]) -> Iterator[Term]:
    """What is stored and no parameter; all of it together is what a naive count of elements adds."""
    sums: dict[tuple[str, str], int] = {}

    def add(name: str, why: str, elements: int) -> None:
        sums[name, why] = sums.get((name, why), 0) + elements

    for weight in weights:
        if weight.tied_to is not None:
            continue
        if weight.kind == "buffer":
            add(f"{'.'.join(weight.name.split('.')[-2:])} buffers", "stored and never learned", weight.params)
        if weight.scheme:
            why = "the stored words are counted, and each holds several weights"
            words = weight.stored.elements
            add(f"packed words instead of weights ({weight.scheme})", why, words - weight.params)
    for helper in checkpoint.logical.helpers:
        if helper.stored.tied_to is None:
            why = "stored beside the weights, and no weight"
            add(f"{helper.component} counted", why, helper.stored.elements)
    for (name, why), amount in sums.items():
        if amount:
            yield Term(name, amount, f"{amount:,}".replace("-", "−"), why, 0, 0)


def _tied(weights: list[Weight], cells: list[_Cell]) -> Iterator[Term]:
    tied = sum(weight.params for weight in weights if weight.tied_to is not None)
    why = "they share the storage of another tensor"
    yield Term("tied tensors counted again", tied, f"{tied:,}", why, 0, 0)
    if not any("head" in cell.traits and "pooler" not in cell.traits for cell in cells):
        tables = [w.params for w in weights if w.component == "embedding" and len(w.shape) == 2]
        table = max(tables, default=0)
        why = "the files have no head, which a model that ties it counts again as a part of its own"
        yield Term("tied head counted again", table, f"{table:,}", why, 0, 0)


def _vocabulary(weights: list[Weight]) -> tuple[int, int, int]:
    tables = [
        w
        for w in weights
        if w.component in ("embedding", "head")
        and len(w.shape) == 2
        and w.kind == "param"
        and w.tied_to is None
    ]
    rows = max((w.shape[0] for w in tables), default=0)
    return sum(w.shape[1] for w in tables if w.shape[0] == rows), rows, 0
