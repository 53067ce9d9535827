"""How a job is spread: degrees of parallelism, checked against the job and against each other."""

from __future__ import annotations

from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.planning.job import MOST_GPUS, Job, check_counts, known_name

CHECKPOINTING = ("none", "full")


class Layout(Record):
    """Degrees of parallelism: tensor, pipeline, context and data parallel ranks multiply to all.

    `ep`: ranks that share the experts, among those of dp and cp when training, all of tp and dp in vLLM.
    `zero`: what data-parallel ranks share: 1 optimizer states, 2 gradients too, 3 weights too.
    """

    __slots__ = ("checkpointing", "cp", "dp", "ep", "pp", "tp", "zero")

    def __init__(
        self,
        tp: int = 1,
        pp: int = 1,
        dp: int = 1,
        cp: int = 1,
        ep: int = 1,
        zero: int = 0,
        checkpointing: str = "none",
    ) -> None:
        self.tp = tp
        self.pp = pp
        self.dp = dp
        self.cp = cp
        self.ep = ep
        self.zero = zero
        self.checkpointing = checkpointing

    @property
    def gpus(self) -> int:
        """All ranks."""
        return self.tp * self.pp * self.dp * self.cp

    def __str__(self) -> str:
        degrees = " ".join(
            f"{n}={getattr(self, n)}" for n in ("tp", "pp", "cp", "dp", "ep") if getattr(self, n) > 1
        )
        zero = f" zero={self.zero}" if self.zero else ""
        ckpt = f" checkpointing={self.checkpointing}" if self.checkpointing != "none" else ""
        return (degrees or "one rank") + zero + ckpt


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
) -> Layout:
    """A layout from what is given: the degree that is left is tensor parallel when serving, data
    parallel when training.

    >>> str(layout_of(Job("train"), gpus=16, tp=4)), str(layout_of(Job(), gpus=8))
    ('tp=4 dp=4', 'tp=8')
    """
    check_counts(MOST_GPUS, gpus=gpus, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep)
    known_name("checkpointing", checkpointing, CHECKPOINTING)
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
                near = round(gpus / product) * product or product
                raise InvalidConfig(f"gpus = {gpus} is not what {text} multiply to; use gpus = {near}")
        else:
            given[free] = gpus // product
    degrees = [given[name] or 1 for name in ("tp", "pp", "dp", "cp")]
    layout = Layout(*degrees, ep or 1, zero, checkpointing)  # type: ignore[arg-type, call-arg]
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
        sequences(job, layout)
        return
    for name, value, rule in (
        ("zero", layout.zero, 0),
        ("cp", layout.cp, 1),
        ("checkpointing", layout.checkpointing, "none"),
    ):
        if value != rule:
            raise InvalidConfig(f"{name} = {value} is of training, and mode = infer serves; leave it out")
    if layout.ep not in (1, layout.tp * layout.dp):
        raise InvalidConfig(
            f"ep = {layout.ep}: vLLM spreads experts over all tp · dp = {layout.tp * layout.dp} ranks; "
            "use that, or 1"
        )


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
    return micro, each // micro
