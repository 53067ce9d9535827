"""Reading checkpoints: the layout of DeepSeek-V3, and a small file, in whole processes.

The files are sparse: headers as published, in 20 shards, and no data: 45,395 tensors of BF16, and the
same in FP8 with their scales. With modelinfo-cli installed in the same environment
(`pip install modelinfo-cli`) it runs in the same rounds.
"""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
from math import prod
from pathlib import Path

import sizer
from benchmarks.processes import SCRIPTS, compare

SHARDS = 20
BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
Entry = tuple[str, str, list[int]]


def write(path: Path, tensors: list[Entry]) -> int:
    """A file with that header; the bytes that its data would take."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, dtype, shape in tensors:
        end = at + BYTES[dtype] * prod(shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(file.tell() + at)
    return at


def plain(preset: str) -> list[Entry]:
    """The tensors of a preset in BF16."""
    return [(t.name, "BF16", list(t.shape)) for t in sizer.load(preset).tensors()]


def by_block(tensors: list[Entry]) -> list[Entry]:
    """The same with its projections in FP8, and a scale for each 128 × 128 of their weights."""
    found: list[Entry] = []
    for name, dtype, shape in tensors:
        if name.endswith("proj.weight") or "_proj_with_mqa" in name:
            found.append((name, "F8_E4M3", shape))
            found.append((f"{name}_scale_inv", "F32", [-(-size // 128) for size in shape]))
        else:
            found.append((name, dtype, shape))
    return found


def shards(folder: Path, tensors: list[Entry]) -> Path:
    """Tensors in shards, with their index; the first of them."""
    folder.mkdir()
    each = -(-len(tensors) // SHARDS)
    index = {}
    total = 0
    for i in range(SHARDS):
        name = f"model-{i + 1:05d}-of-{SHARDS:05d}.safetensors"
        part = sorted(tensors[i * each : (i + 1) * each])
        total += write(folder / name, part)
        index |= {tensor: name for tensor, _, _ in part}
    text = json.dumps(
        {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}, indent=2
    )
    (folder / "model.safetensors.index.json").write_text(text)
    return folder / f"model-00001-of-{SHARDS:05d}.safetensors"


def report(rounds: int) -> None:
    """Print times of both, as ratios to a count of a preset."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tensors = plain("deepseek-v3")
        large = {
            "DeepSeek-V3": shards(folder / "bf16", tensors),
            "DeepSeek-V3 FP8": shards(folder / "fp8", by_block(tensors)),
        }
        small = folder / "small.safetensors"
        write(small, plain("gpt2-small"))
        run = [str(SCRIPTS / "sizer"), "count"]
        chosen = {
            "sizer count gpt2-small": [*run, "--preset", "gpt2-small"],
            "sizer count small file": [*run, str(small)],
        }
        compare(chosen, "sizer count gpt2-small", rounds)
        peer = shutil.which("modelinfo", path=str(SCRIPTS))
        for name, first in large.items():
            both = {f"sizer count {name}": [*run, str(first)]}
            if peer:
                both[f"modelinfo {name}"] = [peer, str(first)]
            compare(both, list(both)[-1], rounds)
