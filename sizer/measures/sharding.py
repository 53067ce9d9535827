"""What every rank holds of a model that is spread over several.

The names of a tensor's axes decide: heads, MLP widths and the vocabulary go to tensor-parallel ranks,
experts to expert-parallel ones, layers to stages of a pipeline. How each framework rounds is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from sizer.core.dims import round_up
from sizer.core.record import Record
from sizer.core.tree import Axis, Param
from sizer.core.walk import Row, numel
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.passes import check_positive

# Axes that tensor parallelism splits, and what the message calls the size that must divide.
TENSOR_AXES = {
    "heads": "n_heads",
    "kv_heads": "n_kv_heads",
    "ffn": "d_ff",
    "expert_ffn": "d_ff_expert",
    "vocab": "vocab_size",
    "inner": "d_inner",
    "key_heads": "n_key_heads",
    "value_heads": "n_value_heads",
    "ssm_heads": "n_ssm_heads",
    "index_heads": "n_index_heads",
    "groups": "n_groups",
}
EXPERTS = "expert"

# Megatron-LM's --make-vocab-size-divisible-by; vLLM's DEFAULT_VOCAB_PADDING_SIZE.
MEGATRON_VOCAB = 128
VLLM_VOCAB = 64
# Megatron's distributed optimizer: tensors begin at multiples of 64, a buffer ends at lcm(dp, 128).
MEGATRON_START, MEGATRON_END = 64, 128

FRAMEWORKS = {
    "megatron": "Megatron-core 0.16.1: tp, pp, ep; KV heads are sliced, the vocabulary is padded; measured",
    "fsdp2": "torch 2.13 fully_shard: every tensor in chunks of its first dimension; measured",
    "dtensor": "torch 2.13 tensor parallelism: torch.chunk along heads, MLP width, vocabulary; measured",
    "vllm": "vLLM, read 2026-11: whole KV heads, repeated where there are fewer than ranks; not measured",
    "deepspeed": "DeepSpeed ZeRO, read 2026-11: stage 3 splits every tensor, rounded up; not measured",
}
# Which degrees a framework's rule is known for.
DEGREES = {
    "megatron": ("tp", "pp", "ep", "etp", "dp", "zero"),
    "fsdp2": ("dp",),
    "dtensor": ("tp",),
    "vllm": ("tp", "pp", "ep", "dp"),
    "deepspeed": ("dp", "zero"),
}


class Plan(Record):
    """A framework with its degrees."""

    __slots__ = (
        "dp",
        "ep",
        "etp",
        "framework",
        "n_groups",
        "pp",
        "replicate",
        "tp",
        "vocab_multiple",
        "zero",
    )

    def __init__(
        self,
        framework: str,
        tp: int = 1,
        pp: int = 1,
        dp: int = 1,
        ep: int = 1,
        etp: int = 1,
        zero: int = 0,
        vocab_multiple: int = MEGATRON_VOCAB,
        n_groups: int | None = None,
        replicate: int = 1,
    ) -> None:
        # Groups of FSDP ranks that hold the same (HSDP).
        self.replicate = replicate
        self.framework = framework
        self.tp = tp
        self.pp = pp
        self.dp = dp
        self.ep = ep
        self.etp = etp
        self.zero = zero
        self.vocab_multiple = vocab_multiple
        self.n_groups = n_groups

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tp * self.pp * self.dp * self.replicate


class Rank(Record):
    """What some equal ranks hold: their numbers, place, and elements.

    `params`: that are kept between steps. `padding`: of those, rows that mean nothing, on average.
    `copies`: elements that another stage or rank holds too, tied tables and repeated KV heads.
    `gradients`, `optimizer`: elements that have a gradient, or a state of the optimizer, here.
    `reserved`: what is allocated, where that is more.
    """

    __slots__ = ("copies", "gradients", "optimizer", "padding", "params", "place", "ranks", "reserved")

    def __init__(
        self,
        ranks: tuple[range, ...],
        place: str,
        params: int,
        padding: int,
        copies: int,
        gradients: int,
        optimizer: int,
        reserved: int,
    ) -> None:
        self.ranks = ranks
        self.place = place
        self.params = params
        self.padding = padding
        self.copies = copies
        self.gradients = gradients
        self.optimizer = optimizer
        self.reserved = reserved

    @property
    def count(self) -> int:
        """How many ranks there are of this kind."""
        return sum(len(part) for part in self.ranks)

    @property
    def first(self) -> int:
        """The lowest of their numbers."""
        return self.ranks[0].start


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

    `rows` are those of the tensors in memory (`layout="transformers"`). `dp` is `ep` unless given,
    and `etp`, the ranks that share one expert, is `tp` in Megatron. `cp` ranks share a sequence and hold
    what data-parallel ones do, between them and `tp` in their order; `replicate` groups of FSDP ranks
    hold the same.

    >>> import sizer
    >>> found = shards(sizer.load("llama-3-8b").rows("transformers"), framework="fsdp2", dp=8)
    >>> found.heaviest.params
    1003782656
    """
    if framework not in FRAMEWORKS:
        raise UnknownName("framework", framework, FRAMEWORKS, hint=f"known are {', '.join(FRAMEWORKS)}")
    dp = (ep if framework == "megatron" else 1) if dp is None else dp
    check_positive(tp=tp, pp=pp, dp=dp, ep=ep, etp=etp, vocab_multiple=vocab_multiple)
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
    if framework == "megatron" and dp % ep:
        raise InvalidConfig(f"dp = {dp} is not a multiple of ep = {ep}; use dp = {round_up(dp, ep)}")
    if framework == "vllm" and ep > 1 and ep != tp * dp:
        raise InvalidConfig(
            f"ep = {ep}: vLLM spreads experts over all tp · dp = {tp * dp} ranks; use that, or 1"
        )
    expert_tp = (tp if framework == "megatron" else (1 if ep > 1 else tp)) if etp is None else etp
    plan = Plan(framework, tp, pp, dp, ep, expert_tp, zero, vocab_multiple, n_groups, replicate)
    stored = [row for row in rows if isinstance(row.leaf, Param)]
    total = sum(row.numel * row.copies for row in stored if _param(row).tied_to is None)
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
    if plan.pp > 1 and any(_param(row).tied_to is not None for row in rows):
        found.append("the last stage has its own copy of a table that the head is tied to")
    return found


