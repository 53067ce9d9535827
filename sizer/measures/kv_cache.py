"""What decoding keeps for each sequence: keys and values, latents, states.

The architecture says what must be kept, and an engine what it reserves for that: `policy` names one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sizer.core.dims import Dim
from sizer.core.poly import Poly, symbol
from sizer.core.record import Record
from sizer.core.tree import Op, State
from sizer.core.walk import Row
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.cache_dtypes import block, scaled, token_bytes
from sizer.measures.passes import check_positive

# A word for each kind of state in a table.
WORDS = {
    "kv": "keys and values",
    "cross_kv": "keys and values of the encoder",
    "latent": "latents (MLA)",
    "compressed": "compressed keys and values",
    "index": "indexer keys",
    "index_keys": "indexer keys",
    "conv": "convolution inputs",
    "ssm": "recurrent state",
    "delta": "recurrent state",
    "wkv": "recurrent state",
    "shift": "last token",
}
LATENTS = ("latent", "compressed", "index", "index_keys")


class Kept(Record):
    """What some layers of one kind keep, each: elements a token and elements a sequence.

    `keys` and `values` are a token's; a latent is all `keys`. `heads`: KV heads, where it has any.
    `window`: the tokens that are enough. `dtype`: a type of its own, if not the cache's.
    `channels`: of a convolution, whose engines may keep one input less a channel.
    """

    __slots__ = (
        "channels",
        "cross",
        "dtype",
        "heads",
        "keys",
        "layers",
        "name",
        "per_sequence",
        "values",
        "window",
    )

    def __init__(
        self,
        name: str,
        layers: Dim,
        keys: Dim,
        values: Dim,
        per_sequence: Dim,
        window: Dim | None,
        dtype: str | None,
        heads: Dim | None,
        channels: Dim,
        cross: bool,
    ) -> None:
        self.name = name
        self.layers = layers
        self.keys = keys
        self.values = values
        self.per_sequence = per_sequence
        self.window = window
        self.dtype = dtype
        self.heads = heads
        self.channels = channels
        self.cross = cross

    @property
    def word(self) -> str:
        """What it is, for a table."""
        word = WORDS.get(self.name, self.name.replace("_", " "))
        return word if self.window is None else f"{word}, window {self.window}"


def kept(rows: Iterable[Row]) -> list[Kept]:
    """What each kind of layer keeps, in the order of the model."""
    found: dict[str, Kept] = {}
    cores: dict[str, Op] = {}
    convolutions: dict[str, Op] = {}
    for row in rows:
        leaf = row.leaf
        if isinstance(leaf, Op):
            place = row.name.rpartition(".")[0]
            if leaf.kind in ("attention", "cross_attention"):
                cores[place] = leaf
            elif leaf.kind == "conv":
                convolutions[place] = leaf
        elif isinstance(leaf, State):
            place = row.name.rpartition(".")[0]
            one = _kept(row, leaf, cores.get(place), convolutions.get(place))
            key = repr(one._replace(layers=0))
            same = found.get(key)
            found[key] = one if same is None else same._replace(layers=same.layers + one.layers)
    return list(found.values())


def _kept(row: Row, leaf: State, core: Op | None, convolution: Op | None) -> Kept:
    heads: Dim | None = None
    keys, values = leaf.per_token, 0
    if core is not None and leaf.name in ("kv", "cross_kv"):
        heads = core.sizes["kv_heads"]
        keys = heads * core.sizes["d_qk"]  # type: ignore[operator]
        values = leaf.per_token - keys
    channels = convolution.sizes["channels"] if convolution is not None and leaf.name == "conv" else 0
    return Kept(
        leaf.name,
        row.visits,
        keys,
        values,
        leaf.per_sequence,
        leaf.window,
        leaf.dtype,
        heads,
        channels,
        leaf.name == "cross_kv",
    )


class Setup(Record):
    """How a cache is run: lengths, types and the numbers of an engine.

    `keys`, `values`: their types, `dtype` unless given; `sliding`: that of layers with a window;
    `state`: that of recurrent states. `max_len`: tokens that are reserved, where that is decided
    beforehand. `decoded`: the last pass was a step of decoding, not a prefill. `batched`: the most
    tokens that vLLM runs at once; `ubatch`: that llama.cpp does. `tp`: ranks that share the heads.
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
    ) -> None:
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


class KVCache(Record):
    """Bytes kept while decoding.

    `bytes`: of every sequence of the batch at that length, as the policy keeps them: for an engine
    that reserves pages or cells, all of those. `used_bytes`: without room for tokens to come.
    `stored_bytes`: with what a larger tensor still holds, and bookkeeping.
    `bytes_per_token`: what one more token of one sequence adds while no window is full.
    `constant_bytes`: what a sequence takes whatever its length.
    """

    __slots__ = (
        "assumptions",
        "bookkeeping_bytes",
        "bytes",
        "bytes_per_token",
        "constant_bytes",
        "exact",
        "layers",
        "policy",
        "stored_bytes",
        "used_bytes",
    )

    def __init__(
        self,
        policy: str,
        layers: Sequence[Layers],
        batch: Dim,
        assumptions: Sequence[str] = (),
        *,
        exact: bool = True,
        reserves: bool = False,
    ) -> None:
        self.policy = policy
        self.exact = exact
        self.layers = layers
        self.assumptions = list(assumptions)
        each: Dim = 0
        stored: Dim = 0
        self.bytes_per_token: Dim = 0
        self.constant_bytes: Dim = 0
        self.bookkeeping_bytes: Dim = 0
        for one in layers:
            each = each + one.bytes
            stored = stored + one.stored
            self.bookkeeping_bytes = self.bookkeeping_bytes + one.bookkeeping
            self.constant_bytes = self.constant_bytes + one.constant
            if one.kept.cross:
                self.constant_bytes = self.constant_bytes + one.a_token * one.tokens
            else:
                self.bytes_per_token = self.bytes_per_token + one.a_token
        self.used_bytes = each * batch
        self.bytes = stored * batch if reserves else self.used_bytes
        self.stored_bytes = stored * batch + self.bookkeeping_bytes


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


