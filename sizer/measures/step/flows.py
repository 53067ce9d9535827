"""How values pass through the children of a module, where not from each to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sizer.core.dims import divide
from sizer.core.tree import Module, Op, Param
from sizer.measures.step import attention, experts, latent, modules, ops, relative
from sizer.measures.step.parts import joined, top_k_of
from sizer.measures.step.tensors import Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


def residual(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """What goes in is added to what comes out."""
    kept = x
    x = run.chain(module.children, path, x)
    if module.flow == "residual_held":
        run.held.append(x)
        return ops.add(run.tape, x, kept)
    return ops.add(run.tape, kept, x)


def after(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """What comes out, to which what went in is added; what the last matrix read is still named."""
    *inner, last = run.here(module.children)
    run.reads = reads = [run.chain(tuple(inner), path, x)]
    y = run.chain((last,), path, reads[0])
    run.reads, run.summands = [], (y, x, *reads)
    return ops.add(run.tape, y, x)


def named(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """The same where a block still names what its part read and gave."""
    *before, part = run.here(module.children)
    normed = run.chain(tuple(before), path, x)
    y = run.chain((part,), path, normed)
    run.held += [normed, y]
    return ops.add(run.tape, x, y)


def scaled(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """A residual stream to which a multiple of what comes out is added."""
    y = run.chain(module.children, path, x)
    return ops.add(run.tape, x, ops.scale(run.tape, y))


def parallel(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """Attention and an MLP side by side, after one norm."""
    tape = run.tape
    *before, attends, feeds = run.here(module.children)
    normed = run.chain(tuple(before), path, x)
    mixed = run.chain((attends,), path, normed)
    fed = run.chain((feeds,), path, normed)
    tape.module = path
    if module.flow == "parallel_after":
        return ops.add(tape, ops.add(tape, mixed, fed), x)
    return ops.add(tape, ops.add(tape, x, mixed), fed)


def gated(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """`down(act(gate(x)) · up(x))`, also where gate and up are one matrix."""
    tape = run.tape
    linears = [child for child in module.children if isinstance(child, Module)]
    act = next(child for child in module.children if isinstance(child, Op)).kind.removeprefix("gated_")
    if len(linears) == 2:
        both = run.call(linears[0], path, x)
        half = divide(both.shape[-1], 2, names="2F / 2")
        gate, up = ops.split(tape, both, (half, half))
        tape.module = path
        return run.call(linears[1], path, ops.mul(tape, up, modules.activation(tape, act, gate)))
    gate_m, up_m, down = linears
    return run.call(down, path, _gate(run, act, gate_m, up_m, path, x))


def _gate(run: Run, act: str, gate: Module, up: Module, path: str, x: Tensor) -> Tensor:
    tape = run.tape
    return ops.mul(tape, modules.activation(tape, act, run.call(gate, path, x)), run.call(up, path, x))


def route(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """A router, the experts it sends each token to, and those that every token visits."""
    tape = run.tape
    found = [child for child in module.children if isinstance(child, Module)]
    router, routed, *always = found
    params = {leaf.name: leaf for leaf in routed.children if isinstance(leaf, Param)}
    act = next(leaf for leaf in routed.children if isinstance(leaf, Op)).kind.removeprefix("gated_")
    inside = joined(path, routed.name)
    gate_up, down = (run.parameter(params[name], inside) for name in ("gate_up_proj", "down_proj"))
    flat = ops.reshape(tape, x, (run.batch * run.length, x.shape[-1]))
    top_k = top_k_of(params["down_proj"])
    choice = next(leaf for leaf in router.children if isinstance(leaf, Op))
    tape.module = joined(path, router.name)
    if "fp32" in choice.traits:
        # Such a router is kept and run in fp32 (`_keep_in_fp32_modules_strict`).
        leaf = next(leaf for leaf in router.children if isinstance(leaf, Param) and len(leaf.axes) > 1)
        matrix = run.parameter(leaf, tape.module, "fp32")
        logits = run.product(ops.to(tape, flat, "fp32"), matrix, leaf.axes[0].size)
    else:
        logits = run.call(router, path, flat)
    if choice.kind == "grouped_choice":
        weights, indices = experts.route_in_groups(tape, logits, top_k, choice)
    else:
        weights, indices = experts.route(tape, logits, top_k, choice.traits)
    tape.module = inside
    own = experts.Routed(gate_up, down, act, run.cast)
    out = experts.IMPLEMENTATIONS[run.routed](tape, flat, weights, indices, own)
    out = ops.reshape(tape, out, x.shape)
    for module in always:
        out = ops.add(tape, out, run.call(module, path, x))
    return out


FLOWS: dict[str, Callable[[Run, Module, str, Tensor], Tensor]] = {
    "residual": residual,
    "residual_after": after,
    "residual_held": residual,
    "residual_named": named,
    "residual_scaled": scaled,
    "parallel": parallel,
    "parallel_after": parallel,
    "gated": gated,
    "attention": attention.attend,
    "latent": latent.attend,
    "relative": relative.attend,
    "widened": relative.feed_forward,
    "experts": route,
}
