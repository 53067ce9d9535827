"""What the parts of a module are: its core, the matrices before and after it, sizes, names."""

from __future__ import annotations

from sizer.core.dims import Dim, divide
from sizer.core.layers import MATRICES
from sizer.core.tree import Leaf, Module, Op, Param


def sizes_of(core: Op) -> tuple[Dim, Dim, Dim, Dim]:
    """Heads, KV heads, and the widths of a query and of a value head."""
    sizes = core.sizes
    return sizes["heads"], sizes["kv_heads"], sizes["d_qk"], sizes["d_v"]


def rotary_width(core: Op) -> Dim:
    """The width of the part of a head that positions turn."""
    return core.sizes["d_rotary"] if "d_rotary" in core.sizes else core.sizes["d_qk"]


def has_window(core: Op) -> bool:
    """Whether an attention sees the last tokens alone."""
    return core.sizes.get("window") is not None


def unturned(children: list[Module | Leaf]) -> bool:
    """Whether a layer is one of those whose queries and keys no positions turn."""
    return any(
        isinstance(leaf, Op) and leaf.kind == "unturned"
        for child in children
        if isinstance(child, Module) and not child.kind
        for leaf in child.children
    )


def top_k_of(weight: Param) -> Dim:
    """How many experts a token visits, by the elements of their tensor that are active."""
    assert weight.active is not None
    return divide(weight.active, weight.axes[1].size * weight.axes[2].size, names="active / one expert")


def is_matrix(child: Module | Leaf) -> bool:
    """Whether a leaf is a learned matrix."""
    return isinstance(child, Param) and len(child.axes) > 1


def joined(path: str, name: str) -> str:
    """The path of a child."""
    return f"{path}.{name}" if path and name else path or name


def parts_of(children: list[Module | Leaf]) -> tuple[list[Module], Op, list[Module], list[Module]]:
    """The matrices before the core of an attention, the core, what comes after it, and the norms."""
    before: list[Module] = []
    after: list[Module] = []
    norms: list[Module] = []
    core: Op | None = None
    for child in children:
        if isinstance(child, Op):
            core = child
        elif isinstance(child, Module):
            inner = next((leaf for leaf in child.children if isinstance(leaf, Op)), None)
            if inner is not None and not child.kind:
                core = inner if inner.kind != "unturned" else core
            elif core is not None:
                after.append(child)
            elif child.kind in MATRICES:
                before.append(child)
            elif child.component == "norm":
                norms.append(child)
    assert core is not None
    return before, core, after, norms
