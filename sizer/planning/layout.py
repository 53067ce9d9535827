"""How a job is spread: degrees of parallelism, checked against the job and against each other."""

from __future__ import annotations

from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.planning.job import MOST_GPUS, Job, check_counts, known_name

CHECKPOINTING = ("none", "full")
# What is on the host: see `sizer.planning.offload`.
OFFLOADS = ("none", "optimizer", "gradients", "params")


class Layout(Record):
    """Degrees of parallelism: tensor, pipeline, context and data parallel ranks multiply to all.

    `ep`: ranks that share the experts, among those of dp and cp when training, all of tp and dp in vLLM.
    `zero`: what data-parallel ranks share: 1 optimizer states, 2 gradients too, 3 weights too.
    `vpp`: chunks of layers that a stage has of an interleaved pipeline. `offload`: what is on the host.
    """

    __slots__ = ("checkpointing", "cp", "dp", "ep", "offload", "pp", "tp", "vpp", "zero")

    def __init__(
        self,
        tp: int = 1,
        pp: int = 1,
        dp: int = 1,
        cp: int = 1,
        ep: int = 1,
        zero: int = 0,
        checkpointing: str = "none",
        vpp: int = 1,
        offload: str = "none",
    ) -> None:
        self.tp = tp
        self.pp = pp
        self.dp = dp
        self.cp = cp
        self.ep = ep
        self.zero = zero
        self.checkpointing = checkpointing
        self.vpp = vpp
        self.offload = offload

    @property
    def gpus(self) -> int:
        """All ranks."""
        return self.tp * self.pp * self.dp * self.cp

    def __str__(self) -> str:
        degrees = " ".join(
            f"{n}={getattr(self, n)}" for n in ("tp", "pp", "vpp", "cp", "dp", "ep") if getattr(self, n) > 1
        )
        zero = f" zero={self.zero}" if self.zero else ""
        words = (f" {n}={getattr(self, n)}" for n in ("checkpointing", "offload"))
        return (degrees or "one rank") + zero + "".join(word for word in words if not word.endswith("=none"))


def layout_of(
    job: Job,
    *,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    zero: int = 0,
    checkpointing: str = "none",
    vpp: int = 1,
    offload: str = "none",
) -> Layout:
    """A layout from what is given: the degree that is left is tensor parallel when serving, data
    parallel when training.

    >>> str(layout_of(Job("train"), gpus=16, tp=4)), str(layout_of(Job(), gpus=8))
    ('tp=4 dp=4', 'tp=8')
    """
    check_counts(MOST_GPUS, gpus=gpus, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, vpp=vpp)
    known_name("checkpointing", checkpointing, CHECKPOINTING)
    known_name("thing to offload", offload, OFFLOADS)
    if zero not in (0, 1, 2, 3) or isinstance(zero, bool):
        raise InvalidConfig(f"zero = {zero} is no stage of ZeRO; the stages are 0, 1, 2 and 3")
    given = {"tp": tp, "pp": pp, "cp": cp, "dp": dp}
    product = 1
    for degree in given.values():
        product *= degree or 1
    if gpus is not None:
        free = "dp" if job.trains or tp is not None else "tp"
        text = " · ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
        if given[free] is not None or gpus % product:
            if product != gpus:
                near = product if given[free] is not None else round(gpus / product) * product or product
                raise InvalidConfig(f"gpus = {gpus} is not what {text} multiply to; use gpus = {near}")
        else:
            given[free] = gpus // product
    degrees = [given[name] or 1 for name in ("tp", "pp", "dp", "cp")]
    layout = Layout(*degrees, ep or 1, zero, checkpointing, vpp, offload)  # type: ignore[arg-type, call-arg]
    check(job, layout)
    return layout


