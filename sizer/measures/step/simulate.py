"""Run one training step of a model, over numbers or over letters."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

from sizer.core.dims import Dim
from sizer.core.poly import symbol
from sizer.core.tree import Module
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.passes import check_positive
from sizer.measures.recompute import checkpointing_of
from sizer.measures.step.alone import alone
from sizer.measures.step.experts import IMPLEMENTATIONS
from sizer.measures.step.layers import blocks, runs_of
from sizer.measures.step.moments import Moment
from sizer.measures.step.run import Run
from sizer.measures.step.tape import Tape
from sizer.measures.step.whole import prefill, train

if TYPE_CHECKING:
    from sizer.measures.lora import LoRA
    from sizer.model import Model

# "fp8": weights in bf16, the matrices of blocks multiplied in 8 bits (torchao's Float8Linear).
PRECISIONS = ("fp32", "bf16", "autocast", "fp8")
# "flash" saves what torch's fused CPU kernel saves: q, k, v, the output, and a number for each query.
KERNELS = ("eager", "sdpa", "flash")
# What leaves the device: the optimizer's state and step (ZeRO-Offload, Ren et al. 2021), gradients as
# well, as soon as each is there, or the inputs of what is run again (DeepSpeed's cpu_checkpointing).
OFFLOADS = ("none", "optimizer", "gradients", "activations")
# Each chunk of the loss is run, so that their number bounds the time.
MOST_CHUNKS = 1024
LOSSES = ("causal", "masked", "seq2seq")


class Settings:
    """How a step runs: sizes, types, the attention kernel, checkpointing, adapters."""

    def __init__(
        self,
        *,
        batch_size: Dim = 1,
        seq_len: Dim = 1024,
        precision: str = "bf16",
        attention: str = "sdpa",
        checkpointing: bool | str = False,
        lora: LoRA | None = None,
        frozen: tuple[str, ...] = (),
        experts: str = "grouped_mm",
        offload: str = "none",
        loss_chunks: int = 1,
    ) -> None:
        check_positive(batch_size=batch_size, seq_len=seq_len)
        if precision not in PRECISIONS:
            raise UnknownName("precision", precision, PRECISIONS, hint=", ".join(PRECISIONS))
        if precision == "fp8" and lora is not None:
            raise InvalidConfig("precision = 'fp8' beside adapters is not followed; take bf16")
        if attention not in KERNELS:
            raise UnknownName("attention kernel", attention, KERNELS, hint=", ".join(KERNELS))
        mode = checkpointing_of(checkpointing)
        if offload not in OFFLOADS:
            raise UnknownName("thing to offload", offload, OFFLOADS, hint=", ".join(OFFLOADS))
        if offload == "activations" and mode == "none":
            raise InvalidConfig(
                "offload = 'activations' moves what checkpoints keep to the host; "
                "add --checkpointing full or selective"
            )
        if isinstance(loss_chunks, bool) or not 1 <= loss_chunks <= MOST_CHUNKS:
            raise InvalidConfig(f"loss_chunks = {loss_chunks} is not a number from 1 to {MOST_CHUNKS}")
        if experts not in IMPLEMENTATIONS:
            raise UnknownName(
                "way to run experts", experts, tuple(IMPLEMENTATIONS), hint=", ".join(IMPLEMENTATIONS)
            )
        self.experts = experts
        self.batch_size = batch_size
        self.seq_len = seq_len
        self.precision = precision
        self.attention = attention
        self.checkpointing = mode in ("full", "matmuls")
        # Layers run again but for their matrix products (torch's create_selective_checkpoint_contexts).
        self.keeps_products = mode == "matmuls"
        # Selective: the core of attention alone runs again (Korthikanti et al. 2022, section 5).
        self.selective = mode == "selective"
        self.offload = offload
        self.loss_chunks = loss_chunks
        self.lora = lora
        # Modules that are not trained, by the beginning of their names.
        self.frozen = frozen

    def at(self, **sizes: Dim) -> Settings:
        """The same with another `batch_size` or `seq_len`."""
        other = copy(self)
        vars(other).update(sizes)
        return other

    def lettered(self) -> tuple[Dim, Dim]:
        """The letters of batch and length."""
        return symbol("B"), symbol("T")


def settings(*, lora: LoRA | str | None = None, frozen: Iterable[str] = (), **rest: Any) -> Settings:
    """Settings from what a caller gives: a LoRA may be text, `r=8,target=q_proj+v_proj`."""
    if isinstance(lora, str):
        from sizer.measures.lora import parse

        lora = parse(lora)
    return Settings(lora=lora, frozen=tuple(frozen), **rest)


def step(
    model: Model,
    settings: Settings,
    *,
    letters_of: Tape | None = None,
    watch: Moment | None = None,
    backward: bool = True,
) -> Tape:
    """One training step; over letters it follows the choices of `letters_of`, the run over numbers."""
    # First what no setting changes.
    tree = described(model, model.tree("transformers"))
    task = model.config.task
    if task not in LOSSES:
        raise InvalidConfig(
            f"{model.name}: a training step needs a loss, and task = {task!r} has none here; "
            f"set task to {' or '.join(LOSSES)}"
        )
    _check_frozen(model, settings.frozen)
    symbolic = letters_of is not None
    lettered = model.symbolic_tree("transformers") if symbolic else None
    found = blocks(tree)
    others = blocks(lettered) if lettered is not None else [None] * len(found)
    plans = [
        runs_of(block, other, windows=settings.attention == "sdpa")
        for block, other in zip(found, others, strict=True)
    ]
    tape = Tape(letters_of.choices if letters_of is not None else None, watch)
    batch, length = settings.lettered() if symbolic else (settings.batch_size, settings.seq_len)
    run = Run(
        tape,
        batch=batch,
        length=length,
        precision=settings.precision,
        attention=settings.attention,
        checkpointing=settings.checkpointing,
        lora=settings.lora,
        frozen=settings.frozen,
        each_named=backward,
        routed=settings.experts,
        core_again=settings.selective,
        keeps_products=settings.keeps_products,
        offload_activations=settings.offload == "activations",
        loss_chunks=settings.loss_chunks,
    )
    tape.gradients_leave = settings.offload == "gradients"
    with alone():
        train(run, lettered or tree, plans, task, backward=backward)
    return tape


def infer(model: Model, settings: Settings, precision: str) -> Dim:
    """The most that a forward pass without a graph holds, the logits of the last token included."""
    tree = model.tree("transformers")
    tape = Tape()
    run = Run(
        tape,
        batch=settings.batch_size,
        length=settings.seq_len,
        precision=precision,
        attention=settings.attention,
        checkpointing=False,
    )
    with alone():
        prefill(run, tree, [runs_of(block) for block in blocks(tree)])
    return tape.peaks["forward"].n_bytes


def _check_frozen(model: Model, frozen: Iterable[str]) -> None:
    """Refuse parts to freeze that the model has not, and single layers, which stand for each other."""
    if not frozen:
        return
    names = {row.name.partition(".{}")[0] for row in model.rows("transformers")}
    known = {name.rsplit(".", n)[0] for name in names for n in range(name.count(".") + 1)}
    for part in frozen:
        if part not in known:
            hint = f"parts are {', '.join(sorted(known))}; of layers, all or none"
            raise UnknownName("module to freeze", part, sorted(known), hint=hint)


def described(model: Model, tree: Module) -> Module:
    """The tree, if it says how values pass through its blocks."""
    found = blocks(tree)
    if not found or any(block.flow != "block" for block in found):
        raise InvalidConfig(
            f"{model.name}: what {model.architecture} keeps for its backward pass is not described yet; "
            "sizer memory --estimate korthikanti gives a published formula"
        )
    return tree
