"""Memory of inference: weights, what decoding keeps, and the activations of the largest pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sizer.core.dims import Dim, divide
from sizer.core.poly import Poly, as_poly
from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.core.walk import Row, walk
from sizer.dtypes import bits
from sizer.errors import InvalidConfig
from sizer.measures.kv_cache import kv_cache
from sizer.measures.standing import buffer_bytes
from sizer.measures.step.layers import blocks
from sizer.measures.step.simulate import Settings, infer

if TYPE_CHECKING:
    from sizer.model import Model


class Inference(Record):
    """Bytes of serving `batch_size` sequences of `seq_len` tokens.

    `activations_bytes`: the most that the prefill holds beside weights and cache, the logits of the
    last token included. `label`: "estimate", since engines differ in what they hold meanwhile.
    """

    __slots__ = (
        "activations_bytes",
        "assumptions",
        "buffers_bytes",
        "kv_cache_bytes",
        "label",
        "logits_bytes",
        "sources",
        "total_bytes",
        "weights_bytes",
    )

    def __init__(
        self,
        weights_bytes: Dim,
        buffers_bytes: Dim,
        kv_cache_bytes: Dim,
        activations_bytes: Dim,
        logits_bytes: Dim,
        total_bytes: Dim,
        label: str,
        assumptions: Sequence[str] = (),
        sources: Sequence[str] = (),
    ) -> None:
        self.weights_bytes = weights_bytes
        self.buffers_bytes = buffers_bytes
        self.kv_cache_bytes = kv_cache_bytes
        self.activations_bytes = activations_bytes
        self.logits_bytes = logits_bytes
        self.total_bytes = total_bytes
        self.label = label
        self.assumptions = assumptions
        self.sources = sources


def inference(
    model: Model,
    *,
    batch_size: Dim = 1,
    seq_len: Dim = 1024,
    dtype: str = "bf16",
    kv_dtype: str | None = None,
    attention: str = "sdpa",
    quant: str | None = None,
) -> Inference:
    """What serving needs at the end of a prefill of `seq_len` tokens.

    `quant`: the format of the weights, by the names of `sizer size`; `dtype` is then that of the rest.

    >>> import sizer
    >>> found = inference(sizer.load("llama-3-8b"), seq_len=8192)
    >>> found.weights_bytes, found.kv_cache_bytes
    (16060522496, 1073741824)
    """
    found = _inference(model, batch_size, seq_len, dtype, kv_dtype, attention, letters=False)
    if quant is None:
        return found
    from sizer.measures.size.memory_form import weights

    packed, notes = weights(model, quant, dtype)
    return found._replace(
        weights_bytes=packed,
        total_bytes=found.total_bytes - found.weights_bytes + packed,
        assumptions=[*notes, *found.assumptions[1:]],
    )


def inference_formula(model: Model, *, dtype: str = "bf16", kv_dtype: str | None = None) -> Poly:
    """Weights and cache over letters; the activations of a prefill are left out."""
    from sizer.core.poly import symbol

    found = _inference(model, symbol("B"), symbol("T"), dtype, kv_dtype, "sdpa", letters=True)
    return as_poly(found.total_bytes)


def _inference(
    model: Model, batch: Dim, length: Dim, dtype: str, kv_dtype: str | None, attention: str, *, letters: bool
) -> Inference:
    settings = Settings(batch_size=batch, seq_len=length, attention=attention)
    rows = walk(model.symbolic_tree("transformers")) if letters else model.rows("transformers")
    weights, buffers = _weights(rows, bits(dtype))
    cache = kv_cache(rows, batch_size=batch, seq_len=length, dtype=kv_dtype or _cache_dtype(dtype)).bytes
    width = 4 if dtype in ("fp32", "float32") else 2
    logits = _logits(rows, batch) * width
    notes = [
        "weights of one type throughout; a checkpoint of mixed types is another matter",
        "the runtime's own memory (CUDA context, workspaces, pages reserved for the cache) comes on top",
    ]
    activations: Dim = 0
    if not letters:
        tree = model.tree("transformers")
        if model.config.task == "causal" and all(block.flow == "block" for block in blocks(tree)):
            activations = infer(model, settings, "fp32" if width == 4 else "bf16")
            notes.append(
                "activations: PyTorch's forward pass without a graph, logits of the last token alone"
            )
        else:
            activations = widest(rows, batch, length) * width + logits
            notes.append("activations: the widest linear layer's input and output, and the residual stream")
    return Inference(
        weights,
        buffers,
        cache,
        activations,
        logits,
        weights + buffers + cache + activations,
        "estimate",
        notes,
        ["weights and cache are exact for these types; activations are an estimate"],
    )


def _cache_dtype(dtype: str) -> str:
    # A cache is kept in the type of the activations, which stay 16-bit where weights are narrower.
    return dtype if bits(dtype) >= 16 else "bf16"


def _weights(rows: Sequence[Row], width: int) -> tuple[Dim, Dim]:
    weights: Dim = 0
    buffers: Dim = 0
    for row in rows:
        leaf = row.leaf
        buffers = buffers + buffer_bytes(row)
        if isinstance(leaf, Param) and leaf.tied_to is None:
            weights = weights + row.numel * row.copies
    if width % 8 == 0:
        return weights * (width // 8), buffers
    if isinstance(weights, int):
        return -(-weights * width // 8), buffers
    return divide(weights * width, 8, names="bits / 8"), buffers


def _logits(rows: Sequence[Row], batch: Dim) -> Dim:
    for row in rows:
        if row.component == "head" and isinstance(row.leaf, Param) and row.leaf.name == "weight":
            return batch * row.leaf.axes[0].size
    return 0


def widest(rows: Sequence[Row], batch: Dim, length: Dim) -> Dim:
    """Elements of the largest input and output of a linear layer, with a residual stream beside them."""
    widest = 0
    for row in rows:
        leaf = row.leaf
        if (
            isinstance(leaf, Param)
            and leaf.use == "matmul"
            and row.component != "head"
            and len(leaf.axes) == 2
        ):
            a, b = (axis.size for axis in leaf.axes)
            widest = max(widest, a + b + min(a, b))
    if not widest:
        raise InvalidConfig("a model without linear layers has no activations to estimate")
    return batch * length * widest
