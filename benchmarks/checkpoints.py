"""Reading checkpoints: the layout of DeepSeek-V3, and a small file, in whole processes.

The files are sparse: headers as published, 45,395 tensors in 20 shards, and no data. With
modelinfo-cli installed in the same environment (`pip install modelinfo-cli`) it runs in the same rounds.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
import tempfile
from math import prod
from pathlib import Path

import sizer
from benchmarks.processes import SCRIPTS, compare

SHARDS = 20
BYTES = {"BF16": 2, "F32": 4}


def write(path: Path, tensors: list[tuple[str, list[int]]]) -> int:
    """A file with that header; the bytes that its data would take."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in tensors:
        end = at + 2 * prod(shape)
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(file.tell() + at)
    return at


def shards(folder: Path, preset: str) -> Path:
    """The checkpoint of a preset in shards, with its index; the first of them."""
    tensors = [(t.name, list(t.shape)) for t in sizer.load(preset).tensors()]
    each = -(-len(tensors) // SHARDS)
    index = {}
    total = 0
    for i in range(SHARDS):
        name = f"model-{i + 1:05d}-of-{SHARDS:05d}.safetensors"
        part = sorted(tensors[i * each : (i + 1) * each])
        total += write(folder / name, part)
        index |= {tensor: name for tensor, _ in part}
    text = json.dumps(
        {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}, indent=2
    )
    (folder / "model.safetensors.index.json").write_text(text)
    return folder / f"model-00001-of-{SHARDS:05d}.safetensors"


def report(rounds: int) -> None:
    """Print times of both, as ratios to a count of a preset."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        large = shards(folder, "deepseek-v3")
        small = folder / "small.safetensors"
        write(small, [(t.name, list(t.shape)) for t in sizer.load("gpt2-small").tensors()])
        run = [sys.executable, "-m", "sizer", "count"]
        chosen = {
            "sizer count gpt2-small": [*run, "--preset", "gpt2-small"],
            "sizer count small file": [*run, str(small)],
            "sizer count DeepSeek-V3": [*run, str(large)],
        }
        peer = shutil.which("modelinfo", path=str(SCRIPTS))
        if peer:
            chosen["modelinfo DeepSeek-V3"] = [peer, str(large)]
        compare(chosen, "sizer count gpt2-small", rounds)
        if peer:
            compare({name: chosen[name] for name in list(chosen)[2:]}, "modelinfo DeepSeek-V3", rounds)
