"""Memory of a training step: weights, gradients, optimizer state, activations, and the peak.

The peak is the largest sum of all that is alive at once, at any op of the forward pass, the
backward pass or the optimizer's step; the moment at which it is reached has a name. It is what
PyTorch's own MemTracker measures: what an allocator rounds up or leaves unused is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.poly import Poly, as_poly
from sizer.core.record import Record
from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row, walk
from sizer.measures.lora import adapters
from sizer.measures.optimizers import Optimizer, Weight, optimizer_named, step_bytes
from sizer.measures.step.simulate import Settings, step
from sizer.measures.step.tape import BYTES, Moment, Tape

if TYPE_CHECKING:
    from sizer.model import Model

# Buffers are kept in this type whatever that of the weights: rotary frequencies, masks.
BUFFER_BYTES = 4
# The masks that GPT-2's published files carry are no part of today's modules.
OLD_MASKS = ("attn.bias", "attn.masked_bias")
# Model types whose step was measured, op by op; others follow the same rules, unmeasured.
MEASURED = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "bert")
# What a configuration without a model type must have to be one of them.
USUAL = {
    "gated": True,
    "norm": "rms",
    "norms": ("input_layernorm", "", "post_attention_layernorm", ""),
    "sinks": False,
    "embed_scale": False,
    "square_output": False,
    "bias": True,
}


class Training(Record):
    """Bytes of a training step.

    `activations_bytes`: what the forward pass keeps for the backward pass. `peak_bytes`: the most
    that is ever alive, at `moment`. `peaks`: the same for each phase. `label`: "exact" where the
    step is PyTorch's own, op by op, else "estimate". `assumptions` say what was taken for granted.
    """

    __slots__ = (
        "activations_bytes",
        "assumptions",
        "buffers_bytes",
        "gradients_bytes",
        "label",
        "moment",
        "optimizer_bytes",
        "peak_bytes",
        "peaks",
        "sources",
        "weights_bytes",
    )

    def __init__(
        self,
        weights_bytes: Dim,
        buffers_bytes: Dim,
        gradients_bytes: Dim,
        optimizer_bytes: Dim,
        activations_bytes: Dim,
        peak_bytes: Dim,
        moment: str,
        peaks: dict[str, Dim],
        label: str,
        assumptions: Sequence[str] = (),
        sources: Sequence[str] = (),
    ) -> None:
        self.weights_bytes = weights_bytes
        self.buffers_bytes = buffers_bytes
        self.gradients_bytes = gradients_bytes
        self.optimizer_bytes = optimizer_bytes
        self.activations_bytes = activations_bytes
        self.peak_bytes = peak_bytes
        self.moment = moment
        self.peaks = peaks
        self.label = label
        self.assumptions = assumptions
        self.sources = sources


class Standing(Record):
    """What is there before the step begins and after it ends, and the parameters that are trained."""

    __slots__ = ("buffers", "gradients", "optimizer", "trained", "weights")

    def __init__(
        self, weights: Dim, buffers: Dim, gradients: Dim, optimizer: Dim, trained: list[Weight]
    ) -> None:
        self.weights = weights
        self.buffers = buffers
        self.gradients = gradients
        self.optimizer = optimizer
        self.trained = trained


def training(
    model: Model,
    settings: Settings,
    *,
    optimizer: str = "adamw",
    foreach: bool = False,
    master_weights: bool = False,
) -> Training:
    """The memory of one step of a training run that is under way.

    >>> import sizer
    >>> model = sizer.load("gpt2-small")
    >>> found = training(model, Settings(batch_size=2, seq_len=128, precision="fp32", attention="eager"))
    >>> found.weights_bytes, found.peak_bytes
    (497759232, 2351281752)
    """
    chosen = optimizer_named(optimizer)
    tape = step(model, settings)
    there = standing(model.rows("transformers"), settings, chosen, master_weights=master_weights)
    ids = settings.batch_size * settings.seq_len * BYTES["int64"]
    fixed = there.weights + there.buffers + there.optimizer
    extra = _step_extra(chosen, there, there, foreach=foreach)
    peaks = {phase: fixed + moment.n_bytes for phase, moment in tape.peaks.items()}
    peaks["step"] = fixed + there.gradients + ids + extra
    phase = max(peaks, key=lambda name: peaks[name])
    ledger = sum((entry.new * entry.layers for entry in tape.saved), start=0)
    assumptions = _assumptions(model, settings, foreach, master_weights, there)
    return Training(
        there.weights,
        there.buffers,
        there.gradients,
        there.optimizer,
        ledger,
        peaks[phase],
        name_of(tape.peaks.get(phase)),
        peaks,
        "exact" if chosen.exact and measured(model, settings) and not master_weights else "estimate",
        assumptions,
        [f"optimizer: {chosen.source}"],
    )


def measured(model: Model, settings: Settings) -> bool:
    """Whether the step of such a model was compared with a real one, op by op."""
    c = model.config
    if settings.lora is not None or (model.architecture == "bert" and settings.precision == "autocast"):
        return False
    if getattr(c, "d_rotary", None) != (getattr(c, "d_head", None) if hasattr(c, "d_rotary") else None):
        return False
    if model.hf_config is not None:
        return model.hf_config.get("model_type") in MEASURED
    usual = all(getattr(c, name, value) == value for name, value in USUAL.items())
    return model.architecture in MEASURED and usual


def name_of(moment: Moment | None) -> str:
    """The name of a moment: what runs then."""
    if moment is None:
        return "optimizer step"
    if moment.module == "loss":
        return f"{moment.phase} of the loss"
    return f"{moment.phase} of {moment.module} ({moment.op.removesuffix('_backward')})"


def training_formula(
    model: Model,
    settings: Settings,
    *,
    optimizer: str = "adamw",
    foreach: bool = False,
    master_weights: bool = False,
) -> tuple[Training, Poly]:
    """The answer in numbers, and the closed form of its peak: the sum that is alive at that moment.

    At other sizes another moment may be the largest; the form is that of this one.
    """
    numbers = training(model, settings, optimizer=optimizer, foreach=foreach, master_weights=master_weights)
    chosen = optimizer_named(optimizer)
    run = step(model, settings)
    rows = walk(model.symbolic_tree("transformers"))
    there = standing(rows, settings, chosen, master_weights=master_weights)
    total = there.weights + there.buffers + there.optimizer
    phase = max(numbers.peaks, key=lambda name: numbers.peaks[name])
    if phase == "step":
        batch, length = settings.lettered()
        counted = standing(model.rows("transformers"), settings, chosen, master_weights=master_weights)
        extra = _step_extra(chosen, counted, there, foreach=foreach)
        return numbers, as_poly(total + there.gradients + batch * length * BYTES["int64"] + extra)
    at = run.peaks[phase].index
    letters: Tape = step(model, settings, letters_of=run, watch=(at,))
    return numbers, as_poly(total + letters.watched[at])


def standing(
    rows: Sequence[Row], settings: Settings, optimizer: Optimizer, *, master_weights: bool = False
) -> Standing:
    """Weights, buffers, gradients and optimizer state of the rows of a tree."""
    width = 2 if settings.precision == "bf16" else 4
    weights: Dim = 0
    buffers: Dim = 0
    trained: list[Weight] = []
    for row in _registered(rows):
        leaf = row.leaf
        if isinstance(leaf, Buffer) and leaf.tied_to is None and not row.name.endswith(OLD_MASKS):
            buffers = buffers + row.numel * row.copies * buffer_bytes(row.name)
        if not isinstance(leaf, Param) or leaf.tied_to is not None:
            continue
        weights = weights + row.numel * row.copies * width
        if settings.lora is None and leaf.trainable and not _frozen(row.name, settings.frozen):
            shape = tuple(axis.size for axis in leaf.axes)
            hidden = leaf.use == "matmul" and row.component not in ("head", "embedding", "position")
            trained.append(Weight(shape, row.copies, width, hidden))
    if settings.lora is not None:
        for adapter in adapters(rows, settings.lora):
            weights = weights + adapter.params * adapter.copies * 4
            trained += [Weight((size,), adapter.copies, 4, False) for size in adapter.sizes]
    gradients: Dim = 0
    state: Dim = 0
    for weight in trained:
        gradients = gradients + weight.numel * weight.copies * weight.n_bytes
        kept = weight
        if master_weights:
            state = state + weight.numel * weight.copies * 4
            kept = Weight(weight.shape, weight.copies, 4, weight.is_hidden_matrix)
        state = state + optimizer.state(kept) * weight.copies
    return Standing(weights, buffers, gradients, state, trained)


def buffer_bytes(name: str) -> int:
    """Bytes of an element of a buffer: places and types are whole numbers of 64 bits."""
    return 8 if name.endswith("_ids") else BUFFER_BYTES


def _frozen(name: str, frozen: Sequence[str]) -> bool:
    return any(name.replace(".{}", "") == part or name.startswith(f"{part}.") for part in frozen)


def _step_extra(optimizer: Optimizer, numbers: Standing, there: Standing, *, foreach: bool) -> Dim:
    """What the optimizer's step holds for a moment; the numbers say for which parameter it is the most."""
    if not optimizer.step_copies:
        return 0
    if foreach:
        # The roots of all second moments at once.
        return there.gradients
    _, place = step_bytes(optimizer, [weight.numel * weight.n_bytes for weight in numbers.trained])
    weight, before = there.trained[place], there.trained[place - 1]
    return 2 * weight.numel * weight.n_bytes + (before.numel * before.n_bytes if place else 0)


