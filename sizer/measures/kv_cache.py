"""What decoding keeps for each sequence: keys and values, latents, states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sizer.core.dims import Dim, divide
from sizer.core.tree import Row, State
from sizer.dtypes import bits
from sizer.errors import InvalidConfig


class KVCache(NamedTuple):
    """Bytes kept while decoding.

    `bytes`: in all, for every sequence of the batch at that length. `bytes_per_token`: what one
    more token of one sequence adds while no window is full. `constant_bytes`: what a sequence
    takes whatever its length.
    """

    bytes: Dim
    bytes_per_token: Dim
    constant_bytes: Dim


def kv_cache(
    rows: Iterable[Row],
    *,
    batch_size: Dim = 1,
    seq_len: Dim = 1024,
    encoder_len: Dim | None = None,
    dtype: str = "bf16",
) -> KVCache:
    """The least an architecture can keep: a windowed layer keeps the last `window` tokens.

    >>> import sizer
    >>> kv_cache(sizer.load("llama-3-8b").rows(), seq_len=8192).bytes
    1073741824
    """
    for name, length in (("batch_size", batch_size), ("seq_len", seq_len)):
        if isinstance(length, int) and length <= 0:
            raise InvalidConfig(f"{name} = {length} is not a positive number")
    encoder = seq_len if encoder_len is None else encoder_len
    total: Dim = 0
    per_token: Dim = 0
    constant: Dim = 0
    for row in rows:
        leaf = row.leaf
        if not isinstance(leaf, State):
            continue
        width = bits(leaf.dtype or dtype)
        a_token = _bytes(leaf.per_token * row.visits, width)
        a_sequence = _bytes(leaf.per_sequence * row.visits, width)
        if leaf.name == "cross_kv":
            a_sequence, a_token = a_sequence + a_token * encoder, 0
        length = seq_len
        if leaf.window is not None and isinstance(seq_len, int) and isinstance(leaf.window, int):
            length = min(seq_len, leaf.window)
        total = total + a_token * length + a_sequence
        per_token = per_token + a_token
        constant = constant + a_sequence
    return KVCache(total * batch_size, per_token, constant)


def _bytes(elements: Dim, width: int) -> Dim:
    if width % 8 == 0:
        return elements * (width // 8)
    return divide(elements * width, 8, names="bits / 8")
