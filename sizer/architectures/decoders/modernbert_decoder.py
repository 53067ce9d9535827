"""ModernBERT as a decoder: the same blocks, looking back only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.modernbert import ModernBertConfig, modernbert_fields
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _modernbert_decoder(hf: HFConfig) -> Reading:
    # A window of `local_attention` reaches half as far to either side, and a decoder looks to one.
    local = hf["local_attention"]
    window = hf["sliding_window"] if hf.given("sliding_window") else local // 2 if local else None
    return Reading("modernbert", modernbert_fields(hf, ModernBertConfig, causal=True, window=window))


HF_READERS = {"modernbert-decoder": _modernbert_decoder}
