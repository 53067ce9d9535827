"""Every layout of a number of GPUs that there is to choose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.errors import InvalidConfig
from sizer.planning.demand import Demand
from sizer.planning.hardware import Accelerator
from sizer.planning.held import model_states
from sizer.planning.job import PRECISIONS, Job
from sizer.planning.layout import CHECKPOINTING, OFFLOADS, Layout, not_offloaded
from sizer.planning.overhead import overhead
from sizer.planning.weights import format_named

# Tensor parallelism stays inside a node, of this many where the table does not say.
NODE = 8
# A context-parallel rank has at least this many tokens; a rank trains at most this many sequences at once.
LEAST_TOKENS, MOST_MICRO = 1024, 64


class Choices(Record):
    """What a caller has fixed of a layout; `None` where it is free. `formats`: of weights served."""

    __slots__ = ("checkpointing", "cp", "dp", "ep", "formats", "offload", "pp", "tp", "vpp", "zero")

    def __init__(
        self,
        tp: int | None = None,
        pp: int | None = None,
        dp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        zero: int | None = None,
        checkpointing: str | None = None,
        formats: Sequence[str] = (),
        vpp: int | None = None,
        offload: str | None = None,
    ) -> None:
        self.tp = tp
        self.pp = pp
        self.dp = dp
        self.cp = cp
        self.ep = ep
        self.zero = zero
        self.checkpointing = checkpointing
        self.formats = tuple(formats)
        self.vpp = vpp
        self.offload = offload


def node_of(device: Accelerator) -> int:
    """Accelerators of a node."""
    return device.node_gpus or NODE


def counts(device: Accelerator, least: int, most: int) -> Iterator[int]:
    """Numbers of GPUs that are looked at: any inside a node, then whole nodes.

    >>> from sizer.planning.hardware import hardware
    >>> list(counts(hardware("h100"), 6, 24))
    [6, 7, 8, 16, 24]
    """
    node = node_of(device)
    yield from range(max(least, 1), min(most, node) + 1)
    yield from range(max(2, -(-least // node)) * node, most + 1, node)


def divisors(number: int) -> list[int]:
    """Its divisors, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return small + [number // n for n in reversed(small) if n * n != number]


def layouts(
    demand: Demand, device: Accelerator, job: Job, gpus: int, fixed: Choices
) -> Iterator[tuple[Job, Layout]]:
    """Every layout of exactly so many GPUs, with the job as it then is: its format, its micro-batch."""
    n_experts = experts_of(demand)
    n_layers = demand.pieces(job, Layout()).n_layers
    stacks = demand.pieces(job, Layout()).stacks
    for tp in _options(fixed.tp, [n for n in divisors(gpus) if n <= node_of(device)], gpus):
        for pp in _options(
            fixed.pp,
            [n for n in divisors(gpus // tp) if (n <= n_layers and stacks < 2) or n == 1],
            gpus // tp,
        ):
            rest = gpus // tp // pp
            if not job.trains:
                if fixed.dp in (None, rest) and fixed.cp in (None, 1):
                    yield from _served(job, tp, pp, rest, n_experts, fixed)
                continue
            for cp in _options(fixed.cp, _contexts(job, rest), rest):
                dp = rest // cp
                if fixed.dp in (None, dp):
                    for layout in _stages(Layout(tp, pp, dp, cp), n_layers, fixed):
                        yield from _trained(job, layout, n_experts, fixed)


def _options(fixed: int | None, free: list[int], of: int) -> list[int]:
    if fixed is None:
        return free
    return [fixed] if of % fixed == 0 else []


def _contexts(job: Job, rest: int) -> list[int]:
    """Powers of two, where attention can be split at all."""
    if job.attention == "eager":
        return [1]
    # A length of 1 stands for one that is sought, which is long where there are many ranks for it.
    longest = job.seq_len // LEAST_TOKENS if job.seq_len > 1 else rest
    return [n for n in divisors(rest) if n & (n - 1) == 0 and (n == 1 or n <= longest)]


def _served(
    job: Job, tp: int, pp: int, dp: int, n_experts: int, fixed: Choices
) -> Iterator[tuple[Job, Layout]]:
    shared = [1, tp * dp] if n_experts and 1 < tp * dp <= n_experts else [1]
    for ep in shared if fixed.ep is None else [fixed.ep]:
        if ep not in (1, tp * dp):
            continue
        for dtype in fixed.formats or (job.dtype,):
            # Narrower weights leave the cache as it is.
            cache = job.kv_dtype or job._replace(dtype=(fixed.formats or (job.dtype,))[0]).cache_dtype
            yield job._replace(dtype=dtype, kv_dtype=cache), Layout(tp, pp, dp, 1, ep)


def _stages(layout: Layout, n_layers: int, fixed: Choices) -> Iterator[Layout]:
    """Its pipeline as one chunk of layers a stage, and as every number of chunks that are alike."""
    each, rest = divmod(n_layers, layout.pp)
    chunks = divisors(each) if layout.pp > 1 and not rest else [1]
    for vpp in chunks if fixed.vpp is None else [fixed.vpp]:
        if vpp in chunks:
            yield layout._replace(vpp=vpp)


def _trained(job: Job, degrees: Layout, n_experts: int, fixed: Choices) -> Iterator[tuple[Job, Layout]]:
    dp, cp, pp = degrees.dp, degrees.cp, degrees.pp
    batch = job.batch_size
    if batch is not None and batch % dp:
        return
    shared = [n for n in divisors(dp * cp) if n_experts and n_experts % n == 0] or [1]
    stages = [0] if dp * cp == 1 else [0, 1] if pp > 1 else [0, 1, 2, 3]
    offloads = OFFLOADS if job.host_memory is not None else OFFLOADS[:1]
    if fixed.offload is not None:
        offloads = (fixed.offload,)
    if dp * cp == 1 and pp == 1 and "params" in offloads:
        # One rank keeps its weights on the host as stage 3 does.
        stages = [0, 3]
    for ep in shared if fixed.ep is None else [fixed.ep]:
        if dp * cp % ep:
            continue
        for zero in stages if fixed.zero is None else [fixed.zero]:
            if zero not in stages:
                continue
            some = CHECKPOINTING if fixed.checkpointing is None else (fixed.checkpointing,)
            for checkpointing, offload in product(some, offloads):
                layout = degrees._replace(ep=ep, zero=zero, checkpointing=checkpointing, offload=offload)
                if not_offloaded(layout) or (dp * cp == 1 and zero and offload != "params"):
                    continue
                for micro in _at_once(job, layout):
                    yield job._replace(batch_size=batch or dp * micro * pp, micro_batch=micro), layout


def _at_once(job: Job, layout: Layout) -> list[int]:
    """Sequences of a rank at once that are looked at, ascending."""
    found = micros(job, layout.dp)
    if layout.vpp > 1 and job.batch_size is not None:
        each = job.batch_size // layout.dp
        found = [micro for micro in found if each // micro % layout.pp == 0]
    # A larger one saves something only where weights are gathered, or gradients sent, for each.
    return found if layout.zero == 3 or layout.offload == "gradients" else found[:1]


def micros(job: Job, dp: int) -> list[int]:
    """Sequences of a rank at once, ascending: powers of two that divide its share of the batch."""
    if job.micro_batch is not None:
        return (
            [job.micro_batch] if job.batch_size is None or job.batch_size // dp % job.micro_batch == 0 else []
        )
    if job.batch_size is None:
        return [1]
    each = job.batch_size // dp
    return [2**k for k in range(MOST_MICRO.bit_length()) if each % 2**k == 0]


def experts_of(demand: Demand) -> int:
    """Routed experts of a layer, 0 where there are none."""
    leaves = (row.leaf for row in demand.rows if row.component == "experts")
    axes = (axis for leaf in leaves if isinstance(leaf, Param) for axis in leaf.axes)
    return next((int(axis.size) for axis in axes if axis.name == "expert"), 0)


def least_gpus(demand: Demand, device: Accelerator, job: Job, fixed: Choices) -> int:
    """No layout has fewer: every element is somewhere, with its gradient and its state."""
    room = int(device.usable_bytes * job.share) - overhead(job, Layout())[0]
    if room <= 0:
        raise InvalidConfig(f"{device.name}: its runtime alone takes more than {device.usable_bytes:,} bytes")
    total = demand.total()
    if job.trains:
        how = PRECISIONS[job.precision]
        needed = sum(model_states(total, 0, (how.weight, how.gradient, demand.optimizer(job)), zero=0, dp=1))
        if fixed.offload not in (None, "none") or job.host_memory is not None:
            # What is on the host, all of it or as much as there is room for, is on no accelerator.
            room = needed if job.host_memory is None else room + job.host_memory
    else:
        elements = demand.pieces(job, Layout()).stages(1)[0].elements
        needed = min(
            demand.weights(format_named(name), elements.linear, total - elements.linear, 0)
            for name in (fixed.formats or (job.dtype,))
        )
    return max(1, -(-needed // room))
