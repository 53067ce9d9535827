"""A training run: its compute, time, energy and cost, and whichever of its figures is not given."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.model import Model
    from sizer.planning.hardware import Accelerator

DAY = 86400
# Of a run, any but one of these.
FIGURES = ("tokens", "days", "gpus", "mfu")
# Rules whose FLOPs are those of the hardware: they count the pass that is done again.
OF_HARDWARE = ("8n", "megatron-recompute", "megatron-selective")
# 6n, and 8n where full checkpointing computes the forward pass again.
FACTORS = {"6n": 6, "8n": 8}
SIX_N = "Kaplan et al. 2020 (arXiv:2001.08361): 2 FLOPs a parameter forward and 4 backward"
EIGHT_N = "Narayanan et al. 2021 (arXiv:2104.04473), eq. 4: 6, and 2 for the forward pass that is done again"
# AdamW: weights, first and second moments in fp32 beside the 16-bit weights.
RESUME_BYTES = 2 + 12
SERVE_BYTES = 2


class TrainingRun(Record):
    """A run with all its figures; `solved` is the one that followed from the others.

    `flops_per_token`: by the rule; `peak`: FLOP/s of one accelerator; `days` are `None` where nothing says
    how many accelerators there are. `hfu`: utilisation with what checkpointing computes again, where
    there is any.
    """

    __slots__ = (
        "days",
        "flops",
        "flops_per_token",
        "formula",
        "gpu_hours",
        "gpus",
        "hfu",
        "mfu",
        "peak",
        "rule",
        "solved",
        "source",
        "tokens",
    )

    def __init__(
        self,
        *,
        tokens: int,
        flops_per_token: Fraction,
        gpu_hours: float,
        gpus: int | None,
        mfu: float,
        peak: int,
        rule: str,
        formula: str,
        source: str,
        solved: str,
        again: Fraction = Fraction(0),
    ) -> None:
        self.tokens = tokens
        self.flops_per_token = flops_per_token
        self.flops = int(flops_per_token * tokens)
        self.gpu_hours = gpu_hours
        self.gpus = gpus
        self.days = None if gpus is None else gpu_hours / gpus / 24
        self.mfu = mfu
        self.hfu = mfu * float(1 + again) if again else None
        self.peak = peak
        self.rule = rule
        self.formula = formula
        self.source = source
        self.solved = solved

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second of the whole run."""
        return None if self.days is None else self.tokens / (self.days * DAY)

    @property
    def achieved(self) -> float:
        """FLOP/s of one accelerator."""
        return self.peak * self.mfu


def rule_of(model: Model, rule: str, seq_len: int) -> tuple[Fraction, str, str]:
    """FLOPs a token of training, by a rule: the number, its formula and its source.

    >>> import sizer
    >>> flops, formula, _ = rule_of(sizer.load("gpt3-175b"), "6n", 2048)
    >>> formula, int(flops)
    ('6 · params', 1047625555968)
    """
    from sizer.measures.compute_rules import RULES, estimate
    from sizer.measures.passes import Pass

    if rule in FACTORS:
        active = int(model.count().active)
        source = SIX_N if rule == "6n" else EIGHT_N
        which = "params" if active == model.count().total else "active params"
        return Fraction(FACTORS[rule] * active), f"{FACTORS[rule]} · {which}", source
    found = model.flops(1, seq_len)
    if rule == "exact":
        text = f"matrix products and attention at {seq_len:,} tokens, forward and backward"
        return Fraction(int(found.training), int(found.tokens)), text, "sizer flops"
    if rule not in RULES:
        raise UnknownName("rule", rule, (*FACTORS, "exact", *RULES), hint=f"known are {', '.join(RULES)}")
    said = estimate(rule, found, Pass(new=seq_len), model)
    return Fraction(int(said.training), int(found.tokens)), f"{said.formula}, a token", said.source


def computed_again(model: Model, checkpointing: str, rule: str, seq_len: int) -> Fraction:
    """What checkpointing computes again, as a share of a step without it.

    >>> import sizer
    >>> round(float(computed_again(sizer.load("gpt3-175b"), "selective", "6n", 2048)), 4)
    0.009
    """
    found = model.flops(1, seq_len, checkpointing=checkpointing)
    if found.recompute and rule in OF_HARDWARE:
        raise InvalidConfig(
            f"rule = {rule} counts the pass that is done again already; use 6n or exact with checkpointing"
        )
    return Fraction(int(found.recompute), int(found.training - found.recompute))


