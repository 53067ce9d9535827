"""Parameters of every rank, by the rule of a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd

from sizer.core.dims import round_up
from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.core.walk import Row
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.passes import check_positive
from sizer.measures.sharding.chunks import deepspeed, dtensor, fsdp2
from sizer.measures.sharding.plan import DEGREES, FRAMEWORKS, MEGATRON_VOCAB, Plan, Rank, param_of
from sizer.measures.sharding.stages import staged


class Shards(Record):
    """Parameters of every rank, equal ranks together."""

    __slots__ = ("assumptions", "exact", "plan", "ranks", "total")

    def __init__(
        self, plan: Plan, ranks: Sequence[Rank], total: int, assumptions: Sequence[str], exact: bool
    ) -> None:
        self.plan = plan
        self.ranks = ranks
        self.total = total
        self.assumptions = list(assumptions)
        self.exact = exact

    @property
    def heaviest(self) -> Rank:
        """The rank that holds most."""
        return max(self.ranks, key=lambda rank: rank.params)

    @property
    def mean(self) -> float:
        """Parameters of a rank on average."""
        return sum(rank.params * rank.count for rank in self.ranks) / self.plan.world

    @property
    def imbalance(self) -> float:
        """The heaviest rank as a multiple of the mean."""
        return self.heaviest.params / self.mean if self.mean else 1.0

    def of(self, rank: int) -> Rank:
        """What the rank of that number holds."""
        for found in self.ranks:
            if any(rank in part for part in found.ranks):
                return found
        raise InvalidConfig(
            f"rank = {rank} is none of the {self.plan.world} ranks, 0 to {self.plan.world - 1}"
        )


def shards(
    rows: Sequence[Row],
    *,
    framework: str = "megatron",
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
    ep: int = 1,
    etp: int | None = None,
    zero: int = 0,
    vocab_multiple: int = MEGATRON_VOCAB,
    n_groups: int | None = None,
    cp: int = 1,
    replicate: int = 1,
) -> Shards:
    """Parameters of every rank.

    `rows` are those of the tensors in memory (`layout="transformers"`). `dp` is the least that `ep` needs
    unless given, and `etp`, the ranks that share one expert, is `tp` in Megatron. `cp` ranks share a
    sequence and hold what data-parallel ones do, between them and `tp` in their order; `replicate` groups
    of FSDP ranks hold the same.

    >>> import sizer
    >>> found = shards(sizer.load("llama-3-8b").rows("transformers"), framework="fsdp2", dp=8)
    >>> found.heaviest.params
    1003782656
    """
    if framework not in FRAMEWORKS:
        raise UnknownName("framework", framework, FRAMEWORKS, hint=f"known are {', '.join(FRAMEWORKS)}")
    check_positive(tp=tp, pp=pp, dp=dp, ep=ep, etp=etp, vocab_multiple=vocab_multiple)
    # In Megatron those that share the experts are taken from all ranks of a stage.
    share = ep * (tp if etp is None else etp)
    step = share // gcd(share, tp) if framework == "megatron" else 1
    dp = step if dp is None else dp
    if zero not in (0, 1, 2, 3):
        raise InvalidConfig(f"zero = {zero} is no stage of ZeRO; the stages are 0, 1, 2 and 3")
    given = {"tp": tp, "pp": pp, "dp": dp, "ep": ep, "etp": etp or 1, "zero": zero + (zero == 0)}
    for name, degree in given.items():
        if degree > 1 and name not in DEGREES[framework]:
            have = ", ".join(DEGREES[framework])
            raise InvalidConfig(
                f"{name} = {zero if name == 'zero' else degree}: "
                f"the rule of {framework} is known for {have} alone"
            )
    check_positive(cp=cp, replicate=replicate)
    if cp > 1 and framework != "megatron":
        raise InvalidConfig(f"cp = {cp}: context parallelism is known for megatron alone")
    if replicate > 1 and framework != "fsdp2":
        raise InvalidConfig(f"replicate = {replicate}: groups that hold the same are known for fsdp2 alone")
    dp = dp * cp
    if dp % step:
        what = f"ep = {ep}" if etp in (None, tp) else f"{step}, for ep · etp = {share} of tp · dp ranks"
        raise InvalidConfig(f"dp = {dp} is not a multiple of {what}; use dp = {round_up(dp, step)}")
    if framework == "vllm" and ep > 1 and ep != tp * dp:
        raise InvalidConfig(
            f"ep = {ep}: vLLM spreads experts over all tp · dp = {tp * dp} ranks; use that, or 1"
        )
    if ep > 1 and not any(row.component == "experts" for row in rows):
        raise InvalidConfig(f"ep = {ep}: this architecture has no experts to share; leave ep out")
    expert_tp = (tp if framework == "megatron" else (1 if ep > 1 else tp)) if etp is None else etp
    plan = Plan(framework, tp, pp, dp, ep, expert_tp, zero, vocab_multiple, n_groups, replicate)
    stored = [row for row in rows if isinstance(row.leaf, Param)]
    total = sum(row.numel * row.copies for row in stored if param_of(row).tied_to is None)
    ranks = list(_RANKS[framework](stored, plan))
    assumptions = [FRAMEWORKS[framework], *_assumptions(plan, stored)]
    return Shards(plan, ranks, total, assumptions, framework in ("megatron", "fsdp2", "dtensor") and not zero)


def _assumptions(plan: Plan, rows: Sequence[Row]) -> list[str]:
    found = []
    if plan.framework == "megatron":
        multiple = plan.vocab_multiple * plan.tp
        found.append(f"the vocabulary is padded to a multiple of {plan.vocab_multiple} · tp = {multiple}")
        if plan.zero:
            found.append(
                "the distributed optimizer has one buffer here; Megatron makes one for about 40 million · dp "
                "elements and pads each"
            )
    if plan.framework == "vllm":
        found.append("the vocabulary is padded to a multiple of 64, then split")
    if plan.framework == "deepspeed" and plan.zero == 3:
        found.append(
            "stage 3 gathers tensors below stage3_param_persistence_threshold (100,000) and keeps them whole "
            "beside its part; they are not in the sum"
        )
    if plan.pp > 1 and any(param_of(row).tied_to is not None for row in rows):
        found.append("the last stage has its own copy of a table that the head is tied to")
    return found


_RANKS: Mapping[str, Callable[[Sequence[Row], Plan], Iterator[Rank]]] = {
    "megatron": staged,
    "vllm": staged,
    "fsdp2": fsdp2,
    "dtensor": dtensor,
    "deepspeed": deepspeed,
}