def _param(row: Row) -> Param:
    """The parameter of a row; only those come here."""
    return row.leaf  # type: ignore[return-value]


# -- chunks of the first dimension: FSDP2 and DTensor ---------------------------------------------


def _chunked(
    rows: Sequence[Row], ranks: int, axis_of: Callable[[Param], int | None], place: str
) -> Iterator[Rank]:
    """`torch.chunk` along an axis of every tensor; ranks between two changes hold the same."""
    tensors: list[tuple[int, int, int, int]] = []
    whole = 0
    for row in rows:
        leaf = _param(row)
        if leaf.tied_to is not None:
            continue
        axis = axis_of(leaf)
        if axis is None:
            whole += row.numel * row.copies
            continue
        if not leaf.axes:
            whole += row.copies
            continue
        # A tensor with more rows than mean anything is split as it is.
        along = leaf.axes[axis]
        rest: int = row.numel // along.size * row.copies
        size: int = int(along.size if along.padded is None else along.padded)
        chunk = -(-size // ranks)
        tensors.append((size, rest, chunk, size // chunk))
    changes = {0, ranks}
    for _, _, _, full in tensors:
        changes |= {min(full, ranks), min(full + 1, ranks)}
    edges = sorted(changes)
    reserved = whole + sum(chunk * rest for _, rest, chunk, _ in tensors)
    for first, last in pairwise(edges):
        held = whole
        for size, rest, chunk, _ in tensors:
            held += max(0, min(size, (first + 1) * chunk) - first * chunk) * rest
        yield Rank((range(first, last),), place, held, 0, 0, held, held, reserved)


def _fsdp2(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    for rank in _chunked(rows, plan.dp, lambda leaf: 0, "dp"):
        again = range(0, plan.replicate * plan.dp, plan.dp)
        yield rank._replace(ranks=tuple(range(r.start + i, r.stop + i) for i in again for r in rank.ranks))


def _dtensor(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    def axis_of(leaf: Param) -> int | None:
        return next((i for i, axis in enumerate(leaf.axes) if axis.name in TENSOR_AXES), None)

    return _chunked(rows, plan.tp, axis_of, "tp")


# -- DeepSpeed ------------------------------------------------------------------------------------


def _deepspeed(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    """Stages 1 and 2: one flat buffer, padded to 2 · dp; stage 3: each tensor by itself, rounded up."""
    own = [row for row in rows if _param(row).tied_to is None]
    total = sum(row.numel * row.copies for row in own)
    everyone = (range(plan.dp),)
    if plan.zero == 3:
        part = sum(-(-row.numel // plan.dp) * row.copies for row in own)
        yield Rank(everyone, "dp", part, 0, 0, part, part, part)
        return
    share = round_up(total, 2 * plan.dp) // plan.dp
    states = share if plan.zero else total
    gradients = share if plan.zero == 2 else total
    yield Rank(everyone, "dp", total, 0, 0, gradients, states, total)


# -- tensor, pipeline and expert parallelism: Megatron and vLLM ------------------------------------


class Piece(NamedTuple):
    """A tensor's part on one rank: elements, of which padding and repeated."""

    params: int
    padding: int
    copies: int


def _staged(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    """Ranks in the order tp, dp, pp: those of a stage follow each other."""
    sizes = _stage_sizes(rows, plan)
    a_stage = plan.tp * plan.dp
    first = 0
    for stage, (start, end) in enumerate(sizes):
        params = padding = copies = 0
        # Experts are repeated on fewer ranks, and have a buffer of their own.
        aligned = [0, 0]
        for row, times in _on_stage(rows, stage, start, end, plan):
            piece = piece_of(row, plan)
            params += piece.params * times
            padding += piece.padding * times
            copies += (piece.params if _param(row).tied_to is not None else piece.copies) * times
            expert = plan.ep > 1 and row.component == "experts"
            aligned[expert] += round_up(piece.params, MEGATRON_START) * times
        states = params
        if plan.zero:
            shared = (plan.dp, max(1, plan.tp * plan.dp // (plan.etp * plan.ep)))
            states = sum(
                round_up(held, lcm(ranks, MEGATRON_END)) // ranks
                for held, ranks in zip(aligned, shared, strict=True)
            )
        place = f"stage {stage}: layers {start} to {end - 1}" if plan.pp > 1 else "all"
        numbers = (range(first, first + a_stage),)
        gradients = states if plan.zero >= 2 else params
        yield Rank(numbers, place, params, padding, copies, gradients, states, params)
        first += a_stage


def layers_of(rows: Sequence[Row], plan: Plan, rank: int) -> tuple[int, int, int]:
    """The first layer of the stage that a rank is in, the one after its last, and how many there are."""
    stored = [row for row in rows if isinstance(row.leaf, Param)]
    sizes = _stage_sizes(stored, plan)
    first, last = sizes[rank // (plan.tp * plan.dp)] if plan.pp > 1 else (sizes[0][0], sizes[-1][1])
    return first, last, sizes[-1][1]


def _stage_sizes(rows: Sequence[Row], plan: Plan) -> list[tuple[int, int]]:
    layers = max(
        (max(row.frames[0].indices) + 1 for row in rows if row.frames and row.frames[0].indices), default=0
    )
    if plan.pp == 1:
        return [(0, layers)]
    stacks = {row.name.partition("{}")[0] for row in rows if row.frames}
    if len(stacks) > 1:
        named = ", ".join(sorted(name.rstrip(".") for name in stacks)[:3])
        raise InvalidConfig(
            f"pp = {plan.pp}: the layers of this model are in {len(stacks)} stacks ({named}); "
            "a pipeline of one stack is known alone"
        )
    if plan.framework == "megatron" and layers % plan.pp:
        fits = [n for n in range(1, layers + 1) if layers % n == 0]
        raise InvalidConfig(f"pp = {plan.pp} does not divide n_layers = {layers}; use {_listed(fits)}")
    if plan.pp > layers:
        raise InvalidConfig(f"pp = {plan.pp} is more than n_layers = {layers}; use at most {layers}")
    counts = [layers // plan.pp] * plan.pp
    # vLLM's get_pp_indices: what is left over goes to the stages before the last.
    for back in range(2, layers % plan.pp + 2):
        counts[-back] += 1
    edges = [sum(counts[:i]) for i in range(plan.pp + 1)]
    return list(pairwise(edges))


def _on_stage(rows: Sequence[Row], stage: int, start: int, end: int, plan: Plan) -> Iterator[tuple[Row, int]]:
    """The tensors of a stage, each with how many of it: embeddings on the first, the head on the last."""
    first, last = stage == 0, stage == plan.pp - 1
    before = True
    for row in rows:
        leaf = _param(row)
        tied = leaf.tied_to is not None
        if not row.frames:
            here = first if before else last
            # A tied tensor is stored again where its other is on another stage.
            if here and (
                not tied or (plan.pp > 1 and not before and numel(leaf.axes) and len(leaf.axes) > 1)
            ):
                yield row, 1
            continue
        before = False
        if tied:
            continue
        outer = row.frames[0]
        inside = sum(1 for index in outer.indices or () if start <= index < end)
        if inside:
            count = outer.count
            yield row, 1 if outer.shared else row.copies // count * inside


def piece_of(row: Row, plan: Plan) -> Piece:
    """A tensor's part on one rank, of a plan of Megatron or vLLM."""
    leaf = _param(row)
    full = row.numel
    expert = _expert_axis(row)
    degree = plan.tp
    divided = 1
    if row.component == "experts" and (expert is not None or _in_experts(row)):
        degree = plan.etp
        if expert is not None:
            size = leaf.axes[expert].size
            divided = _experts_here(size, plan) * full // size
            full = divided
        elif plan.ep > 1:
            raise InvalidConfig(f"ep = {plan.ep}: the experts of {row.name} are not in one tensor")
    if degree == 1 and not any(axis.name == "vocab" for axis in leaf.axes):
        return Piece(full, 0, 0)
    for axis in leaf.axes:
        if axis.name in TENSOR_AXES and row.component != "router":
            held, padding, copies = _split(axis, degree, plan)
            rest = full // axis.size
            return Piece(held * rest, padding * rest, copies * rest)
    return Piece(full, 0, 0)


def _expert_axis(row: Row) -> int | None:
    """The axis of a tensor that holds all experts, if it does; a router's is no such."""
    if row.component != "experts":
        return None
    axes = _param(row).axes
    return next((i for i, axis in enumerate(axes) if axis.name == EXPERTS), None)


def _in_experts(row: Row) -> bool:
    return any(axis.name == "expert_ffn" for axis in _param(row).axes)


def _experts_here(size: int, plan: Plan) -> int:
    if plan.ep == 1:
        return size
    if size % plan.ep and plan.framework == "megatron":
        fits = [n for n in range(1, size + 1) if size % n == 0]
        raise InvalidConfig(f"ep = {plan.ep} does not divide n_experts = {size}; use {_listed(fits)}")
    # vLLM gives the first ranks one more; the heaviest counts.
    return -(-size // plan.ep)


def _split(axis: Axis, degree: int, plan: Plan) -> tuple[int, int, int]:
    """Elements of an axis on one rank, of which padding and repeated on others."""
    if axis.parts:
        pieces = [_split(part, degree, plan) for part in axis.parts]
        return sum(p[0] for p in pieces), sum(p[1] for p in pieces), sum(p[2] for p in pieces)
    if axis.name == "vocab":
        multiple = plan.vocab_multiple * degree if plan.framework == "megatron" else VLLM_VOCAB
        padded = round_up(axis.size, multiple)
        _divides(padded, degree, "vocab_size, padded,")
        return padded // degree, (padded - axis.size) // degree, 0
    if axis.name not in TENSOR_AXES:
        return axis.size, 0, 0
    count = axis.size // axis.unit
    name = TENSOR_AXES[axis.name]
    if axis.name == "kv_heads":
        return _kv_heads(axis, count, degree, plan)
    if axis.name == "groups":
        # Fewer groups than ranks: each rank has one, as vLLM's Mamba-2 does.
        if plan.n_groups and plan.n_groups % degree:
            return axis.size // plan.n_groups, 0, axis.size // plan.n_groups
        return axis.size // degree, 0, 0
    _divides(count, degree, name)
    return axis.size // degree, 0, 0


def _kv_heads(axis: Axis, count: int, degree: int, plan: Plan) -> tuple[int, int, int]:
    if count % degree and degree % count:
        fits = [n for n in range(1, 4 * count + 1) if count % n == 0 or n % count == 0]
        raise InvalidConfig(
            f"tp = {degree} and n_kv_heads = {count} do not divide each other; use {_listed(fits)}"
        )
    if count >= degree:
        return axis.size // degree, 0, 0
    if plan.framework == "megatron":
        # Megatron slices inside a head, and gathers it for the attention.
        if axis.size % degree:
            fits = [n for n in range(1, axis.size + 1) if axis.size % n == 0 and n % count == 0]
            raise InvalidConfig(
                f"tp = {degree} does not divide the {axis.size} rows of n_kv_heads = {count} heads; "
                f"use {_listed(fits)}"
            )
        return axis.size // degree, 0, 0
    return axis.unit, 0, axis.unit - axis.size // degree


def _divides(size: int, degree: int, name: str) -> None:
    if size % degree:
        fits = [n for n in range(1, min(size, 4096) + 1) if size % n == 0]
        raise InvalidConfig(f"tp = {degree} does not divide {name} = {size}; use {_listed(fits)}")


def _listed(numbers: Sequence[int], most: int = 10) -> str:
    shown = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        return f"{', '.join(shown)}, …"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


_RANKS: Mapping[str, Callable[[Sequence[Row], Plan], Iterator[Rank]]] = {
    "megatron": _staged,
    "vllm": _staged,
    "fsdp2": _fsdp2,
    "dtensor": _dtensor,
    "deepspeed": _deepspeed,
}
