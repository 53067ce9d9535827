"""How long a step takes at least: a stated model that ranks layouts, and no forecast.

Compute runs at the dense peak, traffic at the full rate of its link, and nothing overlaps but the share
that the caller names. A ring of
n ranks moves 2·(n−1)/n of the bytes of an all-reduce through each of them, and half of that for an
all-gather or a reduce-scatter. Ranks are placed tensor parallel first, then context, data, pipeline
(Megatron's order); a group that does not fit into a node uses the network.
"""

from __future__ import annotations

from sizer.core.record import Record
from sizer.measures.traffic import traffic
from sizer.planning import offload
from sizer.planning.demand import Demand
from sizer.planning.hardware import Accelerator
from sizer.planning.held import Held
from sizer.planning.job import PRECISIONS, Job
from sizer.planning.layout import Layout, sequences
from sizer.planning.weights import format_named

# Where the table has no figure: PCI Express 4.0 ×16, and a port of 100 Gb/s, both one way.
PCIE, ETHERNET = 32 * 10**9, 125 * 10**8
# Activations that ranks exchange are of 16 bits.
WIDTH = 2
# Parts of a cost that are no traffic; while a stage waits, nothing is there to hide behind.
NOT_SENT = ("compute", "memory", "pipeline bubble", "host update")


class Cost(Record):
    """Seconds of a training step, or of one decoding step of all sequences, by what they are spent on."""

    __slots__ = ("parts", "tokens")

    def __init__(self, parts: dict[str, float], tokens: int) -> None:
        self.parts = parts
        # Tokens that the step trains or decodes.
        self.tokens = tokens

    @property
    def seconds(self) -> float:
        """All of them, one after the other."""
        return sum(self.parts.values())

    @property
    def communication(self) -> float:
        """What is not computing and not reading memory."""
        return self.seconds - self.parts.get("compute", 0.0) - self.parts.get("memory", 0.0)

    @property
    def tokens_per_s(self) -> float:
        """At most so many tokens a second, over all ranks."""
        return self.tokens / self.seconds


def assumed(device: Accelerator, job: Job) -> list[str]:
    """What the cost of this accelerator takes for granted."""
    hidden = (
        f"{job.overlap:.0%} of the traffic behind computing, as was said"
        if job.overlap
        else "nothing overlaps"
    )
    notes = [f"cost: dense peak, full rate of links, {hidden}; it ranks layouts and is no forecast"]
    if device.link_bytes_per_s is None:
        notes.append(f"no link is known for {device.name}: PCI Express 4.0 ×16, 32 GB/s each way, is assumed")
    if device.network_bytes_per_s is None:
        notes.append(f"no network is known for {device.name}: 100 Gb/s a GPU is assumed")
    return notes


def peak_of(device: Accelerator, *types: str) -> int | None:
    """The dense peak for the first of these types that the table has."""
    return next((device.peak[dtype] for dtype in types if dtype in device.peak), None)


def _rate(device: Accelerator, span: int) -> float:
    """Bytes a second, one way, of a group that spans so many neighbouring ranks."""
    if span <= (device.node_gpus or 1) and device.link_bytes_per_s is not None:
        return device.link_bytes_per_s
    if span <= (device.node_gpus or 8):
        return PCIE
    return device.network_bytes_per_s or ETHERNET


def cost_of(demand: Demand, device: Accelerator, job: Job, layout: Layout, found: Held) -> Cost:
    """The cost of a layout whose heaviest rank is `found`."""
    cost = (_training if job.trains else _decoding)(demand, device, job, layout, found)
    return overlapped(cost, job.overlap) if job.overlap else cost


def overlapped(cost: Cost, share: float) -> Cost:
    """The cost with a share of its traffic behind computing, or as much of it as computing takes.

    >>> found = overlapped(Cost({"compute": 3.0, "data parallel": 4.0, "pipeline bubble": 1.0}, 8), 0.5)
    >>> found.parts, found.seconds
    ({'compute': 3.0, 'data parallel': 2.0, 'pipeline bubble': 1.0}, 6.0)
    """
    sent = sum(seconds for name, seconds in cost.parts.items() if name not in NOT_SENT)
    work = sum(cost.parts.get(name, 0.0) for name in ("compute", "memory"))
    left = 1 - min(share, work / sent) if sent else 1.0
    return Cost(
        {name: seconds * (1 if name in NOT_SENT else left) for name, seconds in cost.parts.items()},
        cost.tokens,
    )


