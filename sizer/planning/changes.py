"""What would make a job fit: the smallest change of each kind, found by asking `held` again.

Every change alters one thing, or says that it alters several.
"""

from __future__ import annotations

from collections.abc import Iterator

from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.measures.cache_dtypes import block
from sizer.planning.demand import Demand
from sizer.planning.hardware import Accelerator, hardwares
from sizer.planning.held import Held, held
from sizer.planning.job import MOST_BATCH, MOST_TOKENS, Job
from sizer.planning.largest import largest_left
from sizer.planning.layout import OFFLOADS, Layout, check, sequences
from sizer.planning.weights import NARROWER, format_named

# A change proposes at most this many GPUs, and this many tensor-parallel ranks where a node is not known.
MOST_PROPOSED, MOST_IN_A_NODE = 4096, 8


class Change(Record):
    """One thing that would make it fit: what it is, its new value, and what a rank then holds."""

    __slots__ = ("held", "name", "text", "value")

    def __init__(self, name: str, value: object, text: str, held: Held) -> None:
        self.name = name
        self.value = value
        self.text = text
        self.held = held


def changes_of(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Iterator[Change]:
    """The smallest change of each kind that makes it fit; each was asked for anew."""

    def tried(name: str, value: object, text: str, other: Job, spread: Layout) -> Iterator[Change]:
        found = attempt(demand, device, other, spread)
        if found is not None and found.fits:
            yield Change(name, value, text, found)

    def first(options: Iterator[tuple[str, object, str, Job, Layout]]) -> Iterator[Change]:
        for option in options:
            for change in tried(*option):
                yield change
                return

    yield from first(_formats(job, layout))
    if job.trains:
        if layout.checkpointing == "none":
            full = layout._replace(checkpointing="full")
            yield from tried("checkpointing", "full", "full checkpointing", job, full)
        if layout.dp * layout.cp > 1:
            stages = (
                ("zero", stage, f"ZeRO stage {stage}", job, layout._replace(zero=stage))
                for stage in range(layout.zero + 1, 4)
            )
            yield from first(iter(stages))
        yield from first(_tensor_parallel(job, layout))
        yield from first(_offloaded(job, layout))
        if job.optimizer in ("adam", "adamw"):
            narrow = job._replace(optimizer="adamw-8bit")
            yield from tried("optimizer", "adamw-8bit", "optimizer adamw-8bit", narrow, layout)
        yield from _micro_batches(demand, device, job, layout)
    else:
        stored = block(job.cache_dtype)
        if stored.bytes > stored.elements:
            yield from tried("kv_dtype", "fp8", "cache in fp8", job._replace(kv_dtype="fp8"), layout)
        yield from _fewer(demand, device, job, layout, "batch_size", job.batch_size or 1, MOST_BATCH)
        if job.engine == "llama.cpp":
            yield from _layers(demand, device, job, layout)
        if job.share < 0.95:
            more = job._replace(utilization=0.95)
            yield from tried("gpu_memory_utilization", 0.95, "gpu_memory_utilization of 0.95", more, layout)
    yield from _fewer(demand, device, job, layout, "seq_len", job.seq_len, MOST_TOKENS)
    yield from first(_more_gpus(demand, device, job, layout))
    yield from _larger(demand, device, job, layout)


def attempt(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Held | None:
    """What a rank holds, or nothing where the degrees do not go with the model."""
    try:
        check(job, layout)
        return held(demand, device, job, layout)
    except InvalidConfig:
        return None


Option = tuple[str, object, str, Job, Layout]


def _formats(job: Job, layout: Layout) -> Iterator[Option]:
    if job.trains:
        return
    now = format_named(job.dtype).bits
    for name in NARROWER:
        if format_named(name).bits < now:
            cache = job.kv_dtype or job.cache_dtype
            yield "dtype", name, f"weights in {name}", job._replace(dtype=name, kv_dtype=cache), layout


def _tensor_parallel(job: Job, layout: Layout) -> Iterator[Option]:
    """More tensor-parallel ranks out of the data-parallel ones; each trains as many sequences at once."""
    batch, micro = _batch(job, layout)
    other_job = job._replace(batch_size=batch, micro_batch=micro)
    for factor in range(2, layout.dp + 1):
        if layout.dp % factor == 0:
            other = layout._replace(tp=layout.tp * factor, dp=layout.dp // factor)
            yield "tp", other.tp, f"the same GPUs as {other}", other_job, other


def _offloaded(job: Job, layout: Layout) -> Iterator[Option]:
    """The least that leaves for the host."""
    words = {"optimizer": "", "gradients": " and gradients", "params": ", gradients and weights"}
    for name in OFFLOADS[OFFLOADS.index(layout.offload) + 1 :]:
        text = f"the optimizer{words[name]} on the host"
        yield "offload", name, text, job, layout._replace(offload=name)


def _batch(job: Job, layout: Layout) -> tuple[int, int]:
    """Sequences of a step, and of a rank at once."""
    micro, times = sequences(job, layout)
    return micro * times * layout.dp, micro


def _micro_batches(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Iterator[Change]:
    """Fewer sequences at once, with the same batch: its gradients are accumulated."""
    batch, now = _batch(job, layout)
    each = batch // layout.dp
    for micro in range(now - 1, 0, -1):
        if each % micro == 0:
            found = attempt(demand, device, job._replace(batch_size=batch, micro_batch=micro), layout)
            if found is not None and found.fits:
                yield Change("micro_batch", micro, f"at most {micro:,} sequences of a rank at once", found)
                return


def _fewer(
    demand: Demand, device: Accelerator, job: Job, layout: Layout, name: str, now: int, most: int
) -> Iterator[Change]:
    def found(number: int) -> Held | None:
        return attempt(demand, device, job._replace(**{name: number}), layout)

    def left(number: int) -> int:
        one = found(number)
        return -1 if one is None else one.left

    number = largest_left(left, min(now, most))
    one = found(number) if number else None
    if one is not None and number < now:
        word = "tokens of context" if name == "seq_len" else "sequences"
        yield Change(name, number, f"at most {number:,} {word}", one)


def _layers(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Iterator[Change]:
    n_layers = demand.pieces(job, layout).n_layers

    def found(number: int) -> Held:
        return held(demand, device, job._replace(gpu_layers=number), layout)

    number = largest_left(lambda n: found(n).left, n_layers)
    if number and job.gpu_layers is None:
        text = f"{number} of {n_layers} layers on the GPU, the others on the CPU"
        yield Change("gpu_layers", number, text, found(number))


def _more_gpus(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Iterator[Option]:
    """The next larger numbers of ranks: data parallel ones where they share anything, tensor parallel
    ones inside a node, stages of a pipeline."""
    node = max(device.node_gpus or MOST_IN_A_NODE, layout.tp)
    for factor in range(2, MOST_PROPOSED // layout.gpus + 1):
        spreads = []
        if layout.tp * factor <= node:
            ep = layout.ep * factor if layout.ep > 1 and not job.trains else layout.ep
            spreads.append(layout._replace(tp=layout.tp * factor, ep=ep))
        if layout.zero:
            spreads.insert(0, layout._replace(dp=layout.dp * factor))
        spreads.append(layout._replace(pp=layout.pp * factor))
        for other in spreads:
            bigger, word = job, ""
            if job.trains:
                batch, micro = _batch(job, layout)
                batch *= other.dp // layout.dp
                bigger = job._replace(batch_size=batch, micro_batch=micro)
                word = f", batch_size {batch:,}" if other.dp > layout.dp else ""
            yield "gpus", other.gpus, f"{other.gpus:,} GPUs: {other}{word}", bigger, other


def together(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Iterator[Change]:
    """Two or three changes to the layout at once, on the same GPUs; the fewest that are enough."""
    if not job.trains:
        return
    batch, micro = _batch(job, layout)
    tried: list[tuple[int, Job, Layout]] = []
    for zero in range(layout.zero, 4):
        for factor in (n for n in range(1, layout.dp + 1) if layout.dp % n == 0):
            for small in sorted({micro, 1}, reverse=True):
                other = layout._replace(
                    zero=zero, checkpointing="full", tp=layout.tp * factor, dp=layout.dp // factor
                )
                several = (zero > layout.zero) + (factor > 1) + (small < micro)
                tried.append((several, job._replace(batch_size=batch, micro_batch=small), other))
    for several, other_job, other in sorted(tried, key=lambda one: (one[0], one[2].tp)):
        found = attempt(demand, device, other_job, other) if several else None
        if found is not None and found.fits:
            word = "" if other_job.micro_batch == micro else f", {other_job.micro_batch} sequence at once"
            yield Change("layout", str(other), f"together: {other}{word}", found)
            return


def _larger(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Iterator[Change]:
    """The same vendor's accelerator with the least memory that is enough."""
    bigger = [
        one
        for one in hardwares()
        if one.vendor == device.vendor and one.form == device.form and one.usable_bytes > device.usable_bytes
    ]
    for one in sorted(bigger, key=lambda one: one.usable_bytes):
        found = held(demand, one, job, layout)
        if found.fits:
            yield Change("accelerator", one.name, f"on {one.name}", found)
            return
