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


def called(name: bytes, *args: bytes) -> bytes:
    """A state of one tensor that a function of `torch._utils` rebuilds."""
    return state(w=b"ctorch._utils\n" + name + b"\n(" + b"".join(args) + b"tR")


STORED = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpuK\2tQ"
HOSTILE: list[tuple[str, bytes, str]] = [
    ("eval", PROTO + b"cbuiltins\neval\n(X\x03\x00\x00\x001+1tR.", "builtins.eval"),
    ("subprocess", PROTO + b"csubprocess\nPopen\n)R.", "subprocess.Popen"),
    ("call of a call", PROTO + b"cbuiltins\ngetattr\n)R)R.", "the result of a call"),
    ("not a pickle", b"\x80\x02\xff", "unknown opcode"),
    ("empty stack", b"\x80\x02R.", "not a valid pickle"),
    ("cut off", state(w=tensor("0", (2,), (1,), 2))[:-9], "ends early"),
    ("no such memo", b"\x80\x02h\x07.", "not a valid pickle"),
    ("extension", b"\x80\x02\x82\x01.", "unknown opcode"),
    ("cut off in a number", PROTO + b"M\1", "ends early"),
    ("cut off in a line", PROTO + b"ctorch", "ends early"),
    ("long line", PROTO + b"V" + b"a" * 10_001 + b"\n.", "not a valid pickle"),
    ("digits of a number", PROTO + b"I" + b"1" * 41 + b"\n.", "not a valid pickle"),
    ("no such long memo", PROTO + b"j\1\0\0\0.", "not a valid pickle"),
    ("no mark", PROTO + b"Nt.", "not a valid pickle"),
    ("numbers for a name", PROTO + b"K\1K\2\x93.", "not a valid pickle"),
    ("a state of a list", PROTO + b"]}b.", "not a valid pickle"),
    ("many opcodes", PROTO + b"N0" * 500_001, "over 1,000,000 opcodes"),
    ("no storage", called(b"_rebuild_tensor_v2", b"K\0" * 4), "a tensor without a storage"),
    ("no reference to a storage", called(b"_rebuild_tensor_v2", b")Q", b"K\0))"), "not to a storage"),
    (
        "storage of no type",
        called(b"_rebuild_tensor_v2", STORED.replace(b"FloatStorage", b"Storage"), b"K\0))"),
        "of no type that torch has",
    ),
    ("no such function", called(b"_rebuild_anything", STORED), "rebuilt by _rebuild_anything"),
    ("a parameter of nothing", called(b"_rebuild_parameter"), "rebuilt by _rebuild_parameter"),
    ("a tensor of nothing", called(b"_rebuild_meta_tensor_no_storage"), "which sizer does not read"),
    ("a call as a key", PROTO + b"}cos\nsystem\n)RNs.", "system"),
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


def test_an_object_that_holds_no_tensor_is_said(tmp_path: Path) -> None:
    kinds = b"".join(b"cmine\nThing%d\n)R" % i for i in range(5))

    found = sizer.load_checkpoint(zipped(tmp_path / "m.pt", PROTO + b"(" + kinds + b"t."))

    assert (found.count().total, found.complete) == (0, False)
    assert "no tensor that sizer can read" in found.problems[0]
    assert "mine.Thing0, mine.Thing1, mine.Thing2 and 2 more kinds" in found.remarks[0]


def test_a_wrapper_of_no_known_shape_is_what_it_is_made_of(tmp_path: Path) -> None:
    inner = tensor("0", (2,), (1,), 2)
    text = called(b"_rebuild_wrapper_subclass")[:-2] + b"}X\1\0\0\0a" + inner + b"sbs."

    found = sizer.load_checkpoint(zipped(tmp_path / "m.pt", text, {"0": bytes(8)}))

    assert {t.name: t.shape for t in found.tensors()} == {"w.a": (2,)}


def legacy(*pickles: bytes) -> bytes:
    """A file of torch before 1.6 up to its storages: the magic number, the version, the system, and these."""
    head = [pickle.dumps(value, protocol=2) for value in (0x1950A86A20F9469CFC6C, 1001, {})]
    return b"".join([*head, *pickles])


LEGACY: list[tuple[str, bytes, str]] = [
    ("another number", pickle.dumps(7, protocol=2), "a pickle without PyTorch's mark"),
    ("no keys", legacy(state(w=tensor("0", (2,), (1,), 2)), pickle.dumps(3, 2)), "no list of names"),
    ("another key", legacy(state(w=tensor("0", (2,), (1,), 2)), pickle.dumps(["1"], 2)), "is not in it"),
    ("cut off", legacy(state(w=tensor("0", (2,), (1,), 2))[:-5]), "cut off within its pickle"),
    ("cut off after 5 MB", legacy(PROTO + b"X\0\0\0\1" + bytes(5_000_000)), "cut off within its pickle"),
    ("empty", b"", "is empty"),
    ("text", b"weights", "neither a zip archive nor a pickle"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in LEGACY], ids=[row[0] for row in LEGACY])
def test_files_before_1_6_that_are_none(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "m.pt").write_bytes(data)

    with pytest.raises(sizer.SizerError, match=r"m\.pt") as caught:
        sizer.load_checkpoint(tmp_path / "m.pt")
    assert message in str(caught.value)


def test_a_pickle_of_many_megabytes_is_read(tmp_path: Path) -> None:
    root = state(w=tensor("0", (2,), (1,), 2), note=b"X" + struct.pack("<I", 5_000_000) + bytes(5_000_000))
    keys = pickle.dumps(["0"], protocol=2)
    head = legacy(root, keys)
    (tmp_path / "m.pt").write_bytes(head + struct.pack("<q", 2) + bytes(8))

    found = sizer.load_checkpoint(tmp_path / "m.pt")

    # Each storage is its number of elements, then its bytes: `torch/serialization.py`, _legacy_save.
    assert [(t.name, t.shape, t.offset) for t in found.stored] == [("w", (2,), len(head) + 8)]
    assert found.complete


def test_behind_a_storage_of_unknown_length_no_place_is_known(tmp_path: Path) -> None:
    head = legacy(state(w=tensor("0", (2,), (1,), 2)), pickle.dumps(["else", "0"], protocol=2))
    (tmp_path / "m.pt").write_bytes(head + bytes(100))

    found = sizer.load_checkpoint(tmp_path / "m.pt")

    assert ([(t.name, t.offset) for t in found.stored], found.complete) == ([("w", None)], True)


def test_what_pickle_writes_is_parsed() -> None:
    # Many things, each again: what is said twice is written once, and then by its number.
    words = [f"word {i}" for i in range(300)]
    for protocol in range(6):
        assert parse(pickle.dumps([words, words, *words], protocol=protocol), "x")[0] == [
            words,
            words,
            *words,
        ]
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
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(tmp_path: Path, torch: Any, protocol: int) -> None:
    values = OrderedDict((f"h.{i}.weight", torch.zeros(3, 2)) for i in range(300))
    values["h.0.bias"] = torch.zeros(0, 3)
    torch.save(values, tmp_path / "m.bin", pickle_protocol=protocol)

    found = sizer.load_checkpoint(tmp_path / "m.bin")

    assert {t.name: (t.shape, t.elements) for t in found.stored} == {
        name: (tuple(value.shape), value.numel()) for name, value in values.items()
    }


# What torch makes -> the parameters of the weight, and the stored types.
TENSORS: dict[str, tuple[Any, int, set[str]]] = {
    "sparse": (lambda t: t.eye(4).to_sparse(), 4, {"int64", "fp32"}),
    "by tensor": (lambda t: t.quantize_per_tensor(t.zeros(4, 6), 0.1, 0, t.qint8), 24, {"qint8"}),
    "by row": (
        lambda t: t.quantize_per_channel(t.zeros(4, 6), t.ones(4), t.zeros(4), 0, t.quint8), 24, {"quint8"},
    ),
    "wide": (lambda t: t.quantize_per_tensor(t.zeros(4, 6), 0.1, 0, t.qint32), 24, {"qint32"}),
    "expanded": (lambda t: t.zeros(1, 3).expand(5, 3), 3, {"fp32"}),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", TENSORS)
def test_tensors_of_other_kinds(tmp_path: Path, torch: Any, case: str) -> None:
    make, params, dtypes = TENSORS[case]
    torch.save({"w": make(torch)}, tmp_path / "m.pt")

    found = sizer.load_checkpoint(tmp_path / "m.pt")

    assert (found.count().total, found.problems) == (params, [])
    assert {t.dtype for t in found.stored} == dtypes


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: t.zeros(2, device="meta"), "on the meta device, so no weights were saved"),
        (lambda t: t.nested.nested_tensor([t.zeros(2), t.zeros(3)]), "rebuilt by _rebuild_nested_tensor"),
        (lambda t: t.zeros(3, dtype=t.uint8).view(t.bits8), "bits8 is no dtype"),
    ],
    ids=["meta", "nested", "bits"],
)
def test_tensors_that_are_refused(tmp_path: Path, torch: Any, make: Any, said: str) -> None:
    torch.save({"w": make(torch)}, tmp_path / "m.pt")

    with pytest.raises(sizer.SizerError, match=r"m\.pt") as caught:
        sizer.load_checkpoint(tmp_path / "m.pt")
    assert said in str(caught.value)


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
@pytest.mark.parametrize(("rows", "said"), [(8, ""), (800, "of more weights than are stored")])
def test_a_tensor_made_of_tensors(tmp_path: Path, torch: Any, rows: int, said: str) -> None:
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
    weight = Packed(torch.zeros(8, 8, dtype=torch.uint8), torch.zeros(8), (rows, 16))
    torch.save({"q.weight": weight, "norm.weight": torch.zeros(8)}, tmp_path / "m.bin")

    found = sizer.load_checkpoint(tmp_path / "m.bin")

    assert {t.name: t.shape for t in found.tensors()} == {"q.weight": (rows, 16), "norm.weight": (8,)}
    assert (found.count().total, found.count().helpers) == (16 * rows + 8, {"scales": 8})
    assert said in "".join(found.problems)
    assert bool(found.problems) == bool(said)
