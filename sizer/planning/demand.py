"""What a search asks of a model again and again, each answer worked out once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from sizer.core.tree import Op, Param
from sizer.errors import InvalidConfig
from sizer.measures.cache_kinds import Kept as KeptState
from sizer.measures.cache_kinds import kept as kept_states
from sizer.measures.cache_layers import Setup
from sizer.measures.kv_cache import cache_of
from sizer.measures.memory import training
from sizer.measures.optimizers import optimizer_named
from sizer.measures.standing import buffer_bytes, standing
from sizer.measures.step.simulate import Settings
from sizer.planning import activations
from sizer.planning.job import PRECISIONS, Job
from sizer.planning.layout import Layout
from sizer.planning.pieces import Pieces, plan_of
from sizer.planning.weights import Format

if TYPE_CHECKING:
    from sizer.model import Model

T = TypeVar("T")
# An engine's cache, by the policy that describes it.
POLICIES = {"none": "architecture", "transformers": "transformers", "vllm": "vllm", "llama.cpp": "llama.cpp"}


class Demand:
    """A model with what a search asks of it again and again."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.rows = model.rows("transformers")
        self._found: dict[object, object] = {}

    def once(self, key: object, ask: Callable[[], T]) -> T:
        """An answer that is worked out the first time it is asked for."""
        if key not in self._found:
            self._found[key] = ask()
        return self._found[key]  # type: ignore[return-value]

    def pieces(self, job: Job, layout: Layout) -> Pieces:
        """Elements of a rank, by layer."""
        if layout.ep > 1 and not any(row.component == "experts" for row in self.rows):
            raise InvalidConfig(f"ep = {layout.ep}: this architecture has no experts to share; leave ep out")
        framework = "megatron" if job.trains else "vllm"
        etp = layout.tp if job.trains or layout.ep == 1 else 1
        groups = getattr(self.model.config, "n_groups", None)
        key = ("pieces", framework, layout.tp, layout.ep, etp)
        return self.once(
            key, lambda: Pieces(self.rows, plan_of(framework, layout.tp, layout.ep, etp, groups))
        )

    def weights(self, form: Format, linear: int, others: int, channels: int) -> int:
        """Bytes of so many elements of matrices and of other tensors, and outputs of those matrices.

        In a packed format, their share of the whole checkpoint.
        """
        if not form.packed:
            return form.n_bytes(linear, others, channels)
        from sizer.measures.size.memory_form import weights

        whole = self.once(("packed", form.name), lambda: weights(self.model, form.name, "bf16")[0])
        return -(-whole * (linear + others) // self.total())

    @cached_property
    def buffers(self) -> int:
        """Bytes of buffers: rotary frequencies, masks that are still kept."""
        return sum(buffer_bytes(row) for row in self.rows)

    @cached_property
    def vocabulary(self) -> int:
        """Logits of a token."""
        return max(
            (
                int(row.leaf.axes[0].size)
                for row in self.rows
                if row.component == "head" and isinstance(row.leaf, Param) and row.leaf.use == "matmul"
            ),
            default=0,
        )

    @cached_property
    def states(self) -> list[KeptState]:
        """What decoding keeps, by kind of layer."""
        return kept_states(self.rows)

    @cached_property
    def rotary(self) -> int:
        """Bytes of the table of cosines and sines that vLLM makes for the whole context."""
        width = max(
            (
                int(row.leaf.sizes["d_qk"] or 0)
                for row in self.rows
                if isinstance(row.leaf, Op) and row.leaf.kind == "attention" and "rotary" in row.leaf.traits
            ),
            default=0,
        )
        context = getattr(self.model.config, "n_ctx", None)
        return 2 * width * context if isinstance(context, int) else 0

    def optimizer(self, job: Job) -> Fraction:
        """Bytes of optimizer state for one parameter on average, an fp32 copy of the weights included."""

        def ask() -> Fraction:
            how = PRECISIONS[job.precision]
            settings = Settings(precision=how.step)
            chosen = optimizer_named(job.optimizer)
            found = standing(self.rows, settings, chosen, master_weights=how.master)
            return Fraction(int(found.optimizer), int(found.weights) // how.weight)

        return self.once(("optimizer", job.optimizer, job.precision), ask)

    def kept(self, job: Job, layout: Layout, micro: int) -> activations.Kept:
        """Activations of a micro-batch; context-parallel ranks have a part of each sequence."""
        length = -(-job.seq_len // layout.cp)
        step = PRECISIONS[job.precision].step
        key = ("kept", micro, length, step, job.attention, layout.checkpointing)
        return self.once(
            key,
            lambda: activations.kept(
                self.model,
                batch_size=micro,
                seq_len=length,
                precision=step,
                attention=job.attention,
                checkpointing=layout.checkpointing,
            ),
        )

    def peak(self, job: Job, layout: Layout, micro: int) -> int:
        """The peak of a step on one rank, as `sizer memory` has it."""
        how = PRECISIONS[job.precision]
        settings = Settings(
            batch_size=micro,
            seq_len=job.seq_len,
            precision=how.step,
            attention=job.attention,
            checkpointing=layout.checkpointing,
            offload=layout.offload,
        )
        how_long = job.seq_len, job.precision, job.optimizer, job.attention
        key = ("peak", micro, *how_long, layout.checkpointing, layout.offload)
        return self.once(
            key,
            lambda: int(
                training(self.model, settings, optimizer=job.optimizer, master_weights=how.master).peak_bytes
            ),
        )

    def working(self, batch: int, length: int, width: int) -> int:
        """What a forward pass holds."""
        return self.once(
            ("working", batch, length, width),
            lambda: activations.working(self.model, batch_size=batch, seq_len=length, width=width),
        )

    def cache(self, job: Job, layout: Layout) -> int:
        """Bytes that the sequences of one replica keep in all layers, on one tensor-parallel rank."""
        batch = -(-(job.batch_size or 1) // layout.dp)
        key = ("cache", job.engine, job.cache_dtype, layout.tp, batch, job.seq_len)
        return self.once(
            key, lambda: int(cache_of(self.states, setup_of(job, layout, batch), POLICIES[job.engine]).bytes)
        )

    def total(self) -> int:
        """Parameters, tied ones once."""
        return self.once("total", lambda: int(self.model.count().total))


def setup_of(job: Job, layout: Layout, batch: int) -> Setup:
    """How the engine runs its cache."""
    dtype = "bf16" if job.cache_dtype == "fp64" else job.cache_dtype
    batched = job.batched_tokens or 2048
    return Setup(batch, job.seq_len, job.seq_len, dtype, batched=batched, tp=layout.tp)
