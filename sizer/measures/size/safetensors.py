"""safetensors to the byte: the header's text, the shards, and the index beside them.

The library writes wide types first, then by name, and pads the header with spaces to a multiple of 8.
A header holds the offset of every tensor, so its length needs their order. Layers are laid out as
blocks that know the order within: a trillion parameters in 180,000 tensors take as long as one layer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from itertools import product as cartesian

from sizer.core.record import Record
from sizer.core.walk import name_at
from sizer.measures.size.stored import Piece
from sizer.sources.checkpoints.safetensors_types import DTYPES

_CODES = {ours: code for code, (ours, _) in DTYPES.items()}
_RANKS = {ours: rank for rank, (ours, _) in enumerate(DTYPES.values())}
_METADATA = '"__metadata__":{"format":"pt"}'
# An entry without its name, dtype, sizes and offsets, and the comma before it.
_FRAME = len(',"":{"dtype":"","shape":[],"data_offsets":[,]}')
_POWERS = [10**k for k in range(1, 20)]


class File(Record):
    """A file that will be written: `tensors` in it, bytes of its data and of what stands before them."""

    __slots__ = ("bytes", "data_bytes", "header_bytes", "name", "tensors")

    def __init__(self, name: str, tensors: int, data_bytes: int, header_bytes: int) -> None:
        self.name = name
        self.tensors = tensors
        self.data_bytes = data_bytes
        self.header_bytes = header_bytes
        self.bytes = data_bytes + header_bytes


# Rank of the type, end of the name, bytes, letters of the entry beside names and offsets.
Entry = tuple[int, str, int, int]


class Block:
    """Tensors under one beginning of their names, in the order of the state dict.

    `units` are those that go into one shard together: views of one tensor in memory.
    """

    def __init__(self, units: Sequence[Sequence[Entry]]) -> None:
        self.units = units
        self.entries = [entry for unit in units for entry in unit]
        self.total = sum(entry[2] for entry in self.entries)

    @cached_property
    def by_rank(self) -> dict[int, tuple[list[int], int]]:
        """Of each type: where its tensors end, in order of their names, and the letters of all."""
        found: dict[int, tuple[list[int], int]] = {}
        ranks: dict[int, list[tuple[str, int, int]]] = {}
        for rank, ending, size, letters in self.entries:
            ranks.setdefault(rank, []).append((ending, size, letters + len(ending)))
        for rank, tensors in ranks.items():
            tensors.sort()
            found[rank] = (list(accumulate(t[1] for t in tensors)), sum(t[2] for t in tensors))
        return found


Run = tuple[str, Block]


def entry(piece: Piece, ending: str) -> Entry:
    """A tensor as blocks keep it."""
    letters = _FRAME + len(_CODES[piece.dtype]) + len(",".join(map(str, piece.shape)))
    return _RANKS[piece.dtype], ending, piece.bytes, letters


def runs_of(pieces: Iterable[Piece], *, fused: bool = False) -> list[Run]:
    """The tensors by layer, in the order of the state dict.

    `fused`: experts that are stored as they are come out of one tensor in memory.
    """
    groups: dict[str, dict[int, list[Piece]]] = {}
    for piece in pieces:
        if not piece.frames:
            groups[piece.name] = {-1: [piece]}
            continue
        layers = groups.setdefault(piece.name.partition("{}")[0], {})
        for layer in piece.frames[0]:
            layers.setdefault(layer, []).append(piece)
    runs: list[Run] = []
    for head, layers in groups.items():
        if -1 in layers:
            runs.append((head, Block([[entry(layers[-1][0], "")]])))
            continue
        blocks: dict[tuple[int, ...], Block] = {}
        for layer in sorted(layers):
            inside = layers[layer]
            key = tuple(map(id, inside))
            if key not in blocks:
                blocks[key] = Block(_inside(inside, fused))
            runs.append((f"{head}{layer}.", blocks[key]))
    return runs


def _inside(pieces: Sequence[Piece], fused: bool) -> list[list[Entry]]:
    """The tensors of one layer; those of an expert follow each other."""
    units: list[list[Entry]] = []
    for piece in pieces:
        ending = piece.name.partition("{}")[2].removeprefix(".")
        rank, _, size, letters = entry(piece, "")
        names = [name_at(ending, indices) for indices in cartesian(*piece.frames[1:])]
        entries = [(rank, name, size, letters) for name in names]
        if fused and piece.component == "experts" and piece.name == piece.row and len(piece.frames) > 1:
            units.append(entries)
        else:
            units += [[one] for one in entries]
    return units


def files(runs: Sequence[Run], max_shard: int) -> list[File]:
    """The files of a checkpoint: tensors in order, a new file where the next would not fit."""
    shards = split(runs, max_shard)
    if len(shards) == 1:
        return [_file("model.safetensors", shards[0])]
    count = len(shards)
    return [
        _file(f"model-{i:05d}-of-{count:05d}.safetensors", shard) for i, shard in enumerate(shards, start=1)
    ]


def split(runs: Sequence[Run], max_shard: int) -> list[list[Run]]:
    """Shards as `huggingface_hub` cuts them: a tensor over the limit has one of its own."""
    shards: list[list[Run]] = []
    current: list[Run] = []
    size = 0
    for head, block in runs:
        if size + block.total <= max_shard:
            current.append((head, block))
            size += block.total
            continue
        part: list[Sequence[Entry]] = []
        for unit in block.units:
            n_bytes = sum(tensor[2] for tensor in unit)
            if n_bytes > max_shard:
                shards.append([(head, Block([unit]))])
                continue
            if size + n_bytes > max_shard:
                shards.append([*current, (head, Block(part))] if part else current)
                current, part, size = [], [], 0
            part.append(unit)
            size += n_bytes
        if part:
            current.append((head, Block(part)))
    if current:
        shards.append(current)
    return shards


def _file(name: str, runs: list[Run]) -> File:
    data = sum(block.total for _, block in runs)
    tensors = sum(len(block.entries) for _, block in runs)
    return File(name, tensors, data, header(runs))


def header(runs: Sequence[Run]) -> int:
    """Bytes before the data: the length, the header's text, and its padding."""
    ordered = sorted(runs, key=lambda run: run[0])
    if any(b[0].startswith(a[0]) for a, b in pairwise(ordered)):
        # Names of one lie among those of another: then all are in one order.
        whole = [(r, head + end, size, n) for head, block in ordered for r, end, size, n in block.entries]
        ordered = [("", Block([whole]))]
    letters = len("{}") + len(_METADATA)
    at = 0
    for rank in range(len(_RANKS)):
        for head, block in ordered:
            found = block.by_rank.get(rank)
            if found is None:
                continue
            ends, written = found
            letters += written + len(head) * len(ends) + _digits(at, ends)
            at += ends[-1]
    return 8 + -(-letters // 8) * 8


def _digits(at: int, ends: list[int]) -> int:
    """Digits of where tensors begin and end, the first of which begins at `at`."""
    found = len(ends)
    for power in _POWERS:
        if at + ends[-1] < power:
            break
        found += len(ends) - bisect_left(ends, power - at)
    # Each begins where the one before it ends.
    return 2 * found - len(str(at + ends[-1])) + len(str(at))


def index_bytes(runs: Sequence[Run], shards: Sequence[File], params: int) -> int:
    """Bytes of `model.safetensors.index.json`, as transformers 5 writes it."""
    total = sum(shard.data_bytes for shard in shards)
    text = f'{{\n  "metadata": {{\n    "total_parameters": {params},\n    "total_size": {total}\n  }},\n'
    text += '  "weight_map": {\n  }\n}\n'
    names = sum(
        len(head) * len(block.entries) + sum(len(tensor[1]) for tensor in block.entries)
        for head, block in runs
    )
    tensors = sum(len(block.entries) for _, block in runs)
    each = len('    "": "",\n') + len(shards[0].name)
    # The last line has no comma.
    return len(text) + names + tensors * each - 1
