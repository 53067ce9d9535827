"""GGUF, versions 1 to 3, in either byte order: keys and values, then the tensors, then the data.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Counts in a header are checked
against the bytes that are left before anything is made of them.
"""

from __future__ import annotations

import os
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.files import opened, size_of
from sizer.sources.checkpoints.ggml import TYPES
from sizer.sources.checkpoints.shards import read_files, siblings
from sizer.sources.checkpoints.stored import Contents, Missing, StoredTensor, elements_of
from sizer.sources.checkpoints.window import Window

MAX_KEYS = 10_000
# llama.cpp's files hold the experts of a layer in one tensor, so their largest has two thousand.
MAX_IN_FILE = 50_000
MAX_KEY = 65_535
MAX_NAME = 4_096
# ggml has no tensor of more.
MAX_DIMS = 4
# Values kept for later: whole only if they are short. A vocabulary is skipped.
MAX_KEPT = 4_096
MAX_KEPT_ITEMS = 1_024
# And of all values together.
MAX_KEPT_BYTES = 4_000_000
# Texts in all arrays together; the largest vocabularies have 260,000 words and twice the merges.
MAX_TEXTS = 2_000_000
MAX_ALIGNMENT = 1 << 20

# type of a value -> its struct code; 8 is a text and 9 an array
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read(path: str) -> Contents:
    """All tensors: of the file, and of the others of its set where it is split."""
    files = siblings(path)
    if len(files) == 1:
        return read_one(path)
    whole = read_files(path, "gguf", files, lambda file: read_one(file, split=True))
    _check_split(whole, len(files))
    return whole


def _check_split(whole: Contents, count: int) -> None:
    stated = whole.metadata.get("split.tensors.count")
    if isinstance(stated, int):
        left = stated - len(whole.stored)
        if len(whole.missing) == 1 and left >= 0:
            whole.missing = [Missing(whole.missing[0].file, left, whole.missing[0].bytes)]
        elif not whole.missing and left:
            whole.problems.append(
                f"split.tensors.count says {stated:,} tensors; the {count} files hold {len(whole.stored):,}"
            )


def read_one(path: str, *, split: bool = False) -> Contents:
    """The tensors of one file; `split` where the others of its set are read too."""
    size = size_of(path)
    name = os.path.basename(path)
    if size < 24:
        what = "is empty" if size == 0 else f"has {size} bytes, too few for a GGUF file"
        raise BadInput(f"{clip(path)} {what}; download it again")
    with opened(path) as file:
        window = Window(file, size, path)
        reader = _Reader(window, path)
        tensors, keys = reader.header()
        metadata = reader.metadata(keys)
        stored = reader.tensors(tensors, name)
        start = _aligned(window.at, reader.alignment)
    contents = Contents(path, "gguf", stored, metadata=metadata, files=[path])
    end = _placed(stored, path, start, reader.alignment)
    if end > size and stored:
        contents.problems.append(
            f"{name} is cut off: its header describes a file of {end:,} bytes, {size:,} are here; "
            "download it again"
        )
    count = metadata.get("split.count")
    if not split and isinstance(count, int) and count > 1:
        _note_split(contents, metadata, count)
    return contents


def _note_split(contents: Contents, metadata: dict[str, Any], count: int) -> None:
    """A part of a set whose name does not say where the others are."""
    number = metadata.get("split.no")
    total = metadata.get("split.tensors.count")
    left = total - len(contents.stored) if isinstance(total, int) and total >= len(contents.stored) else None
    others = [i for i in range(min(count, 1000)) if i != number]
    for i in others:
        known = left if len(others) == 1 else None
        contents.missing.append(Missing(f"part {i + 1} of {count}", known))


