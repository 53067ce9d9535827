"""What one kind of layer takes in a cache: bytes of a token and of a sequence, on one rank."""

from __future__ import annotations

from sizer.core.dims import Dim
from sizer.core.poly import Poly, symbol
from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.measures.cache_dtypes import block, is_wide, scaled, token_bytes
from sizer.measures.cache_kinds import LATENTS, Kept
from sizer.measures.passes import listed


class Setup(Record):
    """How a cache is run: lengths, types and the numbers of an engine.

    `keys`, `values`: their types, `dtype` unless given; `sliding`: that of layers with a window;
    `state`: that of recurrent states. `max_len`: tokens that are reserved, where that is decided
    beforehand. `decoded`: the last pass was a step of decoding, not a prefill. `batched`: the most
    tokens that vLLM runs at once, `state_pages`: its pages for the states of a sequence; `ubatch`: the
    tokens that llama.cpp runs at once. `tp`: ranks that share the heads.
    """

    __slots__ = (
        "batch",
        "batched",
        "block_size",
        "decoded",
        "dtype",
        "encoder",
        "keys",
        "max_len",
        "sliding",
        "state",
        "state_pages",
        "tokens",
        "tp",
        "ubatch",
        "unified",
        "values",
    )

    def __init__(
        self,
        batch: Dim,
        tokens: Dim,
        encoder: Dim,
        dtype: str,
        keys: str | None = None,
        values: str | None = None,
        sliding: str | None = None,
        state: str | None = None,
        max_len: Dim | None = None,
        decoded: bool = True,
        block_size: int = 16,
        batched: int = 2048,
        ubatch: int = 512,
        unified: bool = False,
        tp: int = 1,
        state_pages: int = 1,
    ) -> None:
        self.state_pages = state_pages
        self.batch = batch
        self.tokens = tokens
        self.encoder = encoder
        self.dtype = dtype
        self.keys = keys
        self.values = values
        self.sliding = sliding
        self.state = state
        self.max_len = max_len
        self.decoded = decoded
        self.block_size = block_size
        self.batched = batched
        self.ubatch = ubatch
        self.unified = unified
        self.tp = tp


class Layers(Record):
    """A kind of layer in a cache: how many, tokens kept of a sequence, and bytes of all of them.

    `tokens`: those that are used; `reserved`: those that there is room for.
    `bytes`, `stored`: of one sequence, used and reserved; `bookkeeping`: of the whole cache.
    """

    __slots__ = (
        "a_token",
        "bookkeeping",
        "bytes",
        "constant",
        "kept",
        "reserved",
        "stored",
        "tokens",
    )

    def __init__(
        self,
        kept: Kept,
        a_token: Dim,
        constant: Dim,
        tokens: Dim,
        reserved: Dim,
        bookkeeping: Dim = 0,
        stored_constant: Dim | None = None,
    ) -> None:
        self.kept = kept
        self.a_token = a_token
        self.constant = constant
        self.tokens = tokens
        self.reserved = reserved
        self.bookkeeping = bookkeeping
        self.bytes = a_token * tokens + constant
        self.stored = a_token * reserved + (constant if stored_constant is None else stored_constant)


def a_token(one: Kept, setup: Setup) -> Dim:
    """Bytes of one token in all layers of a kind, on one rank."""
    if one.keys is not None and _zero(one.keys) and _zero(one.values):
        return 0
    own = one.dtype
    if own is None and one.window is not None:
        own = setup.sliding
    heads = one.heads
    keys, values = one.keys, one.values
    if heads is not None and setup.tp > 1:
        heads = ranks_heads(heads, setup.tp)
        keys, values = keys * heads // one.heads, values * heads // one.heads
    latent = one.name in LATENTS
    size = token_bytes(keys, own or setup.keys or setup.dtype, heads=heads, latent=latent)
    if not _zero(values):
        size = size + token_bytes(values, own or setup.values or setup.dtype, heads=heads)
    return size * one.layers


def a_sequence(one: Kept, setup: Setup, *, elements: Dim | None = None) -> Dim:
    """Bytes of what does not grow in all layers of a kind, on one rank.

    States are never packed: in a cache of 8 bits or less they keep the 16 of the activations.
    """
    count = one.per_sequence if elements is None else elements
    if _zero(count):
        return 0
    own = one.dtype
    if own is not None and setup.state is not None:
        own = setup.state
    dtype = own or (setup.dtype if is_wide(setup.dtype) else "bf16")
    stored = block(dtype)
    if setup.tp > 1 and isinstance(count, int):
        if count % setup.tp:
            fits = [n for n in range(1, 65) if count % n == 0]
            raise InvalidConfig(
                f"tp = {setup.tp} does not divide a state of {count:,} elements; use {listed(fits)}"
            )
        count = count // setup.tp
    return scaled(count, stored.bytes, stored.elements, dtype) * one.layers


def ranks_heads(heads: Dim, tp: int) -> Dim:
    """KV heads of one rank: an equal part, or one whole head where there are more ranks than heads."""
    if heads % tp == 0:
        return heads // tp
    if tp % heads == 0:
        return 1
    fits = [n for n in range(1, 2 * heads + 1) if heads % n == 0 or n % heads == 0]
    raise InvalidConfig(f"tp = {tp} and n_kv_heads = {heads} do not divide each other; use {listed(fits)}")


def _zero(size: Dim) -> bool:
    return isinstance(size, int) and size == 0


def smaller(one: Dim, other: Dim) -> Dim:
    """The smaller of two sizes; over letters, one that stands for it (`window_letter`)."""
    if isinstance(one, Poly) or isinstance(other, Poly):
        return symbol(window_letter(other))
    if hasattr(one, "dtype") or hasattr(other, "dtype"):
        import numpy

        return numpy.minimum(one, other)
    return min(one, other)


def window_letter(window: Dim) -> str:
    """The letter of the tokens that a layer with this window keeps.

    >>> window_letter(symbol("W")), window_letter(symbol("W_512"))
    ('Tw', 'Tw_W_512')
    """
    text = str(window)
    return "Tw" if text == "W" else "Tw_" + "".join(char if char.isalnum() else "_" for char in text)
