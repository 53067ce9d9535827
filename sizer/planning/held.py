"""What one rank of a layout holds, and whether the accelerator has room for it.

Elements of weights are those of the rank (`sizer.planning.pieces`); activations come from one run
of the step (`sizer.planning.activations`); a cache is what the engine's policy keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sizer.core.record import Record
from sizer.measures.cache_policies import POLICIES as CACHES
from sizer.planning.demand import POLICIES, Demand
from sizer.planning.hardware import Accelerator
from sizer.planning.job import PRECISIONS, Job
from sizer.planning.layout import Layout, in_flight, sequences
from sizer.planning.offload import split
from sizer.planning.overhead import overhead
from sizer.planning.pieces import Stage
from sizer.planning.weights import format_named

# FSDP2 gathers the layer that runs and the next one.
GATHERED_LAYERS = 2
# Sequences whose logits vLLM samples at once, and bytes of each logit: 16 bits, and two copies in 32.
SAMPLED, SAMPLE_BYTES = 256, 10


class Line(Record):
    """A part of what a rank holds: its name, its bytes, "exact" or "estimate", and what it is."""

    __slots__ = ("label", "n_bytes", "name", "what")

    def __init__(self, name: str, n_bytes: int, label: str, what: str = "") -> None:
        self.name = name
        self.n_bytes = n_bytes
        self.label = label
        self.what = what


class Held(Record):
    """What the heaviest rank holds, and what it may hold.

    `place`: its stage. `host`: bytes that are on the host, of at most `host_budget` where that is known.
    """

    __slots__ = ("budget", "host", "host_budget", "lines", "place", "stage")

    def __init__(
        self,
        lines: Sequence[Line],
        budget: int,
        place: str,
        stage: Stage,
        host: int = 0,
        host_budget: int | None = None,
    ) -> None:
        self.lines = lines
        self.budget = budget
        self.place = place
        self.stage = stage
        self.host = host
        self.host_budget = host_budget

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(line.n_bytes for line in self.lines)

    @property
    def left(self) -> int:
        """What is left of the budget; negative where it is too little, or the host's is."""
        here = self.budget - self.total
        there = 0 if self.host_budget is None else self.host_budget - self.host
        return min(here, there) if there < 0 else here

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return self.left >= 0

    def of(self, name: str) -> int:
        """Bytes of a part, by its name."""
        return sum(line.n_bytes for line in self.lines if line.name == name)


def held(demand: Demand, device: Accelerator, job: Job, layout: Layout) -> Held:
    """What the heaviest rank holds.

    >>> import sizer
    >>> from sizer.planning.hardware import hardware
    >>> found = held(Demand(sizer.load("llama-3-8b")), hardware("h100"), Job("infer", 1, 8192), Layout())
    >>> found.of("weights"), found.of("KV cache"), found.fits
    (16060522496, 1073741824, True)
    """
    job = settled(job, device)
    pieces = demand.pieces(job, layout)
    budget = int(device.usable_bytes * job.share)
    found = []
    for stage in pieces.stages(layout.pp, layout.vpp):
        host = 0
        if job.trains:
            lines, host = _trains(demand, job, layout, stage, pieces.n_layers)
        else:
            lines = _serves(demand, job, layout, stage, pieces.n_layers)
        place = f"stage {stage.index}, {stage.layers} layers" if layout.pp > 1 else "every rank"
        lines = [line for line in lines if line.n_bytes]
        found.append(Held(lines, budget, place, stage, host, job.host_memory))
    return max(found, key=lambda one: (min(one.left, 0) if one.host else 0, one.total))


def settled(job: Job, device: Accelerator) -> Job:
    """The job with the tokens of a pass that its engine has by default on such a device.

    vLLM's server (`engine/arg_utils.py`): 8,192 where there are 70 GiB, A100 aside, and else 2,048;
    llama.cpp's micro-batch: 512.

    >>> from sizer.planning.hardware import hardware
    >>> [settled(Job(engine="vllm"), hardware(name)).batched_tokens for name in ("h100", "a100", "4090")]
    [8192, 2048, 2048]
    """
    if job.batched_tokens is not None or job.engine not in ("vllm", "llama.cpp"):
        return job
    if job.engine == "llama.cpp":
        return job._replace(batched_tokens=512)
    large = device.memory_bytes >= 70 * 2**30 and not device.name.startswith("a100")
    return job._replace(batched_tokens=8192 if large else 2048)