def training_run(
    model: Model,
    accelerator: Accelerator,
    *,
    tokens: int | None = None,
    days: float | None = None,
    gpus: int | None = None,
    mfu: float | None = None,
    gpu_hours: float | None = None,
    dtype: str = "bf16",
    rule: str = "6n",
    seq_len: int = 2048,
    achieved: int | None = None,
    peak: int | None = None,
    checkpointing: str = "none",
) -> TrainingRun:
    """A run from all but one of tokens, days, accelerators and utilisation.

    `gpu_hours` stands for days and accelerators at once. `achieved`: FLOP/s of one accelerator in
    place of `mfu`. `peak`: FLOP/s in place of the accelerator's own for `dtype`. `checkpointing`: what
    is computed again, which `mfu` leaves out and `hfu` has.

    >>> import sizer
    >>> from sizer.planning.hardware import hardware
    >>> model, chip = sizer.load("llama-2-70b"), hardware("a100-80gb")
    >>> round(training_run(model, chip, tokens=2 * 10**12, gpu_hours=1720320).mfu, 3)
    0.428
    """
    _check(tokens=tokens, days=days, gpus=gpus, mfu=mfu, gpu_hours=gpu_hours, achieved=achieved, peak=peak)
    top = accelerator.flops_per_s(dtype) if peak is None else peak
    if achieved is not None:
        if mfu is not None:
            raise InvalidConfig("mfu and the FLOP/s that are achieved say the same; give one")
        mfu = achieved / top
    if mfu is not None and mfu > 1:
        raise InvalidConfig(
            f"mfu = {mfu:.3g} is more than all of the peak, {top:,} FLOP/s; write 0.4 for 40 %"
        )
    if gpu_hours is not None and days is not None:
        raise InvalidConfig("gpu_hours is gpus · days · 24; give it or the days, not both")
    given = {"tokens": tokens, "days": days if gpu_hours is None else gpu_hours, "gpus": gpus, "mfu": mfu}
    if gpu_hours is not None and gpus is None:
        del given["gpus"]
    missing = [name for name, value in given.items() if value is None]
    if missing == ["days", "gpus"]:
        # Without either, their product is what follows.
        missing = ["gpu_hours"]
    if len(missing) != 1:
        what, verb = (", ".join(missing), "are") if missing else ("none of them", "is")
        raise InvalidConfig(
            f"a run has tokens, days, gpus and mfu, and one follows from the others: "
            f"{what} {verb} open here; " + ("give all of these but one" if missing else "leave one out")
        )
    again = computed_again(model, checkpointing, rule, seq_len) if checkpointing != "none" else Fraction(0)
    each, formula, source = rule_of(model, rule, seq_len)
    solved = missing[0]
    if gpu_hours is None and days is not None and gpus is not None:
        gpu_hours = days * 24 * gpus
    if solved == "tokens":
        assert gpu_hours is not None
        assert mfu is not None
        tokens = int(Fraction(gpu_hours) * 3600 * Fraction(top) * Fraction(mfu) / each)
    assert tokens is not None
    work = float(each * tokens)
    if solved == "mfu":
        assert gpu_hours is not None
        mfu = work / (gpu_hours * 3600 * top)
    assert mfu is not None
    if solved == "gpus":
        assert days is not None
        gpus = ceil(work / (days * DAY * top * mfu))
    if gpu_hours is None:
        gpu_hours = work / (top * mfu) / 3600
    return TrainingRun(
        tokens=tokens,
        flops_per_token=each,
        gpu_hours=gpu_hours,
        gpus=gpus,
        mfu=mfu,
        peak=top,
        rule=rule,
        formula=formula,
        source=source,
        solved=solved,
        again=again,
    )


def _check(**figures: float | None) -> None:
    for name, value in figures.items():
        if value is not None and not 0 < value < float("inf"):
            raise InvalidConfig(f"{name} = {value} is not above zero; leave it out to have it worked out")


def checkpoint_bytes(model: Model) -> tuple[int, int]:
    """Bytes of the weights in 16 bits, and of what a run under AdamW resumes from."""
    total = int(model.count().total)
    return total * SERVE_BYTES, total * RESUME_BYTES
