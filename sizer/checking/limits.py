"""A budget in words: `params <= 8e9`, `memory.peak <= 80GiB`. Read by hand, never evaluated."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sizer import units
from sizer.core.record import Record
from sizer.errors import BadInput, UnknownName, clip
from sizer.measures.count import COMPONENTS

COUNTS = ("params", "active", "trainable", "embedding", "non_embedding", "tied", "buffers")
# Group -> what it measures, and how a run is described.
VALUES: dict[str, tuple[str, ...]] = {
    "flops": ("forward", "backward", "training"),
    "kv_cache": ("bytes", "bytes_per_token", "constant_bytes"),
    "memory": (
        "weights_bytes",
        "buffers_bytes",
        "gradients_bytes",
        "optimizer_bytes",
        "activations_bytes",
        "peak_bytes",
        "kv_cache_bytes",
        "total_bytes",
    ),
    "weights": ("bytes",),
}
# Of an architecture, and what a file of LoRA's has beside them.
PARTS = (*COMPONENTS, "adapter")
QUANTITIES = (
    *COUNTS,
    *(f"components.{name}" for name in PARTS),
    *(f"{group}.{value}" for group, values in VALUES.items() for value in values),
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
_LIMIT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|<|>)\s*(\S.*?)\s*")
_NUMBER = re.compile(r"(\d[\d_,]{0,40}(?:\.\d{1,20})?(?:[eE]\+?\d{1,2})?)\s*([A-Za-z]*)")
_COUNT_SCALES = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_FLOPS_SCALES = {letter: 1000**i for i, letter in enumerate(("", "k", "M", "G", "T", "P", "E", "Z", "Y"))}


class Limit(Record):
    """A quantity, how it is compared, and with what; `text` as it was written."""

    __slots__ = ("bound", "quantity", "sign", "text")

    def __init__(self, text: str, quantity: str, sign: str, bound: Fraction) -> None:
        self.text = text
        self.quantity = quantity
        self.sign = sign
        self.bound = bound

    def holds(self, value: int) -> bool:
        """Whether a number is within the limit."""
        return _COMPARE[self.sign](value, self.bound)


def parse_limit(text: object) -> Limit:
    """A limit from a text.

    Counts take k, M, B and T (10³ to 10¹²); bytes take kB to TB (10³) and KiB to TiB (2¹⁰).

    >>> parse_limit("memory.peak <= 80GiB").quantity, parse_limit("params < 8.03e9").holds(8_030_261_248)
    ('memory.peak_bytes', False)
    """
    match = _LIMIT.fullmatch(text) if isinstance(text, str) and len(text) < 200 else None
    if match is None:
        raise BadInput(f"{clip(text)!r} is no limit; write it as 'params <= 8e9' or 'memory.peak <= 80GiB'")
    name, sign, right = match.groups()
    quantity = _quantity(name)
    return Limit(str(text), quantity, sign, _bound(quantity, right, str(text)))


def _quantity(name: str) -> str:
    for spelt in (name, f"{name}_bytes", f"{name}.bytes"):
        if spelt in QUANTITIES:
            return spelt
    raise UnknownName(
        "quantity", name, QUANTITIES, hint="such as params, active, memory.peak, kv_cache.bytes"
    )


def _bound(quantity: str, right: str, text: str) -> Fraction:
    match = _NUMBER.fullmatch(right)
    number, unit = match.groups() if match else ("", "")
    scale: int | None
    if "bytes" in quantity:
        scale = units.parse_bytes(f"1{unit}")
        known = "bytes, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
    elif quantity.startswith("flops"):
        scale = _FLOPS_SCALES.get(unit.removesuffix("FLOPs"))
        known = "FLOPs, GFLOPs, TFLOPs, PFLOPs, …"
    else:
        scale = _COUNT_SCALES.get(unit)
        known = "k, M, B, T"
    if match is None or scale is None:
        raise BadInput(f"{clip(text)!r}: {clip(right)!r} is no number; units of {quantity} are {known}")
    return Fraction(number.replace(",", "").replace("_", "")) * scale
