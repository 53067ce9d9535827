"""Measures of a model as polynomials of those of its fields that vary.

One symbolic build answers a million points: the fields that vary become letters, and every measure
that has a closed form is worked out from it. What must divide what is noted on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sizer.architectures.registry import architecture
from sizer.core.config import letter, symbolic
from sizer.core.dims import Dim, Quotient, is_array, quotients
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.poly import Poly, as_poly, symbol
from sizer.core.record import Record
from sizer.core.walk import walk
from sizer.errors import InvalidConfig
from sizer.measures.cache_kinds import kept
from sizer.measures.cache_layers import Setup, smaller, window_letter
from sizer.measures.count import count
from sizer.measures.flops import flops_of, kernel_of
from sizer.measures.kv_cache import cache_of
from sizer.measures.passes import Pass
from sizer.measures.products import as_products
from sizer.measures.scans import log2
from sizer.measures.streams import encoder_length
from sizer.model import Model


class Lettered:
    """A model whose sizes are letters: its rows, what must divide, and the number of each letter.

    `fields`: those that will vary, which get a letter even where the model derives them.
    """

    def __init__(self, model: Model, fields: Iterable[str] = ()) -> None:
        self.model = model
        found_as = architecture(model.architecture)
        kind = found_as.config
        given = dict(model.given)
        for name in fields:
            if not isinstance(given.get(name), int):
                known = getattr(model.config, name)
                given[name] = known if isinstance(known, int) and not isinstance(known, bool) else 1
        symbols, self.numbers = symbolic(kind, given)
        with quotients() as found:
            self.config = kind(**symbols)
            self.rows = walk(found_as.build(self.config))
        self.codes = {name: letter(kind, name) for name in given if isinstance(symbols[name], Poly)}
        self.names = {code: name for name, code in self.codes.items()}
        self.conditions = conditions(found)
        self._lists = {
            name: value for name, value in model.given.items() if isinstance(value, Pattern | PerLayer)
        }
        self._kind = kind

    def at_depth(self, n_layers: int) -> dict[str, int]:
        """The letters that lists with an entry a layer have, for another number of layers."""
        before = getattr(self.model.config, "n_layers", None)
        found: dict[str, int] = {}
        for name, value in self._lists.items():
            if len(value) != before:
                continue
            code = letter(self._kind, name)
            mine = value.symbolic(code)[1]
            try:
                resized = value.resized(n_layers).symbolic(code)[1] if n_layers != before else mine
            except InvalidConfig as error:
                raise InvalidConfig(f"{self.model.name}: n_layers = {n_layers}: {error}") from None
            # A kind that no layer is of any more is there no times; a size stays the size it is.
            counts = isinstance(value, Pattern)
            found |= {
                key: resized.get(key, 0 if counts or key.startswith("L_") else number)
                for key, number in mine.items()
            }
        return found

    @property
    def listed(self) -> bool:
        """Whether the number of layers decides more than one letter."""
        before = getattr(self.model.config, "n_layers", None)
        return any(len(value) == before for value in self._lists.values())


def conditions(found: Iterable[Quotient]) -> list[Quotient]:
    """Those of the quotients that may not be whole, each once."""
    known: dict[Poly, Quotient] = {}
    for one in found:
        quotient = as_poly(one.dividend / one.divisor)
        powers = [power for monomial in quotient.terms for _, power in monomial]
        if min(powers, default=0) < 0 or any(c.denominator > 1 for c in quotient.terms.values()):
            known.setdefault(quotient, one)
    return list(known.values())


class Form(Record):
    """A measure's closed form: a polynomial, and what its value is divided by at last, rounded up."""

    __slots__ = ("divisor", "poly")

    def __init__(self, poly: Poly, divisor: int = 1) -> None:
        self.poly = poly
        self.divisor = divisor

    def value(self, values: Mapping[str, int]) -> int:
        """The number it is for these letters."""
        return -(-int(self.poly.value(values)) // self.divisor)

    def text(self) -> str:
        """As a formula of ASCII."""
        text = self.poly.text(ascii_only=True)
        return text if self.divisor == 1 else f"({text})/{self.divisor}"


# Of the run, beside the sizes of the model; each with its value where nobody gives one.
SETTINGS: dict[str, Any] = {
    "seq_len": 1024,
    "batch_size": 1,
    "encoder_len": None,
    "dtype": "bf16",
    "kv_dtype": None,
    "policy": "architecture",
    "attention": None,
    "mode": "train",
    "precision": "bf16",
    "optimizer": "adamw",
    "checkpointing": "none",
}
# Settings that are numbers, and so may be letters.
LENGTHS = {"seq_len": "T", "batch_size": "B", "encoder_len": "Te"}

COUNTS = {
    "params": "total",
    "active": "active",
    "embedding": "embedding",
    "non_embedding": "non_embedding",
    "trainable": "trainable",
    "tied": "tied",
    "buffers": "buffers",
}
FLOPS = {
    "flops": "forward",
    "flops_forward": "forward",
    "flops_backward": "backward",
    "flops_training": "training",
}
CACHE = {"kv_cache": "bytes", "kv_per_token": "bytes_per_token", "kv_constant": "constant_bytes"}


def closed(lettered: Lettered, what: str, settings: Mapping[str, Any]) -> Form | None:
    """The closed form of a measure, or nothing where it has none.

    >>> import sizer
    >>> str(closed(Lettered(sizer.load("gpt2-small")), "params", {}).poly)
    '12LD² + 13LD + VD + CD + 2D'
    """
    settings = {**SETTINGS, **settings}
    if what in COUNTS:
        return Form(as_poly(getattr(count(lettered.rows), COUNTS[what])))
    if what == "weights":
        from sizer.dtypes import bits

        return Form(as_poly(count(lettered.rows).total) * bits(settings["dtype"]), 8)
    given = settings["encoder_len"] is not None
    if what in FLOPS:
        kernel = kernel_of(settings["attention"] or "eager")
        products = as_products(lettered.model.rows(), kernel)
        run = Pass(symbol("B"), symbol("T"), encoder=symbol("Te"), encoder_given=given)
        found = flops_of(
            lettered.rows,
            run,
            kernel=kernel,
            products=products,
            mode="full" if settings["checkpointing"] == "full" else "none",
        )
        return Form(as_poly(getattr(found, FLOPS[what])))
    if what in CACHE and settings["policy"] in ("architecture", "full"):
        setup = Setup(symbol("B"), symbol("T"), symbol("Te"), _cache_dtype(settings))
        cache = cache_of(kept(lettered.rows, encoder_given=given), setup, settings["policy"])
        return Form(as_poly(getattr(cache, CACHE[what])))
    return None


def pointwise(model: Model, what: str, settings: Mapping[str, Any]) -> int:
    """A measure of one model, by its ledger.

    >>> import sizer
    >>> pointwise(sizer.load("gpt2-small"), "kv_cache", {"seq_len": 100})
    3686400
    """
    settings = {**SETTINGS, **settings}
    run = {"batch_size": settings["batch_size"], "seq_len": settings["seq_len"]}
    encoder = {} if settings["encoder_len"] is None else {"encoder_len": settings["encoder_len"]}
    if what in COUNTS:
        return int(getattr(model.count(), COUNTS[what]))
    if what == "weights":
        from sizer.dtypes import bits

        return -(-int(model.count().total) * bits(settings["dtype"]) // 8)
    if what in FLOPS:
        found = model.flops(
            **run,
            **encoder,
            attention=settings["attention"] or "eager",
            checkpointing=settings["checkpointing"],
        )
        return int(getattr(found, FLOPS[what]))
    if what in CACHE:
        cache = model.kv_cache(**run, **encoder, dtype=_cache_dtype(settings), policy=settings["policy"])
        return int(getattr(cache, CACHE[what]))
    mode = {"memory_train": "train", "memory_infer": "infer"}.get(what, settings["mode"])
    kernel = settings["attention"] or "sdpa"
    if mode == "infer":
        serving = model.memory(
            mode="infer", **run, attention=kernel, dtype=settings["dtype"], kv_dtype=settings["kv_dtype"]
        )
        return int(serving.total_bytes)
    return int(
        model.memory(
            mode,
            **run,
            attention=kernel,
            precision=settings["precision"],
            optimizer=settings["optimizer"],
            checkpointing=settings["checkpointing"],
        ).peak_bytes
    )


def run_letters(lettered: Lettered, values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Dim]:
    """The letters of a run: tokens, sequences, what a window leaves of them, and logarithms."""
    tokens, batch = settings["seq_len"], settings["batch_size"]
    encoder = settings["encoder_len"]
    if encoder is None:
        encoder = encoder_length(lettered.model.rows(), tokens)
    found: dict[str, Dim] = {"T": tokens, "B": batch, "Te": encoder, "lgT": _log2(tokens)}
    if "D" in values:
        found["lgD"] = _log2(values["D"])
    for one in kept(lettered.rows):
        if one.window is not None:
            width = as_poly(one.window)
            if all(p == 1 for m in width.terms for _, p in m) and len(width.terms) == 1:
                ((monomial, factor),) = width.terms.items()
                size: Dim = factor
                for code, _ in monomial:
                    size = size * values[code]
                found[window_letter(one.window)] = smaller(tokens, size)
    return found


def _log2(size: Dim) -> Dim:
    if is_array(size):
        import numpy

        return numpy.array([log2(int(one), "") for one in size.ravel()]).reshape(size.shape)
    return log2(size, "")


def _cache_dtype(settings: Mapping[str, Any]) -> str:
    return str(settings["kv_dtype"] or settings["dtype"])
