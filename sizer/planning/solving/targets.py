"""What a model that is looked for shall have: parameters, active ones, FLOPs, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sizer.core.poly import Poly, as_poly
from sizer.core.record import Record
from sizer.dtypes import bits
from sizer.errors import InvalidConfig, clip, shown
from sizer.planning.forms import Lettered, closed
from sizer.units import parse_bytes, parse_count

# No model and no training run is near these; they bound the arithmetic.
MOST = {"params": 10**18, "active": 10**18, "flops": 10**40, "memory": 10**20, "kv_per_token": 10**15}
TARGETS = tuple(MOST)
UNITS = {"params": "parameters", "active": "parameters", "flops": "FLOPs"}


class Target(Record):
    """A number to reach; `at_most` where it must not be passed.

    `poly` is the measure over letters. A training run's FLOPs are 6 · active parameters · tokens;
    with tokens in proportion to the parameters that is a square, so `power` is 2, and a factor.
    """

    __slots__ = ("at_most", "factor", "name", "poly", "power", "value")

    def __init__(
        self,
        name: str,
        value: int,
        poly: Poly,
        factor: Fraction = Fraction(1),
        power: int = 1,
        at_most: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.poly = poly
        self.factor = factor
        self.power = power
        self.at_most = at_most

    def measured(self, number: Any) -> Fraction:
        """The target's measure, where its polynomial is that number."""
        return self.factor * Fraction(number) ** self.power

    def deviation(self, number: Any) -> Fraction:
        """How far that is from the target, of the target; beyond what is allowed it is at least 1."""
        found = self.measured(number)
        gap = abs(found - self.value) / self.value
        return gap + 1 if self.at_most and found > self.value else gap

    @property
    def wanted(self) -> Fraction:
        """The value of the polynomial that reaches the target, where `power` is 1; else nearly."""
        number = self.value / self.factor
        if self.power == 1:
            return number
        from math import isqrt

        return Fraction(isqrt(int(number * 10**12)), 10**6)


def number_of(name: str, given: Any) -> int | None:
    """The number that a target or a setting of it is given as: `7B`, `80GiB`, 124439808."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise InvalidConfig(f"{name} = {shown(given)} is no whole number")
    in_bytes = name in ("memory", "kv_per_token")
    if isinstance(given, int):
        number: int | None = given
    elif len(given) > 500:
        number = None
    else:
        number = parse_bytes(given) if in_bytes else parse_count(given)
    if number is None:
        example = "80GiB (2³⁰ each) or 80GB (10⁹ each)" if in_bytes else "7B, 1.5e22 or 124439808"
        raise InvalidConfig(f"{name} = {clip(repr(given))} is no number; write {example}")
    if number <= 0:
        raise InvalidConfig(f"{name} = {number} cannot be reached; it must be positive")
    most = MOST.get(name, 10**20)
    if number > most:
        raise InvalidConfig(f"{name} is beyond 10^{len(str(most)) - 1}, the most that is looked for")
    return number


def targets(
    lettered: Lettered,
    given: Mapping[str, Any],
    *,
    dtype: str,
    kv_dtype: str | None,
    tokens: Any = None,
    tokens_per_param: Any = None,
) -> list[Target]:
    """The targets that are given, the first of them the one that the search aims at."""
    numbers = {name: number_of(name, given.get(name)) for name in TARGETS}
    found: list[Target] = []
    for name, value in numbers.items():
        if value is None:
            continue
        if name in ("params", "active"):
            found.append(Target(name, value, _poly(lettered, name)))
        elif name == "flops":
            factor, power = _per_param(tokens, tokens_per_param)
            found.append(Target(name, value, _poly(lettered, "active"), factor, power))
        elif name == "memory":
            factor = Fraction(bits(dtype), 8)
            found.append(Target(name, value, _poly(lettered, "params"), factor, at_most=True))
        else:
            settings = {"dtype": dtype, "kv_dtype": kv_dtype}
            found.append(Target(name, value, _poly(lettered, "kv_per_token", settings)))
    if not found:
        raise InvalidConfig(
            "nothing to solve for; give --params 7B, --active 1B, --memory 80GiB, --kv-per-token 128KiB "
            "or --flops 1e22"
        )
    if numbers["flops"] is None and (tokens is not None or tokens_per_param is not None):
        raise InvalidConfig("tokens count for --flops alone; give --flops 1e22 with them")
    _contradictions(numbers, dtype)
    return found


def _poly(lettered: Lettered, name: str, settings: Mapping[str, Any] | None = None) -> Poly:
    form = closed(lettered, name, settings or {})
    assert form is not None
    return as_poly(form.poly)


def _per_param(tokens: Any, ratio: Any) -> tuple[Fraction, int]:
    """FLOPs as a factor and a power of the active parameters: 6·N·tokens, or 6·N·(ratio·N)."""
    if (tokens is None) == (ratio is None):
        raise InvalidConfig(
            "flops = 6 · params · tokens needs one of --tokens 2T and --tokens-per-param 20 (Chinchilla's)"
        )
    if tokens is not None:
        number = number_of("tokens", tokens)
        assert number is not None
        return Fraction(6 * number), 1
    return 6 * positive("tokens-per-param", ratio), 2


def positive(name: str, given: Any) -> Fraction:
    """A positive number such as 20, 2.5 or 8/3.

    >>> positive("ff-ratio", "8/3"), positive("ff-ratio", 4)
    (Fraction(8, 3), Fraction(4, 1))
    """
    import re

    text = str(given).strip() if not isinstance(given, bool) else ""
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?(/[0-9]{1,12})?", text):
        raise InvalidConfig(f"{name} = {clip(repr(given))} is no positive number; write 4, 2.5 or 8/3")
    over, _, under = text.partition("/")
    if int(under or 1) == 0 or Fraction(over) == 0:
        raise InvalidConfig(f"{name} = {clip(text)} is no positive number; write 4, 2.5 or 8/3")
    return Fraction(over) / int(under or 1)


def _contradictions(numbers: Mapping[str, int | None], dtype: str) -> None:
    params, active, memory = numbers["params"], numbers["active"], numbers["memory"]
    if params is not None and active is not None and active > params:
        raise InvalidConfig(
            f"active = {active:,} is more than params = {params:,}; a token cannot visit more than there is"
        )
    if params is not None and memory is not None and params * bits(dtype) > 8 * memory:
        raise InvalidConfig(
            f"params = {params:,} in {dtype} are {params * bits(dtype) // 8:,} bytes, more than "
            f"memory = {memory:,}; ask for fewer, or for a smaller --dtype"
        )
