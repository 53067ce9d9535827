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
import sys
import tempfile
import time
import traceback
import zipfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sources" / "checkpoints")]

from making import gguf, header, raw  # noqa: E402

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


def seeds() -> dict[str, bytes]:
    """A small file of each format."""
    tensors = {
        "h.0.w": ("F32", [2, 3]),
        "h.1.w": ("F32", [2, 3]),
        "a.qweight": ("I32", [4, 4]),
        "a.scales": ("F16", [1, 4]),
    }
    found = {"a.safetensors": raw(*header(tensors, {"format": "pt"})), "b.safetensors": raw(*header(tensors))}
    found["a.gguf"] = gguf(
        [("blk.0.w", [32, 2], 8, 68), ("v", [8], 0, 32)],
        [
            ("general.architecture", 8, "llama"),
            ("a", 9, (8, ["x", "y"])),
            ("b", 9, (4, [1, 2])),
            ("c", 6, 1.0),
        ],
    )
    found["v1.gguf"] = gguf([("w", [32, 2], 8, 68)], [("a", 8, "x")], version=1, order=">")
    state = pickle.dumps({"model": {"w": [1, 2.5, ("x", None, True)]}, "n": 7}, protocol=2)
    found["legacy.pt"] = b"".join(
        pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {}, {"w": 1}, [])
    )
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/data.pkl", state)
        archive.writestr("a/data/0", bytes(100))
    found["zip.bin"] = packed.getvalue()
    found["m.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": 48}, "weight_map": {"h.0.w": "a.safetensors", "h.1.w": "b.safetensors"}},
        indent=2,
    ).encode()
    tensor = b"\x08\x02\x08\x03\x10\x01\x42\x01w\x4a\x18" + bytes(24)
    graph = b"\x2a" + bytes([len(tensor)]) + tensor
    found["m.onnx"] = b"\x08\x08\x3a" + bytes([len(graph)]) + graph
    for path in sorted((ROOT / "tests" / "fixtures" / "checkpoints").iterdir()):
        found[f"fixture-{path.name}"] = path.read_bytes()
    return found


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
    pool = dict(start)
    names = list(pool)
    count = found = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    until = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            count += 1
            name = chance.choice(names)
            data = damaged(chance, pool[name], pool[chance.choice(names)])
            path = Path(folder) / name
            path.write_bytes(data)
            clock = time.process_time()
            what = ""
            try:
                answers(path)
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
                given.finds.mkdir(parents=True, exist_ok=True)
                (given.finds / f"{found:04d}-{name}").write_bytes(data)
                print(f"{name}: {what}", flush=True)
            # Damage builds on damage, so that later rounds go deeper.
            pool[name] = data if chance.random() < 0.3 and len(data) < 4_000 else start[name]
            path.unlink()
    print(f"{count:,} files, {found:,} finds")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