def check(job: Job, layout: Layout) -> None:
    """Refuse degrees and settings that contradict each other, and say which."""
    if job.trains:
        if layout.dp * layout.cp % layout.ep:
            raise InvalidConfig(
                f"ep = {layout.ep} does not divide dp · cp = {layout.dp * layout.cp}, "
                "whose ranks share the experts"
            )
        if layout.zero >= 2 and layout.pp > 1:
            raise InvalidConfig(
                f"zero = {layout.zero} and pp = {layout.pp} contradict: a pipeline sums gradients over its "
                "micro-batches, so DeepSpeed allows stage 1 at most; use zero = 1 or pp = 1"
            )
        if layout.cp > 1 and job.attention == "eager":
            raise InvalidConfig(f"cp = {layout.cp} needs attention = sdpa or flash, and attention is eager")
        if layout.vpp > 1 and layout.pp == 1:
            raise InvalidConfig(
                f"vpp = {layout.vpp}: without a pipeline there is nothing to interleave; add pp"
            )
        why = not_offloaded(layout)
        if why:
            raise InvalidConfig(f"offload = {layout.offload} {why}")
        sequences(job, layout)
        return
    for name, value, rule in (
        ("zero", layout.zero, 0),
        ("cp", layout.cp, 1),
        ("checkpointing", layout.checkpointing, "none"),
        ("vpp", layout.vpp, 1),
        ("offload", layout.offload, "none"),
    ):
        if value != rule:
            raise InvalidConfig(f"{name} = {value} is of training, and mode = infer serves; leave it out")
    if layout.ep not in (1, layout.tp * layout.dp):
        raise InvalidConfig(
            f"ep = {layout.ep}: vLLM spreads experts over all tp · dp = {layout.tp * layout.dp} ranks; "
            "use that, or 1"
        )


def not_offloaded(layout: Layout) -> str:
    """Why what is to be offloaded cannot be; nothing where it can.

    >>> not_offloaded(Layout(dp=2, offload="optimizer")), not_offloaded(Layout(offload="optimizer"))
    ('needs zero = 1 or more, which gives each rank its share', '')
    """
    alone = layout.dp * layout.cp == 1
    if layout.offload == "params":
        return "" if layout.zero == 3 else "needs zero = 3, which gathers weights layer by layer"
    if layout.offload == "optimizer":
        return "" if alone or layout.zero else "needs zero = 1 or more, which gives each rank its share"
    if layout.offload == "gradients" and layout.pp > 1:
        return f"and pp = {layout.pp} contradict: a pipeline sums gradients over its micro-batches"
    if layout.offload == "gradients" and not alone and layout.zero < 2:
        return "needs zero = 2 or 3, which gives each rank its share"
    return ""


def in_flight(layout: Layout, stage: int, times: int) -> int:
    """Chunks of a stage whose activations are there at once; without interleaving a stage is one chunk.

    1F1B: the first of pp stages has pp micro-batches under way, the last one. Interleaved (Narayanan et
    al. 2021, section 2.2; Megatron's `schedules.py`): before the first backward pass a stage runs
    2·(pp − 1 − stage) + (vpp − 1)·pp chunks, and then one more, which for the first stage is
    1 + (pp − 1) / (pp · vpp) of all its layers, pp times (Korthikanti et al. 2022, section 4.2.3).

    >>> in_flight(Layout(pp=4), 0, 8), in_flight(Layout(pp=4), 3, 8), in_flight(Layout(pp=4, vpp=2), 0, 8)
    (4, 1, 11)
    """
    if layout.vpp == 1:
        return min(layout.pp - stage, times)
    return min(2 * (layout.pp - 1 - stage) + (layout.vpp - 1) * layout.pp + 1, layout.vpp * times)


def sequences(job: Job, layout: Layout) -> tuple[int, int]:
    """Sequences a rank trains at once, and how many such micro-batches a step has.

    >>> sequences(Job("train", 64, micro_batch=2), Layout(dp=8))
    (2, 4)
    """
    batch = layout.dp * (job.micro_batch or 1) if job.batch_size is None else job.batch_size
    if batch % layout.dp:
        raise InvalidConfig(
            f"batch_size = {batch} is no multiple of dp = {layout.dp}: each data-parallel rank trains as "
            f"many sequences; use batch_size = {-(-batch // layout.dp) * layout.dp}"
        )
    each = batch // layout.dp
    micro = job.micro_batch or (1 if layout.pp > 1 else each)
    if each % micro:
        raise InvalidConfig(
            f"micro_batch = {micro} does not divide the {each} sequences of a rank (batch_size = {batch}, "
            f"dp = {layout.dp})"
        )
    times = each // micro
    if layout.vpp > 1 and times % layout.pp:
        enough = -(-times // layout.pp) * layout.pp * micro * layout.dp
        raise InvalidConfig(
            f"vpp = {layout.vpp}: an interleaved pipeline takes a multiple of pp = {layout.pp} micro-batches "
            f"and there are {times}; use batch_size = {enough}"
        )
    return micro, times
