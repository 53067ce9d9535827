"""Attention of all heads on tensors without values: projections, norms, positions, and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.tree import Module, Op, Param
from sizer.errors import InvalidConfig
from sizer.measures.step import head_norms, modules, ops, plain, rotary
from sizer.measures.step.again import again_later
from sizer.measures.step.parts import has_window, parts_of, sizes_of, unturned
from sizer.measures.step.tensors import Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run

# Heads up to this width share keys and values in transformers' call of sdpa.
WIDEST = 256


def attend(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """Projections of x, norms and positions on them, attention, and the output projection."""
    tape = run.tape
    children = list(run.here(module.children))
    before, core, after, norms = parts_of(children)
    if len(after) != 1 or any(isinstance(child, Param) for child in module.children):
        raise InvalidConfig(f"what {path} keeps for the backward pass is not described yet")
    heads, _, _, d_v = sizes_of(core)
    if len(before) == 1 and not norms:
        q, k, v = _cut(run, before[0], core, path, x)
    elif len(before) == 3 and len(norms) in (0, 2):
        q, k, v = _projected(run, before, norms, core, path, x)
    else:
        raise InvalidConfig(f"what {path} keeps for the backward pass is not described yet")
    tape.module = path
    if "rotary" in core.traits and not unturned(children):
        q, k, *_named = rotary.turned(run, core, q, k, run.rotary[has_window(core)])
    out = mix(run, q, k, v, core, path)
    out = ops.reshape(tape, out, (*x.shape[:-1], heads * d_v))
    if run.reads:
        # The output projection stands in a module of its own, where queries, keys and values are gone.
        run.reads.append(out)
        del q, k, v
    return run.chain(tuple(after), path, out)


def _cut(run: Run, linear: Module, core: Op, path: str, x: Tensor) -> list[Tensor]:
    """Queries, keys and values of one projection, cut at once or by three slices."""
    heads, kv_heads, d_qk, d_v = sizes_of(core)
    counts = (heads, d_qk), (kv_heads, d_qk), (kv_heads, d_v)
    widths = [n * width for n, width in counts]
    y = run.call(linear, path, x)
    if "sliced" in core.traits:
        pieces = [ops.part(run.tape, y, width) for width in widths]
    else:
        pieces = ops.split(run.tape, y, widths)
    return [modules.heads_first(run.tape, piece, *how) for piece, how in zip(pieces, counts, strict=True)]


def _projected(
    run: Run, linears: list[Module], norms: list[Module], core: Op, path: str, x: Tensor
) -> list[Tensor]:
    """Queries, keys and values, each of its own projection; norms run with it, or after all three."""
    heads, kv_heads, d_qk, d_v = sizes_of(core)
    counts = (heads, d_qk), (kv_heads, d_qk), (kv_heads, d_v)
    each = [*norms, None] if norms else [None] * 3
    if "late_norms" not in core.traits or not norms:
        return [
            _project(run, linear, norm, path, x, *how)
            for linear, norm, how in zip(linears, each, counts, strict=True)
        ]
    found = [run.call(linear, path, x) for linear in linears]
    for place, (norm, how) in enumerate(zip(each, counts, strict=True)):
        found[place] = _normed(run, norm, path, found[place], *how, "norms_by_head" in core.traits)
    return found


def _normed(
    run: Run, norm: Module | None, path: str, y: Tensor, heads: Dim, width: Dim, first: bool
) -> Tensor:
    """A projection head by head; its norm is over each head, `first` where heads are the outer axis."""
    tape = run.tape
    if norm is None:
        return modules.heads_first(tape, y, heads, width)
    if first:
        return head_norms.apply(run, norm, path, modules.heads_first(tape, y, heads, width))
    y = ops.reshape(tape, y, (*y.shape[:-1], heads, width))
    return ops.transpose(tape, run.call(norm, path, y), 1, 2)


def _project(
    run: Run, linear: Module, norm: Module | None, path: str, x: Tensor, heads: Dim, width: Dim
) -> Tensor:
    """One projection, head by head; its norm is over each head, or over all of them."""
    y = run.call(linear, path, x)
    if norm is None:
        return modules.heads_first(run.tape, y, heads, width)
    weights = [leaf for leaf in norm.children if isinstance(leaf, Param)]
    if len(weights) != len(norm.children) or any(len(leaf.axes) != 1 for leaf in weights):
        raise InvalidConfig(f"what {path} keeps for the backward pass is not described yet")
    if any(leaf.axes[0].name != "head" for leaf in weights):
        return modules.heads_first(run.tape, run.call(norm, path, y), heads, width)
    return _normed(run, norm, path, y, heads, width, False)


def mix(run: Run, q: Tensor, k: Tensor, v: Tensor, core: Op, path: str) -> Tensor:
    """Scores and mixing, by the kernel that was chosen; selective checkpointing runs them again."""

    def core_of(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _mixed(run, q, k, v, core, path)

    return again_later(run, path, core_of, q, k, v) if run.core_again else core_of(q, k, v)


def _mixed(run: Run, q: Tensor, k: Tensor, v: Tensor, core: Op, path: str) -> Tensor:
    tape = run.tape
    tape.module = path
    windowed = has_window(core)
    mask = run.masks.get(windowed)
    run.seen.add(windowed)
    if run.attention == "sdpa" and (mask is not None or _is_wide(run, q, v)):
        k, v = modules.repeat_kv(tape, k, q.shape[1]), modules.repeat_kv(tape, v, q.shape[1])
    if run.attention != "eager":
        v, k, q = run.cast(v), run.cast(k), run.cast(q)
        if run.attention == "sdpa" and tape.choose(lambda: bool(q.shape[-1] != v.shape[-1])):
            out = ops.transpose(tape, plain.attention(tape, q, k, v), 1, 2)
            return ops.contiguous(tape, out)
        out = ops.transpose(tape, ops.attention(tape, q, k, v, mask), 1, 2)
        return ops.contiguous(tape, out)
    out, weights = modules.eager_attention(
        tape,
        q,
        k,
        v,
        mask,
        cast=run.cast,
        upcast="fp32_softmax" in core.traits,
        in_fp32=False,
        copied="laid_by_head" not in core.traits,
        capped="capped" in core.traits,
    )
    run.held.append(weights)
    return out


def _is_wide(run: Run, q: Tensor, v: Tensor) -> bool:
    """Whether heads are too wide for a kernel that shares keys and values (`sdpa_attention.py`)."""
    return run.tape.choose(lambda: bool(q.shape[-1] > WIDEST or v.shape[-1] > WIDEST))
