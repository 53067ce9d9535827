"""One module of each kind, for what only adds up.

A scheme looks at the tensors of one module and at the configuration. So of modules whose names differ
only in numbers and that hold the same tensors one stands for all, unless a scheme asks for what is
of one tensor alone, such as its data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sizer.sources.checkpoints.columns import Columns, Kind, patterns
from sizer.sources.checkpoints.stored import Contents, StoredTensor

# More kinds of tensors than a model has.
_MOST = 4_096


class OwnValues(Exception):
    """That a scheme needs what a tensor has alone, so that no other stands for it."""


class Sample(Contents):
    """One module of each kind: its tensors, and how many modules it stands for."""

    def __init__(self, contents: Contents, stored: list[StoredTensor], copies: dict[str, int]) -> None:
        super().__init__(contents.path, contents.format, stored, files=contents.files)
        self.copies = copies


def sample(contents: Contents) -> Sample | None:
    """The modules of a checkpoint, one of each kind; `None` where there are too many kinds."""
    bits: dict[tuple[bytes, Kind], int] = {}
    # The tensors that a module holds, a bit for each.
    held: dict[bytes, int] = {}
    for columns in contents.columns:
        modules, tokens = _tokens(columns, bits)
        if len(bits) > _MOST:
            return None
        for module, bit in zip(modules, tokens, strict=True):
            held[module] = held.get(module, 0) | bit
    kinds = list(zip(patterns(b"\n".join(held)), held.values(), strict=True))
    first = dict(zip(reversed(kinds), reversed(held), strict=True))
    found: list[StoredTensor] = []
    copies: dict[str, int] = {}
    for kind, number in Counter(kinds).items():
        name = first[kind].decode()
        copies[name] = number
        found += _tensors(name, kind[1], list(bits))
    return Sample(contents, found, copies)


def _tokens(columns: Columns, bits: dict[tuple[bytes, Kind], int]) -> tuple[list[bytes], list[int]]:
    """The module of each tensor, and the bit that stands for its last step, dtype and shape."""
    split = [name.rpartition(b".") for name in columns.names]
    same: dict[Kind, Kind] = {}
    known = {(kind.dtype, kind.shape): kind for _, kind in bits}
    for kind in set(columns.kinds):
        same[kind] = known.get((kind.dtype, kind.shape), kind)
    keys = list(zip([last for _, _, last in split], map(same.__getitem__, columns.kinds), strict=True))
    for key in dict.fromkeys(keys):
        bits.setdefault(key, 1 << len(bits))
    return [module for module, _, _ in split], list(map(bits.__getitem__, keys))


def _tensors(module: str, held: int, kinds: list[tuple[bytes, Kind]]) -> Iterator[StoredTensor]:
    for i, (last, kind) in enumerate(kinds):
        if held >> i & 1:
            yield kind.tensor(f"{module}.{last.decode()}" if module else last.decode(), "")
