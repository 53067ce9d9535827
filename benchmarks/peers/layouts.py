"""Checkpoints with the headers of the published files and holes in place of their data."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import sizer
from benchmarks.peers.subjects import Subject

Entry = tuple[str, str, tuple[int, ...]]
BYTES = {"F32": 4, "BF16": 2, "F16": 2, "I32": 4, "F8_E4M3": 1, "U8": 1}
SHARD = 5 * 10**9


def plain(entries: Iterable[Entry]) -> Iterator[Entry]:
    """As they are."""
    yield from entries


def gpt2(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The file of gpt2 is of the base model, in fp32, and holds the causal masks."""
    for name, _, shape in entries:
        name = name.removeprefix("transformer.")
        yield name, "F32", shape
        if name.endswith("attn.c_attn.weight"):
            yield name.replace("c_attn.weight", "bias"), "F32", (1, 1, 1024, 1024)


def fp8(entries: Iterable[Entry]) -> Iterator[Entry]:
    """FP8 in blocks of 128 × 128 with a scale each; tables, norms and routers are not packed."""
    for name, dtype, shape in entries:
        if name.endswith("e_score_correction_bias"):
            yield name, "F32", shape
        elif name.endswith(("_proj.weight", "_mqa.weight")):
            yield name, "F8_E4M3", shape
            yield f"{name}_scale_inv", "F32", tuple(-(-size // 128) for size in shape)
        else:
            yield name, dtype, shape


def gptq(entries: Iterable[Entry]) -> Iterator[Entry]:
    """AutoGPTQ's four bits in groups of 128: eight weights an int32, zeros, scales and groups beside them."""
    for name, _, shape in entries:
        if not name.endswith("_proj.weight"):
            yield name, "F16", shape
            continue
        stem, (outputs, inputs) = name.removesuffix("weight"), shape
        yield f"{stem}qweight", "I32", (inputs // 8, outputs)
        yield f"{stem}qzeros", "I32", (inputs // 128, outputs // 8)
        yield f"{stem}scales", "F16", (inputs // 128, outputs)
        yield f"{stem}g_idx", "I32", (inputs,)


def mxfp4(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Experts in MXFP4: 32 weights in 16 bytes, and a byte for their exponent."""
    for name, dtype, shape in entries:
        if name.endswith("_proj") and len(shape) == 3:
            experts, inputs, outputs = shape
            yield f"{name}_blocks", "U8", (experts, outputs, inputs // 32, 16)
            yield f"{name}_scales", "U8", (experts, outputs, inputs // 32)
        else:
            yield name, dtype, shape


LAYOUTS = {"plain": plain, "gpt2": gpt2, "fp8": fp8, "gptq": gptq, "mxfp4": mxfp4}


def tensors(subject: Subject) -> list[Entry]:
    """The tensors of the published checkpoint.

    Names and shapes are sizer's, so they prove nothing by themselves: what they add up to must be
    the total that others publish.
    """
    model = sizer.load(subject.config)
    whole = [t for t in model.tensors() if t.tied_to is None]
    total = sum(prod(t.shape) for t in whole if t.kind == "param")
    if total != subject.total:
        raise SystemExit(
            f"{subject.key}: tensors add up to {total:,}, the published total is {subject.total:,}"
        )
    return list(LAYOUTS[subject.layout]((t.name, "BF16", tuple(t.shape)) for t in whole))


def header(entries: Iterable[Entry]) -> tuple[bytes, int]:
    """The bytes before the data of a safetensors file, and those of the data."""
    found: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, dtype, shape in sorted(entries):
        end = at + BYTES[dtype] * prod(shape)
        found[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(found, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def write(folder: Path, subject: Subject) -> None:
    """The configuration and the files, sparse, in shards of 5 GB as the hub has them."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(subject.config, indent=2))
    shards: list[list[Entry]] = [[]]
    size = total = 0
    for entry in tensors(subject):
        bytes_ = BYTES[entry[1]] * prod(entry[2])
        if size and size + bytes_ > SHARD:
            shards.append([])
            size = 0
        shards[-1].append(entry)
        size, total = size + bytes_, total + bytes_
    index: dict[str, str] = {}
    for number, entries in enumerate(shards, start=1):
        file = "model.safetensors"
        if len(shards) > 1:
            file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        text, data = header(entries)
        with (folder / file).open("wb") as opened:
            opened.write(text)
            opened.truncate(len(text) + data)
        index |= {name: file for name, _, _ in entries}
    if len(shards) > 1:
        whole = {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}
        (folder / "model.safetensors.index.json").write_text(json.dumps(whole, indent=2))


def stored(folder: Path) -> dict[str, int]:
    """The elements of each type that the headers of a folder hold."""
    found: Counter[str] = Counter()
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            entries = json.loads(opened.read(length))
        for name, entry in entries.items():
            if name != "__metadata__":
                found[entry["dtype"]] += prod(entry["shape"])
    return dict(found)


def weights_file(folder: Path) -> Path:
    """What a reader of files is given: the index, or the only file."""
    index = folder / "model.safetensors.index.json"
    return index if index.exists() else folder / "model.safetensors"
