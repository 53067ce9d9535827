"""Tensor, pipeline and expert parallelism, as Megatron and vLLM spread them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from sizer.core.dims import round_up
from sizer.core.tree import Axis, Param
from sizer.core.walk import Row, numel
from sizer.errors import InvalidConfig
from sizer.measures.passes import listed
from sizer.measures.sharding.plan import (
    EXPERTS,
    MEGATRON_END,
    MEGATRON_START,
    TENSOR_AXES,
    VLLM_VOCAB,
    Plan,
    Rank,
    param_of,
)


class Piece(NamedTuple):
    """A tensor's part on one rank: elements, of which padding and repeated."""

    params: int
    padding: int
    copies: int


def staged(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    """Ranks in the order tp, dp, pp: those of a stage follow each other."""
    sizes = stage_sizes(rows, plan)
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
            copies += (piece.params if param_of(row).tied_to is not None else piece.copies) * times
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
    sizes = stage_sizes(stored, plan)
    first, last = sizes[rank // (plan.tp * plan.dp)] if plan.pp > 1 else (sizes[0][0], sizes[-1][1])
    return first, last, sizes[-1][1]


def stage_sizes(rows: Sequence[Row], plan: Plan) -> list[tuple[int, int]]:
    """The first layer of each stage, and the one after its last."""
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
        raise InvalidConfig(f"pp = {plan.pp} does not divide n_layers = {layers}; use {listed(fits)}")
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
        leaf = param_of(row)
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
    leaf = param_of(row)
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
    axes = param_of(row).axes
    return next((i for i, axis in enumerate(axes) if axis.name == EXPERTS), None)


def _in_experts(row: Row) -> bool:
    return any(axis.name == "expert_ffn" for axis in param_of(row).axes)


def _experts_here(size: int, plan: Plan) -> int:
    if plan.ep == 1:
        return size
    if size % plan.ep and plan.framework == "megatron":
        fits = [n for n in range(1, size + 1) if size % n == 0]
        raise InvalidConfig(f"ep = {plan.ep} does not divide n_experts = {size}; use {listed(fits)}")
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
            f"tp = {degree} and n_kv_heads = {count} do not divide each other; use {listed(fits)}"
        )
    if count >= degree:
        return axis.size // degree, 0, 0
    if plan.framework == "megatron":
        # Megatron slices inside a head, and gathers it for the attention.
        if axis.size % degree:
            fits = [n for n in range(1, axis.size + 1) if axis.size % n == 0 and n % count == 0]
            raise InvalidConfig(
                f"tp = {degree} does not divide the {axis.size} rows of n_kv_heads = {count} heads; "
                f"use {listed(fits)}"
            )
        return axis.size // degree, 0, 0
    return axis.unit, 0, axis.unit - axis.size // degree


def _divides(size: int, degree: int, name: str) -> None:
    if size % degree:
        fits = [n for n in range(1, min(size, 4096) + 1) if size % n == 0]
        raise InvalidConfig(f"tp = {degree} does not divide {name} = {size}; use {listed(fits)}")
