"""The inverse of a count: the sizes of a model with so many parameters.

`solve` searches over the polynomials of the count, and the ledger counts every answer again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from sizer.core.record import Record
from sizer.errors import InvalidConfig, SizerError
from sizer.model import Model
from sizer.planning.forms import Lettered, pointwise
from sizer.planning.solving.links import RANGES
from sizer.planning.solving.search import MOST_STEPS, Search, TooLargeError
from sizer.planning.solving.shape import Shape
from sizer.planning.solving.targets import Target, positive, targets

# A second search, over sizes that nobody would choose, is for totals of real models alone.
ODD_STEPS = 30_000
ROUND = 10**5
# D over L of most published decoders; where nobody says otherwise, answers that are near keep to it.
USUAL_ASPECT = (Fraction(16), Fraction(256))
MAX_TOP = 1000

# A deviation, and the sizes that have it.
Near = tuple[float, dict[str, int]]


class Answer(Record):
    """A model that reaches the targets, or nearly.

    `sizes`: those that were looked for and those that follow. `measures`: each target's measure, by
    the ledger. `deviation`: the largest distance from a target, of the target.
    """

    __slots__ = ("active", "deviation", "measures", "model", "params", "sizes")

    def __init__(
        self,
        model: Model,
        sizes: Mapping[str, int],
        params: int,
        active: int,
        measures: Mapping[str, Fraction],
        deviation: Fraction,
    ) -> None:
        self.model = model
        self.sizes = dict(sizes)
        self.params = params
        self.active = active
        self.measures = dict(measures)
        self.deviation = deviation


class Solution(Record):
    """The answers, best first. `found`: whether the first is within the tolerance.

    `notes`: what was taken for granted. `steps`: combinations that were looked at.
    """

    __slots__ = ("answers", "found", "notes", "steps", "targets", "tolerance")

    def __init__(
        self,
        answers: Sequence[Answer],
        found: bool,
        notes: Sequence[str],
        steps: int,
        targets: Sequence[Target],
        tolerance: Fraction,
    ) -> None:
        self.answers = list(answers)
        self.found = found
        self.notes = list(notes)
        self.steps = steps
        self.targets = list(targets)
        self.tolerance = tolerance


def solve(
    model: Model,
    free: Sequence[str],
    *,
    params: Any = None,
    active: Any = None,
    flops: Any = None,
    memory: Any = None,
    kv_per_token: Any = None,
    tokens: Any = None,
    tokens_per_param: Any = None,
    dtype: str = "bf16",
    kv_dtype: str | None = None,
    tolerance: Any = "1%",
    top: int = 10,
    tied: bool | None = None,
    most_steps: int = MOST_STEPS,
    **constraints: Any,
) -> Solution:
    """Sizes of a model like `model` that reach the targets; its other fields stay as they are.

    `free`: the sizes to find. Targets: `params`, `active`, `memory` (bytes of the weights in `dtype`,
    at most), `kv_per_token` (bytes), `flops` of training, 6 · active · tokens, with `tokens` or
    `tokens_per_param`. Constraints: those of `Shape`.

    >>> import sizer
    >>> like = sizer.load("gpt2-small")
    >>> solve(like, ["d_model", "n_layers"], params=1557611200, d_head=64).answers[0].sizes
    {'n_layers': 48, 'd_model': 1600, 'n_heads': 25, 'n_kv_heads': 25}
    """
    allowed = share(tolerance)
    if isinstance(top, bool) or not isinstance(top, int) or not 0 < top <= MAX_TOP:
        raise InvalidConfig(f"--top = {top} is no number of answers from 1 to {MAX_TOP:,}")
    if tied is not None:
        model = model.with_values(tie_embeddings=tied)
    shape = Shape(model, free, **constraints)
    lettered = Lettered(model, [*shape.free, *shape.links, *shape.fixed])
    for name, value in shape.fixed.items():
        lettered.numbers[lettered.codes[name]] = value
    given = {
        "params": params,
        "active": active,
        "flops": flops,
        "memory": memory,
        "kv_per_token": kv_per_token,
    }
    wanted = targets(
        lettered, given, dtype=dtype, kv_dtype=kv_dtype, tokens=tokens, tokens_per_param=tokens_per_param
    )
    search = Search(shape, lettered, wanted, most_steps=most_steps)
    try:
        near = search.run()
    except TooLargeError:
        counts = " × ".join(f"{len(search.domains[name]):,} {name}" for name in search.order)
        raise InvalidConfig(
            f"the search has more than {most_steps:,} steps ({counts}); fix a size with --set, or bound one, "
            f"such as --where {search.order[0]}=24:48"
        ) from None
    steps = search.steps
    if not any(deviation == 0 for deviation, _ in near) and all(t.value % ROUND for t in wanted):
        odd = Search(shape, lettered, wanted, usual=False, most_steps=ODD_STEPS, only_exact=True)
        # What a search that is too large would have found is exact in sizes that nobody uses.
        with suppress(TooLargeError):
            near = [*odd.run(), *near]
        steps += odd.steps
    near, notes = _usual(near, shape)
    answers = _counted(model, shape, wanted, near, top, dtype, kv_dtype)
    found = bool(answers) and answers[0].deviation <= allowed
    if found:
        answers = [answer for answer in answers if answer.deviation <= allowed]
    return Solution(answers, found, [*shape.notes, *_multiples(shape), *notes], steps, wanted, allowed)


def share(given: Any) -> Fraction:
    """A tolerance such as `1%` or 0.01, from 0 to 1.

    >>> share("0.5%"), share(0.01)
    (Fraction(1, 200), Fraction(1, 100))
    """
    text = str(given).strip()
    if text in ("0", "0%", "0.0"):
        return Fraction(0)
    number = positive("--tolerance", text.removesuffix("%").strip())
    found = number / 100 if text.endswith("%") else number
    if found > 1:
        raise InvalidConfig(f"--tolerance {given} is more than all; write 1% or 0.01")
    return found


def _usual(near: Sequence[Near], shape: Shape) -> tuple[list[Near], list[str]]:
    """Of what is near and not exact, shapes that are not far from those of published models."""
    both = {"d_model", "n_layers"} <= {*shape.free, *shape.links}
    bounded = shape.aspect is not None or "d_model" in shape.where or "n_layers" in shape.where
    if not both or bounded:
        return list(near), []
    low, high = USUAL_ASPECT
    kept = [
        (deviation, found)
        for deviation, found in near
        if deviation == 0 or low <= Fraction(found["d_model"], found["n_layers"]) <= high
    ]
    if len(kept) in (0, len(near)):
        return list(near), []
    return kept, [f"answers that are not exact have d_model / n_layers from {low} to {high}; see --aspect"]


def _multiples(shape: Shape) -> list[str]:
    """The multiples that people use, where nobody asked for others."""
    usual = [
        f"{name} in multiples of {RANGES[name][2]}"
        for name in shape.free
        if RANGES.get(name, (0, 0, 1))[2] > 1 and name not in shape.multiples and name not in shape.where
    ]
    return [f"{', '.join(usual)}, unless another size is exact; see --multiple"] if usual else []


def _counted(
    model: Model,
    shape: Shape,
    wanted: Sequence[Target],
    near: Sequence[Near],
    top: int,
    dtype: str,
    kv_dtype: str | None,
) -> list[Answer]:
    """The nearest answers, each counted by the ledger; what it refuses is none."""
    answers: list[Answer] = []
    refused: SizerError | None = None
    for _, found in near:
        try:
            one = model.with_values(**{**shape.fixed, **found})
            count = one.count()
        except SizerError as error:
            refused = error
            continue
        settings = {"dtype": dtype, "kv_dtype": kv_dtype}
        measures: dict[str, Fraction] = {}
        for target in wanted:
            name = {"flops": "active", "memory": "params"}.get(target.name, target.name)
            measures[target.name] = target.measured(pointwise(one, name, settings))
        deviation = max(
            t.deviation(pointwise(one, {"flops": "active", "memory": "params"}.get(t.name, t.name), settings))
            for t in wanted
        )
        sizes = {name: found[name] for name in _in_order(shape, found)}
        answers.append(Answer(one, sizes, int(count.total), int(count.active), measures, deviation))
        if len(answers) == top:
            break
    if not answers and refused is not None:
        raise refused
    return sorted(answers, key=lambda answer: answer.deviation)


def _in_order(shape: Shape, found: Mapping[str, int]) -> list[str]:
    """Sizes as people read them: depth and width first."""
    order = list(RANGES)
    return sorted(found, key=lambda name: order.index(name) if name in order else len(order))
