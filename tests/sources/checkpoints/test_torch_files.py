"""PyTorch's files: read as torch writes them, and never executed."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import sizer
from sizer.sources.checkpoints.pickles import parse

PROTO = b"\x80\x02"


def zipped(path: Path, data: bytes, storages: dict[str, bytes] | None = None, **options: Any) -> Path:
    """An archive as torch makes them."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", data)
        for key, value in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", value)
    return path


def tensor(key: str, size: tuple[int, ...], stride: tuple[int, ...], elements: int, offset: int = 0) -> bytes:
    """The opcodes of a tensor of fp32."""

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", v) for v in values) + b"t"

    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX" + struct.pack("<I", len(key)) + key.encode()
    storage += b"X\3\0\0\0cpu\x8a\x08" + struct.pack("<q", elements) + b"tQ"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"\x8a\x08" + struct.pack("<q", offset)
        + numbers(size) + numbers(stride) + b"\x89}tR"
    )  # fmt: skip


def state(**tensors: bytes) -> bytes:
    out = PROTO + b"}"
    for name, value in tensors.items():
        out += b"X" + struct.pack("<I", len(name)) + name.encode() + value + b"s"
    return out + b"."


def test_an_archive_without_torch(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.bin", state(w=tensor("0", (2, 3), (3, 1), 6)), {"0": bytes(24)})

    found = sizer.load_checkpoint(path)

    assert [(t.name, t.shape, t.dtype, t.bytes) for t in found.stored] == [("w", (2, 3), "fp32", 24)]


class Runs:
    """An object whose pickle runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


HOSTILE: list[tuple[str, bytes, str]] = [
    ("eval", PROTO + b"cbuiltins\neval\n(X\x03\x00\x00\x001+1tR.", "builtins.eval"),
    ("subprocess", PROTO + b"csubprocess\nPopen\n)R.", "subprocess.Popen"),
    ("call of a call", PROTO + b"cbuiltins\ngetattr\n)R)R.", "the result of a call"),
    ("not a pickle", b"\x80\x02\xff", "unknown opcode"),
    ("empty stack", b"\x80\x02R.", "not a valid pickle"),
    ("cut off", state(w=tensor("0", (2,), (1,), 2))[:-9], "ends early"),
    ("no such memo", b"\x80\x02h\x07.", "not a valid pickle"),
    ("extension", b"\x80\x02\x82\x01.", "unknown opcode"),
    ("long number", b"\x80\x02\x8b\xff\xff\x00\x00" + b"1" * 65535 + b".", "not a valid pickle"),
    ("nested tuples", PROTO + b")" + b"\x85" * 9999 + b".", "nested too deeply"),
    ("tuples doubled", PROTO + b")" + b"2\x86" * 60 + b".", "too many things"),
    ("beyond the storage", state(w=tensor("0", (9,), (1,), 2)), "reaches element 9"),
    ("offset beyond", state(w=tensor("0", (1,), (1,), 2, offset=5)), "reaches element 6"),
    ("negative size", state(w=tensor("0", (-1,), (1,), 2)), "whole numbers"),
    ("huge size", state(w=tensor("0", (2**62, 8), (1, 1), 2)), "2^63"),
    ("storage not there", state(w=tensor("7", (2,), (1,), 2)), "storage 7"),
    ("storage of another size", state(w=tensor("0", (3,), (1,), 3)), "the archive 8"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_hostile(tmp_path: Path, data: bytes, message: str) -> None:
    path = zipped(tmp_path / "m.bin", data, {"0": bytes(8)})

    with pytest.raises(sizer.SizerError, match=r"m\.bin") as caught:
        sizer.load_checkpoint(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("form", ["zip", "legacy", "plain"])
def test_a_pickle_that_runs_a_command_does_not_run_it(tmp_path: Path, form: str) -> None:
    mark = tmp_path / "ran"
    data = pickle.dumps({"w": Runs(f"touch {mark}")}, protocol=2)
    path = tmp_path / "m.pt"
    if form == "zip":
        zipped(path, data)
    else:
        head = [0x1950A86A20F9469CFC6C, 1001, {}] if form == "legacy" else []
        path.write_bytes(b"".join(pickle.dumps(h, protocol=2) for h in head) + data + pickle.dumps([], 2))

    with pytest.raises(sizer.SizerError, match=r"calls (posix|nt|os)\.system.*sizer runs nothing"):
        sizer.load_checkpoint(path)
    assert not mark.exists()


def test_a_zip_bomb_is_refused_unopened(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.pt", bytes(60_000_000), compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000

    with pytest.raises(sizer.SizerError, match="60,000,000 bytes"):
        sizer.load_checkpoint(path)


def test_a_zip_bomb_that_lies_of_its_size_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.pt", bytes(60_000_000), compression=zipfile.ZIP_DEFLATED)
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 60_000_000), struct.pack("<I", 100)))

    with pytest.raises(sizer.SizerError, match="unpacks to over"):
        sizer.load_checkpoint(path)


def test_a_cut_off_archive_is_said(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.pt", state(w=tensor("0", (2,), (1,), 2)), {"0": bytes(8)})
    path.write_bytes(path.read_bytes()[:-30])

    with pytest.raises(sizer.SizerError, match="cut off"):
        sizer.load_checkpoint(path)


def test_other_archives_are_told_apart(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("arr_0.npy", b"x")
    path = tmp_path / "m.bin"
    path.write_bytes(buffer.getvalue())

    with pytest.raises(sizer.SizerError, match=r"without a data\.pkl"):
        sizer.load_checkpoint(path)


def test_what_pickle_writes_is_parsed() -> None:
    values = [1, -1, 2**40, 1.5, None, True, "text", b"bytes", (1, 2, 3, 4), [1, 2], {"a": {"b": 1}}]
    for protocol in range(6):
        found, end = parse(pickle.dumps(values, protocol=protocol), "x")
        assert end == len(pickle.dumps(values, protocol=protocol))
        assert found[:5] == [1, -1, 2**40, 1.5, None]


# -- files of the real torch ------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.torch
@pytest.mark.parametrize("modern", [True, False], ids=["zip", "legacy"])
def test_a_state_dict(tmp_path: Path, torch: Any, modern: bool) -> None:
    tied = torch.zeros(10, 4)
    values = OrderedDict(
        embed=tied,
        head=tied,
        half=torch.zeros(3, 2, dtype=torch.bfloat16),
        view=torch.zeros(6, 6)[1:3, 2:4],
        scalar=torch.tensor(1.0),
        long=torch.zeros(5, dtype=torch.int64),
        parameter=torch.nn.Parameter(torch.zeros(7)),
        fp8=torch.zeros(4, dtype=torch.float8_e4m3fn),
    )
    path = tmp_path / "m.bin"
    torch.save(values, path, _use_new_zipfile_serialization=modern)

    found = sizer.load_checkpoint(path)

    assert {t.name: (t.shape, t.dtype) for t in found.stored} == {
        "embed": ((10, 4), "fp32"),
        "head": ((10, 4), "fp32"),
        "half": ((3, 2), "bf16"),
        "view": ((2, 2), "fp32"),
        "scalar": ((), "fp32"),
        "long": ((5,), "int64"),
        "parameter": ((7,), "fp32"),
        "fp8": ((4,), "fp8_e4m3"),
    }
    count = found.count()
    assert (count.total, count.tied, count.buffers) == (40 + 6 + 4 + 1 + 7 + 4, 40, 5)
    assert found.complete


@pytest.mark.torch
def test_a_training_checkpoint(tmp_path: Path, torch: Any) -> None:
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 4)).sum().backward()
    optimizer.step()
    values = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7}
    torch.save(values, tmp_path / "last.ckpt")

    count = sizer.load_checkpoint(tmp_path / "last.ckpt").count()

    assert (count.total, count.helpers) == (15, {"optimizer": 2 * 15 + 2})


@pytest.mark.torch
def test_a_whole_module_is_read_and_what_it_is_is_said(tmp_path: Path, torch: Any) -> None:
    torch.save(torch.nn.Linear(4, 3), tmp_path / "m.pt")

    found = sizer.load_checkpoint(tmp_path / "m.pt")

    assert found.count().total == 15
    assert "torch.nn.modules.linear.Linear" in found.remarks[0]


@pytest.mark.torch
def test_a_legacy_file_cut_off_in_its_data_is_said(tmp_path: Path, torch: Any) -> None:
    path = tmp_path / "m.bin"
    torch.save({"w": torch.zeros(1000)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:-100])

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.complete) == (1000, False)


@pytest.mark.torch
def test_a_tensor_made_of_tensors(tmp_path: Path, torch: Any) -> None:
    """As TorchAO's: a subclass with a shape of its own, and the tensors it is made of as attributes."""

    class Packed(torch.Tensor):  # type: ignore[misc, name-defined]
        def __new__(cls, qdata: Any, scale: Any, shape: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bfloat16)

        def __init__(self, qdata: Any, scale: Any, shape: Any) -> None:
            self.qdata = qdata
            self.scale = scale

        def __tensor_flatten__(self) -> tuple[list[str], None]:
            return ["qdata", "scale"], None

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, (8, 16), dtype=torch.bfloat16)

    Packed.__module__, Packed.__qualname__ = "test_torch_files", "Packed"
    globals()["Packed"] = Packed
    weight = Packed(torch.zeros(8, 8, dtype=torch.uint8), torch.zeros(8), (8, 16))
    torch.save({"q.weight": weight, "norm.weight": torch.zeros(8)}, tmp_path / "m.bin")

    found = sizer.load_checkpoint(tmp_path / "m.bin")

    assert {t.name: t.shape for t in found.tensors()} == {"q.weight": (8, 16), "norm.weight": (8,)}
    assert (found.count().total, found.count().helpers, found.problems) == (136, {"scales": 8}, [])
