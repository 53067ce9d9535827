"""What each engine keeps for a sequence: the policies of `sizer.measures.kv_cache`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sizer.core.dims import Dim, divide, round_up
from sizer.core.record import Record
from sizer.measures.cache_kinds import Kept
from sizer.measures.cache_layers import Layers, Setup, a_sequence, a_token, smaller

# An int64 that transformers keeps in each layer of a static cache, or with a window.
LENGTH_BYTES = 8
# llama.cpp rounds the cells of a cache up to this (GGML_PAD in llama-context and llama-kv-cache-iswa).
LLAMA_CPP_PAD = 256


class Policy(Record):
    """A rule of what is kept: who keeps it so, and whether the figure is exact or an estimate.

    `reserves`: it sets room aside, in pages or cells, and that is the answer.
    """

    __slots__ = ("exact", "plan", "reserves", "source", "text")

    def __init__(
        self,
        text: str,
        source: str,
        plan: Callable[[Sequence[Kept], Setup], list[Layers]],
        exact: bool = True,
        reserves: bool = False,
    ) -> None:
        self.text = text
        self.source = source
        self.plan = plan
        self.exact = exact
        self.reserves = reserves


def _tokens(one: Kept, setup: Setup, window: Dim | None) -> Dim:
    """Tokens of a sequence that a layer of this kind must have."""
    if one.cross:
        return setup.encoder
    return setup.tokens if window is None else smaller(setup.tokens, window)


def _architecture(kinds: Sequence[Kept], setup: Setup) -> list[Layers]:
    found = []
    for one in kinds:
        tokens = _tokens(one, setup, one.window)
        found.append(Layers(one, a_token(one, setup), a_sequence(one, setup), tokens, tokens))
    return found


def _full(kinds: Sequence[Kept], setup: Setup) -> list[Layers]:
    found = []
    for one in kinds:
        tokens = _tokens(one, setup, None)
        found.append(Layers(one, a_token(one, setup), a_sequence(one, setup), tokens, tokens))
    return found


def _every_head(one: Kept) -> Kept:
    """What transformers keeps of a layer that repeats its keys and values before it keeps them.

    Nor does it cut what a layer keeps whose window is in the mask alone.
    """
    if one.whole:
        one = one._replace(window=None)
    if one.repeated is None or one.heads is None:
        return one
    keys, values = (
        divide(one.repeated * size, one.heads, names="heads / KV heads") for size in (one.keys, one.values)
    )
    return one._replace(keys=keys, values=values, heads=one.repeated)


def _transformers(kinds: Sequence[Kept], setup: Setup) -> list[Layers]:
    """A layer with a window keeps W − 1 tokens; they are the end of a tensor that is still whole."""
    found = []
    for one in map(_every_head, kinds):
        window = one.window
        if window is None or one.cross:
            tokens = reserved = _tokens(one, setup, None)
        else:
            tokens = smaller(setup.tokens, window - 1)
            reserved = smaller(setup.tokens, window) if setup.decoded else setup.tokens
        extra = 0 if window is None else LENGTH_BYTES * one.layers
        found.append(Layers(one, a_token(one, setup), a_sequence(one, setup), tokens, reserved, extra))
    return found


def _static(kinds: Sequence[Kept], setup: Setup) -> list[Layers]:
    found = []
    room = setup.tokens if setup.max_len is None else setup.max_len
    for one in map(_every_head, kinds):
        grows = a_token(one, setup)
        tokens = _tokens(one, setup._replace(tokens=room), one.window)
        extra = 0 if isinstance(grows, int) and grows == 0 else LENGTH_BYTES * one.layers
        found.append(Layers(one, grows, a_sequence(one, setup), tokens, tokens, extra))
    return found


def _pages(tokens: int, size: int) -> int:
    return -(-tokens // size)


def _vllm(kinds: Sequence[Kept], setup: Setup) -> list[Layers]:
    """Pages of `block_size` tokens. Layers that differ in kind share one pool of equal pages."""
    pool = _pool(kinds, setup)
    states = [one for one in kinds if not a_token(one, setup)]
    if pool is None:
        return [_state(one, setup) for one in states]
    size, unit, page, shared = pool
    found = []
    for one in kinds:
        grows = a_token(one, setup)
        if not grows:
            continue
        own = size
        if shared and not one.cross and page % (grows // one.layers * size) == 0:
            own = page // (grows // one.layers)
        pages = _pages(_vllm_tokens(one, setup), own) + (one.window is not None)
        groups = round_up(one.layers, unit) if shared and not one.cross else one.layers
        used = _tokens(one, setup, one.window)
        reserved = pages * own
        padding = (groups - one.layers) * (grows // one.layers) * reserved
        found.append(Layers(one, grows, 0, used, reserved, 0, padding))
    if states:
        used_bytes = [_state(one, setup) for one in states]
        recurrent = max(one.layers for one in states)
        reserved_bytes = round_up(recurrent, unit) * page * setup.state_pages
        others = sum(state.constant for state in used_bytes[1:])
        for index, state in enumerate(used_bytes):
            room = reserved_bytes - others if index == 0 else None
            found.append(Layers(state.kept, 0, state.constant, 0, 0, 0, room))
    return found


class Pool(NamedTuple):
    """Pages of `tokens` tokens and `page` bytes, for `layers` layers at a time that share a table.

    `shared`: layers of several kinds take their pages from it.
    """

    tokens: int
    layers: int
    page: int
    shared: bool


def _pool(kinds: Sequence[Kept], setup: Setup) -> Pool | None:
    growing = [one for one in kinds if a_token(one, setup) and not one.cross]
    states = [one for one in kinds if not a_token(one, setup)]
    if not growing:
        return None
    size = setup.block_size
    a_layer = max(a_token(one, setup) // one.layers for one in growing)
    if states:
        # All states of a layer make one page; attention's pages grow until they are as large.
        state = sum(_state(one, setup).constant // one.layers for one in states)
        size = size * _pages(state, size * a_layer)
    counts = [one.layers for one in growing] + ([max(one.layers for one in states)] if states else [])
    shared = bool(states) or any(one.window is not None for one in growing)
    return Pool(
        size, _group_size(counts) if shared else max(one.layers for one in kinds), size * a_layer, shared
    )


def block_of_pool(kinds: Sequence[Kept], setup: Setup) -> tuple[int, int | None] | None:
    """Bytes of vLLM's block, a page of each layer that shares a table, and its tokens if all are alike."""
    pool = _pool(kinds, setup)
    if pool is None or any(one.cross for one in kinds):
        return None
    if pool.shared:
        return pool.layers * pool.page, None
    return sum(a_token(one, setup) for one in kinds) * pool.tokens, pool.tokens


