"""What all configurations have in common.

A configuration is a frozen dataclass of an architecture's sizes and switches.
Its `__post_init__` checks them and derives the sizes that were not given, so that a builder
never divides. What was given is kept apart (`Model.given`), so that a change of one size, or its
replacement by a symbol, derives the others anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from sizer.core.dims import MAX_SIZE, Dim, divide, is_array
from sizer.core.poly import Poly, symbol
from sizer.errors import InvalidConfig

T = TypeVar("T")
C = TypeVar("C", bound="Config")
F = TypeVar("F", bound=Callable[..., Any])

# One concept, one word, one letter: docs/conventions.md.
LETTERS = {
    "d_model": "D",
    "n_layers": "L",
    "layers": "L",
    "n_heads": "H",
    "n_kv_heads": "K",
    "d_head": "Dh",
    "d_ff": "F",
    "vocab_size": "V",
    "n_ctx": "C",
    "n_experts": "E",
    "top_k": "k",
    "d_ff_expert": "Fe",
    "n_shared_experts": "Es",
    "n_dense_layers": "Ld",
    "q_lora_rank": "Rq",
    "kv_lora_rank": "Rk",
    "d_state": "S",
    "window": "W",
    "seq_len": "T",
    "batch_size": "B",
    "n_labels": "Nl",
    "mtp_layers": "Lp",
}

MEANINGS = {
    "d_model": "width of the residual stream",
    "n_layers": "blocks",
    "n_heads": "query heads",
    "n_kv_heads": "key/value heads",
    "d_head": "width of one head",
    "d_ff": "hidden width of the MLP",
    "vocab_size": "rows of the embedding as stored",
    "n_ctx": "context; rows of learned positions",
    "n_experts": "routed experts",
    "top_k": "routed experts a token visits",
    "d_ff_expert": "hidden width of one expert",
    "n_shared_experts": "always-on experts",
    "n_dense_layers": "leading dense blocks",
    "q_lora_rank": "latent rank of the queries",
    "kv_lora_rank": "latent rank of the keys and values",
    "d_state": "state of an SSM layer",
    "window": "sliding window",
    "seq_len": "tokens a sequence",
    "batch_size": "sequences",
    "n_labels": "labels of the classification head",
    "mtp_layers": "layers that predict tokens further ahead",
}


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
def configuration(cls: type[T]) -> type[T]:
    """A frozen dataclass of keyword fields: the decorator of every configuration.

    Comparison and printing are left out, since defining them takes half the time.
    """
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


@configuration
class Config:
    """The base of every architecture's configuration.

    Fields annotated `Dim` are sizes and may become symbols or arrays; `bool`, `str` and tuples
    are switches; `Pattern` and `PerLayer` say how layers differ from one another.

    `layout`: names and shapes of the published "checkpoint", or those in memory ("transformers").
    `task`: what stands on top of the model: "base" (nothing), "causal", "masked", "seq2seq",
    "pretraining", "sequence", "token", "qa". `n_labels`: outputs of a classification head.
    """

    layout: str = "checkpoint"
    task: str = "causal"
    n_labels: Dim = 2

    # Letters and meanings of the sizes that only this architecture has.
    letters: ClassVar[Mapping[str, str]] = {}
    meanings: ClassVar[Mapping[str, str]] = {}
    # Sizes of which a model may have none, such as leading dense layers.
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"n_dense_layers"})

    def derive(self, **values: Any) -> None:
        """Set the sizes that were not given; for use in `__post_init__` only."""
        for name, value in values.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def derive_quotient(self, name: str, over: str, under: str, *, fix: str = "") -> None:
        """Set a size that was not given to the exact quotient of two others: `d_head`, as a rule.

        `fix`: what else to do where they do not divide, for the message.
        """
        if getattr(self, name) is None:
            sizes = getattr(self, over), getattr(self, under)
            self.derive(**{name: divide(*sizes, names=f"{over} / {under}", fix=fix)})


# An annotation as a file with postponed annotations has it, and as a notebook has it.
_DIM = ("Dim", "typing.Any", "typing.Optional[typing.Any")


def once(function: F) -> F:
    """Keep what a function answers for a class of configurations.

    `functools.cache` does it; its type asks for a hash, and mypy takes that of a class for its instances'.
    """
    return cast(F, cache(function))


@once
def size_names(config: type[Config]) -> list[str]:
    """The fields of a configuration that are sizes."""
    return [f.name for f in fields(config) if str(f.type).startswith(_DIM)]


def letter(config: type[Config], name: str) -> str:
    """The letter that stands for a field in formulas; a field without one keeps its name."""
    return config.letters.get(name) or LETTERS.get(name, name)


def meaning(config: type[Config], name: str) -> str:
    """What a size means, for the legend of a formula."""
    return config.meanings.get(name) or MEANINGS.get(name, name.replace("_", " "))


def check_sizes(config: Config) -> None:
    """Refuse what cannot be a size; symbols and arrays pass."""
    for name in size_names(type(config)):
        check_size(name, getattr(config, name), least=0 if name in config.may_be_zero else 1)


def check_size(name: str, value: Any, *, least: int = 1) -> None:
    """Refuse a number that is not a positive integer of a sane magnitude."""
    if value is None or isinstance(value, Poly) or hasattr(value, "free_symbols"):
        return
    if is_array(value):
        if not (value.dtype.kind in "iuO" and (value >= least).all()):
            raise InvalidConfig(f"{name}: an array of sizes must hold positive integers")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidConfig(f"{name} = {value!r} is not a whole number")
    if value < least:
        raise InvalidConfig(
            f"{name} = {value} is {'negative' if value < 0 else 'zero'}; it must be at least {least}"
        )
    if value > MAX_SIZE:
        raise InvalidConfig(f"{name} is beyond {MAX_SIZE:,}, the largest size that is accepted")


def symbolic(
    config: type[C], given: Mapping[str, Any], *, suffix: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The given values with every size replaced by its letter, and what each letter stands for.

    `suffix` ends each letter, where the configuration is a part of another.

    >>> from sizer.architectures.decoders.gpt2 import GPT2Config
    >>> symbolic(GPT2Config, {"d_model": 768, "n_heads": 12})[0]["d_model"]
    D
    """
    symbols, sizes = dict(given), size_names(config)
    values: dict[str, Any] = {}
    for field in fields(config):
        value = given.get(field.name, field.default)
        name = letter(config, field.name) + suffix
        if hasattr(value, "symbolic"):
            symbols[field.name], counts = value.symbolic(name)
            values.update(counts)
        elif field.name in sizes and (isinstance(value, int) or is_array(value)):
            symbols[field.name] = symbol(name)
            values[name] = value
    return symbols, values


def is_symbolic(size: Dim) -> bool:
    """Whether a size is a symbol rather than a number or an array of numbers."""
    return isinstance(size, Poly) or hasattr(size, "free_symbols")
