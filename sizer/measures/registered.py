"""The order in which modules register their parameters, which state dicts and optimizers follow.

torch lists a module's own tensors before those of its parts, and the parts as the module makes them,
which is not always the order in which they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizer.core.tree import Op
from sizer.core.walk import Row

# Made after the other parts of an attention, though queries and keys pass them first.
QUERY_KEY_NORMS = ("q_norm", "k_norm", "query_layernorm", "key_layernorm", "q_layernorm", "k_layernorm")
# Of the norms of a block, those that are made first.
FIRST_NORMS = ("input_layernorm", "post_attention_layernorm")


class _Part:
    """A module while its rows are sorted: its own, and its parts by name."""

    __slots__ = ("own", "parts")

    def __init__(self) -> None:
        self.own: list[Row] = []
        self.parts: dict[str, _Part] = {}

    def rows(self) -> Iterator[Row]:
        """Its own rows, and then those of its parts."""
        yield from self.own
        for name in self._made():
            yield from self.parts[name].rows()

    def _made(self) -> list[str]:
        names = list(self.parts)
        if any(self._has(name, "made_first") for name in names):
            names.sort(key=lambda name: not self._has(name, "made_first"))
        elif "o_proj" in self.parts:
            names.sort(key=lambda name: 2 if name in QUERY_KEY_NORMS else name == "qkv_proj")
        elif "experts" in self.parts and self._has("gate", "made_last"):
            names.sort(key=lambda name: name != "experts")
        elif any(self._is_late_norm(name) for name in names):
            names.sort(key=lambda name: self._is_late_norm(name) * (2 - (name in FIRST_NORMS)))
        return names

    def _has(self, name: str, trait: str) -> bool:
        """Whether an op of a part's own has a trait."""
        rows = self.parts[name].own if name in self.parts else ()
        return any(isinstance(row.leaf, Op) and trait in row.leaf.traits for row in rows)

    def _is_late_norm(self, name: str) -> bool:
        """Whether it is a norm of a block as LLaMA's and its descendants' make them."""
        rows = self.parts[name].own
        if not rows or self.parts[name].parts:
            return False
        return rows[0].kind.endswith("rms_norm") or (
            "self_attn" in self.parts and name.endswith("_layernorm")
        )


def registered(rows: Sequence[Row]) -> list[Row]:
    """The rows in that order."""
    root = _Part()
    for row in rows:
        part = root
        *path, _ = row.name.split(".")
        for step in path:
            part = part.parts.setdefault(step, _Part())
        part.own.append(row)
    return _under_first_names(list(root.rows()))


def _under_first_names(rows: list[Row]) -> list[Row]:
    """A tensor of several names stands where the first of them is made."""
    places = {row.name: place for place, row in enumerate(rows)}
    for place, row in enumerate(rows):
        other = places.get(getattr(row.leaf, "tied_to", None) or "")
        if other is not None and other > place:
            rows[place], rows[other] = rows[other], row
    return rows
