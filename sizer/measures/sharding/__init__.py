"""What every rank holds of a model that is spread over several.

The names of a tensor's axes decide: heads, MLP widths and the vocabulary go to tensor-parallel ranks,
experts to expert-parallel ones, layers to stages of a pipeline. How each framework rounds is its own.
"""

from __future__ import annotations

from sizer.measures.sharding.plan import FRAMEWORKS, MEGATRON_VOCAB, Plan, Rank
from sizer.measures.sharding.shards import Shards, shards
from sizer.measures.sharding.stages import layers_of, piece_of

__all__ = [
    "FRAMEWORKS",
    "MEGATRON_VOCAB",
    "Plan",
    "Rank",
    "Shards",
    "layers_of",
    "piece_of",
    "shards",
]
