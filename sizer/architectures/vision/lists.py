"""Values of a file that a reader computes with, checked before: lists with an entry a stage, and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.core.dims import MAX_SIZE
from sizer.errors import InvalidConfig, clip
from sizer.sources.values import MAX_ENTRIES

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The activations of transformers that have a parameter of their own.
LEARNED = ("prelu", "xielu")


def activation_without_weights(hf: HFConfig, key: str) -> str:
    """The name of an activation, which must not be one that is learned."""
    name = hf[key]
    if not isinstance(name, str) or not name:
        raise InvalidConfig(f"{key} = {clip(repr(name))} is not the name of a function")
    if name in LEARNED:
        raise InvalidConfig(
            f"{key} = {name} has parameters of its own, which are not described for this type"
        )
    return name


def listed(hf: HFConfig, key: str, length: int | None = None) -> tuple[Any, ...]:
    """A value of the file that must be a list, of a length if one is given."""
    return as_list(key, hf[key], length)


def as_list(key: str, value: Any, length: int | None = None) -> tuple[Any, ...]:
    """The entries of a list under a name, which must not be empty."""
    if not isinstance(value, list | tuple) or not value or len(value) > MAX_ENTRIES:
        raise InvalidConfig(f"{key} = {clip(repr(value))} is not a list with an entry for each stage")
    if length is not None and len(value) != length:
        raise InvalidConfig(f"{key} lists {len(value)} entries where there must be {length}")
    return tuple(value)


def listed_sizes(hf: HFConfig, key: str, length: int | None = None) -> tuple[int, ...]:
    """A value of the file that must be a list of positive whole numbers."""
    return tuple(as_size(key, entry) for entry in listed(hf, key, length))


def as_size(key: str, value: Any) -> int:
    """A value that must be a positive whole number, of no more than the largest size."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE:
        raise InvalidConfig(f"{key}: {clip(repr(value))} is not a positive whole number")
    return value


def flag(key: str, value: Any) -> bool:
    """A value that must be true or false."""
    if not isinstance(value, bool):
        raise InvalidConfig(f"{key}: {clip(repr(value))} is neither true nor false")
    return value
