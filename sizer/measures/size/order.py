"""The order in which transformers 5 saves tensors, which decides where shards are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sizer.core.tree import Param
from sizer.core.walk import Row
from sizer.measures.registered import registered
from sizer.measures.size.rows import stored_rows
from sizer.measures.size.stored import Piece

if TYPE_CHECKING:
    from sizer.model import Model

Key = tuple[tuple[int, object, int], ...]


# Model types of which the order of a model that was built is measured, shard by shard.
MEASURED = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma3_text", "gemma2", "gpt2", "gpt_oss"),
    *("mixtral", "qwen3_moe", "deepseek_v3"),
)


def ordered(model: Model, pieces: Sequence[Piece], *, loaded: bool) -> tuple[list[Piece], bool]:
    """The pieces as `save_pretrained` goes through them, and whether experts are parts of one tensor.

    A model that was built has its parameters in the order in which modules register them. One that was
    `loaded`, or has other names in memory than in its files, is sorted by the names in memory first.
    """
    memory = _names_in_memory(model)
    if memory is None and not loaded:
        place = {row.name: i for i, row in enumerate(registered(stored_rows(model)))}
        return sorted(pieces, key=lambda piece: place[piece.row]), False

    def key(piece: Piece) -> Key:
        stem = piece.row.removesuffix("weight")
        name = (memory or {}).get(piece.row, piece.row)
        return natural(name.removesuffix("weight") + piece.name[len(stem) :])

    return sorted(pieces, key=key), memory is not None


def _names_in_memory(model: Model) -> dict[str, str] | None:
    """What each tensor of a file is in memory; nothing where the names are the same."""
    stored, memory = (stored_rows(model, layout) for layout in ("checkpoint", "transformers"))
    if [row.name for row in stored] == [row.name for row in memory]:
        return None
    names: dict[str, str] = {}
    others = iter([row.name for row in memory if not _is_expert(row)])
    fused = next((row.name for row in memory if _is_expert(row)), "")
    for row in stored:
        if _is_expert(row):
            # Gate and up are one tensor in memory, and come out of it one after the other.
            is_down = row.leaf.axes[0].name == "embed"  # type: ignore[union-attr]
            names[row.name] = f"{fused.rpartition('.')[0]}.{'down' if is_down else 'gate_up'}_proj"
        else:
            names[row.name] = next(others, row.name)
    return names


def _is_expert(row: Row) -> bool:
    """Whether a tensor is of the routed experts: one of many, or of all in one."""
    is_matrix = row.component == "experts" and isinstance(row.leaf, Param)
    return is_matrix and (len(row.frames) > 1 or len(row.leaf.axes) == 3)  # type: ignore[union-attr]


def natural(name: str) -> Key:
    """A name by its steps, numbers by their value: `dot_natural_key` of transformers.

    >>> natural("layers.10.mlp") > natural("layers.9.mlp")
    True
    """
    key: list[tuple[int, object, int]] = []
    for step in name.split("."):
        if step.isdecimal():
            key.append((0, int(step), 0))
            continue
        text = step.rstrip("0123456789")
        key.append((1, text, int(step[len(text) :] or -1)))
    return tuple(key)
