"""A framework with its degrees, and what equal ranks hold."""

from __future__ import annotations

from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.core.walk import Row

# Axes that tensor parallelism splits, and what the message calls the size that must divide.
TENSOR_AXES = {
    "heads": "n_heads",
    "kv_heads": "n_kv_heads",
    "ffn": "d_ff",
    "expert_ffn": "d_ff_expert",
    "vocab": "vocab_size",
    "inner": "d_inner",
    "key_heads": "n_key_heads",
    "value_heads": "n_value_heads",
    "ssm_heads": "n_ssm_heads",
    "index_heads": "n_index_heads",
    "groups": "n_groups",
}
EXPERTS = "expert"

# Megatron-LM's --make-vocab-size-divisible-by; vLLM's DEFAULT_VOCAB_PADDING_SIZE.
MEGATRON_VOCAB = 128
VLLM_VOCAB = 64
# Megatron's distributed optimizer: tensors begin at multiples of 64, a buffer ends at lcm(dp, 128).
MEGATRON_START, MEGATRON_END = 64, 128

FRAMEWORKS = {
    "megatron": "Megatron-core 0.16.1: tp, pp, ep; KV heads are sliced, the vocabulary is padded; measured",
    "fsdp2": "torch 2.13 fully_shard: every tensor in chunks of its first dimension; measured",
    "dtensor": "torch 2.13 tensor parallelism: torch.chunk along heads, MLP width, vocabulary; measured",
    "vllm": "vLLM, read 2026-11: whole KV heads, repeated where there are fewer than ranks; not measured",
    "deepspeed": "DeepSpeed ZeRO, read 2026-11: stage 3 splits every tensor, rounded up; not measured",
}
# Which degrees a framework's rule is known for.
DEGREES = {
    "megatron": ("tp", "pp", "ep", "etp", "dp", "zero"),
    "fsdp2": ("dp",),
    "dtensor": ("tp",),
    "vllm": ("tp", "pp", "ep", "dp"),
    "deepspeed": ("dp", "zero"),
}


class Plan(Record):
    """A framework with its degrees."""

    __slots__ = (
        "dp",
        "ep",
        "etp",
        "framework",
        "n_groups",
        "pp",
        "replicate",
        "tp",
        "vocab_multiple",
        "zero",
    )

    def __init__(
        self,
        framework: str,
        tp: int = 1,
        pp: int = 1,
        dp: int = 1,
        ep: int = 1,
        etp: int = 1,
        zero: int = 0,
        vocab_multiple: int = MEGATRON_VOCAB,
        n_groups: int | None = None,
        replicate: int = 1,
    ) -> None:
        # Groups of FSDP ranks that hold the same (HSDP).
        self.replicate = replicate
        self.framework = framework
        self.tp = tp
        self.pp = pp
        self.dp = dp
        self.ep = ep
        self.etp = etp
        self.zero = zero
        self.vocab_multiple = vocab_multiple
        self.n_groups = n_groups

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tp * self.pp * self.dp * self.replicate


class Rank(Record):
    """What some equal ranks hold: their numbers, place, and elements.

    `params`: that are kept between steps. `padding`: of those, rows that mean nothing, on average.
    `copies`: elements that another stage or rank holds too, tied tables and repeated KV heads.
    `gradients`, `optimizer`: elements that have a gradient, or a state of the optimizer, here.
    `reserved`: what is allocated, where that is more.
    """

    __slots__ = ("copies", "gradients", "optimizer", "padding", "params", "place", "ranks", "reserved")

    def __init__(
        self,
        ranks: tuple[range, ...],
        place: str,
        params: int,
        padding: int,
        copies: int,
        gradients: int,
        optimizer: int,
        reserved: int,
    ) -> None:
        self.ranks = ranks
        self.place = place
        self.params = params
        self.padding = padding
        self.copies = copies
        self.gradients = gradients
        self.optimizer = optimizer
        self.reserved = reserved

    @property
    def count(self) -> int:
        """How many ranks there are of this kind."""
        return sum(len(part) for part in self.ranks)

    @property
    def first(self) -> int:
        """The lowest of their numbers."""
        return self.ranks[0].start


def param_of(row: Row) -> Param:
    """The parameter of a row; only those come here."""
    return row.leaf  # type: ignore[return-value]
