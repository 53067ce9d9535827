"""How the families of LLaMA-like decoders run what has no tensors, and the core of their attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sizer.core.dims import Dim
from sizer.core.layers import attention_core, residual
from sizer.core.tree import Layers, Leaf, Module, Op

if TYPE_CHECKING:
    from sizer.architectures.decoders.decoder import DecoderConfig


class Ways(NamedTuple):
    """How a family's code runs what no tensor shows, where that is not LLaMA's way.

    `norm`: the kind of its norms. `core`: traits of its attention, beside the usual ones.
    `mask_window`: the window of a mask that is made though no layer has one.
    `unturned`: layers whose queries and keys no positions turn.
    `block`: "parallel" where attention and the MLP read one norm, "parallel_after" where the stream is
    added to their sum, "named" where the code still names what attention read and gave.
    `scales_embedding`, `scales_parts`: numbers are multiplied with what the embedding, and what each
    part of a block gives. `logits`: the ops on them: a number multiplied with, a soft cap.
    """

    norm: str = ""
    core: tuple[str, ...] = ()
    mask_window: int | None = None
    unturned: tuple[int, ...] = ()
    block: str = ""
    scales_embedding: bool = False
    scales_parts: bool = False
    logits: tuple[str, ...] = ()


LLAMA_WAYS = Ways()
SCALED = ("scaled",)
SOFT_CAP = ("scaled", "tanh", "scaled")
# Queries and keys are turned by their positions, and the softmax is written in fp32.
ROTARY = ("causal", "rotary", "fp32_softmax")


def windowed_core(c: DecoderConfig) -> tuple[Module, ...]:
    """Scores and mixing, over all tokens or the last W, by layer; some are not turned by positions."""
    unturned: tuple[Module, ...] = ()
    if c.ways.unturned:
        at = Layers(len(c.ways.unturned), c.ways.unturned)
        unturned = (Module("", (Op("positions", "unturned", {}),), at=at),)
    if c.window_layers is None:
        return (*unturned, Module("", _core(c, c.d_rotary, c.window)))
    full, windowed = c.window_layers.layers("full"), c.window_layers.layers("window")
    return (
        *unturned,
        Module("", _core(c, c.d_rotary, None), at=full),
        Module("", _core(c, c.d_rotary_window, c.window), at=windowed),
    )


def _core(c: DecoderConfig, d_rotary: Dim, window: Dim | None) -> tuple[Leaf, ...]:
    traits = *ROTARY, *c.ways.core
    core, *state = attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=window, traits=traits)
    assert isinstance(core, Op)
    more = {"d_rotary": d_rotary} if "parted" in traits else {}
    if c.window is None and c.ways.mask_window is not None:
        more["mask_window"] = c.ways.mask_window
    return core._replace(sizes={**core.sizes, **more}), *state


def block_parts(ways: Ways, attends: tuple[Module, ...], feeds: tuple[Module, ...]) -> tuple[Module, ...]:
    """A block of attention and an MLP with their norms: after each other, or side by side."""
    if ways.block.startswith("parallel"):
        return (residual(*attends, *feeds)._replace(flow=ways.block),)
    if ways.scales_parts:
        return tuple(residual(*part)._replace(flow="residual_scaled") for part in (attends, feeds))
    first = residual(*attends)
    return (first._replace(flow="residual_named") if ways.block == "named" else first), residual(*feeds)


def with_logits(c: DecoderConfig, tree: Module) -> Module:
    """A tree whose logits the family scales or caps before the loss."""
    if not c.ways.logits or c.task != "causal":
        return tree
    own = (Op("logits", kind, {}, component="head") for kind in c.ways.logits)
    return tree._replace(children=(*tree.children, *own))
