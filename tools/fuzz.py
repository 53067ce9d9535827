"""Throw damaged files at every reader of checkpoints: `python tools/fuzz.py [--seconds N] [--seed N]`.

Each input must end in an answer or an error for people, within a second of processor time and 200 MB.
What does not is written to the folder of `--finds` and printed; a find belongs into
`tests/sources/checkpoints/` as a test.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sources" / "checkpoints")]

from making import gguf, header, raw  # noqa: E402
from test_logical import ROWS  # noqa: E402

import sizer  # noqa: E402
from sizer.report import checkpoint as report  # noqa: E402
from sizer.report import checkpoint_tensors  # noqa: E402
from sizer.sources.checkpoints import compact, safetensors  # noqa: E402

NUMBERS = [
    n.to_bytes(size, "little")
    for size in (1, 2, 4, 8)
    for n in (0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)
]
WORDS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\u0041",
    b'"__metadata__"',
    b"null",
    b"1e9",
    b"-1",
    b"\1",
]
WORDS += [b'":{"dtype":"', b'","shape":[', b'],"data_offsets":[', b']},"', b"]}}", b"\n", b"\x80\x02", b"."]


class Seed(NamedTuple):
    """The files of a folder, and which of them is read; all of them, as a folder, for an empty name."""

    reader: str
    files: dict[str, bytes]
    target: str


def seeds() -> list[Seed]:
    """Something small for each reader."""
    tensors = {
        "h.0.w": ("F32", [2, 3]),
        "h.1.w": ("F32", [2, 3]),
        "a.qweight": ("I32", [4, 4]),
        "a.scales": ("F16", [1, 4]),
    }
    plain, named = raw(*header(tensors)), raw(*header(tensors, {"format": "pt"}))
    found = [alone("safetensors", "a.safetensors", named), alone("safetensors", "b.safetensors", plain)]
    keys = [
        ("general.architecture", 8, "llama"),
        ("a", 9, (8, ["x", "y"])),
        ("b", 9, (4, [1, 2])),
        ("c", 6, 1.0),
    ]
    found += [
        alone("gguf", "a.gguf", gguf([("blk.0.w", [32, 2], 8, 68), ("v", [8], 0, 32)], keys)),
        alone("gguf", "v1.gguf", gguf([("w", [32, 2], 8, 68)], [("a", 8, "x")], version=1, order=">")),
        alone("torch, legacy", "legacy.pt", legacy()),
        alone("torch, zip", "zip.bin", zipped()),
        alone("onnx", "m.onnx", onnx()),
    ]
    for path in sorted((ROOT / "tests" / "fixtures" / "checkpoints").iterdir()):
        found.append(alone(path.suffix[1:], path.name, path.read_bytes()))
    shards = {"m-00001-of-00002.safetensors": "h.0.w", "m-00002-of-00002.safetensors": "h.1.w"}
    parts = {file: raw(*header({name: ("F32", [2, 3])})) for file, name in shards.items()}
    listed = {name: file for file, name in shards.items()}
    index = json.dumps({"metadata": {"total_size": 48}, "weight_map": listed}, indent=2).encode()
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n"
    where = "m.safetensors.index.json"
    adapter = {"adapter_config.json": b'{"peft_type": "LORA", "r": 8, "base_model_name_or_path": "x/y"}'}
    ranks = {
        f"consolidated.0{i}.safetensors": raw(*header({"layers.0.attention.wq.weight": ("F32", [2, 4])}))
        for i in range(2)
    }
    found += [
        Seed("index.json", {where: index, **parts}, where),
        Seed("lfs pointer", {where: index, **dict.fromkeys(parts, pointer)}, where),
        Seed("lfs pointer", {"a.safetensors": pointer}, ""),
        Seed("adapter_config.json", {**adapter, "adapter_model.safetensors": plain}, ""),
        Seed("params.json", {"params.json": b'{"dim": 4, "n_layers": 1}', **ranks}, ""),
    ]
    for name, packed, config, _, _ in ROWS:
        weights = {"model.safetensors": raw(*header(packed))}
        reader = "mlx" if "mlx" in name else "quantization configs"
        beside = {"config.json": json.dumps({"model_type": "x", **config}).encode()}
        found.append(Seed(reader, {**beside, **weights}, "model.safetensors"))
    modelopt = {"hf_quant_config.json": b'{"quantization": {"quant_algo": "NVFP4", "group_size": 16}}'}
    nvfp4 = header({"a.weight": ("U8", [4, 8]), "a.weight_scale": ("F8_E4M3", [4, 1])})
    found.append(Seed("hf_quant_config.json", {**modelopt, "model.safetensors": raw(*nvfp4)}, ""))
    return found


def alone(reader: str, name: str, data: bytes) -> Seed:
    """One file."""
    return Seed(reader, {name: data}, name)


def legacy() -> bytes:
    """The pickles of a file of torch before 1.6."""
    return b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {}, {"w": 1}, []))


def zipped() -> bytes:
    """An archive with a pickle in it."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        state = {"model": {"w": [1, 2.5, ("x", None, True)]}, "n": 7}
        archive.writestr("a/data.pkl", pickle.dumps(state, protocol=2))
        archive.writestr("a/data/0", bytes(100))
    return packed.getvalue()


