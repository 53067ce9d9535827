"""GGUF: versions, byte orders, types, splits, and headers that lie."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from making import gguf

import sizer
from sizer.sources.checkpoints.ggml import TYPES

TENSORS = [("token_embd.weight", [64, 100], 0, 64 * 100 * 4), ("output_norm.weight", [64], 0, 256)]


def counted(path: Path, data: bytes) -> sizer.Checkpoint:
    path.write_bytes(data)
    return sizer.load_checkpoint(path)


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_and_byte_orders(tmp_path: Path, version: int, order: str) -> None:
    keys = [("general.architecture", 8, "llama"), ("tokenizer.ggml.tokens", 9, (8, ["a", "b"] * 5000))]
    found = counted(tmp_path / "m.gguf", gguf(TENSORS, keys, version=version, order=order))

    assert (found.count().total, found.complete, found.architecture) == (6464, True, "llama")
    assert found.stored[0].shape == (100, 64)
    assert found.metadata["tokenizer.ggml.tokens"] == "(10,000 texts)"


@pytest.mark.parametrize("kind", TYPES, ids=[name for name, _, _ in TYPES.values()])
def test_every_type(tmp_path: Path, kind: int) -> None:
    name, block, width = TYPES[kind]
    rows = 3
    found = counted(tmp_path / "m.gguf", gguf([("w", [block * 2, rows], kind, 2 * width * rows)]))

    stored = found.stored[0]
    assert (stored.dtype, stored.elements, stored.bytes) == (name, 2 * block * rows, 2 * width * rows)
    assert found.contents.problems == []


# what is wrong, the bytes of a file, what the error says
HOSTILE: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("short", b"GGUF" + b"\0" * 8, "too few"),
    ("not GGUF", b"GGML" + b"\0" * 40, "does not begin with 'GGUF'"),
    ("version 9", b"GGUF" + struct.pack("<IQQ", 9, 0, 0) + b"\0" * 8, "version 9"),
    ("tensors beyond the file", b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "tensors, more than fit"),
    ("key longer than the file", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 60_000) + b"\0" * 9, "cut off"),
    ("key of 2^40", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**40) + b"\0" * 9, "over the 65,535"),
    ("value of type 99", gguf([], [("k", 99, 0)]) if False else b"GGUF"
     + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IQ", 99, 0), "type 99"),
    ("array beyond the file", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k"
     + struct.pack("<IIQ", 9, 4, 2**61), "more than fit"),
    ("nested arrays", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 9)
     + struct.pack("<IQ", 9, 1) * 6 + b"\0" * 99, "nested over 3"),
    ("arrays side by side", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k"
     + struct.pack("<IIQ", 9, 9, 2_000) + struct.pack("<IQ", 4, 0) * 2_000, "an array of 2,000 arrays"),
    ("key twice", gguf([], [("k", 4, 1), ("k", 4, 2)]), "'k' twice"),
    ("alignment 0", gguf([], [("general.alignment", 4, 0)]), "power of two"),
    ("alignment 2^30", gguf([], [("general.alignment", 4, 2**30)]), "power of two"),
    ("alignment 33", gguf([], [("general.alignment", 4, 33)]), "power of two"),
    ("alignment of text", gguf([], [("general.alignment", 8, "32")]), "power of two"),
    ("type 77", gguf([("w", [32], 77, 4)]), "type 77"),
    ("part of a block", gguf([("w", [33], 2, 36)]), "no whole number of q4_0 blocks"),
    ("line break in a name", gguf([("a\nb", [33], 2, 36)]), r"a\nb: rows of 33"),
    ("tensor twice", gguf([("w", [32], 0, 128)] * 2), "'w' twice"),
    ("overlap", gguf([("v", [64], 0, 32), ("w", [64], 0, 256)]), "overlaps"),
    ("hole", gguf([("v", [8], 0, 320), ("w", [8], 0, 32)]), "leaves a hole"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_hostile(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(sizer.SizerError, match=r"m\.gguf") as caught:
        counted(tmp_path / "m.gguf", data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_alignment(tmp_path: Path) -> None:
    keys = [("general.alignment", 4, 64)]
    found = counted(tmp_path / "m.gguf", gguf([("v", [8], 0, 32), ("w", [8], 0, 32)], keys, alignment=64))

    assert (found.count().total, found.complete) == (16, True)


def split(folder: Path, parts: int, total: int) -> list[Path]:
    paths = []
    for i in range(parts):
        keys = [("split.no", 2, i), ("split.count", 2, parts), ("split.tensors.count", 5, total)]
        path = folder / f"m-{i + 1:05d}-of-{parts:05d}.gguf"
        path.write_bytes(gguf([(f"blk.{i}.ffn_up.weight", [32, 4], 8, 136)], keys))
        paths.append(path)
    return paths


def test_a_split_file_is_read_whole(tmp_path: Path) -> None:
    paths = split(tmp_path, 3, 3)

    for path in (*paths, tmp_path):
        found = sizer.load_checkpoint(path)
        assert (found.count().total, found.complete) == (3 * 128, True)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = split(tmp_path, 3, 3)
    paths[1].unlink()

    found = sizer.load_checkpoint(paths[0])

    assert found.count().total == 2 * 128
    assert [(m.file, m.tensors) for m in found.missing] == [("m-00002-of-00003.gguf", 1)]


def test_a_grand_total_that_contradicts_is_said(tmp_path: Path) -> None:
    found = sizer.load_checkpoint(split(tmp_path, 2, 5)[0])

    assert "says 5 tensors" in found.problems[0]


def test_a_grand_total_that_is_no_number_says_nothing(tmp_path: Path) -> None:
    for i in (1, 2):
        keys = [("split.tensors.count", 8, "many")]
        data = gguf([(f"blk.{i}.ffn_up.weight", [32, 4], 0, 512)], keys)
        (tmp_path / f"m-0000{i}-of-00002.gguf").write_bytes(data)

    found = sizer.load_checkpoint(tmp_path)

    assert (found.count().total, found.complete) == (2 * 128, True)


def test_a_text_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    # Pieces of the file are of 64 KiB at first; of many texts the second reaches over the next piece.
    words = ["a", "b" * 200_000, "c", *("d" for _ in range(2_000))]
    found = counted(tmp_path / "m.gguf", gguf(TENSORS, [("tokenizer.ggml.tokens", 9, (8, words))]))

    assert (found.count().total, found.complete) == (6464, True)
    assert found.metadata["tokenizer.ggml.tokens"] == "(2,003 texts)"


def test_experts_and_active(tmp_path: Path) -> None:
    keys = [("general.architecture", 8, "m"), ("m.expert_count", 4, 8), ("m.expert_used_count", 4, 2)]
    tensors = [
        ("blk.0.ffn_up_exps.weight", [32, 4, 8], 0, 4096),
        ("blk.0.ffn_up_shexp.weight", [32, 4], 0, 512),
        ("blk.0.exp_probs_b.bias", [8], 0, 32),
        ("output.weight", [32, 2], 0, 256),
        ("rope_freqs.weight", [8], 0, 32),
    ]
    found = counted(tmp_path / "m.gguf", gguf(tensors, keys)).count()

    assert (found.total, found.active, found.buffers) == (1024 + 128 + 64, 256 + 128 + 64, 16)
    assert found.components == {"experts": 1152, "head": 64}
