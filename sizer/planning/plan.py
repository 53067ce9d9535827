"""The best layout of a job over accelerators: every layout is looked at, none twice.

Numbers of GPUs that cannot hold the weights and their states are skipped, which is a bound that no
layout beats; a larger micro-batch is not tried where a smaller one does not fit. What remains is
asked of `held` one by one and ranked by the objective, then by the cost model.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sizer.core.config import check_size
from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownName
from sizer.planning.demand import Demand
from sizer.planning.hardware import Accelerator
from sizer.planning.held import Held, settled
from sizer.planning.job import MOST_GPUS, Job, known_name
from sizer.planning.layout import CHECKPOINTING, OFFLOADS, Layout
from sizer.planning.search import MOST_OTHERS, Choice, Search, fewest, filled, most
from sizer.planning.space import Choices, counts, least_gpus

if TYPE_CHECKING:
    from sizer.model import Model

OBJECTIVES = {
    "gpus": "fewest GPUs, then least time by the cost model",
    "batch-size": "most sequences at once, then least time a token by the cost model",
    "seq-len": "longest sequences, then least time a token by the cost model",
    "concurrency": "most sequences served at once, then least time a token by the cost model",
}


class Plan(Record):
    """An answer: the best layout, if any fits, the runners-up, and how the search went.

    `looked`: layouts that were asked; `fitted`: of those, that fit. `least`: GPUs that any layout
    needs. `reasons`: what most of those that do not fit have too much of. `nearest`: where nothing
    fits, the layout that lacks least. `refusal`: why one of them does not go with the model.
    """

    __slots__ = (
        "best",
        "device",
        "fitted",
        "least",
        "looked",
        "nearest",
        "objective",
        "others",
        "reasons",
        "refusal",
    )

    def __init__(
        self,
        device: Accelerator,
        objective: str,
        best: Choice | None,
        others: list[Choice],
        nearest: tuple[Layout, Held] | None,
        looked: int,
        fitted: int,
        least: int,
        reasons: Counter[str],
        refusal: str,
    ) -> None:
        self.device = device
        self.objective = objective
        self.best = best
        self.others = others
        self.nearest = nearest
        self.looked = looked
        self.fitted = fitted
        self.least = least
        self.reasons = reasons
        self.refusal = refusal


def plan(
    model: Model | Demand,
    device: Accelerator,
    job: Job,
    *,
    gpus: int | None = None,
    max_gpus: int | None = None,
    objective: str = "gpus",
    fixed: Choices | None = None,
) -> Plan:
    """The best layout.

    `gpus`: exactly so many; `max_gpus`: at most. `fixed`: degrees that are decided.

    >>> import sizer
    >>> from sizer.planning.hardware import hardware
    >>> found = plan(sizer.load("llama-3-70b"), hardware("h100"), Job(engine="vllm"), max_gpus=8)
    >>> str(found.best.layout), found.least
    ('tp=2', 2)
    """
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES, hint=", ".join(OBJECTIVES))
    if (gpus is None) == (max_gpus is None):
        raise InvalidConfig(
            "give --gpus N, so many, or --max-gpus N, at most so many"
            if gpus is None
            else f"gpus = {gpus} and max_gpus = {max_gpus} contradict; give one"
        )
    for name, number in (("gpus", gpus), ("max_gpus", max_gpus)):
        if number is not None and not 0 < number <= MOST_GPUS:
            raise InvalidConfig(f"{name} = {number} is not a number of GPUs between 1 and {MOST_GPUS:,}")
    if objective == "concurrency" and job.trains:
        raise InvalidConfig("objective = concurrency is of serving and mode = train trains; use batch-size")
    chosen = fixed or Choices()
    if chosen.zero not in (None, 0, 1, 2, 3):
        raise InvalidConfig(f"zero = {chosen.zero} is no stage of ZeRO; the stages are 0, 1, 2 and 3")
    if chosen.checkpointing is not None:
        known_name("checkpointing", chosen.checkpointing, CHECKPOINTING)
    if chosen.offload is not None:
        known_name("thing to offload", chosen.offload, OFFLOADS)
    check_size("vpp", chosen.vpp)
    demand = model if isinstance(model, Demand) else Demand(model)
    job = settled(job, device)
    _possible(job, chosen, gpus)
    search = Search(demand, device, chosen)
    least = least_gpus(demand, device, job, chosen)
    at_most = gpus or max_gpus or 1
    numbers = [at_most] if gpus is not None else list(counts(device, least, at_most))
    if objective == "gpus":
        found = fewest(search, job, numbers)
    else:
        found = most(search, job, numbers[-1:], objective)
    # Of a layout with several micro-batches the best is told of, and of those that interleave.
    different: dict[tuple[Layout, str], Choice] = {}
    for choice in found:
        different.setdefault((_kind(choice.layout), choice.job.dtype), choice)
    shown = list(different.values())[: MOST_OTHERS + 1]
    if objective == "gpus":
        shown = [filled(search, job, choice) for choice in shown]
    best = shown[0] if shown else None
    others = [_told(best, other, objective) for other in shown[1:]] if best else []
    nearest = None if best is not None else search.nearest
    if best is None and nearest is None:
        nearest = _beyond(search, job, numbers or [least])
    return Plan(
        device,
        objective,
        best,
        others[:MOST_OTHERS],
        nearest,
        search.looked,
        search.fitted,
        least,
        search.reasons,
        search.refusal,
    )


def _kind(layout: Layout) -> Layout:
    return layout._replace(vpp=min(layout.vpp, 2))


def _possible(job: Job, fixed: Choices, gpus: int | None) -> None:
    """Refuse what no layout can meet."""
    product = 1
    text: list[str] = []
    for name in ("tp", "pp", "cp", "dp"):
        degree = getattr(fixed, name)
        if degree is not None:
            check_size(name, degree)
            product, text = product * degree, [*text, f"{name} = {degree}"]
    if gpus is not None and gpus % product:
        whole = f" = {product}" if len(text) > 1 else ""
        raise InvalidConfig(f"gpus = {gpus} is no multiple of {' · '.join(text)}{whole}")
    for name, free in (("zero", 0), ("cp", 1), ("checkpointing", "none"), ("vpp", 1), ("offload", "none")):
        if not job.trains and getattr(fixed, name) not in (None, free):
            raise InvalidConfig(f"{name} = {getattr(fixed, name)} is of training, and mode = infer serves")
    if (fixed.cp or 1) > 1 and job.attention == "eager":
        raise InvalidConfig(f"cp = {fixed.cp} needs attention = sdpa or flash, and attention is eager")
    if fixed.zero is not None and fixed.zero >= 2 and (fixed.pp or 1) > 1:
        raise InvalidConfig(f"zero = {fixed.zero} and pp = {fixed.pp} contradict; use zero = 1 or pp = 1")


def _beyond(search: Search, job: Job, numbers: list[int]) -> tuple[Layout, Held] | None:
    """Where the bound left nothing to look at, the layout of the most GPUs that lacks least."""
    for _ in search.all(job, numbers[-1]):
        pass
    return search.nearest


def _told(best: Choice, other: Choice, objective: str) -> Choice:
    """A runner-up with why it lost."""
    if other.value != best.value:
        word = {"seq-len": "tokens", "gpus": "GPUs"}.get(objective, "sequences")
        return other._replace(why=f"{other.value:,} {word} at most")
    slower = (other.cost.seconds / other.cost.tokens) / (best.cost.seconds / best.cost.tokens)
    parts = {
        name: seconds / other.cost.tokens - best.cost.parts.get(name, 0.0) / best.cost.tokens
        for name, seconds in other.cost.parts.items()
    }
    most = max(parts, key=lambda name: parts[name])
    if slower < 1.0005:
        more = other.held.total >= best.held.total
        return other._replace(why="as fast, and holds more" if more else "slower by less than 0.1 %")
    return other._replace(why=f"{100 * (slower - 1):.1f} % more time, most of it {most}")
