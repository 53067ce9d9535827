"""Hyper-connections: several residual streams, mixed before and after each part of a block."""

from __future__ import annotations

from sizer.core.dims import Dim
from sizer.core.tree import Axis, Module, Op, Param


def hyper_connection(
    names: tuple[str, str, str], mixes: Dim, streams: Axis, n_scales: int, mixed: Dim | None = None
) -> Module:
    """The mixing weights of one place (arXiv:2409.19606): computed from all streams of a token.

    `names`: of the projection, its base and its scales. `mixes`: how many weights it yields.
    `mixed`: of how many streams each becomes a mix of all, which is a product for every token.
    """
    fn, base, scale = names
    rows = Axis("mixes", mixes)
    product = () if mixed is None else (Op("mix", "matmul", {"out": mixed, "in": streams.size}),)
    return Module(
        "",
        (
            Param(fn, (rows, streams), "matmul"),
            Param(base, (rows,)),
            Param(scale, (Axis("scales", n_scales),)),
            *product,
        ),
    )
