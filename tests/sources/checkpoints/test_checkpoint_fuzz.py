"""Any bytes at all end in an answer or an error for people, in bounded time and memory."""

from __future__ import annotations

import pickle
import re
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import gguf, header, raw, sharded
from repository import ROOT, unwatched

import sizer
from sizer.report import checkpoint as report
from sizer.report import checkpoint_tensors
from sizer.sources.checkpoints import scan

FIXTURES = sorted((ROOT / "tests" / "fixtures" / "checkpoints").iterdir())
SMALL = header({"a.weight": ("F32", [2, 3]), "a.bias": ("I8", [3]), "b.qweight": ("I32", [4, 4])}, {"k": "v"})
STATE = pickle.dumps({"model": {"w": [1, 2.5, ("x", None, True)]}, "n": 7}, protocol=2)
LEGACY = b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {}, {"w": 1}, []))
SEEDS: dict[str, bytes] = {
    "x.safetensors": raw(*SMALL),
    "x.gguf": gguf(
        [("w", [32, 2], 8, 68), ("v", [8], 0, 32)],
        [
            ("general.architecture", 8, "llama"),
            ("a", 9, (8, ["x", "y"])),
            ("b", 9, (4, [1, 2])),
            ("c", 6, 1.0),
        ],
    ),
    "x.pt": LEGACY,
    "y.safetensors.index.json": b'{"metadata": {"total_size": 8}, "weight_map": {"w": "z.safetensors"}}',
}


def answers(path: Path, data: bytes) -> None:
    """Read a file of those bytes; only an error for people may come out."""
    path.write_bytes(data)
    try:
        found = sizer.load_checkpoint(path)
        answer = report.report(found)
        assert answer.value
        answer.document()
        answer.view()
        list(checkpoint_tensors.report(found, expand=True).document())
    except sizer.SizerError as error:
        message = str(error)
    else:
        return
    assert 0 < len(message) < 1500
    assert "\n" not in message