def _state(one: Kept, setup: Setup) -> Layers:
    """A convolution keeps the inputs before the current one: a width of k − 1."""
    elements = one.per_sequence - one.channels if one.channels else one.per_sequence
    return Layers(one, 0, a_sequence(one, setup, elements=elements), 0, 0)


def _vllm_tokens(one: Kept, setup: Setup) -> int:
    if one.cross:
        return int(setup.encoder)
    if one.window is None:
        return int(setup.tokens)
    return int(min(setup.tokens, one.window - 1 + setup.batched))


def _group_size(counts: Sequence[int]) -> int:
    """Layers that share a table of pages: as many as the rarest kind has, unless all are nearly equal."""
    least, most = min(counts), max(counts)
    return most if most < 1.25 * least else least


def _llama_cpp(kinds: Sequence[Kept], setup: Setup) -> list[Layers]:
    """Cells for the whole context; with a window, for it and for the tokens of one micro-batch."""
    found = []
    context = setup.tokens if setup.max_len is None else setup.max_len
    cells = round_up(int(context), LLAMA_CPP_PAD)
    for one in kinds:
        grows = a_token(one, setup)
        used = _tokens(one, setup, one.window)
        if not grows:
            fp32 = one._replace(dtype="fp32")
            elements = one.per_sequence - one.channels if one.channels else one.per_sequence
            found.append(Layers(one, 0, a_sequence(fp32, setup, elements=elements), 0, 0))
            continue
        if one.cross:
            room = round_up(int(setup.encoder), LLAMA_CPP_PAD)
        elif one.window is None:
            room = cells
        else:
            sequences = setup.batch if setup.unified else 1
            room = round_up(min(cells, one.window * sequences + setup.ubatch), LLAMA_CPP_PAD)
        if one.window is not None and setup.unified and isinstance(setup.batch, int):
            # One cache for all sequences: of each, its share.
            room = -(-room // setup.batch)
        found.append(Layers(one, grows, 0, used, room))
    return found


POLICIES: dict[str, Policy] = {
    "architecture": Policy(
        "the least that must be kept: the last W tokens where there is a window",
        "the definition of attention",
        _architecture,
    ),
    "full": Policy(
        "every layer keeps every token, windows or not",
        "vLLM with --disable-hybrid-kv-cache-manager, llama.cpp with --swa-full",
        _full,
    ),
    "transformers": Policy(
        "DynamicCache: W − 1 tokens where there is a window, as a part of the last tensor",
        "transformers 5.24, cache_utils.py; measured",
        _transformers,
    ),
    "static": Policy(
        "StaticCache: max_len tokens from the start, min(W, max_len) with a window",
        "transformers 5.24, cache_utils.py; measured",
        _static,
    ),
    "vllm": Policy(
        "pages of block_size tokens; with a window room for W − 1 tokens, one batch and one page more",
        "vllm/v1/kv_cache_interface.py and core/kv_cache_utils.py, read 2026-11; not measured",
        _vllm,
        exact=False,
        reserves=True,
    ),
    "llama.cpp": Policy(
        "cells in steps of 256 for the context; with a window for it and a micro-batch; states in fp32",
        "llama.cpp src/llama-kv-cache-iswa.cpp and llama-memory-recurrent.cpp, read 2026-11; not measured",
        _llama_cpp,
        exact=False,
        reserves=True,
    ),
}
