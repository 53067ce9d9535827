"""FLOPs of a real module, by torch's own counter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sizer.oracles.runs import MOST_PARAMS, explained, inputs, over_cache, ready
from sizer.oracles.torch import import_torch

if TYPE_CHECKING:
    from sizer.model import Model


def measure(
    model: Model,
    *,
    batch_size: int = 1,
    seq_len: int = 16,
    encoder_len: int | None = None,
    attention: str = "eager",
    checkpointing: bool = False,
    past_len: int = 0,
    chunk: int | None = None,
    decode: int | None = None,
    logits_to_keep: int | None = None,
) -> dict[str, int]:
    """Forward and backward FLOPs of a pass; of passes over a cache, forward alone.

    A small module runs on the CPU, and a large one on the meta device, where no kernel is fused.
    """
    torch = import_torch()
    # What cannot be counted is refused before a module is built.
    model.flops(
        batch_size,
        seq_len,
        attention,
        checkpointing,
        encoder_len=encoder_len,
        past_len=past_len,
        chunk=chunk,
        decode=decode,
        logits_to_keep=logits_to_keep,
    )
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    real = attention == "flash" or model.count().total <= MOST_PARAMS
    backend = SDPBackend.FLASH_ATTENTION if attention == "flash" else SDPBackend.MATH
    backends = [backend, SDPBackend.MATH] if attention == "flash" else [backend]
    counter: dict[str, Any] = {"display": False, "custom_mapping": _mapping(torch)}
    before, passes = _passes(seq_len, past_len, chunk, decode)
    last = {} if logits_to_keep is None else {"logits_to_keep": logits_to_keep}
    with explained(model, "FLOPs"), sdpa_kernel(backends):
        module = ready(
            model, attention="eager" if attention == "eager" else "sdpa", real=real, train=checkpointing
        )
        if checkpointing:
            module.gradient_checkpointing_enable({"use_reentrant": False})
        given = inputs(model, module, batch_size, seq_len, encoder_len)
        if before or len(passes) > 1:
            forward = 0
            with torch.no_grad():
                again = over_cache(module, given, before)
                for tokens in passes:
                    with FlopCounterMode(**counter) as counted:
                        again = over_cache(module, again, tokens, **last)
                    forward += int(counted.get_total_flops())
            return {"forward": forward, "backward": 0}
        if not real and "decoder_input_ids" not in given:
            # A mask of this shape is taken as it is: looking into it would need numbers.
            given["attention_mask"] = torch.zeros((batch_size, 1, seq_len, seq_len), device="meta")
        given |= last | ({"use_cache": False} if hasattr(module.config, "use_cache") else {})
        with FlopCounterMode(**counter) as there:
            output = module(**given)
        loss = sum(value.sum() for value in _results(output) if value.requires_grad)
        with FlopCounterMode(**counter) as back:
            loss.backward()
    return {"forward": int(there.get_total_flops()), "backward": int(back.get_total_flops())}


def _passes(tokens: int, past: int, chunk: int | None, decode: int | None) -> tuple[int, list[int]]:
    """Tokens that are in the cache beforehand, and those of each pass that is counted."""
    if decode is not None:
        return past + tokens, [1] * decode
    if chunk is None:
        return past, [tokens]
    rest = tokens % chunk
    return past, [chunk] * (tokens // chunk) + ([rest] if rest else [])


def _results(output: Any) -> Iterator[Any]:
    """Every tensor of numbers that a module answers: logits, the state of each token, a pooled one."""
    for value in output.values():
        if hasattr(value, "is_floating_point") and value.is_floating_point():
            yield value


def _mapping(torch: Any) -> dict[Any, Any]:
    """What the stock counter leaves out: the CPU's flash kernel, and grouped products of experts."""
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    aten = torch.ops.aten

    def forward(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
        return sdpa_flop_count(query, key, value)

    def backward(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
        return sdpa_backward_flop_count(grad, query, key, value)

    return {
        aten._scaled_dot_product_flash_attention_for_cpu: forward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: backward,
    }