def mutated(draw: Any, data: bytes) -> bytes:
    """A seed with a few bytes changed, cut out, doubled or replaced by a number."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        how = draw(st.integers(0, 5))
        if how == 0 and out:
            out[at] = draw(st.integers(0, 255))
        elif how == 1:
            del out[at : at + draw(st.integers(1, 40))]
        elif how == 2:
            out[at:at] = out[at : at + draw(st.integers(1, 60))]
        elif how == 3:
            number = draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]))
            out[at : at + 8] = struct.pack("<Q", number)
        elif how == 4:
            out[at:at] = draw(st.binary(max_size=20))
        else:
            del out[at:]
    return bytes(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", SEEDS)
@given(data=st.data())
def test_mutated_files(folder: Path, name: str, data: st.DataObject) -> None:
    answers(folder / name, mutated(data.draw, SEEDS[name]))


@given(data=st.data())
def test_mutated_headers_of_safetensors(folder: Path, data: st.DataObject) -> None:
    text = mutated(data.draw, SMALL[0])
    answers(folder / "h.safetensors", raw(text, SMALL[1]))


@given(data=st.data())
def test_mutated_pickles(folder: Path, data: st.DataObject) -> None:
    path = folder / "p.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", mutated(data.draw, STATE))
    answers(path, path.read_bytes())


@given(data=st.data())
def test_mutated_archives(folder: Path, data: st.DataObject) -> None:
    path = folder / "z.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", STATE)
        archive.writestr("a/data/0", bytes(100))
    answers(path, mutated(data.draw, path.read_bytes()))


@given(data=st.data())
def test_mutated_fixtures(folder: Path, data: st.DataObject) -> None:
    fixture = data.draw(st.sampled_from(FIXTURES))
    answers(folder / fixture.name, mutated(data.draw, fixture.read_bytes()))


@given(name=st.sampled_from([*SEEDS, "x.bin", "x.ckpt", "noname"]), data=st.binary(max_size=200))
def test_any_bytes(folder: Path, name: str, data: bytes) -> None:
    answers(folder / name, data)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.tuples(st.sampled_from(["F32", "BF16", "U8", "I64"]), st.lists(st.integers(0, 9), max_size=4)),
        max_size=8,
    )
)
def test_what_is_written_is_read(folder: Path, tensors: dict[str, Any]) -> None:
    tensors.pop("__metadata__", None)
    path = folder / "r.safetensors"
    path.write_bytes(raw(*header(tensors, {"format": "pt"})))

    found = sizer.load_checkpoint(path)

    assert {t.name: t.shape for t in found.stored} == {n: tuple(shape) for n, (_, shape) in tensors.items()}


SPACES = st.sampled_from(["", "", "", "", " ", "\n\t"])


@given(data=st.data(), every=SPACES)
def test_spaces_between_the_tokens_of_a_header_change_nothing(
    folder: Path, data: st.DataObject, every: str
) -> None:
    text, size = header({"a.1.w": ("F32", [2, 3]), "b": ("BF16", []), "c": ("U8", [0, 12])}, {"k": "v w"})
    tokens = re.findall(r'"[^"]*"|[0-9]+|[][{}:,]', text.decode())
    spaced = "".join(token + (every or data.draw(SPACES)) for token in tokens)
    path = folder / "s.safetensors"
    path.write_bytes(raw(spaced.encode(), size))

    found = sizer.load_checkpoint(path)

    assert found.metadata == {"k": "v w"}
    start = 8 + len(spaced)
    assert [(t.name, t.shape, t.dtype, (t.offset or 0) - start) for t in found.stored] == [
        ("a.1.w", (2, 3), "fp32", 0),
        ("b", (), "bf16", 24),
        ("c", (0, 12), "uint8", 26),
    ]


STEPS = st.sampled_from(["0", "1", "10", "11", "a", "w1", "w12", "q_proj"])
LASTS = st.sampled_from(["weight", "weight_scale", "weight_scale_inv", "bias", "0", "1", "2", "w1", "scales"])


@given(
    st.dictionaries(
        st.builds(lambda steps, last: ".".join([*steps, last]), st.lists(STEPS, max_size=3), LASTS),
        st.sampled_from([("F8_E4M3", [4, 4]), ("F8_E4M3", [8, 4]), ("F32", [1]), ("I8", [4, 4])]),
        max_size=12,
    )
)
def test_to_count_modules_by_kind_is_to_count_them_all(folder: Path, tensors: dict[str, Any]) -> None:
    place = folder / "kinds"
    names = list(tensors)
    path = sharded(place, [{n: tensors[n] for n in names[::2]}, {n: tensors[n] for n in names[1::2]}])
    one, whole = sizer.load_checkpoint(path), sizer.load_checkpoint(path)
    assert len(whole.logical.weights) + len(whole.logical.helpers) == len(tensors)

    found, expected = one.count(), whole.count()

    assert found == expected
    assert [p.partition(" ")[2] for p in one.problems] == [p.partition(" ")[2] for p in whole.problems]


# What looks like the usual form, and is no JSON, or says something else.
@pytest.mark.parametrize(
    "entry",
    [
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}|[1]}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0 1]}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,01]}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,+1]}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[,0,1]}',
        '"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}',
        '"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}',
        '"a":{"dtype":"U8","shape":[1_0],"data_offsets":[0,10]}',
        '"a":{"dtype":"U8","shape":[1]],"data_offsets":[0,1]}',
        '"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}',
        '"a":{"dtype":"U8,"shape":[1],"data_offsets":[0,1]}',
        '"a"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
        '"a\\":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
        '"a\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
        'x"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},',
    ],
)
def test_what_is_nearly_the_usual_form_is_refused(folder: Path, entry: str) -> None:
    path = folder / "n.safetensors"
    path.write_bytes(raw(f"{{{entry}}}".encode(), 1))

    with pytest.raises(sizer.SizerError):
        sizer.load_checkpoint(path)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=6), st.booleans())
def test_both_ways_to_read_flat_texts_agree(values: dict[str, str], quick: bool) -> None:
    import json

    data = json.dumps(values).encode()
    try:
        found, end = scan.texts(data, 0, "x", 100, 2**63 if quick else len(data))
    except sizer.SizerError:
        # A lone surrogate is no text.
        assert any(0xD800 <= ord(c) < 0xE000 for text in (*values, *values.values()) for c in text)
        return
    assert (found, end) == (values, len(data))


def _sparse(path: Path, head: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def _key(name: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name


GGUF_HEAD = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _key(b"t")
BIG: dict[str, tuple[bytes, int]] = {
    "header.safetensors": (struct.pack("<Q", 2**64 - 1), 2**40),
    "spaces.safetensors": (struct.pack("<Q", 49_000_000) + b"{" + b" " * 48_999_998 + b"}", 49_000_008),
    "lists.safetensors": (struct.pack("<Q", 49_000_000) + b'{"a":' + b"[]," * 16_333_331, 49_000_008),
    "texts.gguf": (GGUF_HEAD + struct.pack("<IIQ", 9, 8, 2_000_000), 2**40),
    "more.gguf": (GGUF_HEAD + struct.pack("<IIQ", 9, 8, 2**36), 2**42),
    "numbers.gguf": (GGUF_HEAD + struct.pack("<IIQ", 9, 0, 2**40), 2**42),
    "zeros.pt": (b"\x80\x02", 2**40),
    "zip.pt": (b"PK\x03\x04", 2**40),
    "index.safetensors.index.json": (b'{"weight_map":' + b"[" * 40_000_000, 40_000_014),
}


def _header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _archive(*pickles: bytes, more: int = 0) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02" + b"".join(pickles) + b".")
        for i in range(more):
            archive.writestr(f"a/data/{i}", b"")
    return packed.getvalue()


def _entry(name: bytes = b'"a"', shape: bytes = b"1", end: bytes = b"1") -> bytes:
    return b'%b:{"dtype":"U8","shape":[%b],"data_offsets":[0,%b]}' % (name, shape, end)


LONG: dict[str, Callable[[], bytes]] = {
    "lists-in-lists.safetensors": lambda: _header(b'{"a":' + b"[" * 90_000_000),
    "objects-in-objects.safetensors": lambda: _header(b'{"a":' * 18_000_000),
    "digits-of-a-size.safetensors": lambda: _header(b"{%b}" % _entry(shape=b"9" * 90_000_000)),
    "digits-of-an-offset.safetensors": lambda: _header(b"{%b}" % _entry(end=b"9" * 90_000_000)),
    "sizes.safetensors": lambda: _header(b"{%b}" % _entry(shape=b"1," * 45_000_000 + b"1")),
    "a-name.safetensors": lambda: _header(b"{%b}" % _entry(name=b'"%b"' % (b"n" * 90_000_000))),
    "quotes.safetensors": lambda: _header(b"{" + b'"' * 90_000_000),
    "beginnings.safetensors": lambda: _header(b"{" + b'"a":{"dtype":"F","shape":[' * 3_600_000),
    "nearly-ends.safetensors": lambda: _header(b"{" + _entry()[:-2] * 1_800_000),
    "spaces-within.safetensors": lambda: _header(b"{" + (b'"a" : { "dtype"' + b" " * 900) * 98_000),
    "metadata.safetensors": lambda: _header(b'{"__metadata__":{"a":"' + b"x" * 50_000_000 + b'"}}'),
    "metadata-escapes.safetensors": lambda: _header(
        b'{"__metadata__":{"a":"' + b"\\u0041" * 3_000_000 + b'"}}'
    ),
    "key-by-key.safetensors": lambda: _header(
        b"{"
        + b",".join(b'"%d":{"shape":[0],"dtype":"U8","data_offsets":[0,0]}' % i for i in range(100_000))
        + b"}"
    ),
    "shapes.safetensors": lambda: _header(
        b"{" + b",".join(_entry(b'"%d"' % i, b"0,%d" % i, b"0") for i in range(100_000)) + b"}"
    ),
    "pairs.safetensors.index.json": lambda: (
        b'{"weight_map":{' + b",".join(b'"w.%d":"a.safetensors"' % i for i in range(400_000)) + b"}}"
    ),
    "files.safetensors.index.json": lambda: (
        b'{"weight_map":{' + b",".join(b'"w.%d":"a%d.safetensors"' % (i, i) for i in range(290_000)) + b"}}"
    ),
    "nested.safetensors.index.json": lambda: b'{"metadata":' + b'{"a":' * 8_000_000,
    "long.safetensors.index.json": lambda: b'{"weight_map":{"' + b"w" * 48_000_000 + b'":"a.safetensors"}}',
    "tensors.gguf": lambda: b"GGUF" + struct.pack("<IQQ", 3, 1_000_000, 0) + bytes(50_000_000),
    "arrays.gguf": lambda: GGUF_HEAD + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 2_000_000,
    "lists.bin": lambda: _archive(b"]" * 490_000 + b"a" * 489_999),
    "memo.bin": lambda: _archive(b"]", b"".join(b"r" + struct.pack("<I", i) for i in range(990_000))),
    "tuples.bin": lambda: _archive(b")" + b"\x85" * 990_000),
    "doubling.bin": lambda: _archive(b")" + b"q\0h\0h\0\x86" * 190_000),
    "marks.bin": lambda: _archive(b"(" * 999_000),
    "a-number.bin": lambda: _archive(b"I" + b"9" * 30_000_000 + b"\n"),
    "a-long.bin": lambda: _archive(b"\x8b" + struct.pack("<I", 30_000_000) + b"\x7f" * 30_000_000),
    "members.bin": lambda: _archive(b"N", more=100_000),
    "nodes.onnx": lambda: b"\x08\x08\x3a\x80\x89\x7a" + b"\x0a\x00" * 1_000_000,
}


@pytest.mark.parametrize("name", [*BIG, *LONG])
def test_big_and_hostile_files_stay_within_bounds(tmp_path: Path, name: str) -> None:
    if name in BIG:
        _sparse(tmp_path / name, *BIG[name])
    else:
        (tmp_path / name).write_bytes(LONG[name]())
    environment = {**unwatched(), "PYTHONPATH": str(ROOT)}

    def bounded() -> None:
        # Processor time, since the machine may be busy; the bound for people is a second of it.
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))

    done = subprocess.run(
        [sys.executable, "-m", "sizer", "count", str(tmp_path / name), "-q"],
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=bounded,
        check=False,
    )

    assert done.returncode in (0, 2), done.stderr
    assert (done.stdout == "") == (done.returncode == 2)
