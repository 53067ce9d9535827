"""Scaling laws: which size and how many tokens a budget of compute is best spent on.

Each law is what its paper published: a loss over parameters and tokens, or the best size and
tokens as powers of the compute. Nothing is fitted here but the power of approaches 1 and 2 of
Hoffmann et al., which published them as tables.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownName, shown

# Training takes 6 FLOPs a parameter and token: 6 · params · tokens.
FLOPS = 6
PF_DAY = 1e15 * 86400


class Loss(NamedTuple):
    """`E + A / params^alpha + B / tokens^beta`, in nats a token."""

    E: float
    A: float
    alpha: float
    B: float
    beta: float

    def at(self, params: float, tokens: float) -> float:
        """The loss of that many parameters after that many tokens."""
        return float(self.E + self.A / params**self.alpha + self.B / tokens**self.beta)

    def best(self, flops: float) -> float:
        """The parameters of the lowest loss that 6 · params · tokens = `flops` allows."""
        ratio = float((self.alpha * self.A / (self.beta * self.B)) ** (1 / (self.alpha + self.beta)))
        return float(ratio * (flops / FLOPS) ** (self.beta / (self.alpha + self.beta)))


class Power(NamedTuple):
    """`params = coefficient · flops^exponent`."""

    coefficient: float
    exponent: float

    def best(self, flops: float) -> float:
        """The parameters for a budget."""
        return float(self.coefficient * flops**self.exponent)


class Law(NamedTuple):
    """A law: what it says of the best size, its loss where it has one, and where it was published."""

    rule: Loss | Power
    formula: str
    source: str
    note: str = ""


def _through(rows: list[tuple[float, float]]) -> Power:
    """The power of least squares through (flops, params), in logarithms."""
    xs, ys = [log(c) for c, _ in rows], [log(n) for _, n in rows]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)
    return Power(exp(y - slope * x), slope)


# Hoffmann et al. 2022, tables 3 and A3: the compute at which each size is best.
_SIZES = (0.4e9, 1e9, 10e9, 67e9, 175e9, 280e9, 520e9, 1e12, 10e12)
_APPROACH_1 = (1.92e19, 1.21e20, 1.23e22, 5.76e23, 3.85e24, 9.90e24, 3.43e25, 1.27e26, 1.30e28)
_APPROACH_2 = (1.84e19, 1.20e20, 1.32e22, 6.88e23, 4.54e24, 1.18e25, 4.19e25, 1.59e26, 1.75e28)
_CHINCHILLA = "Hoffmann et al. 2022 (arXiv:2203.15556)"

LAWS: dict[str, Law] = {
    "chinchilla-1": Law(
        _through(list(zip(_APPROACH_1, _SIZES, strict=True))),
        "params ∝ flops^0.50",
        f"{_CHINCHILLA}, approach 1, table 3",
        "the power of least squares through the nine rows of the table",
    ),
    "chinchilla-2": Law(
        _through(list(zip(_APPROACH_2, _SIZES, strict=True))),
        "params ∝ flops^0.49",
        f"{_CHINCHILLA}, approach 2, table A3",
        "the power of least squares through the nine rows of the table",
    ),
    "chinchilla-3": Law(
        Loss(1.69, 406.4, 0.34, 410.7, 0.28),
        "1.69 + 406.4 / params^0.34 + 410.7 / tokens^0.28",
        f"{_CHINCHILLA}, approach 3, eq. 10",
        "its constants are rounded, and its optimum is far from approaches 1 and 2; see epoch",
    ),
    "epoch": Law(
        Loss(1.8172, 482.01, 0.3478, 2085.43, 0.3658),
        "1.8172 + 482.01 / params^0.3478 + 2085.43 / tokens^0.3658",
        "Besiroglu et al. 2024 (arXiv:2404.10102): approach 3 fitted again to the points of its figure",
    ),
    "kaplan": Law(
        # N = 1.3e9 · C^0.73, of parameters that are no embeddings, C in PF-days.
        Power(1.3e9 / PF_DAY**0.73, 0.73),
        "params = 1.3e9 · (PF-days)^0.73, embeddings left out",
        "Kaplan et al. 2020 (arXiv:2001.08361), table 6",
        "made with one learning-rate schedule for all budgets, and so for too few tokens (Hoffmann et al.)",
    ),
}


class Optimum(Record):
    """The best size for a budget by one law, with its tokens and, where the law has one, its loss."""

    __slots__ = ("flops", "law", "loss", "name", "params", "tokens")

    def __init__(self, name: str, law: Law, flops: float, params: float) -> None:
        self.name = name
        self.law = law
        self.flops = flops
        self.params = params
        self.tokens = flops / (FLOPS * params)
        self.loss = law.rule.at(params, self.tokens) if isinstance(law.rule, Loss) else None


def law_named(name: str) -> Law:
    """The law of that name."""
    if name not in LAWS:
        raise UnknownName("scaling law", name, LAWS, hint=f"known are {', '.join(LAWS)}")
    return LAWS[name]


def optimum(name: str, *, flops: float | None = None, params: float | None = None) -> Optimum:
    """What a law says is best: for a budget, or the budget for which a size is best.

    >>> found = optimum("chinchilla-1", flops=5.76e23)
    >>> f"{found.params:.2e} {found.tokens:.2e}"
    '6.78e+10 1.42e+12'
    """
    law = law_named(name)
    if (flops is None) == (params is None):
        raise InvalidConfig("a law is asked with flops or with params, one of the two")
    for word, value in (("flops", flops), ("params", params)):
        if value is not None and not 1 <= value < 1e40:
            raise InvalidConfig(f"{word} = {shown(value)} is not between 1 and 1e40")
    if flops is None:
        assert params is not None
        flops = _budget(law, params)
    return Optimum(name, law, flops, law.rule.best(flops))


def _budget(law: Law, params: float) -> float:
    """The compute for which a size is best; both kinds of law are powers of it."""
    at, twice = law.rule.best(1e20), law.rule.best(2e20)
    exponent = log(twice / at) / log(2)
    return float(1e20 * (params / at) ** (1 / exponent))


class OverTrained(NamedTuple):
    """A size and its tokens, beside what a law says is best.

    `times`: tokens over the best number for that size. `same_loss_flops`: the least compute that reaches
    the same loss, and `overhead` what this run takes beyond it. `same_loss_params`: the size that does.
    """

    law: str
    params: float
    tokens: float
    flops: float
    best_tokens: float
    times: float
    loss: float | None
    same_loss_flops: float | None
    same_loss_params: float | None
    overhead: float | None


def over_trained(name: str, params: float, tokens: float) -> OverTrained:
    """How far a run is from the best one.

    >>> round(over_trained("chinchilla-1", 8.03e9, 15e12).times)
    91
    """
    if not 1 <= tokens < 1e30:
        raise InvalidConfig(f"tokens = {shown(tokens)} is not between 1 and 1e30")
    best = optimum(name, params=params)
    flops = FLOPS * params * tokens
    rule = law_named(name).rule
    common = (name, params, tokens, flops, best.tokens, tokens / best.tokens)
    if not isinstance(rule, Loss):
        return OverTrained(*common, None, None, None, None)
    loss = rule.at(params, tokens)
    low, high = log(1.0), log(flops)
    for _ in range(200):
        middle = (low + high) / 2
        here = optimum(name, flops=exp(middle))
        low, high = (middle, high) if here.loss is not None and here.loss > loss else (low, middle)
    least = optimum(name, flops=exp(high))
    return OverTrained(*common, loss, least.flops, least.params, flops / least.flops)
