"""Which tokens a model runs over: a training pass, a prefill, its chunks, steps of decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sizer.core.config import check_size
from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import ONCE
from sizer.core.walk import Row


class Pass(Record):
    """One or more forward passes over `batch` sequences.

    `new`: tokens of a sequence that run at once. `past`: tokens in its cache before the first pass.
    `times`: how many passes of `new` tokens follow each other, each with the last one's tokens in its
    cache; `rest`: tokens of one more, shorter pass. `encoder`: tokens of the encoder's sequence, and
    `encoder_given`, whether somebody said how many. `lengths`: tokens of other streams, such as an
    image. `causal`: count only the pairs of tokens that a causal mask and a window leave. `logits`: of
    the new tokens of a pass, the last that reach the head.
    """

    __slots__ = (
        "batch",
        "causal",
        "encoder",
        "encoder_given",
        "lengths",
        "logits",
        "new",
        "past",
        "rest",
        "times",
    )

    def __init__(
        self,
        batch: Dim = 1,
        new: Dim = 1024,
        past: Dim = 0,
        times: int = 1,
        rest: int = 0,
        encoder: Dim | None = None,
        lengths: Mapping[str, Dim] | None = None,
        causal: bool = False,
        logits: Dim | None = None,
        encoder_given: bool = True,
    ) -> None:
        self.batch = batch
        self.new = new
        self.past = past
        self.times = times
        self.rest = rest
        self.encoder = new if encoder is None else encoder
        self.encoder_given = encoder_given
        self.lengths = lengths or {}
        self.causal = causal
        self.logits = logits

    @property
    def tokens(self) -> Dim:
        """New tokens of a sequence in all passes."""
        return self.new * self.times + self.rest

    @property
    def cached(self) -> bool:
        """Whether anything is read from a cache, so that no backward pass can follow."""
        return not (is_zero(self.past) and self.times == 1 and self.rest == 0)

    @property
    def encodes(self) -> bool:
        """Whether the encoder runs: its output is kept once there is a cache."""
        return is_zero(self.past)

    @property
    def head_tokens(self) -> Dim:
        """Tokens of a sequence whose logits are computed."""
        if self.logits is None:
            return self.tokens
        if not (isinstance(self.new, int) and isinstance(self.logits, int)):
            return self.logits * self.times
        return min(self.new, self.logits) * self.times + min(self.rest, self.logits)

    def length(self, stream: str) -> Dim:
        """Tokens of a sequence in a stream."""
        if not stream:
            return self.tokens
        if stream == "encoder" and "encoder" not in self.lengths:
            return self.encoder if self.encodes else 0
        return self.lengths.get(stream, self.tokens)

    def places(self, row: Row) -> Dim:
        """At how many places a row runs, for one sequence.

        Of a stream whose length is given, that many, but for what runs once.
        """
        head = row.component == "head" and not row.stream
        tokens = self.head_tokens if head else self.length(row.stream)
        places = row.places
        if places is None:
            return tokens
        own = not row.stream or (row.stream not in self.lengths and not self.encoder_given)
        if own and is_zero(places.each):
            return places.fixed
        if is_zero(tokens):
            return 0
        if not is_zero(places.each):
            return places.each * tokens + places.fixed
        return places.fixed if places == ONCE else tokens

    def pairs(self, window: Dim | None, *, masked: bool) -> Dim:
        """Pairs of a query and a key that attention multiplies, for one sequence.

        Without `causal`, all: a mask and a window hide scores that were computed anyway. A cache
        with a window gives its last W − 1 tokens (transformers' `DynamicSlidingWindowLayer`).

        >>> Pass(new=4).pairs(None, masked=True), Pass(new=4, causal=True).pairs(None, masked=True)
        (16, 10)
        >>> Pass(new=1, past=9).pairs(4, masked=True)
        4
        """
        if self.causal and masked:
            return _triangle(self.past, self.tokens, window)
        pairs = self.new * _keys(self.new, self.past, self.times, window)
        if self.rest:
            pairs = pairs + self.rest * self._rest_keys(window)
        return pairs

    def keys(self, window: Dim | None) -> Dim:
        """Tokens that the passes attend to, those of each pass anew.

        >>> Pass(new=2, past=9, times=2).keys(None), Pass(new=2, past=9, times=2).keys(4)
        (24, 10)
        """
        keys = _keys(self.new, self.past, self.times, window)
        return keys + self._rest_keys(window) if self.rest else keys

    def _rest_keys(self, window: Dim | None) -> Dim:
        return _keys(self.rest, self.past + self.new * self.times, 1, window)


def is_zero(size: Dim) -> bool:
    """Whether a size is the number 0; a symbol is not."""
    return isinstance(size, int) and size == 0


def _keys(new: Dim, past: Dim, times: int, window: Dim | None) -> Dim:
    """Σ (kept + new) over passes whose cache grows by `new` each time."""
    if times == 1:
        return kept(past, window) + new
    # Passes whose whole past is kept, then those of a full window.
    growing = times
    if isinstance(window, int):
        growing = min(times, max(0, (window - 1 - past) // new + 1))
    pasts = growing * past + new * (growing * (growing - 1) // 2)
    if growing < times:
        pasts = pasts + (times - growing) * (window - 1)  # type: ignore[operator]
    return pasts + times * new


def kept(past: Dim, window: Dim | None) -> Dim:
    """Tokens that a cache with that window gives to the next pass."""
    if isinstance(past, int) and isinstance(window, int):
        return min(past, window - 1)
    return past


def _triangle(past: Dim, new: Dim, window: Dim | None) -> Dim:
    """Σ min(position + 1, W) over the positions past … past + new − 1."""
    if not isinstance(window, int) or not isinstance(new, int):
        return past * new + half(new * (new + 1))
    inside = min(max(window - past, 0), new)
    return past * inside + inside * (inside + 1) // 2 + (new - inside) * window


def half(size: Dim) -> Dim:
    """Half of an even number, or of a symbol."""
    return size // 2 if isinstance(size, int) else size / 2


def check_positive(**sizes: Dim | None) -> None:
    """Refuse lengths and numbers of sequences that are none.

    >>> check_positive(seq_len=0)
    Traceback (most recent call last):
    sizer.errors.InvalidConfig: seq_len = 0 is zero; it must be at least 1
    """
    for name, size in sizes.items():
        check_size(name, size)


def listed(numbers: Sequence[int], most: int = 10) -> str:
    """Numbers to choose from, in a sentence.

    >>> listed([1, 2, 4]), listed(range(1, 99), 3)
    ('1, 2 or 4', '1, 2, 3, …')
    """
    shown = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        return f"{', '.join(shown)}, …"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
