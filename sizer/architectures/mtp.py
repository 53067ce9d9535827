"""Layers for multi-token prediction: in the published files, and in a count where asked for.

They serve training and speculative decoding, and transformers builds none of them. A family that
has them gives its configuration two fields, `mtp_layers: Dim | None = None` and
`count_mtp: bool = False`; its reader fills the first (no layers: `None`) and passes the second on.
Its builder adds what `mtp_layers` returns below, as `sizer.architectures.decoders.mimo` does.
`sizer.loading` says how much a count leaves out.
"""

from __future__ import annotations

from typing import Any

from sizer.architectures.heads import Children
from sizer.core.dims import Dim
from sizer.core.tree import Layers, Module


def mtp_layers(c: Any, name: str, parts: Children, *, after: Dim | None = None) -> tuple[Module, ...]:
    """The layers, `parts` each, as the component "other"; nothing unless they are counted.

    `after`: they go on with the numbers of that many layers before them (DeepSeek-V3's 62nd).
    """
    count = c.mtp_layers
    if not c.count_mtp or count is None:
        return ()
    repeat = count
    if after is not None:
        known = isinstance(count, int) and isinstance(after, int)
        repeat = Layers(count, range(after, after + count) if known else None)
    return (_other(Module(name, parts, repeat=repeat)),)


def _other(module: Module) -> Module:
    children = tuple(
        _other(child) if isinstance(child, Module) else child._replace(component="other")
        for child in module.children
    )
    return module._replace(children=children, component="other")
