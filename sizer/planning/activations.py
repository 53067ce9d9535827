"""What the activations of a step take on one rank, from one run of the whole step.

The run (`sizer.measures.step`) says what each layer keeps and what is alive beside it. With sequence
parallelism every kept tensor is split over the tensor-parallel ranks, along heads, MLP width,
vocabulary or tokens (Korthikanti et al. 2022, section 4.2), so a rank has a part in `tp` of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.record import Record
from sizer.core.tree import Op, Param
from sizer.core.walk import Row
from sizer.errors import InvalidConfig
from sizer.measures.step.layers import blocks
from sizer.measures.step.simulate import Settings, infer, step

if TYPE_CHECKING:
    from sizer.model import Model

# Bytes of a logit at the loss: 16 bits, its copy, its softmax and its gradient in 32 bits.
LOSS_BYTES = 2 + 4 + 4 + 4


class Kept(Record):
    """Bytes of one micro-batch on a rank that splits nothing.

    `layers`: what all layers keep for the backward pass. `inside`: the most that is alive beside that
    while a layer runs backward; `loss`: the same at the loss, its logits included. `exact`: whether
    the step itself was run.
    """

    __slots__ = ("exact", "inside", "layers", "loss")

    def __init__(self, layers: int, inside: int, loss: int, exact: bool) -> None:
        self.layers = layers
        self.inside = inside
        self.loss = loss
        self.exact = exact

    def on_rank(self, *, tp: int, stage_layers: int, n_layers: int, in_flight: int, last: bool) -> int:
        """Bytes of a stage that has so many micro-batches under way.

        >>> Kept(320, 16, 80, True).on_rank(tp=2, stage_layers=4, n_layers=8, in_flight=2, last=False)
        168
        """
        kept = self.layers * stage_layers * in_flight
        beside = max(self.inside, self.loss) if last else self.inside
        return -(-kept // (n_layers * tp)) + -(-beside // tp)


def kept(
    model: Model,
    *,
    batch_size: int,
    seq_len: int,
    precision: str = "bf16",
    attention: str = "sdpa",
    checkpointing: str = "none",
) -> Kept:
    """What a training step of one micro-batch keeps.

    >>> import sizer
    >>> kept(sizer.load("llama-3-8b"), batch_size=1, seq_len=8192).layers / 2**20
    50214.0
    """
    settings = Settings(
        batch_size=batch_size,
        seq_len=seq_len,
        precision=precision,
        attention=attention,
        checkpointing=checkpointing,
    )
    try:
        tape = step(model, settings)
    except InvalidConfig:
        # Not every architecture says how values pass through it.
        return _estimated(model, batch_size, seq_len, checkpointing)
    layers = int(sum(entry.new * entry.layers for entry in tape.saved if _in_layer(entry.module)))
    inner, outer = tape.beside(inside=True), tape.beside(inside=False)
    # While layers run backward the logits are still there, on the stage that has them.
    logits = _logits(model, batch_size * seq_len) * (4 if precision == "fp32" else 2)
    return Kept(layers, max(inner - layers - logits, 0), max(outer, inner) - layers, True)


def working(model: Model, *, batch_size: int, seq_len: int, width: int = 2) -> int:
    """What a forward pass without a graph holds, logits of the last tokens included.

    >>> import sizer
    >>> working(sizer.load("llama-3-8b"), batch_size=1, seq_len=8192)
    977403904
    """
    tokens = batch_size * seq_len
    try:
        if not all(block.flow == "block" for block in blocks(model.tree("transformers"))):
            raise InvalidConfig("not described")
        settings = Settings(batch_size=batch_size, seq_len=seq_len)
        return int(infer(model, settings, "fp32" if width == 4 else "bf16"))
    except InvalidConfig:
        from sizer.measures.inference import widest

        largest = widest(model.rows("transformers"), 1, tokens)
        return (int(largest) + _logits(model, batch_size)) * width


def _in_layer(module: str) -> bool:
    return any(part.isdigit() or "–" in part for part in module.split("."))


def _logits(model: Model, tokens: int) -> int:
    for row in model.rows("transformers"):
        if row.component == "head" and isinstance(row.leaf, Param) and row.leaf.use == "matmul":
            return int(row.leaf.axes[0].size) * tokens
    return 0


def _estimated(model: Model, batch: int, length: int, checkpointing: str) -> Kept:
    """Where a step cannot be run: each matrix that a token visits keeps its input and its output, in
    16 bits, and each layer two norms in 32; checkpointed layers keep their input alone."""
    rows = model.rows("transformers")
    width = getattr(model.config, "d_model", None)
    n_layers = len({layer for row in rows for layer in _layers(row)})
    if not isinstance(width, int) or not n_layers:
        raise InvalidConfig(
            f"{model.name}: activations of a training step are not known for {model.architecture}"
        )
    each = 0
    for row in rows:
        leaf = row.leaf
        if isinstance(leaf, Param) and leaf.use == "matmul" and row.frames and len(leaf.axes) > 1:
            # Of a tensor of all experts, [E, out, in], a token visits some.
            outside, inside = int(leaf.axes[-2].size), int(leaf.axes[-1].size)
            visits = 1 if leaf.active is None else leaf.active // (outside * inside)
            each += 2 * (inside + outside) * row.active * visits
        elif isinstance(leaf, Op) and leaf.kind == "attention":
            each += 2 * 4 * width * row.visits
    tokens = batch * length
    loss = LOSS_BYTES * _logits(model, tokens)
    inputs = 2 * width * n_layers
    if checkpointing == "full":
        return Kept(inputs * tokens, each * tokens // n_layers, loss, False)
    return Kept(each * tokens, 4 * each * tokens // (10 * n_layers), loss, False)


def _layers(row: Row) -> list[tuple[str, int]]:
    """The layers a row stands in, each with the stack it is of."""
    if not row.frames:
        return []
    stack, outer = row.name.partition("{}")[0], row.frames[0]
    return [(stack, index) for index in (outer.indices or range(int(outer.count)))]
