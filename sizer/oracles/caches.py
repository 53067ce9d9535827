"""Bytes of the cache objects of transformers, after a prefill and after steps of decoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sizer.dtypes import bits
from sizer.errors import UnknownName
from sizer.oracles.runs import explained, inputs, ready
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
    bits(dtype)
    with explained(model, "its cache"), torch.no_grad():
        module = ready(model, real=True).to(getattr(torch, TYPES.get(dtype, dtype)))
        given = inputs(model, module, batch_size, seq_len - steps, encoder_len)
        key = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
        if policy == "static":
            from transformers import StaticCache

            given["past_key_values"] = StaticCache(config=module.config, max_cache_len=max_len or seq_len)
        output = module(**given, use_cache=True)
        for _ in range(steps):
            cache = _cache(output)
            again = {**given, key: given[key][:, -1:], _name(output): cache}
            output = module(**again, use_cache=True)
    tensors = list(_tensors(_cache(output)))
    return {
        "logical": sum(t.numel() * t.element_size() for t in tensors if t.is_floating_point()),
        "bookkeeping": sum(t.numel() * t.element_size() for t in tensors if not t.is_floating_point()),
        "stored": sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values()),
    }


def _name(output: Any) -> str:
    return "past_key_values" if getattr(output, "past_key_values", None) is not None else "cache_params"


def _cache(output: Any) -> Any:
    return getattr(output, _name(output))


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
    elif "cache" in type(found).__module__:
        inside = vars(found).values()
    for value in inside:
        yield from _tensors(value, seen)
