"""The types that an engine keeps keys, values and states in, scales included."""

from __future__ import annotations

from typing import NamedTuple

from sizer.core.dims import Dim
from sizer.core.poly import Poly, exact_quotient
from sizer.dtypes import BITS, bits
from sizer.errors import InvalidConfig, SizerError, UnknownName


class Block(NamedTuple):
    """Elements that are stored together, in so many bytes; a scale of 4 bytes a head on top."""

    bytes: int
    elements: int
    scale_per_head: int = 0


# llama.cpp's blocks of 32 (ggml-common.h): a 16-bit scale, a 16-bit least value or high bits for some.
# vLLM's types with a scale of each token and head (`KVQuantMode`, vllm/v1/kv_cache_interface.py).
BLOCKS = {
    "q8_0": Block(34, 32),
    "q5_1": Block(24, 32),
    "q5_0": Block(22, 32),
    "q4_1": Block(20, 32),
    "q4_0": Block(18, 32),
    "iq4_nl": Block(18, 32),
    "nvfp4": Block(9, 16),
    "int8_per_token_head": Block(1, 1, 4),
    "fp8_per_token_head": Block(1, 1, 4),
}
ALIASES = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8"}

# DeepSeek's fp8 latents as vLLM stores them: 512 of 8 bits, a 32-bit scale for each 128 of them, and
# 64 rotary elements in 16 bits; the keys of its indexer have a scale for each 128 (flashmla_sparse.py).
FP8_DS_MLA = "fp8_ds_mla"
_DS_LATENT = 512 + 64
_DS_LATENT_BYTES = 512 + 4 * 4 + 64 * 2


def known() -> list[str]:
    """Every name, for messages."""
    return [*BITS, *BLOCKS, FP8_DS_MLA]


def block(dtype: str) -> Block:
    """How a type is stored.

    >>> block("bf16"), block("q8_0")
    (Block(bytes=2, elements=1, scale_per_head=0), Block(bytes=34, elements=32, scale_per_head=0))
    """
    name = dtype.lower().removeprefix("torch.")
    name = ALIASES.get(name, name)
    if name in BLOCKS:
        return BLOCKS[name]
    try:
        width = bits(name)
    except SizerError:
        raise UnknownName(
            "cache dtype", dtype, [*known(), *ALIASES, "float32", "bfloat16", "float16"], hint=_hint()
        ) from None
    return Block(width // 8, 1) if width % 8 == 0 else Block(width, 8)


def is_wide(dtype: str) -> bool:
    """Whether a type has at least 16 bits an element.

    >>> is_wide("bf16"), is_wide("fp8"), is_wide("q8_0"), is_wide("fp8_ds_mla")
    (True, False, False, False)
    """
    if dtype.lower() == FP8_DS_MLA:
        return False
    stored = block(dtype)
    return stored.bytes >= 2 * stored.elements


def _hint() -> str:
    return f"known are {', '.join(known())}"


def token_bytes(elements: Dim, dtype: str, *, heads: Dim | None, latent: bool = False) -> Dim:
    """Bytes of one token's elements of one layer, with the scales of `heads` heads.

    >>> token_bytes(1024, "q8_0", heads=8), token_bytes(576, "fp8_ds_mla", heads=None, latent=True)
    (1088, 656)
    """
    if dtype.lower() == FP8_DS_MLA:
        return _ds_mla(elements, latent, heads)
    stored = block(dtype)
    total = scaled(elements, stored.bytes, stored.elements, dtype)
    if stored.scale_per_head and heads is not None:
        total = total + stored.scale_per_head * heads
    return total


def scaled(elements: Dim, size: int, per: int, dtype: str) -> Dim:
    """So many bytes for every `per` elements; integers must come out even."""
    if per == 1:
        return elements * size
    if isinstance(elements, Poly):
        return exact_quotient(elements * size, per)
    if isinstance(elements, int) and elements % per:
        raise InvalidConfig(
            f"dtype = {dtype} stores {per} elements together and a layer keeps {elements:,} a token, "
            f"no multiple of it; use a type without blocks, such as bf16 or fp8"
        )
    return elements * size // per


def _ds_mla(elements: Dim, latent: bool, heads: Dim | None) -> Dim:
    if latent and elements == _DS_LATENT:
        return _DS_LATENT_BYTES
    if not latent and heads is None and isinstance(elements, int) and elements % 128 == 0:
        return elements + 4 * (elements // 128)
    raise InvalidConfig(
        f"dtype = {FP8_DS_MLA} is DeepSeek's layout of a latent of {_DS_LATENT}, and this layer keeps "
        f"{elements} elements a token; use fp8"
    )
