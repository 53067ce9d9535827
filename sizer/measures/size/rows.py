"""Which rows of a model a format quantizes, and what is stored for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row
from sizer.errors import InvalidConfig, clip
from sizer.measures.registered import registered
from sizer.measures.size.floats import stacked_mxfp4
from sizer.measures.size.formats import Format
from sizer.measures.size.stored import Part, Piece, bytes_of
from sizer.measures.tensors import OLD_MASKS

if TYPE_CHECKING:
    from sizer.model import Model

# The largest layouts published have some 210,000 tensors.
MAX_TENSORS = 1_000_000
# Routers that transformers 5 makes as nn.Linear; the others are parameters of their own.
_LINEAR_ROUTERS = ("shared_expert_gate", "router.layer", "router.classifier", "router.gate")
# What transformers 5 does not pack when it loads a model, and keeps in 32 bits where the rest is fp16:
# ends of names, by model type.
_SENSITIVE = {
    **dict.fromkeys(("t5", "mt5", "umt5", "udop", "pop2piano"), (".wo.weight",)),
    "gpt_oss": ("layernorm.weight", "model.norm.weight"),
}
_GPT_OSS = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")


def stored_rows(model: Model, layout: str = "checkpoint") -> list[Row]:
    """The rows that a checkpoint stores: no tied tensors, no buffers that are rebuilt, no old masks."""
    found = [
        row
        for row in model.rows(layout)
        if isinstance(row.leaf, Param | Buffer)
        and row.leaf.tied_to is None
        and not (isinstance(row.leaf, Buffer) and (not row.leaf.persistent or row.name.endswith(OLD_MASKS)))
    ]
    count = sum(int(row.copies) for row in found)
    if count > MAX_TENSORS:
        raise InvalidConfig(
            f"{model.name}: {clip(count)} tensors, over the {MAX_TENSORS:,} that sizer lays out"
        )
    return found


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern names a tensor: some steps of its name in a row, or all of it with `*`.

    >>> matches("o_proj", "model.layers.{}.self_attn.o_proj.weight"), matches("proj", "a.o_proj.weight")
    (True, False)
    >>> matches("*.mlp.*_proj", "model.layers.{}.mlp.up_proj.weight")
    True
    """
    module = name.removesuffix(".weight")
    if not any(letter in pattern for letter in "*?["):
        return bool(pattern) and f".{pattern.removesuffix('.weight')}." in f".{module}."
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern) or fnmatchcase(module, pattern)


class Choice:
    """What a format quantizes of a model, with exceptions of the user's."""

    def __init__(
        self, model: Model, found: Format, rows: Sequence[Row], skip: Iterable[str], also: Iterable[str]
    ) -> None:
        self.format = found
        self.skip = tuple(skip)
        self.also = tuple(also)
        self._last = registered(rows)[-1].name if rows else ""
        self._vocab = getattr(model.config, "vocab_size", None)
        # transformers 5 keeps the experts of a layer in one tensor, which is no nn.Linear.
        self.fused = found.scope == "modules" and any(
            row.component == "experts" and isinstance(row.leaf, Param) and len(row.leaf.axes) == 3
            for row in model.rows("transformers")
        )
        self.left_experts = False
        # gpt-oss is published in MXFP4: its experts, in a layout of their own, and nothing else.
        self.stacked = found.name == "mxfp4" and any(row.name.endswith(_GPT_OSS) for row in rows)
        self.sensitive: tuple[str, ...] = ()
        self.fp32: tuple[str, ...] = ()
        if found.scope == "modules":
            model_type = (model.hf_config or {}).get("model_type", model.architecture)
            self.sensitive = _SENSITIVE.get(model_type, ())
            # Routers that a bias corrects are kept in 32 bits whatever the rest is.
            corrected = any(row.name.endswith("gate.e_score_correction_bias") for row in rows)
            self.fp32 = ("gate.weight",) if corrected or model_type == "deepseek_v2" else ()
        self._used: set[str] = set()

    def quantized(self, row: Row) -> bool:
        """Whether the format packs this row."""
        if self.format.pack is None or not isinstance(row.leaf, Param) or len(row.leaf.axes) != 2:
            return False
        if row.leaf.name.rpartition(".")[2] != "weight":
            return False
        if self._named(self.skip, row.name) or row.name.endswith(self.fp32 + self.sensitive):
            return False
        is_matrix = row.leaf.use in ("matmul", "pooled")
        if is_matrix and self._named(self.also, row.name):
            return True
        if self.stacked:
            return False
        if self.format.scope == "tables":
            return (is_matrix or row.leaf.use == "lookup") and self._fits(row)
        return is_matrix and self._by_default(row)

    def _by_default(self, row: Row) -> bool:
        scope, component = self.format.scope, row.component
        if scope == "modules":
            if component == "router":
                return row.name.removesuffix(".weight").endswith(_LINEAR_ROUTERS)
            if component == "experts" and self.fused and len(row.frames) > 1:
                self.left_experts = True
                return False
            is_output = component == "head" and row.leaf.axes[0].size == self._vocab  # type: ignore[union-attr]
            return not is_output and row.name != self._last
        if component in ("head", "router") or row.name.endswith("shared_expert_gate.weight"):
            return False
        return scope != "blocks" or bool(row.frames)

    def _fits(self, row: Row) -> bool:
        """Whether rows are whole groups; MLX leaves others as they are."""
        return int(row.leaf.axes[-1].size) % self.format.group == 0  # type: ignore[union-attr]

    def _named(self, patterns: tuple[str, ...], name: str) -> bool:
        found = [pattern for pattern in patterns if matches(pattern, name)]
        self._used.update(found)
        return bool(found)

    def unused(self) -> list[str]:
        """Patterns that named nothing."""
        return [pattern for pattern in (*self.skip, *self.also) if pattern not in self._used]