def kv_cache(
    rows: Iterable[Row],
    *,
    batch_size: Dim = 1,
    seq_len: Dim = 1024,
    encoder_len: Dim | None = None,
    dtype: str = "bf16",
    policy: str = "architecture",
    key_dtype: str | None = None,
    value_dtype: str | None = None,
    sliding_dtype: str | None = None,
    state_dtype: str | None = None,
    max_len: Dim | None = None,
    decoded: bool = True,
    block_size: int = 16,
    max_batched_tokens: int = 2048,
    ubatch: int = 512,
    unified: bool = False,
    tp: int = 1,
) -> KVCache:
    """Bytes of a cache, as a policy keeps it.

    "architecture" is the least there must be: a layer with a window keeps the last W tokens.

    >>> import sizer
    >>> kv_cache(sizer.load("llama-3-8b").rows(), seq_len=8192).bytes
    1073741824
    """
    check_positive(
        batch_size=batch_size,
        seq_len=seq_len,
        encoder_len=encoder_len,
        max_len=max_len,
        block_size=block_size,
        max_batched_tokens=max_batched_tokens,
        ubatch=ubatch,
        tp=tp,
    )
    for given in (dtype, key_dtype, value_dtype, sliding_dtype, state_dtype):
        if given is not None and given.lower() != "fp8_ds_mla":
            block(given)
    setup = Setup(
        batch_size,
        seq_len,
        seq_len if encoder_len is None else encoder_len,
        dtype,
        key_dtype,
        value_dtype,
        sliding_dtype,
        state_dtype,
        max_len,
        decoded,
        block_size,
        max_batched_tokens,
        ubatch,
        unified,
        tp,
    )
    return cache_of(kept(rows), setup, policy)


def cache_of(kinds: Sequence[Kept], setup: Setup, policy: str) -> KVCache:
    """`kv_cache` after its arguments are read."""
    from sizer.measures.cache_policies import POLICIES

    if policy not in POLICIES:
        raise UnknownName("cache policy", policy, POLICIES, hint=f"known are {', '.join(POLICIES)}")
    chosen = POLICIES[policy]
    if isinstance(setup.max_len, int) and isinstance(setup.tokens, int) and setup.tokens > setup.max_len:
        raise InvalidConfig(
            f"seq_len = {setup.tokens} is more than max_len = {setup.max_len}, the tokens that are reserved"
        )
    layers = chosen.plan(kinds, setup)
    assumptions = [f"policy {policy}: {chosen.text} ({chosen.source})"]
    if not kinds:
        assumptions.append("this architecture keeps nothing between tokens")
    if setup.tp > 1:
        assumptions.append(f"bytes of one of {setup.tp} ranks; latents and indexer keys are on each")
    return KVCache(policy, layers, setup.batch, assumptions, exact=chosen.exact, reserves=chosen.reserves)


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
    latent = one.name in LATENTS and one.name.startswith(("latent", "compressed"))
    size = token_bytes(keys, own or setup.keys or setup.dtype, heads=heads, latent=latent)
    if not _zero(values):
        size = size + token_bytes(values, own or setup.values or setup.dtype, heads=heads)
    return size * one.layers


def a_sequence(one: Kept, setup: Setup, *, elements: Dim | None = None) -> Dim:
    """Bytes of what does not grow in all layers of a kind, on one rank."""
    count = one.per_sequence if elements is None else elements
    if _zero(count):
        return 0
    own = one.dtype
    if own is not None and setup.state is not None:
        own = setup.state
    stored = block(own or setup.dtype)
    if setup.tp > 1 and isinstance(count, int):
        if count % setup.tp:
            raise InvalidConfig(f"tp = {setup.tp} does not divide a state of {count:,} elements")
        count = count // setup.tp
    return scaled(count, stored.bytes, stored.elements, own or setup.dtype) * one.layers


def ranks_heads(heads: Dim, tp: int) -> Dim:
    """KV heads of one rank: an equal part, or one whole head where there are more ranks than heads."""
    if heads % tp == 0:
        return heads // tp
    if tp % heads == 0:
        return 1
    fits = [n for n in range(1, 2 * heads + 1) if heads % n == 0 or n % heads == 0]
    raise InvalidConfig(
        f"tp = {tp} and n_kv_heads = {heads} do not divide each other; use {', '.join(map(str, fits))}"
    )


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