def _training(demand: Demand, device: Accelerator, job: Job, layout: Layout, found: Held) -> Cost:
    micro, times = sequences(job, layout)
    how = PRECISIONS[job.precision]
    tp, pp, cp, dp, ep = layout.tp, layout.pp, layout.cp, layout.dp, layout.ep
    pieces = demand.pieces(job, layout)
    stage, n_layers = found.stage, pieces.n_layers
    width = _width(demand)
    again = layout.checkpointing == "full"
    # One micro-batch's activations between layers, on a rank.
    between = micro * -(-job.seq_len // cp) * width * WIDTH
    flops = demand.once(
        ("flops", job.seq_len, again),
        lambda: int(demand.model.flops(1, job.seq_len, checkpointing="full" if again else "none").training),
    )
    types = ("tf32", "fp32") if how.step == "fp32" else ("bf16", "fp16", "fp32")
    peak = peak_of(device, *types) or device.flops_per_s("bf16")
    # The stage that has most layers sets the pace.
    uneven = max(one.layers for one in pieces.stages(pp, layout.vpp)) * pp / max(n_layers, 1)
    compute = flops * micro * times * dp / (layout.gpus * peak) * uneven
    elements = int(stage.elements.total)
    moe = sum(1 for one in pieces.layers if one.expert) * stage.layers // max(n_layers, 1)
    # A ring passes every rank's keys and values on.
    a_token = sum(int(one.keys + one.values) * int(one.layers) for one in demand.states) if cp > 1 else 0
    kept = micro * -(-job.seq_len // cp) * a_token * stage.layers * WIDTH // (max(n_layers, 1) * tp)
    each = how.weight, how.gradient, demand.optimizer(job)
    shared = -(-stage.elements.dense // (dp * cp)) + -(-stage.elements.expert // (dp * cp // ep))
    sent: dict[str, int] = {}
    for one in traffic(
        layers=stage.layers,
        between=between,
        micro_batches=times,
        weights=how.weight * elements,
        gradients=how.gradient * elements,
        tp=tp,
        pp=pp,
        chunks=layout.vpp,
        cp=cp,
        dp=dp,
        ep=ep,
        zero=layout.zero,
        again=again,
        moe_layers=moe,
        top_k=int(getattr(demand.model.config, "top_k", 1) or 1),
        keys_values=kept,
    ):
        sent[one.group] = sent.get(one.group, 0) + one.sent
    return Cost(
        {
            "compute": compute,
            # Interleaved, a micro-batch is a part in vpp of the work (Narayanan et al. 2021, section 2.2).
            "pipeline bubble": compute * (pp - 1) / (times * layout.vpp),
            "tensor parallel": sent.get("tp", 0) / _rate(device, tp),
            "context parallel": sent.get("cp", 0) / _rate(device, tp * cp),
            "data parallel": sent.get("dp", 0) / _rate(device, tp * cp * dp),
            "expert parallel": sent.get("ep", 0) / _rate(device, tp * max(ep, 1)),
            # A rank sends and receives, one after the other.
            "pipeline": 2 * sent.get("pp", 0) / _rate(device, layout.gpus),
            **offload.seconds(layout, shared, times, each, PCIE),
        },
        micro * times * dp * job.seq_len,
    )


def _decoding(demand: Demand, device: Accelerator, job: Job, layout: Layout, found: Held) -> Cost:
    """A step of decoding reads every weight and the whole cache, stage after stage."""
    batch = -(-(job.batch_size or 1) // layout.dp)
    stage = found.stage
    chosen = format_named(job.dtype)
    read = found.of("weights") + found.of("KV cache")
    memory = layout.pp * read / device.need("bandwidth_bytes_per_s")
    # Narrow weights are widened before they are multiplied, unless the type has a peak of its own.
    types = ("fp8",) if chosen.name == "fp8" else ()
    peak = peak_of(device, *types, "bf16", "fp16", "fp32")
    active = demand.once("active", lambda: int(demand.model.count().active))
    compute = 0.0 if peak is None else 2 * active * batch / (layout.tp * peak)
    between = batch * _width(demand) * WIDTH
    tensor = 2 * stage.layers * layout.pp * 2 * (layout.tp - 1) / layout.tp * between
    experts = 0.0
    if layout.ep > 1:
        top_k = int(getattr(demand.model.config, "top_k", 1) or 1)
        moe = sum(1 for one in demand.pieces(job, layout).layers if one.expert)
        experts = 2 * moe * (layout.ep - 1) / layout.ep * between * top_k / layout.tp
    return Cost(
        {
            "memory": max(memory, compute),
            "tensor parallel": tensor / _rate(device, layout.tp),
            "expert parallel": experts / _rate(device, layout.ep),
            "pipeline": (layout.pp - 1) * between / _rate(device, layout.gpus),
        },
        batch * layout.dp,
    )


def _width(demand: Demand) -> int:
    width = getattr(demand.model.config, "d_model", None)
    return width if isinstance(width, int) else 0
