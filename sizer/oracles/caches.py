"""Bytes of the cache objects of transformers, after a prefill and after steps of decoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any

from sizer.dtypes import bits
from sizer.errors import UnknownName
from sizer.measures.passes import check_positive
from sizer.oracles.runs import CACHES, explained, inputs, over_cache, ready
from sizer.oracles.torch import import_torch

if TYPE_CHECKING:
    from sizer.model import Model

TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def measure(
    model: Model,
    *,
    batch_size: int = 1,
    seq_len: int = 16,
    encoder_len: int | None = None,
    dtype: str = "bf16",
    policy: str = "transformers",
    max_len: int | None = None,
    steps: int = 1,
) -> dict[str, int]:
    """Bytes of the keys, values and states that a cache holds for `seq_len` tokens.

    The last `steps` of the tokens are decoded one at a time. `stored` counts whole storages, and
    `logical` the tensors in them; both without the integers that a cache keeps for itself.
    """
    torch = import_torch()
    if policy not in ("transformers", "static"):
        raise UnknownName("cache of transformers", policy, ("transformers", "static"))
    check_positive(batch_size=batch_size, seq_len=seq_len, encoder_len=encoder_len)
    bits(dtype)
    if dtype not in TYPES and dtype not in TYPES.values():
        raise UnknownName("type of a cache of transformers", dtype, TYPES, hint=", ".join(TYPES))
    with explained(model, "its cache"), torch.no_grad():
        module = ready(model, real=True).to(getattr(torch, TYPES.get(dtype, dtype)))
        given = inputs(model, module, batch_size, seq_len - steps, encoder_len)
        if policy == "static":
            from transformers import StaticCache

            named = "cache" if "cache" in signature(module.forward).parameters else "past_key_values"
            given[named] = StaticCache(config=module.config, max_cache_len=max_len or seq_len)
        again = over_cache(module, given, seq_len - steps)
        for _ in range(steps):
            again = over_cache(module, again, 1)
    cache = next(again[name] for name in CACHES if again.get(name) is not None)
    tensors = list(_tensors(cache))
    return {
        "logical": sum(t.numel() * t.element_size() for t in tensors if t.is_floating_point()),
        "bookkeeping": sum(t.numel() * t.element_size() for t in tensors if not t.is_floating_point()),
        "stored": sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values()),
    }


def _tensors(found: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Every tensor inside a cache, each once."""
    seen = set() if seen is None else seen
    if id(found) in seen:
        return
    seen.add(id(found))
    inside: Iterable[Any] = ()
    if hasattr(found, "untyped_storage"):
        yield found
    elif isinstance(found, dict):
        inside = found.values()
    elif isinstance(found, list | tuple):
        inside = found
    elif any("cache" in base.__module__ for base in type(found).__mro__):
        inside = vars(found).values()
    for value in inside:
        yield from _tensors(value, seen)
