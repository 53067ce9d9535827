"""Headers up to the 100 MB that safetensors allows: read window by window, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import raw
from repository import unwatched

import sizer
from sizer.sources.checkpoints import safetensors
from sizer.sources.checkpoints.files import read_at

NAME = "model.layers.0.mlp.experts.%d.up_proj.weight"
LONG_NAME = f"model.layers.0.{'a' * 200}.experts.%d.up_proj.weight"


def entries(count: int, name: str = NAME, separators: tuple[str, str] = (",", ":")) -> str:
    """So many tensors of four bytes, without the braces around them."""
    comma, colon = separators
    parts = [f'"dtype"{colon}"BF16"', f'"shape"{colon}[1{comma}2]', f'"data_offsets"{colon}[%d{comma}%d]']
    form = f'"%s"{colon}{{{comma.join(parts)}}}'
    return comma.join([form % (name % i, 4 * i, 4 * i + 4) for i in range(count)])


def write(path: Path, text: str, data: int) -> Path:
    with path.open("wb") as file:
        file.write(raw(text.encode()))
        file.truncate(file.tell() + data)
    return path


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " : ")], ids=["", " ", "lines"])
@pytest.mark.parametrize("metadata", [0, 3_000_000])
def test_windows_are_one_header(tmp_path: Path, separators: tuple[str, str], metadata: int) -> None:
    about = f'"__metadata__":{{"a":"{"x" * metadata}"}},' if metadata else ""
    path = write(
        tmp_path / "m.safetensors", f"{{{about}{entries(30_000, separators=separators)} }}  ", 120_000
    )

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.count().tensors, found.complete) == (60_000, 30_000, True)
    assert [(t.name, t.offset) for t in found.stored[::29_999]] == [
        (NAME % i, path.stat().st_size - 120_000 + 4 * i) for i in (0, 29_999)
    ]


# what is wrong in a far window, and what is said
WRONG: list[tuple[str, str, str]] = [
    ("a name of the first window again", entries(1), "twice"),
    ("an overlap", '"z":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}', "overlaps"),
    ("a wrong size", '"z":{"dtype":"U8","shape":[5],"data_offsets":[120000,120004]}', "takes 5 bytes"),
    ("an unknown type", '"z":{"dtype":"U9","shape":[4],"data_offsets":[120000,120004]}', "named 'U9'"),
    ("no offsets", '"z":{"dtype":"U8","shape":[4]}', "over 20,000 tensors in a header that is unlike"),
    ("a leading zero", '"z":{"dtype":"U8","shape":[4],"data_offsets":[0120000,120004]}', "whole numbers"),
    ("a comma too many", ',"z":{"dtype":"U8","shape":[4],"data_offsets":[120000,120004]}', "unlike"),
]


@pytest.mark.parametrize(("last", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_wrong_in_a_far_window_is_said(tmp_path: Path, last: str, message: str) -> None:
    path = write(tmp_path / "m.safetensors", f"{{{entries(30_000)},{last}}}", 120_004)

    with pytest.raises(sizer.SizerError, match=message):
        sizer.load_checkpoint(path)


def test_tensors_in_another_order_than_their_data(tmp_path: Path) -> None:
    parts = entries(30_000)[:-1].split("},")
    path = write(tmp_path / "m.safetensors", "{" + "},".join(reversed(parts)) + "}}", 120_000)

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.problems) == (60_000, [])
    assert found.stored[-1].offset == path.stat().st_size - 120_000


def reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes of headers are read from now on."""
    read = 0

    def counted(file: Any, offset: int, length: int) -> bytes:
        nonlocal read
        read += length
        return read_at(file, offset, length)

    monkeypatch.setattr(safetensors, "read_at", counted)
    return lambda: read


# Names that no numbers of layers make alike, and how far the header has to be read to know it.
UNLIKE: dict[str, Any] = {
    "letters": lambda i: "".join("abcdefghijklmnop"[i >> 4 * k & 15] for k in range(6)),
    "digits within words": lambda i: f"x{i}y.w{7919 * i}",
    "long names": lambda i: "".join("abcdefghijklmnop"[i >> 4 * k & 15] for k in range(6)) + "n" * 2_000,
}


@pytest.mark.parametrize("kind", UNLIKE)
@pytest.mark.parametrize("shards", [1, 40])
def test_names_that_are_all_unlike_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, shards: int
) -> None:
    name = UNLIKE[kind]
    count = 20_000 if kind == "long names" else 400_000
    each = count // shards
    for i in range(shards):
        form = '"%s":{"dtype":"BF16","shape":[2],"data_offsets":[%d,%d]}'
        text = ",".join([form % (name(i * each + j), 4 * j, 4 * j + 4) for j in range(each)])
        write(tmp_path / f"m-{i + 1:05d}-of-{shards:05d}.safetensors", f"{{{text}}}", 4 * each)
    whole = sum(path.stat().st_size for path in tmp_path.iterdir()) - 4 * count
    read = reading(monkeypatch)

    with pytest.raises(sizer.SizerError, match="differ in more than the numbers of layers"):
        sizer.load_checkpoint(tmp_path)

    assert read() < 0.6 * whole


@pytest.mark.parametrize("shards", [1, 4])
def test_more_tensors_than_any_model_has_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    text, count = f"{{{entries(300_100 * 2 // shards)}}}", 4 * (300_100 * 2 // shards)
    for i in range(shards):
        write(tmp_path / f"m-{i + 1:05d}-of-{shards:05d}.safetensors", text, count)
    read = reading(monkeypatch)

    with pytest.raises(sizer.SizerError, match="over 300,000 tensors, more than sizer reads"):
        sizer.load_checkpoint(tmp_path)

    assert read() < 0.8 * shards * len(text)


def test_layers_of_any_number_are_alike(tmp_path: Path) -> None:
    # More of them than may be unlike, as in Mixtral's files: `w1` is no number of a layer.
    names = "model.layers.%d.block_sparse_moe.experts.0.w1.weight"
    path = write(tmp_path / "m.safetensors", f"{{{entries(250_000, names)}}}", 1_000_000)

    assert sizer.load_checkpoint(path).count().components == {"experts": 500_000}


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux counts it")
@pytest.mark.parametrize("kind", ["tensors", "packed", "backwards", "metadata"])
def test_the_longest_headers_take_200_megabytes_at_most(tmp_path: Path, kind: str) -> None:
    long: dict[str, Any] = {
        "tensors": lambda: (f"{{{entries(300_000, LONG_NAME)}}}", 300_000),
        "packed": lambda: (
            f"{{{entries(300_000, LONG_NAME)}}}".replace('BF16","shape":[1,', 'F8_E4M3","shape":[2,'),
            300_000,
        ),
        "backwards": lambda: (
            "{" + "},".join(entries(300_000, LONG_NAME)[:-1].split("},")[::-1]) + "}}",
            300_000,
        ),
        "metadata": lambda: (f'{{"__metadata__":{{"a":"{"x" * 99_000_000}"}},{entries(1)}}}', 1),
    }
    text, count = long[kind]()
    assert 80_000_000 < len(text) < 100_000_000
    path = write(tmp_path / "m.safetensors", text, 4 * count)
    program = (
        "import resource, sys, sizer\n"
        "print(sizer.load_checkpoint(sys.argv[1]).count().total)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )

    # A process begins with the memory of the one that starts it, so another stands between.
    start = (
        "import subprocess, sys; raise SystemExit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)"
    )
    command = [sys.executable, "-c", start, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=unwatched())
    total, kib = done.stdout.split()

    assert int(total) == count * (4 if kind == "packed" else 2)
    assert int(kib) * 1024 < 200_000_000
