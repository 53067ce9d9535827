"""What one row of a tree computes, forward and backward: matrix products, attention, scans."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim, is_array
from sizer.core.record import Record
from sizer.core.tree import Op, Param
from sizer.core.walk import Row
from sizer.measures.passes import Pass, is_zero
from sizer.measures.scans import SCANS

ATTENTION = ("attention", "cross_attention")


class Part(Record):
    """FLOPs of one row of the tree: of its forward and backward pass, and of computing it anew.

    `kind`: "matmul", "attention", or the kind of a scan. `exact`: false for what is an estimate.
    """

    __slots__ = ("backward", "exact", "forward", "kind", "row")

    def __init__(self, row: Row, kind: str, forward: Dim, backward: Dim, exact: bool) -> None:
        self.row = row
        self.kind = kind
        self.forward = forward
        self.backward = backward
        self.exact = exact


def as_products(rows: Sequence[Row], kernel: str, *, frozen: bool = False) -> frozenset[str]:
    """The attentions that torch's flash kernel cannot run, which then are matrix products.

    It takes no mask that needs a gradient, as T5's biases by distance do unless they are `frozen`, and no
    values of another width than the keys (torch 2.13, `sdp_utils`: `check_head_dim_size`).
    """
    if kernel != "flash":
        return frozenset()
    tables = () if frozen else filter(_is_table_of_distances, rows)
    biased = {row.name.rsplit(".", 2)[0] for row in tables}
    return frozenset(
        row.name
        for row in rows
        if isinstance(row.leaf, Op)
        and row.leaf.kind in ATTENTION
        and (row.name.rsplit(".", 1)[0] in biased or row.leaf.sizes["d_qk"] != row.leaf.sizes["d_v"])
    )


def part_of(
    row: Row, run: Pass, kernel: str, keeps: bool, plain: frozenset[str], tokens: Dim | None = None
) -> Part | None:
    """The FLOPs of a row in a pass; `None` where it computes nothing that counts.

    `keeps`: whether the model has a cache, and so a causal mask. `plain`: attentions that run as
    matrix products whatever the kernel. `tokens`: those that a matrix runs over, where not the new ones.
    """
    leaf = row.leaf
    if isinstance(leaf, Param):
        amount = _matmul(row, leaf, run, tokens)
        if amount is None:
            return None
        inputs = 1 if row.places is not None and row.places.shared else run.batch
        amount = amount * inputs * row.visits
        # A frozen matrix passes the gradient on and has none of its own.
        backward = 0 if run.cached else amount * (2 if leaf.trainable else 1)
        exact = row.places is not None or not is_convolution(row) or (not is_array(amount) and amount == 0)
        return Part(row, "matmul", amount, backward, exact)
    if not isinstance(leaf, Op):
        return None
    sizes = leaf.sizes
    if leaf.kind in ATTENTION:
        per_pair, back = _core(leaf, "sdpa" if row.name in plain else kernel)
        pairs: Dim = _pairs(row, leaf, run, keeps) * run.batch * row.visits
        whole = _whole_entries(leaf, run)
        kind = "attention" if whole else "entries"
        return Part(row, kind, pairs * per_pair, 0 if run.cached else pairs * back, whole)
    if leaf.kind == "contrast":
        # Every input of one tower meets every input of the other.
        amount = 2 * sizes["width"] * run.batch * run.batch  # type: ignore[operator]
        return Part(row, "matmul", amount, 0 if run.cached else 2 * amount, True)
    if leaf.kind == "matmul":
        amount = 2 * run.places(row) * sizes["out"] * sizes["in"] * run.batch * row.visits
        return Part(row, "matmul", amount, 0 if run.cached else 2 * amount, True)
    if leaf.kind in SCANS:
        scan = SCANS[leaf.kind]
        amount = scan.per_token(sizes, run) * run.length(row.stream) * run.batch * row.visits
        return Part(row, leaf.kind, amount, 0 if run.cached else 2 * amount, False)
    return None


def _matmul(row: Row, leaf: Param, run: Pass, tokens: Dim | None) -> Dim | None:
    """FLOPs of one visit of a weight by one sequence; `None` where it multiplies nothing."""
    use = leaf.use
    if use == "matmul":
        length = run.places(row) if tokens is None else tokens
        return 2 * length * (row.numel if leaf.active is None else leaf.active)
    if use == "pooled":
        return 2 * (row.numel if leaf.active is None else leaf.active)
    if use == "one_query_matmul":
        # One fused matrix: a learned query runs once, keys and values over all tokens.
        third = leaf.axes[0].parts[0].size * leaf.axes[1].size
        places = run.places(row)
        return 2 * third * (2 * places + 1) if not is_zero(places) else 0
    if use == "cross_qkv_matmul":
        # One fused matrix: queries run over the decoder's tokens, keys and values over the encoder's.
        third = leaf.axes[0].parts[0].size * leaf.axes[1].size
        return 2 * third * (run.tokens + 2 * run.length("encoder"))
    return None


def is_convolution(row: Row) -> bool:
    """Whether a matrix slides over its input, and so may run at other places than the tokens."""
    if row.kind != "conv" or not isinstance(row.leaf, Param) or row.leaf.use != "matmul":
        return False
    return any(is_array(axis.size) or axis.size != 1 for axis in row.leaf.axes[2:])


def _core(leaf: Op, kernel: str) -> tuple[Dim, Dim]:
    """FLOPs of a pair of tokens, forward and backward.

    Forward is two products: q·k and score·v. Backward is four of them; a kernel that computes the
    scores anew has one more, of the width of q (torch's `sdpa_backward_flop_count`).
    """
    heads, d_qk, d_v = leaf.sizes["heads"], leaf.sizes["d_qk"], leaf.sizes["d_v"]
    forward = 2 * heads * (d_qk + d_v)  # type: ignore[operator]
    if kernel in ("flash", "efficient"):
        return forward, 2 * heads * (3 * d_qk + 2 * d_v)  # type: ignore[operator]
    return forward, 2 * forward


def _pairs(row: Row, leaf: Op, run: Pass, keeps: bool) -> Dim:
    if leaf.kind == "cross_attention":
        return run.places(row) * run.encoder
    if (queries := leaf.sizes.get("queries")) is not None:
        return run.places(row) * queries
    if row.places is not None:
        places, window = run.places(row), leaf.sizes.get("window")
        return places * (places if window is None else window)
    if row.stream:
        length = run.length(row.stream)
        return length * length
    window = None if "whole_past" in leaf.traits and not run.causal else leaf.sizes.get("window")
    return run.pairs(window, masked=keeps)


def _whole_entries(leaf: Op, run: Pass) -> bool:
    """Whether the tokens of each pass fill entries of `rate` tokens, where attention is over such."""
    rate = leaf.sizes.get("rate")
    if rate is None:
        return True
    lengths = (run.past + run.new, run.new if run.times > 1 else 0, run.rest)
    return isinstance(rate, int) and all(isinstance(x, int) and x % rate == 0 for x in lengths)


def _is_table_of_distances(row: Row) -> bool:
    """Whether a row is a learned bias of the scores by distance, as T5's."""
    return isinstance(row.leaf, Param) and any(axis.name == "buckets" for axis in row.leaf.axes)
