"""How much a budget of bytes holds: tokens of one batch, sequences of one length, pages of a pool."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.measures.cache_kinds import Kept
from sizer.measures.cache_layers import Setup
from sizer.measures.cache_policies import block_of_pool
from sizer.measures.kv_cache import cache_of

# No context is as long as this; it bounds a search whose answer is "any length".
MOST_TOKENS = 2**48


class Fit(Record):
    """What a budget holds.

    `tokens`: the longest each sequence of the batch can be, `None` where any length fits.
    `sequences`: how many of the given length; `concurrency`: the same with its fraction, as vLLM logs it.
    `block_bytes`, `blocks`: of a page in all layers, and pages that the budget holds, where an engine
    has pages; `pool_tokens`: tokens in those.
    """

    __slots__ = ("block_bytes", "blocks", "budget", "concurrency", "pool_tokens", "sequences", "tokens")

    def __init__(
        self,
        budget: int,
        tokens: int | None,
        sequences: int | None,
        concurrency: float | None,
        block_bytes: int | None = None,
        blocks: int | None = None,
        pool_tokens: int | None = None,
    ) -> None:
        self.budget = budget
        self.tokens = tokens
        self.sequences = sequences
        self.concurrency = concurrency
        self.block_bytes = block_bytes
        self.blocks = blocks
        self.pool_tokens = pool_tokens


def fit(kinds: Sequence[Kept], setup: Setup, policy: str, budget: int) -> Fit:
    """What `budget` bytes hold; pages and cells are rounded as the policy does.

    >>> import sizer
    >>> from sizer.measures.cache_kinds import kept
    >>> setup = Setup(1, 20000, 20000, "bf16")
    >>> found = fit(kept(sizer.load("llama-3-8b").rows()), setup, "vllm", 1952 * 2**21)
    >>> found.blocks, found.tokens, round(found.concurrency, 2)
    (1952, 31232, 1.56)
    """
    if budget <= 0:
        raise InvalidConfig(f"budget = {budget} bytes is not positive")
    setup = setup if setup.max_len is None else setup._replace(max_len=None)
    tokens = _longest(kinds, setup, policy, budget)
    each = cache_of(kinds, setup._replace(batch=1), policy).stored_bytes
    if each == 0:
        return Fit(budget, None, None, None)
    found = Fit(budget, tokens, budget // each, budget / each)
    pool = block_of_pool(kinds, setup) if policy == "vllm" else None
    if pool is None:
        return found
    block, tokens_of_block = pool
    blocks = budget // block
    found = found._replace(block_bytes=block, blocks=blocks)
    if tokens_of_block is not None:
        return found._replace(pool_tokens=blocks * tokens_of_block)
    # Kinds that share a pool take different shares of it: vLLM logs the tokens of whole sequences.
    concurrency = blocks * block / each
    return found._replace(
        sequences=blocks * block // each, concurrency=concurrency, pool_tokens=int(concurrency * setup.tokens)
    )


def _longest(kinds: Sequence[Kept], setup: Setup, policy: str, budget: int) -> int | None:
    """The longest sequence, by halving: no policy keeps less for more tokens."""

    def fits(tokens: int) -> bool:
        return bool(cache_of(kinds, setup._replace(tokens=tokens), policy).stored_bytes <= budget)

    if fits(MOST_TOKENS):
        return None
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