def outputs_first(rows: Sequence[Row]) -> set[str]:
    """Matrices that are stored [in, out], as GPT-2's are: their bias has the size of the second axis."""
    biases = {
        row.name.removesuffix("bias"): row.leaf.axes[0]
        for row in rows
        if row.name.endswith(".bias") and isinstance(row.leaf, Param)
    }
    found = set()
    for row in rows:
        bias = biases.get(row.name.removesuffix("weight"))
        if bias is None or not isinstance(row.leaf, Param) or len(row.leaf.axes) != 2:
            continue
        first, second = row.leaf.axes
        if second.name == bias.name and first.name != bias.name:
            found.add(row.name)
    return found


def shape_of(row: Row) -> tuple[int, ...]:
    """The shape of a tensor as it is stored."""
    axes = row.leaf.axes  # type: ignore[union-attr]
    return tuple(int(axis.size if axis.padded is None else axis.padded) for axis in axes)


def pieces(rows: Sequence[Row], choice: Choice, dtype: str) -> list[Piece]:
    """What is stored for the rows: the parts of packed matrices, and all else in `dtype`."""
    found: list[Piece] = []
    transposed = outputs_first(rows) if choice.format.pack is not None else set()
    for row in rows:
        shape = shape_of(row)
        frames = tuple((f.indices or ())[: 1 if f.shared else None] for f in row.frames)
        if isinstance(row.leaf, Buffer):
            kind = "int64" if row.name.endswith("_ids") else "fp32"
            size = bytes_of(shape, kind)
            found.append(Piece(row.name, frames, shape, kind, size, "buffers", "buffers", row.name))
            continue
        parts, stem = _parts(row, shape, choice, dtype, transposed)
        if parts is None:
            wide = choice.fp32 + (choice.sensitive if dtype == "fp16" else ())
            kind = "fp32" if row.name.endswith(wide) else dtype
            parts, stem = [Part("", shape, kind, "weights")], row.name
        for part in parts:
            size = bytes_of(part.shape, part.dtype)
            name = stem + part.ending
            found.append(
                Piece(name, frames, part.shape, part.dtype, size, part.part, row.component, row.name)
            )
    return found


def _parts(
    row: Row, shape: tuple[int, ...], choice: Choice, dtype: str, transposed: set[str]
) -> tuple[list[Part] | None, str]:
    """The parts of a packed matrix and the beginning of their names; nothing for one stored as it is."""
    chosen = choice.format
    if choice.stacked and row.name.endswith(_GPT_OSS):
        experts, inputs, outputs = shape
        return stacked_mxfp4(experts, outputs, inputs), row.name
    if chosen.pack is None or not choice.quantized(row):
        return None, ""
    m, k = reversed(shape) if row.name in transposed else shape
    stem = row.name.removesuffix("weight")
    try:
        return chosen.pack(m, k, bits=chosen.bits, group=chosen.group, dtype=dtype), stem
    except InvalidConfig as error:
        module = stem.removesuffix(".").replace("{}", "*")
        last = module.rpartition(".")[2]
        raise InvalidConfig(f"{module} {error}; leave it out with --skip {last}") from None
