"""Widths that a factor scales and a divisor rounds, and lists with an entry a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.config import check_size
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def rounded(name: str, width: float, divisor: int, least: int | None = None) -> int:
    """A scaled width as the next multiple of a divisor, never a tenth less than it was.

    >>> rounded("width", 33.0, 8), rounded("width", 11.0, 8)
    (32, 16)
    """
    found = max(divisor if least is None else least, int(width + divisor / 2) // divisor * divisor)
    found = found + divisor if found < 0.9 * width else found
    check_size(name, found)
    return found


def listed(hf: HFConfig, key: str, n_stages: int | None = None) -> tuple[int, ...]:
    """A list with a positive whole number for each stage."""
    values = hf[key]
    if not isinstance(values, list | tuple) or not values:
        raise InvalidConfig(f"{key} = {shown(values)} is not a list with an entry a stage")
    if n_stages is not None and len(values) != n_stages:
        raise InvalidConfig(f"{key} lists {len(values)} stages, and there are {n_stages}")
    if len(values) > MAX_STAGES:
        raise InvalidConfig(f"{key} lists {len(values)} stages; no network of this kind has as many")
    for i, value in enumerate(values):
        check_size(f"{key}[{i}]", value)
    return tuple(values)


# More than any network has, and few enough to name each.
MAX_STAGES = 64
