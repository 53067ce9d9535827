"""Sizes that follow from others, and where sizes are looked for."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import gcd
from typing import Any

from sizer.core.dims import round_up
from sizer.core.record import Record
from sizer.errors import InvalidConfig, clip
from sizer.planning.solving.targets import positive

# Where a size is looked for unless somebody says otherwise: from, to, and the multiple people use.
RANGES: dict[str, tuple[int, int, int]] = {
    "n_layers": (1, 256, 1),
    "n_decoder_layers": (1, 256, 1),
    "d_model": (64, 65_536, 64),
    "d_ff": (64, 262_144, 64),
    "d_ff_expert": (64, 65_536, 64),
    "vocab_size": (256, 1_048_576, 64),
    "n_ctx": (128, 1_048_576, 128),
    "n_heads": (1, 256, 1),
    "n_kv_heads": (1, 256, 1),
    "d_head": (8, 512, 8),
    "n_experts": (4, 1024, 4),
    "top_k": (1, 64, 1),
    "n_shared_experts": (1, 16, 1),
    "n_dense_layers": (0, 64, 1),
}
OTHER = (1, 65_536, 1)
# Sizes that tensor parallelism splits among its ranks.
SPLIT = ("n_heads", "n_kv_heads", "d_ff", "d_ff_expert")


class Link(Record):
    """A size that follows from another: `source` · `ratio`, exactly, or rounded up to `multiple`.

    `soft`: nobody asked for the multiple; it rounds what is not whole, where usual sizes are wanted.
    """

    __slots__ = ("exact", "field", "multiple", "ratio", "soft", "source", "why")

    def __init__(
        self,
        field: str,
        source: str,
        ratio: Fraction,
        why: str,
        multiple: int = 1,
        exact: bool = True,
        soft: bool = False,
    ) -> None:
        self.field = field
        self.source = source
        self.ratio = ratio
        self.why = why
        self.multiple = multiple
        self.exact = exact
        self.soft = soft

    def value(self, source: int, *, usual: bool = True) -> int | None:
        """The size, or nothing where it is not whole, or no multiple of what it must be."""
        over, under = source * self.ratio.numerator, self.ratio.denominator
        if not self.exact:
            # As LLaMA's code: the whole part first, then up to the multiple.
            plain = self.soft and (not usual or over % under == 0)
            return int(round_up(max(over // under, 1), 1 if plain else self.multiple))
        if over % under or (over // under) % self.multiple or over < under:
            return None
        return over // under

    def function(self, *, usual: bool) -> Callable[[int], int]:
        """`value` of a size that is rounded, for a search that asks for it a million times."""
        over, under, multiple, soft = self.ratio.numerator, self.ratio.denominator, self.multiple, self.soft
        if soft and not usual:
            return lambda source: source * over // under or 1
        if soft:

            def plain_or_up(source: int) -> int:
                number, rest = divmod(source * over, under)
                return number if rest == 0 else -(-max(number, 1) // multiple) * multiple

            return plain_or_up
        return lambda source: -(-(source * over // under or 1) // multiple) * multiple

    @property
    def step(self) -> int:
        """What the source of a size that follows exactly must be a multiple of."""
        whole = self.ratio.denominator * self.multiple
        return whole // gcd(self.ratio.numerator, whole)


def whole(name: str, value: Any) -> int:
    """A whole number from 1 on, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 10**9:
        raise InvalidConfig(f"{name} = {clip(value)} is no whole number from 1 to 10^9")
    return value


def aspect_of(text: str | None) -> tuple[Fraction, Fraction] | None:
    """The bounds of `64:160`."""
    if text is None:
        return None
    low, colon, high = str(text).partition(":")
    if not colon:
        raise InvalidConfig(f"--aspect {clip(text)} is no range; write 64:160, for d_model over n_layers")
    bounds = positive("--aspect", low), positive("--aspect", high)
    if bounds[0] > bounds[1]:
        raise InvalidConfig(f"--aspect {clip(text)} is empty; write the smaller number first")
    return bounds