def _serves(demand: Demand, job: Job, layout: Layout, stage: Stage, n_layers: int) -> list[Line]:
    chosen = format_named(job.dtype)
    elements, layers = stage.elements, stage.layers
    width = 4 if chosen.bits >= 32 else 2
    batch = -(-(job.batch_size or 1) // layout.dp)
    others = elements.total - elements.linear
    linear, channels = elements.linear, elements.channels
    if job.gpu_layers is not None:
        # llama.cpp puts the last layers on the accelerator, and the head with the one beyond them.
        layers = min(job.gpu_layers, n_layers)
        linear, channels = linear * layers // n_layers, channels * layers // n_layers
        others = others if job.gpu_layers > n_layers else 0
    weights = demand.weights(chosen, linear, others, channels)
    cache = -(-demand.cache(job, layout) * layers // max(n_layers, 1))
    tokens = job.batched_tokens
    if tokens is None:
        working = demand.working(batch, job.seq_len, width)
        what = f"a prefill of {batch} × {job.seq_len:,} tokens"
    else:
        working = demand.working(1, tokens, width)
        what = f"a pass of {tokens:,} tokens"
        if job.engine == "vllm" and stage.last:
            working += SAMPLED * SAMPLE_BYTES * demand.vocabulary
            what += f" and {SAMPLED} logits"
    if layout.tp > 1:
        # What is split, and two copies of the residual stream, which is not.
        stream = (
            2 * width * (tokens or batch * job.seq_len) * int(getattr(demand.model.config, "d_model", 0) or 0)
        )
        working = -(-working // layout.tp) + stream
    runtime, said = overhead(job, layout)
    rotary = demand.rotary if job.engine == "vllm" else 0
    return [
        Line(
            "weights", weights, "exact" if chosen.exact and job.gpu_layers is None else "estimate", job.dtype
        ),
        Line(
            "buffers",
            demand.buffers + rotary,
            "exact",
            "rotary frequencies and their table" if rotary else "",
        ),
        Line(
            "KV cache",
            cache,
            _cache_label(job, layout),
            f"{batch} × {job.seq_len:,} tokens, {POLICIES[job.engine]}",
        ),
        Line("activations", working, "estimate", what),
        Line("runtime", runtime, "estimate", said),
    ]


def _cache_label(job: Job, layout: Layout) -> str:
    known = CACHES[POLICIES[job.engine]].exact and layout.pp == 1 and job.gpu_layers is None
    return "exact" if known else "estimate"


def _trains(demand: Demand, job: Job, layout: Layout, stage: Stage, n_layers: int) -> tuple[list[Line], int]:
    """The parts, and the bytes on the host."""
    how = PRECISIONS[job.precision]
    micro, times = sequences(job, layout)
    runtime, said = overhead(job, layout)
    elements = stage.elements
    # Experts are repeated on fewer ranks than the other tensors.
    dense, expert = layout.dp * layout.cp, layout.dp * layout.cp // layout.ep
    cost = (how.weight, how.gradient, demand.optimizer(job))
    weights, gradients, states = model_states(
        elements.dense, elements.expert, cost, zero=layout.zero, dp=dense, expert_dp=expert
    )
    weights, gradients, states, host = split(
        layout, weights, gradients, states, how.gradient * stage.largest.total
    )
    gathered = 0
    if layout.zero == 3 and (dense > 1 or layout.offload == "params"):
        layers = min(GATHERED_LAYERS, stage.layers)
        outside = demand.pieces(job, layout)
        table = max(outside.before.total, outside.behind.total)
        gathered = how.weight * max(stage.largest.total * layers, table)
    found = demand.kept(job, layout, micro)
    chunks = in_flight(layout, stage.index, times)
    active = found.on_rank(
        tp=layout.tp,
        stage_layers=stage.layers // layout.vpp,
        n_layers=n_layers,
        in_flight=chunks,
        last=stage.last,
    )
    # Shared tensors are padded, each framework in its own way.
    whole = ["exact" if layout.zero < stage or dense == 1 else "estimate" for stage in (3, 2)]
    exact = "exact" if layout.gpus == 1 else "estimate"
    kept = f"{micro} × {job.seq_len:,} tokens" + (f", {chunks} under way" if chunks > 1 else "")
    if layout.vpp > 1:
        kept += f", of {stage.layers // layout.vpp} layers each"
    label = "estimate"
    known = found.exact and job.precision != "megatron" and layout.offload != "params"
    if layout.gpus == 1 and times == 1 and known:
        # One rank runs the very step that is known op by op: what is alive beside the rest at its peak.
        active = demand.peak(job, layout, micro) - weights - gradients - states - demand.buffers
        active, kept = max(active, 0), f"{kept}, beside the rest at the peak of the step"
        label = "exact" if layout.offload == "none" else "estimate"
    lines = [
        Line("weights", weights, whole[0], job.precision),
        Line("gradients", gradients, whole[1] if layout.offload in ("none", "optimizer") else "estimate"),
        Line("optimizer state", states, exact, job.optimizer),
        Line("gathered weights", gathered, "estimate", f"{GATHERED_LAYERS} layers, whole, while they run"),
        Line("buffers", demand.buffers, "exact"),
        Line("activations", active, label, kept),
        Line("runtime", runtime, "estimate", said),
    ]
    return lines, host


def model_states(
    dense: int,
    expert: int,
    cost: tuple[int, int, Fraction | int],
    *,
    zero: int,
    dp: int,
    expert_dp: int | None = None,
) -> tuple[int, int, int]:
    """Bytes of weights, gradients and optimizer states of a rank with so many elements.

    Rajbhandari et al. 2020, figure 1: 7.5 billion parameters in mixed precision on 64 GPUs.

    >>> [sum(model_states(7_500_000_000, 0, (2, 2, 12), zero=z, dp=64)) / 10**9 for z in (0, 1, 2, 3)]
    [120.0, 31.40625, 16.640625, 1.875]
    """
    shared = -(-dense // dp) + -(-expert // (expert_dp or dp))
    whole = dense + expert
    weight, gradient, state = cost
    held = [shared if zero >= stage else whole for stage in (3, 2, 1)]
    return weight * held[0], gradient * held[1], -int(-state * held[2] // 1)