def onnx() -> bytes:
    """A graph with one initializer."""
    tensor = b"\x08\x02\x08\x03\x10\x01\x42\x01w\x4a\x18" + bytes(24)
    graph = b"\x2a" + bytes([len(tensor)]) + tensor
    return b"\x08\x08\x3a" + bytes([len(graph)]) + graph


def damaged(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """A file with a few places changed, cut out, doubled, or taken from another file."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at = chance.randrange(len(out) + 1)
        how = chance.randrange(7)
        if how == 0 and out:
            out[at - 1] ^= 1 << chance.randrange(8)
        elif how == 1:
            del out[at : at + chance.randint(1, 40)]
        elif how == 2:
            out[at:at] = out[at : at + chance.randint(1, 60)]
        elif how == 3:
            number = chance.choice(NUMBERS)
            out[at : at + len(number)] = number
        elif how == 4:
            out[at:at] = chance.choice(WORDS)
        elif how == 5:
            start = chance.randrange(len(other) + 1)
            out[at:at] = other[start : start + chance.randint(1, 60)]
        else:
            del out[at:]
    return bytes(out)


def answers(path: Path) -> None:
    """Read a file in every way; only an error for people may come out, in one line."""
    try:
        found = sizer.load_checkpoint(path)
        answer = report.report(found)
        answer.document()
        answer.view()
        list(checkpoint_tensors.report(found, expand=True).document())
    except sizer.SizerError as error:
        message = str(error)
        assert 0 < len(message) < 1500, message[:200]
        assert "\n" not in message, message


def agrees(text: bytes) -> None:
    """What the quick way takes for a header must be JSON, with the same entries."""
    at = text.find(b'"')
    parts = compact.parts(text[at:].rstrip()[:-1]) if at >= 0 else None
    if parts is None or text[:at].strip() != b"{" or text.rstrip()[-1:] != b"}":
        return
    try:
        safetensors.parse(io.BytesIO(bytes(8) + text), len(text), "x", "x")
    except sizer.SizerError:
        return
    pairs = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    assert [name for name, _ in pairs] == [name.decode() for name in parts.names]
    for (_, entry), kind, places in zip(pairs, parts.kinds, parts.offsets.split(b"|"), strict=True):
        fields = dict(entry)
        dtype, dims = compact.dtype_and_dims(kind)
        assert len(entry) == 3
        assert fields["dtype"].encode() == dtype
        assert fields["data_offsets"] == list(map(int, places.split(b",")))
        assert fields["shape"] == json.loads(b"[" + dims + b"]")


def main() -> int:
    """Fuzz until the time is over; the exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--finds", type=Path, default=Path(tempfile.gettempdir()) / "sizer-finds")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    start = seeds()
    pool = [dict(seed.files) for seed in start]
    by_reader: dict[str, list[int]] = {}
    for i, seed in enumerate(start):
        by_reader.setdefault(seed.reader, []).append(i)
    done: Counter[str] = Counter()
    found = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    until = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < until:
            # Every reader as often as any other, however many seeds it has.
            reader = chance.choice(list(by_reader))
            i = chance.choice(by_reader[reader])
            files, target = pool[i], start[i].target
            name = chance.choice(list(files))
            other = chance.choice(list(chance.choice(pool).values()))
            data = damaged(chance, files[name], other)
            folder = Path(place) / f"{i}"
            folder.mkdir()
            for file, content in {**files, name: data}.items():
                (folder / file).write_bytes(content)
            done[reader] += 1
            clock = time.process_time()
            what = ""
            try:
                answers(folder / target)
                if name.endswith(".safetensors"):
                    agrees(data[8:])
            except Exception:
                what = traceback.format_exc()
            took = time.process_time() - clock
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if took > 1 or after - before > 200_000:
                what += f"\n{took:.2f} s, {(after - before) / 1000:.0f} MB more"
            before = max(before, after)
            if what:
                found += 1
                shutil.copytree(folder, given.finds / f"{found:04d}", dirs_exist_ok=True)
                print(f"{reader}, {name} of {target or 'a folder'}: {what}", flush=True)
            # Damage builds on damage, so that later rounds go deeper.
            deeper = chance.random() < 0.3 and len(data) < 4_000
            pool[i] = {**files, name: data} if deeper else dict(start[i].files)
            shutil.rmtree(folder)
    for reader, times in sorted(done.items()):
        print(f"{reader:24} {times:>12,}")
    print(f"{sum(done.values()):,} in all, {found:,} finds")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
