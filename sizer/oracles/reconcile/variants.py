"""The whole readings of a model: as it is, with prediction layers, active, packed, another class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizer.errors import SizerError
from sizer.model import Model
from sizer.oracles.reconcile import of_model, storage
from sizer.oracles.reconcile.ledger import Ledger
from sizer.oracles.reconcile.term import Term, Variant

if TYPE_CHECKING:
    from sizer.core.dims import Dim

# Above this, a term belongs to another architecture and is not tried beside packed weights.
UNLIKELY = 3
# What files are most often published in; figures of bytes are compared with each.
FORMATS = ("gptq-int4-g128", "awq-int4-g128", "nf4", "bnb-int8", "fp8-block", "q4_k_m", "q5_k_m", "q8_0")
# The most classes of one model type that are built.
MOST_CLASSES = 24


def variants(model: Model) -> Iterator[Variant]:
    """The variants of a model, the plain one first; each is made when it is asked for."""
    plain = Ledger(model)
    start = plain.total
    terms = of_model.terms(plain)
    vocabulary = _per_row(plain)
    yield Variant(start, (), [*terms, *storage.scales(plain)], per_row=vocabulary)
    whole: list[tuple[Ledger, tuple[Term, ...], list[Term]]] = [(plain, (), terms)]
    if model.mtp_params:
        counted = model.with_values(count_mtp=True)
        further = Ledger(counted)
        more = _prediction(model, further)
        pool = of_model.terms(further)
        yield Variant(start, (more,), [*pool, *storage.scales(further)], per_row=_per_row(further))
        whole.append((further, (more,), pool))
        yield from _published(start, more, further, pool)
    for ledger, base, _ in list(whole):
        yield from _active(start, ledger, base)
    yield from _rule_of_thumb(start, plain)
    yield from _classes(start, model)
    for packing in storage.packings():
        for ledger, base, pool in whole:
            found = storage.packed(ledger, packing)
            if found is not None:
                words, beside = found
                likely = [term for term in pool if term.cost < UNLIKELY]
                yield Variant(start, (*base, words), [*likely, *beside], loose=True)
                usual = tuple(term for term in beside if term.cost == 0 and term.amount)
                yield Variant(start, (*base, words, *usual), (), bundle=True, weight=len(base) + 1)


def of_bytes(model: Model) -> Iterator[Variant]:
    """The variants of a model for a figure of bytes: also its files in the usual formats."""
    yield from variants(model)
    start = Ledger(model).total
    for name in FORMATS:
        try:
            size = model.size(quant=name).data_bytes
        except SizerError:
            continue
        why = f"what `sizer size --quant {name}` stores, scales and the rest included"
        term = Term(
            f"bytes of {name} files, not parameters", size - start, f"{size:,} − {start:,}", why, 0, 1
        )
        yield Variant(start, (term,), (), stored=True)


def _published(start: int, more: Term, ledger: Ledger, pool: list[Term]) -> Iterator[Variant]:
    """All that published files hold: copies of the tables, router biases, and scales where in FP8."""
    stored = tuple(term for term in pool if term.amount > 0 and term.cost == 0)
    block = next(storage.scales(ledger))
    for extra in ((), (block,)):
        yield Variant(start, (more, *stored, *extra), (), bundle=True, weight=2 + len(extra) // 2)


def _per_row(ledger: Ledger) -> tuple[int, int, int]:
    tables, each, size = ledger.vocabulary()
    return each, size, ledger.mask(tables) | ledger.bit("vocabulary")


def _prediction(model: Model, counted: Ledger) -> Term:
    def text() -> str:
        return counted.formula([i for i in counted.own if counted.rows[i].component == "other"])()

    return Term(
        "layers for multi-token prediction",
        model.mtp_params,
        text,
        "the published files hold them, for training and speculative decoding; the class has none",
        0,
        0,
    )


def _active(start: int, whole: Ledger, base: tuple[Term, ...]) -> Iterator[Variant]:
    ledger = Ledger(whole.model, active=True)
    if ledger.total == whole.total:
        return
    idle = Term(
        "active parameters instead of all",
        ledger.total - whole.total,
        ledger.difference(whole),
        "what one token visits: of the routed experts, the chosen ones alone",
        0,
        0,
    )
    pool = [term for term in of_model.terms(ledger) if term.cost < UNLIKELY]
    yield Variant(start, (*base, idle), pool)


def _rule_of_thumb(start: int, ledger: Ledger) -> Iterator[Variant]:
    """12·L·D², and the tables that some add to it."""
    config = ledger.model.config
    width, layers = getattr(config, "d_model", None), getattr(config, "n_layers", None)
    if not isinstance(width, int) or not isinstance(layers, int):
        return
    rule: Dim = 12 * layers * width * width
    why = "a rule of thumb: four matrices of attention, an MLP of 4·D, and nothing else"
    _, each, size = ledger.vocabulary()
    words = each * size
    pool = [Term("tables of the vocabulary", words, f"{size:,}·{each:,}", "embedding and head on top", 0, 1)]
    position = ledger.having(lambda row: row.component == "position")
    pool.append(ledger.plus("table of positions", position, "positions on top"))
    first = Term("12·L·D² instead of the sum", rule - start, f"12·{layers}·{width:,}²", why, 0, 3)
    yield Variant(start, (first,), pool)


def _classes(start: int, model: Model) -> Iterator[Variant]:
    """The same configuration as another class of its model type, with another head or none."""
    for name, other in _other_classes(model):
        total = other.count().total
        if not isinstance(total, int) or total == start:
            continue
        term = Term(
            f"as {name}",
            total - start,
            f"{total:,} − {start:,}",
            f"{name} has another head, or none, on the same configuration",
            0,
            1,
        )
        yield Variant(start, (term,), ())


def _other_classes(model: Model) -> Iterator[tuple[str, Model]]:
    from sizer import loading
    from sizer.sources.model_types import classes_of, record_of

    if model.hf_config is not None:
        record = record_of(str(model.hf_config["model_type"]))
        here = model.hf_class
    else:
        try:
            record = record_of(model.architecture)
        except SizerError:
            return
        here = ""
    for name in list(dict.fromkeys(classes_of(record)))[:MOST_CLASSES]:
        if name == here:
            continue
        try:
            if model.hf_config is not None:
                yield name, loading.from_dict(model.hf_config, name=model.name, cls=name, trusted=True)
            else:
                from sizer.sources.hf_config import HFConfig

                task = HFConfig({}, record, name).task
                if task != getattr(model.config, "task", None):
                    yield name, model.with_values(task=task)
        except SizerError:
            continue
