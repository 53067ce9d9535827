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
from sizer.core.walk import walk
from sizer.measures.optimizers import optimizer_named
from sizer.measures.standing import Standing, standing, step_extra
from sizer.measures.step.moments import Moment
from sizer.measures.step.simulate import Settings, step
from sizer.measures.step.tensors import BYTES

if TYPE_CHECKING:
    from sizer.model import Model

# Model types whose step was measured, op by op; others follow the same rules, unmeasured.
MEASURED = (
    *("gpt2", "llama", "mistral", "qwen2", "qwen3", "bert", "t5"),
    *("roberta", "xlm-roberta", "mt5"),
    *("arcee", "granite", "seed_oss", "smollm3", "starcoder2", "jais2", "ministral"),
    *("gemma", "gemma2", "gemma3_text", "olmo2", "olmo3", "glm", "glm4", "cohere", "cohere2"),
    *("phi", "phi3", "stablelm"),
    *("mixtral", "deepseek_v3", "qwen3_moe", "olmoe", "mellum"),
)
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
    `host_bytes`: optimizer state and gradients that are offloaded, and in no other number.
    """

    __slots__ = (
        "activations_bytes",
        "assumptions",
        "buffers_bytes",
        "gradients_bytes",
        "host_bytes",
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
        host_bytes: Dim = 0,
    ) -> None:
        self.host_bytes = host_bytes
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


def training(
    model: Model,
    settings: Settings,
    *,
    optimizer: str = "adamw",
    foreach: bool = False,
    master_weights: bool = False,
    quant: str | None = None,
) -> Training:
    """The memory of one step of a training run that is under way.

    `quant`: the format of the frozen weights beside adapters, "nf4" for QLoRA (Dettmers et al. 2023).

    >>> import sizer
    >>> model = sizer.load("gpt2-small")
    >>> found = training(model, Settings(batch_size=2, seq_len=128, precision="fp32", attention="eager"))
    >>> found.weights_bytes, found.peak_bytes
    (497759232, 2351281752)
    """
    chosen = optimizer_named(optimizer)
    tape = step(model, settings)
    there = standing(model.rows("transformers"), settings, chosen, master_weights=master_weights)
    unpacked: Dim = 0
    if quant is not None:
        from sizer.measures.size.memory_form import frozen

        packed, unpacked = frozen(model, quant, settings)
        there = there._replace(weights=packed + there.adapters)
    ids = settings.batch_size * settings.seq_len * BYTES["int64"]
    fixed = there.weights + there.buffers + there.optimizer
    extra = step_extra(chosen, there, there, foreach=foreach)
    host: Dim = 0
    if settings.offload in ("optimizer", "gradients"):
        # The optimizer's state is on the host, where its step runs; gradients too, or until then.
        host, extra = there.optimizer, 0
        fixed = there.weights + there.buffers
        there = there._replace(optimizer=0)
        if settings.offload == "gradients":
            host = host + there.gradients
            there = there._replace(gradients=0)
    # A packed matrix is unpacked where it is multiplied; at which moment is not followed.
    moments = tape.peaks
    peaks = {phase: fixed + moment.n_bytes + unpacked for phase, moment in moments.items()}
    peaks["step"] = fixed + there.gradients + ids + extra
    phase = max(peaks, key=lambda name: peaks[name])
    ledger = sum((entry.new * entry.layers for entry in tape.saved), start=0)
    assumptions = _assumptions(model, settings, foreach, master_weights, there)
    if quant is not None:
        assumptions.append(
            f"frozen weights in {quant}; the peak of a pass has {unpacked:,} bytes for the largest matrix "
            "unpacked, wherever it is reached: an upper bound. What is not packed keeps its type: PEFT's "
            "prepare_model_for_kbit_training would bring it to fp32"
        )
    return Training(
        there.weights,
        there.buffers,
        there.gradients,
        there.optimizer,
        ledger,
        peaks[phase],
        name_of(moments.get(phase)),
        peaks,
        "exact" if chosen.exact and measured(model, settings) and not master_weights else "estimate",
        assumptions,
        [f"optimizer: {chosen.source}", *_sources(settings)],
        host,
    )


def _sources(settings: Settings) -> list[str]:
    found = []
    if settings.selective:
        found.append("selective checkpointing: Korthikanti et al. 2022, arXiv:2205.05198, section 5")
    if settings.keeps_products:
        found.append(
            "checkpointing: torch.utils.checkpoint.create_selective_checkpoint_contexts, "
            "with mm, addmm, bmm and fused attention kept"
        )
    if settings.precision == "fp8":
        found.append("fp8: torchao 0.18, float8/float8_linear.py, tensorwise dynamic scaling, run eagerly")
    if settings.offload in ("optimizer", "gradients"):
        found.append("offload: ZeRO-Offload, Ren et al. 2021, arXiv:2101.06840")
    if settings.offload == "activations":
        found.append(
            "offload: torch.autograd.graph.save_on_cpu around checkpoints; DeepSpeed's cpu_checkpointing"
        )
    return found


def measured(model: Model, settings: Settings) -> bool:
    """Whether the step of such a model was compared with a real one, op by op."""
    c = model.config
    # In 8 bits what is kept was compared, and the copies of a moment were not.
    if settings.lora is not None or settings.precision == "fp8":
        return False
    # Autocast keeps its cast of the head for all chunks of the loss, which is not followed.
    if settings.offload != "none" or (settings.loss_chunks > 1 and settings.precision == "autocast"):
        return False
    # Experts in turn depend on how the router spreads the tokens.
    if settings.experts == "loop" or (settings.experts == "batched_mm" and settings.precision == "autocast"):
        return False
    traits = c.ways.core if hasattr(c, "ways") else ()
    # Part of a head is turned by those alone whose code cuts it; no kernel caps the scores.
    partial = hasattr(c, "d_head") and getattr(c, "d_rotary", c.d_head) != c.d_head
    if (partial and "parted" not in traits) or ("capped" in traits and settings.attention != "eager"):
        return False
    if model.hf_config is not None:
        # A decoder that is run as an encoder sees all tokens, under masks of its own.
        both_ways = model.hf_config.get("use_bidirectional_attention")
        return model.hf_config.get("model_type") in MEASURED and not both_ways
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
    away = settings.offload in ("optimizer", "gradients")
    total = there.weights + there.buffers + (0 if away else there.optimizer)
    phase = max(numbers.peaks, key=lambda name: numbers.peaks[name])
    if phase == "step":
        batch, length = settings.lettered()
        counted = standing(model.rows("transformers"), settings, chosen, master_weights=master_weights)
        extra = 0 if away else step_extra(chosen, counted, there, foreach=foreach)
        left: Dim = 0 if settings.offload == "gradients" else there.gradients
        return numbers, as_poly(total + left + batch * length * BYTES["int64"] + extra)
    letters = step(model, settings, letters_of=run, watch=run.peaks[phase])
    return numbers, as_poly(total + letters.seen())


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
    if settings.offload != "none":
        notes.append("what is offloaded is on the host; buffers of copies on their way are not counted")
    if settings.loss_chunks > 1:
        notes.append(f"the loss in {settings.loss_chunks} chunks of the tokens, each run again backward")
    if settings.experts == "loop":
        notes.append("experts run in turn; every expert is taken to get as many tokens")
    if master_weights:
        notes.append("an fp32 copy of the weights and fp32 optimizer state, both counted as optimizer state")
    if settings.precision == "fp8":
        notes.append(
            "fp8: weights, gradients and what is kept are bf16; linear layers of blocks multiply copies in "
            "8 bits with dynamic scales, made again backward; no history of magnitudes. Head, router and "
            "stacked experts stay in bf16"
        )
    if model.config.task == "seq2seq":
        notes.append("encoder and decoder run over as many tokens; no cache is made")
    if settings.lora is not None:
        notes.append("LoRA: base weights are frozen; adapters are kept in fp32, as PEFT does")
    context = getattr(model.config, "n_ctx", None)
    if isinstance(context, int) and isinstance(settings.seq_len, int) and settings.seq_len > context:
        notes.append(f"seq_len = {settings.seq_len} is beyond the context of {context} tokens")
    return notes
