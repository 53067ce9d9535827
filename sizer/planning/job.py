"""What is to be run: a job, checked."""

from __future__ import annotations

from sizer.core.config import check_size
from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.cache_dtypes import block
from sizer.measures.optimizers import optimizer_named
from sizer.measures.step.simulate import KERNELS
from sizer.planning.weights import format_named

MODES = ("infer", "train")
ENGINES = ("none", "transformers", "vllm", "llama.cpp")
# No run has more of anything; it bounds every search.
MOST_GPUS, MOST_BATCH, MOST_TOKENS = 2**20, 2**24, 2**28


class Precision(Record):
    """How training keeps numbers: bytes of a weight, of a gradient and of each optimizer state, whether
    there is an fp32 copy of the weights, and the types that the step is run in."""

    __slots__ = ("gradient", "master", "source", "state", "step", "weight")

    def __init__(self, weight: int, gradient: int, state: int, master: bool, step: str, source: str) -> None:
        self.weight = weight
        self.gradient = gradient
        self.state = state
        self.master = master
        self.step = step
        self.source = source


PRECISIONS = {
    "mixed": Precision(
        2,
        2,
        4,
        True,
        "bf16",
        "Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1: 2 + 2 + 12 bytes (Adam)",
    ),
    "megatron": Precision(
        2, 4, 4, True, "bf16", "Megatron-LM: gradients are summed in fp32, 2 + 4 + 12 bytes"
    ),
    "bf16": Precision(2, 2, 2, False, "bf16", "everything in 16 bits, optimizer states too"),
    "fp32": Precision(4, 4, 4, False, "fp32", "everything in 32 bits"),
    "autocast": Precision(
        4, 4, 4, False, "autocast", "torch.autocast: 32 bits, with 16-bit copies for matrices"
    ),
}


class Job(Record):
    """What is run.

    `batch_size`: sequences of a training step, or sequences that are served at once, over all ranks.
    `micro_batch`: sequences one rank trains at once. `dtype`: the format of weights that are served.
    `utilization`: the share of the memory that an engine takes. `batched_tokens`: those of one pass.
    `gpu_layers`: layers that llama.cpp keeps on the accelerator. `overhead`: bytes of the runtime,
    where the caller knows better than the estimate. `overlap`: the share of the traffic that hides
    behind computing, of which only the caller knows. `host_memory`: bytes of the host for each
    accelerator; where they are known, a search looks at layouts that use them.
    """

    __slots__ = (
        "attention",
        "batch_size",
        "batched_tokens",
        "dtype",
        "engine",
        "gpu_layers",
        "host_memory",
        "kv_dtype",
        "micro_batch",
        "mode",
        "optimizer",
        "overhead",
        "overlap",
        "precision",
        "seq_len",
        "utilization",
    )

    def __init__(
        self,
        mode: str = "infer",
        batch_size: int | None = None,
        seq_len: int = 4096,
        *,
        micro_batch: int | None = None,
        dtype: str = "bf16",
        kv_dtype: str | None = None,
        engine: str = "none",
        utilization: float | None = None,
        batched_tokens: int | None = None,
        precision: str = "mixed",
        optimizer: str = "adamw",
        attention: str = "sdpa",
        gpu_layers: int | None = None,
        overhead: int | None = None,
        overlap: float = 0.0,
        host_memory: int | None = None,
    ) -> None:
        known_name("mode", mode, MODES)
        known_name("engine", engine, ENGINES)
        known_name("precision", precision, tuple(PRECISIONS))
        known_name("attention kernel", attention, KERNELS)
        check_counts(MOST_BATCH, batch_size=batch_size, micro_batch=micro_batch)
        check_counts(MOST_TOKENS, seq_len=seq_len, batched_tokens=batched_tokens)
        optimizer_named(optimizer)
        format_named(dtype)
        if kv_dtype is not None:
            block(kv_dtype)
        if utilization is not None and not 0 < utilization <= 1:
            raise InvalidConfig(f"gpu_memory_utilization = {utilization} is not between 0 and 1")
        if gpu_layers is not None and (gpu_layers < 0 or engine != "llama.cpp"):
            raise InvalidConfig(
                f"gpu_layers = {gpu_layers}: a number of layers, 0 or more, with engine = llama.cpp alone"
            )
        if overhead is not None and overhead < 0:
            raise InvalidConfig(f"overhead = {overhead} bytes is negative")
        if not 0 <= overlap <= 1:
            raise InvalidConfig(f"overlap = {overlap} is not a share between 0 and 1")
        if host_memory is not None and mode != "train":
            raise InvalidConfig(f"host_memory = {host_memory} is of training, and mode = infer serves")
        if mode == "train" and engine != "none":
            raise InvalidConfig(f"engine = {engine} serves and mode = train trains; leave one out")
        self.mode = mode
        self.batch_size = batch_size
        self.seq_len = seq_len
        self.micro_batch = micro_batch
        self.dtype = dtype
        self.kv_dtype = kv_dtype
        self.engine = engine
        self.utilization = utilization
        self.batched_tokens = batched_tokens
        self.precision = precision
        self.optimizer = optimizer
        self.attention = attention
        self.gpu_layers = gpu_layers
        self.overhead = overhead
        self.overlap = overlap
        self.host_memory = host_memory

    @property
    def trains(self) -> bool:
        """Whether it is training."""
        return self.mode == "train"

    @property
    def cache_dtype(self) -> str:
        """The type of the cache: 16 bits where weights are narrower (an engine's `auto`)."""
        if self.kv_dtype is not None:
            return self.kv_dtype
        return self.dtype if format_named(self.dtype).bits >= 16 else "bf16"

    @property
    def share(self) -> float:
        """The share of the memory that may be used; vLLM's default is 0.9."""
        if self.utilization is not None:
            return self.utilization
        return 0.9 if self.engine == "vllm" else 1.0


def known_name(kind: str, name: str, known: tuple[str, ...]) -> None:
    """Refuse a name that is none of those."""
    if name not in known:
        raise UnknownName(kind, name, known, hint=", ".join(known))


def check_counts(most: int, **given: int | None) -> None:
    """Refuse what is no number of things, or more than any run has."""
    for name, value in given.items():
        check_size(name, value)
        if value is not None and value > most:
            raise InvalidConfig(f"{name} = {value} is more than {most:,}, the most that is looked at")