class _Reader:
    """Reads one header; `alignment` is known after its metadata."""

    def __init__(self, window: Window, path: str) -> None:
        self.window = window
        self.path = clip(path)
        self.alignment = 32
        self.texts = 0
        self.kept = 0
        # v1 has 32-bit counts and lengths.
        self.count_code = "Q"

    def header(self) -> tuple[int, int]:
        """How many tensors and how many keys there are."""
        window = self.window
        if window.take(4) != b"GGUF":
            raise BadInput(f"{self.path} is no GGUF file: it does not begin with 'GGUF'")
        raw = window.take(4)
        version = int.from_bytes(raw, "little")
        if version & 0xFFFF == 0:
            version = int.from_bytes(raw, "big")
            window.order = ">"
        if not 1 <= version <= 3:
            raise BadInput(f"{self.path} is GGUF version {version:,}; versions 1, 2 and 3 are known")
        self.count_code = "I" if version == 1 else "Q"
        tensors, keys = self._count(), self._count()
        # The least a tensor and a key take: their names, counts and types.
        self._fits(tensors, 20, MAX_IN_FILE, "tensors")
        self._fits(keys, 9, MAX_KEYS, "metadata keys")
        return tensors, keys

    def metadata(self, keys: int) -> dict[str, Any]:
        """The keys and their values; long arrays are skipped."""
        found: dict[str, Any] = {}
        for _ in range(keys):
            key = self._text(MAX_KEY, "a key")
            if not key:
                raise BadInput(f"{self.path}: a metadata key is empty, and each needs a name")
            if key in found:
                raise BadInput(f"{self.path} has the metadata key {clip(key)!r} twice")
            found[key] = self._value(self.window.number("I"), key, 0)
        alignment = found.get("general.alignment", 32)
        if (
            not isinstance(alignment, int)
            or not 1 <= alignment <= MAX_ALIGNMENT
            or alignment & (alignment - 1)
        ):
            raise BadInput(
                f"{self.path}: general.alignment = {clip(alignment)} is not a power of two "
                f"up to {MAX_ALIGNMENT:,}"
            )
        self.alignment = alignment
        return found

    def tensors(self, count: int, file: str) -> list[StoredTensor]:
        """The tensors, with offsets from the start of the data and shapes as torch writes them."""
        stored: list[StoredTensor] = []
        seen: set[str] = set()
        for _ in range(count):
            name = self._text(MAX_NAME, "a tensor's name")
            if name in seen:
                raise BadInput(f"{self.path} has the tensor {clip(name)!r} twice")
            seen.add(name)
            stored.append(self._tensor(name, file))
        return stored

    def _tensor(self, name: str, file: str) -> StoredTensor:
        window, what = self.window, f"{self.path}: {clip(name)}"
        dims = window.number("I")
        if dims > MAX_DIMS:
            raise BadInput(f"{what} has {dims:,} dimensions; ggml has no tensor of more than {MAX_DIMS}")
        sizes = [self._count() for _ in range(dims)]
        kind, offset = window.number("I"), window.number("Q")
        if 0 in sizes:
            raise BadInput(f"{what} has a dimension of zero in {sizes}, so there is nothing in it")
        elements = elements_of(sizes, what)
        if kind not in TYPES:
            known = ", ".join(f"{i} {entry[0]}" for i, entry in list(TYPES.items())[:6])
            raise BadInput(f"{what} has the type {kind:,}, which ggml does not have ({known}, …)")
        dtype, block, bytes_ = TYPES[kind]
        row = sizes[0] if sizes else 1
        if row % block:
            raise BadInput(
                f"{what}: rows of {row:,} elements are no whole number of {dtype} blocks of {block}"
            )
        return StoredTensor(
            name, tuple(reversed(sizes)), dtype, elements, elements // block * bytes_, file, offset
        )

    def _value(self, kind: int, key: str, depth: int) -> Any:
        if kind in _CODES:
            return self.window.number(_CODES[kind])
        if kind == 8:
            length = self._count()
            if length > MAX_KEPT or not self._keeps(length):
                self.window.skip(length)
                return f"({length:,} bytes of text)"
            return self.window.take(length).decode("utf-8", "replace")
        if kind != 9:
            raise BadInput(f"{self.path}: {clip(key)} has a value of type {kind:,}; types 0 to 12 are known")
        if depth > 3:
            raise BadInput(f"{self.path}: {clip(key)} is an array nested over 3 deep")
        return self._array(self.window.number("I"), self._count(), key, depth)

    def _array(self, kind: int, count: int, key: str, depth: int) -> Any:
        window = self.window
        size = window.size_of(_CODES[kind]) if kind in _CODES else 8 if kind == 8 else 12
        if self.count_code == "I" and kind in (8, 9):
            size //= 2
        self._fits(count, size, 2**63, f"items in {clip(key)}")
        if kind in _CODES:
            if count <= MAX_KEPT_ITEMS and self._keeps(32 * count):
                return [window.number(_CODES[kind]) for _ in range(count)]
            window.skip(count * size)
            return f"({count:,} numbers)"
        self.texts += count
        if self.texts > MAX_TEXTS:
            raise BadInput(f"{self.path}: the arrays hold over {MAX_TEXTS:,} texts, more than sizer reads")
        if kind == 8 and (count > MAX_KEPT_ITEMS or not self._keeps(64 * count)):
            window.skip_texts(count, self.count_code)
            return f"({count:,} texts)"
        if count > MAX_KEPT_ITEMS:
            raise BadInput(f"{self.path}: {clip(key)} is an array of {count:,} arrays, more than sizer reads")
        return [self._value(kind, key, depth + 1) for _ in range(count)]

    def _keeps(self, bytes: int) -> bool:
        self.kept += bytes
        return self.kept <= MAX_KEPT_BYTES

    def _count(self) -> int:
        return int(self.window.number(self.count_code))

    def _text(self, most: int, what: str) -> str:
        length = self._count()
        if length > most:
            raise BadInput(f"{self.path}: {what} of {length:,} bytes is over the {most:,} allowed")
        return self.window.take(length).decode("utf-8", "replace")

    def _fits(self, count: int, least: int, most: int, what: str) -> None:
        left = self.window.left
        if count * least > left:
            raise BadInput(
                f"{self.path} claims {count:,} {what}, more than fit the {left:,} bytes that are left"
            )
        if count > most:
            raise BadInput(f"{self.path} claims {count:,} {what}, over the {most:,} that sizer reads")


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


def _placed(stored: list[StoredTensor], path: str, start: int, alignment: int) -> int:
    """Check that the tensors follow each other, make their offsets those in the file, give the end."""
    at = end = 0
    for tensor in sorted(stored, key=lambda t: t.offset or 0):
        assert tensor.offset is not None
        if tensor.offset != at:
            how = "overlaps the tensor before it" if tensor.offset < at else "leaves a hole before it"
            raise BadInput(
                f"{clip(path)}: {clip(tensor.name)} is at offset {tensor.offset:,} and {how}; {at:,} is due"
            )
        end = at + tensor.bytes
        at = _aligned(end, alignment)
        tensor.offset += start
    return start + end
