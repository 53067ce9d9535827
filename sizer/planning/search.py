"""The search: layouts one by one, the fewest GPUs, and the most of something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.planning.cost import Cost, cost_of
from sizer.planning.demand import Demand
from sizer.planning.hardware import Accelerator
from sizer.planning.held import Held, held
from sizer.planning.job import MOST_BATCH, MOST_TOKENS, Job
from sizer.planning.largest import largest_left
from sizer.planning.layout import OFFLOADS, Layout, sequences
from sizer.planning.space import Choices, layouts, micros

# A search ends here, whatever is asked.
MOST_LOOKED = 100_000
# Runners-up that are told of.
MOST_OTHERS = 5


class Choice(Record):
    """A layout: the job as it then is, what its heaviest rank holds, its cost, and the objective's value."""

    __slots__ = ("cost", "held", "job", "layout", "value", "why")

    def __init__(self, job: Job, layout: Layout, held: Held, cost: Cost, value: int, why: str = "") -> None:
        self.job = job
        self.layout = layout
        self.held = held
        self.cost = cost
        self.value = value
        # Why it is not the best.
        self.why = why


class Search:
    """Layouts one by one, with what is remembered of those that do not fit."""

    def __init__(self, demand: Demand, device: Accelerator, fixed: Choices) -> None:
        self.demand = demand
        self.device = device
        self.fixed = fixed
        self.looked = self.fitted = 0
        self.reasons: Counter[str] = Counter()
        self.nearest: tuple[Layout, Held] | None = None
        self.refused: set[tuple[int, int, int, int]] = set()
        self.refusal = ""

    def all(self, job: Job, gpus: int) -> Iterator[tuple[Job, Layout, Held]]:
        """Every layout of so many GPUs that goes with the model, with what its heaviest rank holds."""
        too_large: tuple[Layout, str] | None = None
        for one, layout in layouts(self.demand, self.device, job, gpus, self.fixed):
            degrees = (layout.tp, layout.pp, layout.vpp, layout.ep)
            if degrees in self.refused or (layout, one.dtype) == too_large:
                continue
            self.looked += 1
            if self.looked > MOST_LOOKED:
                raise InvalidConfig(
                    f"more than {MOST_LOOKED:,} layouts to look at; fix a degree, such as tp = 8 or zero = 1"
                )
            try:
                found = held(self.demand, self.device, one, layout)
            except InvalidConfig as error:
                self.refused.add(degrees)
                self.refusal = str(error)
                continue
            if not found.fits:
                # A larger micro-batch of the same layout holds more.
                too_large = (layout, one.dtype)
                self._note(layout, found)
            self.fitted += found.fits
            yield one, layout, found

    def _note(self, layout: Layout, found: Held) -> None:
        self.reasons[max(found.lines, key=lambda line: line.n_bytes).name] += 1
        if self.nearest is None or found.left > self.nearest[1].left:
            self.nearest = layout, found

    def choice(self, job: Job, layout: Layout, found: Held, value: int) -> Choice:
        """A layout that fits, with its cost."""
        return Choice(job, layout, found, cost_of(self.demand, self.device, job, layout, found), value)


def rank(choice: Choice) -> tuple[float, float, int, int, int, int, int]:
    """The cheapest a token first; among equals the least memory, then the simplest."""
    layout = choice.layout
    a_token = choice.cost.seconds / choice.cost.tokens
    away = OFFLOADS.index(layout.offload)
    return a_token, choice.held.total, layout.pp, layout.vpp, layout.tp, layout.zero, away


def fewest(search: Search, job: Job, numbers: list[int]) -> list[Choice]:
    """What fits on the first of these numbers of GPUs that anything fits on, the cheapest first."""
    for gpus in numbers:
        found = [
            search.choice(one, layout, holds, gpus)
            for one, layout, holds in search.all(job, gpus)
            if holds.fits
        ]
        if found:
            return sorted(found, key=rank)
    return []


