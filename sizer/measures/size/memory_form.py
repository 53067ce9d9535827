"""Quantized weights as they are in memory: what a file stores, less what only describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.errors import InvalidConfig
from sizer.measures.size.formats import PLAIN, parse
from sizer.measures.size.size import gguf_name, packed, size

if TYPE_CHECKING:
    from sizer.measures.step.simulate import Settings
    from sizer.model import Model

# Stored and no weights in memory: texts and shapes; buffers are counted by themselves.
_APART = ("state", "buffers")


def weights(model: Model, quant: str, dtype: str) -> tuple[int, list[str]]:
    """Bytes of the weights in a format, and what was taken for granted.

    >>> import sizer
    >>> weights(sizer.load("llama-3-8b"), "nf4", "bf16")[0]
    6027761664
    """
    found = size(model, quant=quant, dtype=dtype)
    total = sum(n_bytes for part, n_bytes in found.parts.items() if part not in _APART)
    return total, [f"weights in {found.quant}, as stored; an engine may lay them out anew", *found.warnings]


def frozen(model: Model, quant: str, settings: Settings) -> tuple[int, int]:
    """Bytes of frozen weights beside adapters, and of the largest packed matrix when it is unpacked."""
    if settings.lora is None:
        raise InvalidConfig(
            f"--quant {quant}: packed weights are not trained; train adapters beside them (--lora)"
        )
    if gguf_name(quant) is not None:
        raise InvalidConfig(
            f"--quant {quant}: types of GGUF are for inference; nf4 and bnb-int8 train adapters"
        )
    dtype = "bf16" if settings.precision in ("bf16", "fp8") else "fp32"
    form = parse(quant)
    if form.name in PLAIN:
        raise InvalidConfig(f"--quant {quant}: nothing is packed; --precision says the type of the weights")
    pieces, choice = packed(model, form, dtype)
    total = sum(piece.copies * piece.bytes for piece in pieces if piece.part not in _APART)
    largest = max((row.numel for row in model.rows("checkpoint") if choice.quantized(row)), default=0)
    return total, int(largest) * (2 if dtype == "bf16" else 4)
