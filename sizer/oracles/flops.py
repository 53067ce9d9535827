"""FLOPs of a real module, by torch's own counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.oracles.runs import MOST_PARAMS, explained, inputs, ready
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
) -> dict[str, int]:
    """Forward and backward FLOPs of a pass.

    A small module runs on the CPU, and a large one on the meta device, where no kernel is fused.
    """
    torch = import_torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    real = attention == "flash" or model.count().total <= MOST_PARAMS
    backend = SDPBackend.FLASH_ATTENTION if attention == "flash" else SDPBackend.MATH
    backends = [backend, SDPBackend.MATH] if attention == "flash" else [backend]
    with explained(model, "FLOPs"), sdpa_kernel(backends):
        module = ready(
            model, attention="eager" if attention == "eager" else "sdpa", real=real, train=checkpointing
        )
        if checkpointing:
            module.gradient_checkpointing_enable({"use_reentrant": False})
        given = inputs(model, module, batch_size, seq_len, encoder_len)
        if not real and "decoder_input_ids" not in given:
            # A mask of this shape is taken as it is: looking into it would need numbers.
            given["attention_mask"] = torch.zeros((batch_size, 1, seq_len, seq_len), device="meta")
        counter: dict[str, Any] = {"display": False, "custom_mapping": _mapping(torch)}
        with FlopCounterMode(**counter) as forward:
            output = module(**given, use_cache=False) if _may_cache(module) else module(**given)
        loss = next(
            (output[name] for name in ("logits", "prediction_logits", "last_hidden_state") if name in output),
            output[0],
        ).sum()
        with FlopCounterMode(**counter) as backward:
            loss.backward()
    return {"forward": int(forward.get_total_flops()), "backward": int(backward.get_total_flops())}


def _may_cache(module: Any) -> bool:
    return hasattr(module.config, "use_cache")


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
