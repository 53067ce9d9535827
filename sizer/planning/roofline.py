"""Roofline bounds of serving: the least time of a prefill and of a step of decoding.

Nothing runs faster than its arithmetic at the peak, nor than its bytes at the bandwidth. What links,
kernels and schedulers add is left out: these are bounds, and no forecast.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sizer.core.record import Record
from sizer.measures.passes import check_positive
from sizer.planning.cost import peak_of
from sizer.planning.demand import Demand
from sizer.planning.job import Job
from sizer.planning.layout import Layout
from sizer.planning.weights import format_named

if TYPE_CHECKING:
    from sizer.model import Model
    from sizer.planning.hardware import Accelerator

# More sequences than any accelerator serves at once.
MOST_SEQUENCES = 1 << 20


class Bound(Record):
    """The least time of a pass: FLOPs at the peak and bytes at the bandwidth, the larger of the two."""

    __slots__ = ("cache_bytes", "flops", "of_compute", "of_memory", "tokens", "weight_bytes")

    def __init__(
        self, tokens: int, flops: int, weight_bytes: int, cache_bytes: int, peak: float, bandwidth: float
    ) -> None:
        self.tokens = tokens
        self.flops = flops
        self.weight_bytes = weight_bytes
        self.cache_bytes = cache_bytes
        self.of_compute = flops / peak
        self.of_memory = (weight_bytes + cache_bytes) / bandwidth

    @property
    def seconds(self) -> float:
        """The least time."""
        return max(self.of_compute, self.of_memory)

    @property
    def limit(self) -> str:
        """What it is bound by."""
        return "compute" if self.of_compute >= self.of_memory else "memory"

    @property
    def tokens_per_s(self) -> float:
        """At most so many tokens a second, of all sequences."""
        return self.tokens / self.seconds


class Roofline:
    """A model on `gpus` accelerators that share every tensor, with weights and cache of these types.

    >>> import sizer
    >>> from sizer.planning.hardware import hardware
    >>> roof = Roofline(sizer.load("llama-3-8b"), hardware("h100"))
    >>> step = roof.decode(batch_size=1, seq_len=1024)
    >>> step.limit, f"{1000 * step.seconds:.2f} ms"
    ('memory', '4.52 ms')
    """

    def __init__(
        self,
        model: Model,
        device: Accelerator,
        *,
        gpus: int = 1,
        dtype: str = "bf16",
        kv_dtype: str | None = None,
    ) -> None:
        check_positive(gpus=gpus)
        self.model = model
        self.device = device
        self.gpus = gpus
        job = Job(dtype=dtype, kv_dtype=kv_dtype)
        form = format_named(dtype)
        self.cache_dtype = job.cache_dtype
        # Narrow weights are widened before they are multiplied, unless the type has a peak of its own.
        types = ("fp8",) if form.name == "fp8" else ("fp32",) if form.bits >= 32 else ()
        peak = peak_of(device, *types, "bf16", "fp16", "fp32")
        self.peak = gpus * (peak or device.flops_per_s("bf16"))
        self.bandwidth = gpus * device.need("bandwidth_bytes_per_s")
        self.demand = Demand(model)
        elements = self.demand.pieces(job, Layout()).stages(1)[0].elements
        total = self.demand.total()
        self.weights = self.demand.weights(form, elements.linear, total - elements.linear, elements.channels)
        count = model.count()
        self.total = total
        self.experts = int(count.components.get("experts", 0))
        # A table that is looked up is not read whole; as a tied head it is.
        self.looked_up = 0 if count.tied else int(count.embedding)
        config = model.config
        self.n_experts = int(getattr(config, "n_experts", 0) or 0)
        self.top_k = int(getattr(config, "top_k", 0) or 0)

    def _read(self, tokens: int) -> int:
        """Bytes of weights that so many tokens at once read; of the experts, those that any visits."""
        share = Fraction(1)
        if self.experts and 0 < self.top_k < self.n_experts:
            # Of E experts, of which each token visits k at random: E·(1 − (1 − k/E)^tokens).
            share = 1 - Fraction(1 - self.top_k / self.n_experts) ** min(tokens, 1 << 16)
        read = self.total - self.looked_up - self.experts + share * self.experts
        return int(self.weights * read / self.total)

    def prefill(self, *, batch_size: int = 1, seq_len: int = 4096) -> Bound:
        """The first pass over `batch_size` prompts of `seq_len` tokens."""
        flops = int(self.model.flops(batch_size, seq_len, logits_to_keep=1).forward)
        return self._bound(batch_size * seq_len, batch_size * seq_len, flops, batch_size, seq_len)

    def decode(self, *, batch_size: int = 1, seq_len: int = 4096) -> Bound:
        """A step that gives each of `batch_size` sequences one token after `seq_len`."""
        flops = int(self.model.flops(batch_size, seq_len, decode=1, latents="absorbed").forward)
        return self._bound(batch_size, batch_size, flops, batch_size, seq_len)

    def _bound(self, tokens: int, at_once: int, flops: int, batch_size: int, seq_len: int) -> Bound:
        cache = int(self.model.kv_cache(batch_size, seq_len, self.cache_dtype).bytes)
        return Bound(tokens, flops, self._read(at_once), cache, self.peak, self.bandwidth)

    def fits(self, batch_size: int, seq_len: int) -> bool:
        """Whether weights and cache have room; nothing else is counted."""
        cache = int(self.model.kv_cache(batch_size, seq_len, self.cache_dtype).bytes)
        return self.weights + cache <= self.gpus * self.device.usable_bytes

    def users(self, *, seq_len: int = 4096, seconds: float | None = None) -> tuple[int, str]:
        """The most sequences whose step takes no longer than `seconds`, and what keeps it from one more."""

        def why_not(batch: int) -> str:
            if not self.fits(batch, seq_len):
                return "memory to hold the cache"
            step = self.decode(batch_size=batch, seq_len=seq_len)
            return step.limit if seconds is not None and step.seconds > seconds else ""

        low, high = 0, 1
        while high <= MOST_SEQUENCES and not why_not(high):
            low, high = high, 2 * high
        if high > MOST_SEQUENCES:
            return low, "nothing that is counted here"
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if why_not(middle) else (middle, high)
        return low, why_not(high)
