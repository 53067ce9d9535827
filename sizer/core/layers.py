"""The modules that architectures are made of, each with its tensors written once."""

from __future__ import annotations

from collections.abc import Mapping

from sizer.core.dims import Dim
from sizer.core.tree import Axis, Buffer, Layers, Leaf, Module, Op, Param, Places, State

# Modules that are one matrix product: torch's Linear, and transformers' Conv1D, stored `[in, out]`.
MATRICES = ("linear", "conv1d")
FIRST = Layers(1, (0,))


def after_first(repeat: Dim) -> Layers:
    """All of that many layers but the first."""
    return Layers(repeat - 1, range(1, repeat) if isinstance(repeat, int) else None)


def first_and_rest(
    name: str, first: tuple[Module | Leaf, ...], rest: tuple[Module | Leaf, ...], repeat: Dim
) -> Module:
    """Repeated layers of which the first differs from the others."""
    children = (Module("", first, at=FIRST), Module("", rest, at=after_first(repeat)))
    return Module(name, children, repeat=repeat)


def linear(
    name: str,
    out: Axis,
    inp: Axis,
    *,
    bias: bool = False,
    transposed: bool = False,
    tied_to: str | None = None,
    component: str = "",
    places: Places | None = None,
) -> Module:
    """A matrix product, `weight [out, in]`; `transposed` for checkpoints that store `[in, out]`."""
    axes = (inp, out) if transposed else (out, inp)
    weight = Param("weight", axes, "matmul", tied_to)
    leaves = (weight, Param("bias", (out,))) if bias else (weight,)
    kind = "conv1d" if transposed else "linear"
    return Module(name, leaves, kind=kind, component=component, places=places)


def embedding(
    name: str,
    rows: Axis,
    width: Axis,
    *,
    component: str = "embedding",
    tied_to: str | None = None,
) -> Module:
    """A table whose rows are looked up, `weight [rows, width]`."""
    return Module(
        name,
        (Param("weight", (rows, width), "lookup", tied_to),),
        kind="embedding",
        component=component,
    )


def layer_norm(name: str, width: Axis, *, bias: bool = True) -> Module:
    """LayerNorm: a weight, and a bias unless it is switched off."""
    leaves = (Param("weight", (width,)), Param("bias", (width,))) if bias else (Param("weight", (width,)),)
    return Module(name, leaves, kind="layer_norm", component="norm")


def rms_norm(name: str, width: Axis) -> Module:
    """RMSNorm: a weight alone."""
    return Module(name, (Param("weight", (width,)),), kind="rms_norm", component="norm")


def attention_core(
    heads: Dim,
    kv_heads: Dim,
    d_head: Dim,
    *,
    d_value: Dim | None = None,
    window: Dim | None = None,
    cached: bool = True,
    cross: bool = False,
    queries: Dim | None = None,
    traits: tuple[str, ...] = (),
) -> tuple[Leaf, ...]:
    """Scores and mixing, and what decoding keeps of it: keys and values of each KV head.

    `queries`: as many as that look at all tokens, where it is not the tokens themselves.
    """
    d_v = d_head if d_value is None else d_value
    sizes = {"heads": heads, "kv_heads": kv_heads, "d_qk": d_head, "d_v": d_v, "window": window}
    if queries is not None:
        sizes["queries"] = queries
    op = Op("core", "cross_attention" if cross else "attention", sizes, traits=traits)
    if not cached:
        return (op,)
    name = "cross_kv" if cross else "kv"
    return (op, State(name, per_token=kv_heads * d_head + kv_heads * d_v, window=window))


def gated_mlp(
    name: str,
    ffn: Axis,
    embed: Axis,
    *,
    bias: bool = False,
    act: str = "silu",
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    component: str = "mlp",
) -> Module:
    """`down(act(gate(x)) · up(x))`: three matrices of D·F."""
    gate, up, down = names
    return Module(
        name,
        (
            linear(gate, ffn, embed, bias=bias),
            linear(up, ffn, embed, bias=bias),
            gate_op(act, ffn.size),
            linear(down, embed, ffn, bias=bias),
        ),
        component=component,
        flow="gated",
    )


def mlp(
    name: str,
    ffn: Axis,
    embed: Axis,
    *,
    bias: bool = True,
    act: str = "gelu",
    names: tuple[str, str] = ("up_proj", "down_proj"),
    transposed: bool = False,
    component: str = "mlp",
) -> Module:
    """`down(act(up(x)))`: two matrices of D·F."""
    up, down = names
    return Module(
        name,
        (
            linear(up, ffn, embed, bias=bias, transposed=transposed),
            Op("act", act, {"width": ffn.size}),
            linear(down, embed, ffn, bias=bias, transposed=transposed),
        ),
        component=component,
    )


def residual(*children: Module | Leaf, after: bool = False, held: bool = False) -> Module:
    """Parts around which a residual stream runs; `after` where the code adds it to them, not them to it.

    `held`: the code still names what they return when the block goes on. It has no name, so it
    changes none.
    """
    return Module("", children, flow="residual_held" if held else "residual_after" if after else "residual")


def gate_op(act: str, width: Dim) -> Op:
    """The elementwise product of a gate, through its activation, and a value."""
    return Op("act", f"gated_{act}", {"width": width})


def routed_experts(
    name: str,
    experts: Axis,
    top_k: Dim,
    ffn: Axis,
    embed: Axis,
    *,
    layout: str,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    act: str = "silu",
    bias: bool = False,
) -> Module:
    """The routed experts of a MoE layer: E gated MLPs, of which a token visits `top_k`.

    Checkpoints keep each expert's three matrices; transformers 5 holds all experts of a layer in
    two tensors, `gate_up_proj [E, 2F, D]` and `down_proj [E, D, F]`.
    """
    if layout == "checkpoint":
        expert = gated_mlp(name, ffn, embed, bias=bias, act=act, names=names, component="experts")
        return expert._replace(repeat=experts.size, active=top_k)
    return Module(
        name,
        (
            Op("act", f"gated_{act}", {"width": top_k * ffn.size}),
            stacked("gate_up_proj", experts, top_k, 2 * ffn, embed),
            stacked("down_proj", experts, top_k, embed, ffn),
        ),
        component="experts",
    )


def stacked(name: str, experts: Axis, top_k: Dim, out: Axis, inp: Axis) -> Param:
    """One matrix of every expert in one tensor `[E, out, in]`, of which a token visits `top_k`."""
    return Param(name, (experts, out, inp), "matmul", active=top_k * out.size * inp.size)


def buffer(name: str, *axes: Axis, persistent: bool = True, component: str = "other") -> Buffer:
    """A stored tensor that is not learned."""
    return Buffer(name, axes, persistent, component)


def renamed(module: Module, names: Mapping[str, str]) -> Module:
    """The same tree with other names, for a checkpoint that has its own.

    >>> renamed(Module("attn", (Param("scale", ()),)), {"attn": "attention"}).name
    'attention'
    """
    children = tuple(
        renamed(child, names)
        if isinstance(child, Module)
        else child._replace(name=names.get(child.name, child.name))
        for child in module.children
    )
    return module._replace(name=names.get(module.name, module.name), children=children)