def _registered(rows: Sequence[Row]) -> list[Row]:
    """The rows in the order in which modules register their parameters, which optimizers follow.

    Modules of transformers make the RMSNorms of a block after its other parts.
    """
    ordered: list[Row] = []
    i = 0
    while i < len(rows):
        if not rows[i].frames:
            ordered.append(rows[i])
            i += 1
            continue
        outer, j = rows[i].name.partition(".{}")[0], i
        while j < len(rows) and rows[j].frames and rows[j].name.partition(".{}")[0] == outer:
            j += 1
        inside = rows[i:j]
        last = [r for r in inside if r.kind == "rms_norm" and r.name.partition(".{}.")[2].count(".") == 1]
        ordered += [r for r in inside if r not in last] + last
        i = j
    return ordered


def _assumptions(
    model: Model, settings: Settings, foreach: bool, master_weights: bool, there: Standing
) -> list[str]:
    notes = [
        "what PyTorch's tensors take; allocator rounding, workspaces and fragmentation come on top",
        "no dropout; gradients are freed before the next forward pass",
        "attention: "
        + (
            "op by op"
            if settings.attention == "eager"
            else "a fused kernel that keeps q, k, v and its output"
        ),
    ]
    if not measured(model, settings):
        notes.append(f"{model.architecture} is taken to run as its builder says; its step was not measured")
    if master_weights:
        notes.append("an fp32 copy of the weights and fp32 optimizer state, both counted as optimizer state")
    if settings.lora is not None:
        notes.append("LoRA: base weights are frozen; adapters are kept in fp32, as PEFT does")
    context = getattr(model.config, "n_ctx", None)
    if isinstance(context, int) and isinstance(settings.seq_len, int) and settings.seq_len > context:
        notes.append(f"seq_len = {settings.seq_len} is beyond the context of {context} tokens")
    return notes