def filled(search: Search, job: Job, best: Choice) -> Choice:
    """The same layout with the largest micro-batch that fits and takes no longer: fewer, larger passes."""
    if not job.trains:
        return best
    for micro in micros(job, best.layout.dp):
        if micro <= (best.job.micro_batch or 1):
            continue
        one = best.job._replace(micro_batch=micro)
        try:
            sequences(one, best.layout)
        except InvalidConfig:
            # Of an interleaved pipeline, too few passes.
            break
        holds = held(search.demand, search.device, one, best.layout)
        if not holds.fits:
            break
        more = search.choice(one, best.layout, holds, best.value)
        if more.cost.seconds <= best.cost.seconds * (1 + 1e-9):
            best = more
    return best


class Sought:
    """How an objective counts: the field of the job that grows, and how many of it a layout has at once."""

    def __init__(self, search: Search, objective: str) -> None:
        self.search = search
        self.length = objective == "seq-len"
        self.bound = MOST_TOKENS if self.length else MOST_BATCH

    def start(self, job: Job) -> Job:
        """The job with the least of it."""
        if self.length:
            return job._replace(seq_len=1)
        return job._replace(batch_size=None if job.trains else 1, micro_batch=1 if job.trains else None)

    def times(self, job: Job, layout: Layout) -> int:
        """What one more of each rank is over all: every stage of a pipeline trains a micro-batch."""
        if self.length:
            return 1
        return layout.dp * (layout.pp if job.trains else 1)

    def with_value(self, job: Job, layout: Layout, value: int) -> Job:
        """The job with so much of it on each rank."""
        if self.length:
            return job._replace(seq_len=value)
        over_all = value * self.times(job, layout)
        return job._replace(batch_size=over_all, micro_batch=value if job.trains else None)

    def left(self, job: Job, layout: Layout, value: int) -> int:
        """Bytes that are left then; negative where it does not fit."""
        return held(self.search.demand, self.search.device, self.with_value(job, layout, value), layout).left

    def most(self, job: Job, layout: Layout, *, above: int = 0) -> int:
        """The largest value of a rank; `above` is known to fit."""
        times = self.times(job, layout)
        return largest_left(lambda n: self.left(job, layout, n), self.bound // times, above=above)

    def choice(self, job: Job, layout: Layout, value: int) -> Choice:
        """The layout with that much."""
        done = self.with_value(job, layout, value)
        holds = held(self.search.demand, self.search.device, done, layout)
        return self.search.choice(done, layout, holds, value * self.times(job, layout))


def most(search: Search, job: Job, numbers: list[int], objective: str) -> list[Choice]:
    """The largest value that any layout has, by asking each only whether it has more than the best so far."""
    if not numbers:
        return []
    sought = Sought(search, objective)
    space = [(one, layout) for one, layout, holds in search.all(sought.start(job), numbers[-1]) if holds.fits]
    best = 0
    for one, layout in space:
        times = sought.times(one, layout)
        more = best // times + 1
        if more * times <= sought.bound and sought.left(one, layout, more) >= 0:
            best = times * sought.most(one, layout, above=more)
    reach = []
    for one, layout in space:
        times = sought.times(one, layout)
        reach.append((sought.left(one, layout, -(-best // times)), best % times == 0, one, layout))
    found = [
        sought.choice(one, layout, best // sought.times(one, layout))
        for left, even, one, layout in reach
        if left >= 0 and even
    ]
    found.sort(key=rank)
    # Runners-up: those that lack least at the best value, each with the most it has itself.
    behind = sorted((entry for entry in reach if entry[0] < 0 or not entry[1]), key=lambda entry: -entry[0])
    wanted = max(0, MOST_OTHERS + 1 - len(found))
    others = [sought.choice(one, layout, sought.most(one, layout)) for _, _, one, layout in behind[:wanted]]
    return [*found, *sorted(others, key=lambda choice: -choice.value)]
