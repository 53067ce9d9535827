"""Published rules for the compute of a training step, beside the count that they approximate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sizer.core.dims import Dim
from sizer.core.tree import Op, Param
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.passes import Pass

if TYPE_CHECKING:
    from sizer.measures.count import Count
    from sizer.measures.flops import Flops
    from sizer.model import Model


class Rule(NamedTuple):
    """A rule: its formula, what it counts and where it was published."""

    formula: str
    source: str
    compute: Callable[[Flops, Count, Pass, Model], Dim]


class Estimate(NamedTuple):
    """What a rule says of a step, and how many times the count that is."""

    rule: str
    training: Dim
    ratio: float
    formula: str
    source: str


def _six_n(found: Flops, count: Count, run: Pass, model: Model) -> Dim:
    return 6 * count.active * found.tokens


def _palm(found: Flops, count: Count, run: Pass, model: Model) -> Dim:
    params = count.active - count.components.get("position", 0)
    return 6 * params * found.tokens + 3 * found.kinds.get("attention", 0)


def _chinchilla(found: Flops, count: Count, run: Pass, model: Model) -> Dim:
    """Looking a token up counts as a product with its table, and softmax 3 FLOPs a score."""
    forward = found.forward
    for row in model.rows():
        leaf = row.leaf
        if isinstance(leaf, Param) and leaf.use == "lookup" and row.component == "embedding":
            forward = forward + 2 * row.numel * run.length(row.stream) * run.batch
        elif isinstance(leaf, Op) and leaf.kind == "attention":
            pairs = run.pairs(leaf.sizes.get("window"), masked=True)
            forward = forward + 3 * leaf.sizes["heads"] * pairs * run.batch * row.visits  # type: ignore[operator]
    return 3 * forward


def _megatron(factor: int, scores: int | None = None) -> Callable[[Flops, Count, Pass, Model], Dim]:
    """72 without recomputation, 96 with it; `scores`: 12 for attention, or what it is with its own."""

    def compute(found: Flops, count: Count, run: Pass, model: Model) -> Dim:
        sizes = [getattr(model.config, name, None) for name in ("n_layers", "d_model", "vocab_size")]
        if None in sizes:
            raise InvalidConfig(
                f"the megatron rule needs layers, a width and a vocabulary, which {model.name} lacks"
            )
        layers, width, vocab = sizes
        pairs = factor // 6 if scores is None else scores
        a_token = factor * layers * width * width + pairs * run.new * layers * width + 6 * width * vocab  # type: ignore[operator]
        return a_token * found.tokens

    return compute


RULES: dict[str, Rule] = {
    "6n": Rule(
        "6 · params · tokens",
        "Kaplan et al. 2020 (arXiv:2001.08361), with the active parameters, embeddings included",
        _six_n,
    ),
    "palm": Rule(
        "(6 · params + 12·L·H·Dh·T) · tokens",
        "PaLM (arXiv:2204.02311), appendix B, with the active parameters without learned positions",
        _palm,
    ),
    "chinchilla": Rule(
        "3 · (matrix products + embedding as a product + 3 a score)",
        "Hoffmann et al. 2022 (arXiv:2203.15556), appendix F",
        _chinchilla,
    ),
    "megatron": Rule(
        "72·B·T·L·D²·(1 + T/6D + V/12LD)",
        "Narayanan et al. 2021 (arXiv:2104.04473), eq. 3, without recomputation",
        _megatron(72),
    ),
    "megatron-recompute": Rule(
        "96·B·T·L·D²·(1 + T/6D + V/16LD)",
        "Narayanan et al. 2021 (arXiv:2104.04473), eq. 3",
        _megatron(96),
    ),
    "megatron-selective": Rule(
        "72·B·T·L·D²·(1 + T/3D + V/12LD)",
        "Korthikanti et al. 2022 (arXiv:2205.05198), appendix A, hardware FLOPs: attention counts twice, "
        "where computing it again adds a third of it",
        _megatron(72, 24),
    ),
}


def estimate(rule: str, found: Flops, run: Pass, model: Model) -> Estimate:
    """What a rule says of a step, beside the count of it.

    >>> import sizer
    >>> from sizer.measures.passes import Pass
    >>> model = sizer.load("gpt2-small")
    >>> round(estimate("megatron", model.flops(seq_len=1024), Pass(new=1024), model).ratio, 4)
    1.0
    """
    if rule not in RULES:
        raise UnknownName("rule", rule, RULES, hint=f"known are {', '.join(RULES)}")
    chosen = RULES[rule]
    training = chosen.compute(found, model.count(), run, model)
    return Estimate(rule, training, training / found.training, chosen.formula, chosen.source)
