"""What decoding keeps for each sequence: keys and values, latents, states.

The architecture says what must be kept, and an engine what it reserves for that: `policy` names one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.walk import Row
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.cache_dtypes import block
from sizer.measures.cache_kinds import Kept, kept
from sizer.measures.cache_layers import Layers, Setup
from sizer.measures.cache_policies import POLICIES
from sizer.measures.passes import check_positive
from sizer.measures.streams import encoder_length


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
    state_pages: int = 1,
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
        state_pages=state_pages,
    )
    for given in (dtype, key_dtype, value_dtype, sliding_dtype, state_dtype):
        if given is not None and given.lower() != "fp8_ds_mla":
            block(given)
    rows = list(rows)
    setup = Setup(
        batch_size,
        seq_len,
        encoder_length(rows, seq_len) if encoder_len is None else encoder_len,
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
        state_pages,
    )
    return cache_of(kept(rows, encoder_given=encoder_len is not None), setup, policy)


def cache_of(kinds: Sequence[Kept], setup: Setup, policy: str) -> KVCache:
    """`kv_cache` after its arguments are read."""
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
    pending = policy in ("transformers", "static") and any(one.name == "compressed" for one in kinds)
    if pending:
        assumptions.append(
            "estimate: tokens whose compressed entry is not complete, which transformers keeps too, and "
            "values beside the keys that they equal, are left out"
        )
    exact = chosen.exact and not pending
    return KVCache(policy, layers, setup.batch, assumptions, exact=exact, reserves=chosen.reserves)
