"""ONNX: files that the library of the format writes, and files that nobody should."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
np = pytest.importorskip("numpy")

import sizer  # noqa: E402
from sizer.sources.checkpoints import onnx_file  # noqa: E402

CLI = Callable[..., tuple[int, str, str]]


def model(path: Path, tensors: list[onnx.TensorProto], **external: object) -> Path:
    graph = onnx.helper.make_graph([], "g", [], [], initializer=tensors)
    made = onnx.helper.make_model(graph)
    onnx.save(made, path, **external)
    return path


def array(name: str, shape: tuple[int, ...], dtype: type = np.float32) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.zeros(shape, dtype), name)


def test_initializers_are_counted(tmp_path: Path, sizer_cli: CLI) -> None:
    tensors = [
        array("encoder.layer.0.attention.self.query.weight", (64, 64)),
        array("embeddings.word_embeddings.weight", (1000, 64), np.float16),
        array("shape", (4,), np.int64),
        # Numbers in fields of their own type, one varint or four bytes each, instead of raw bytes.
        onnx.helper.make_tensor("bias", onnx.TensorProto.FLOAT, [64], [0.5] * 64),
        onnx.helper.make_tensor("scalar", onnx.TensorProto.FLOAT, [], [1.0]),
        onnx.helper.make_tensor("word", onnx.TensorProto.STRING, [1], [b"text"]),
    ]
    path = model(tmp_path / "model.onnx", tensors)

    checkpoint = sizer.load_checkpoint(path)
    found = checkpoint.count()

    assert (found.total, found.buffers) == (64 * 64 + 1000 * 64 + 64 + 1, 4)
    assert found.components == {"embedding": 64_000, "attention": 4096, "other": 65}
    assert (checkpoint.format, checkpoint.complete) == ("onnx", True)
    assert sizer_cli("count", str(path), "-q")[:2] == (0, f"{found.total}\n")
    assert sizer_cli("count", str(tmp_path), "-q")[:2] == (0, f"{found.total}\n")


@pytest.mark.parametrize("number", sorted(onnx_file.DTYPES))
def test_dtypes_take_the_bytes_that_the_library_writes(tmp_path: Path, number: int) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(number)
    tensor = onnx.numpy_helper.from_array(np.zeros((2, 4), dtype), "w")
    assert tensor.data_type == number

    (stored,) = sizer.load_checkpoint(model(tmp_path / "m.onnx", [tensor])).stored

    assert (stored.elements, stored.bytes) == (8, len(tensor.raw_data))


def test_data_in_other_files_is_never_opened(tmp_path: Path, sizer_cli: CLI) -> None:
    (tmp_path / "weights").mkdir()
    path = model(
        tmp_path / "model.onnx",
        [array("a.weight", (512, 64)), array("b.weight", (256, 64))],
        save_as_external_data=True,
        location="weights/data.bin",
        size_threshold=0,
    )
    data = tmp_path / "weights" / "data.bin"
    total = 768 * 64
    data.chmod(0)
    assert sizer_cli("count", str(path), "-q")[:2] == (0, f"{total}\n")

    data.chmod(0o600)
    with data.open("r+b") as file:
        file.truncate(1000)
    code, out, err = sizer_cli("count", str(path), "-q")
    assert (code, out, "data.bin is cut off" in err) == (1, f"{total}\n", True)

    data.unlink()
    code, out, err = sizer_cli("count", str(path), "-q")
    assert (code, out) == (1, f"{total}\n")
    assert "missing: weights/data.bin" in err
    assert "with 2 of the tensors" in err


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../b", "", "C:\\windows"])
def test_data_outside_of_the_folder_is_refused(tmp_path: Path, sizer_cli: CLI, location: str) -> None:
    tensor = array("w", (2, 2))
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = tmp_path / "model.onnx"
    path.write_bytes(
        onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [tensor])).SerializeToString()
    )

    code, out, err = sizer_cli("count", str(path))

    assert (code, out) == (2, "")
    assert "which is not beside the file" in err


def test_weights_of_onnx_runtimes_quantizer(tmp_path: Path) -> None:
    tensors = [
        array("fc.weight_quantized", (64, 32), np.int8),
        array("fc.weight_scale", ()),
        array("fc.weight_zero_point", (), np.int8),
        array("fc.bias", (32,)),
        array("axes", (2,), np.int32),
    ]
    checkpoint = sizer.load_checkpoint(model(tmp_path / "q.onnx", tensors))
    found = checkpoint.count()

    assert (found.total, checkpoint.complete) == (64 * 32 + 32, True)
    assert found.helpers == {"scales": 1, "zero points": 1, "constants": 2}
    assert [t.name for t in checkpoint.tensors()] == ["fc.bias", "fc.weight"]


def test_packed_weights_that_only_nodes_explain_are_said(tmp_path: Path, sizer_cli: CLI) -> None:
    path = model(tmp_path / "q4.onnx", [array("w_Q4", (64, 2, 16), np.uint8), array("b", (64,))])
    code, out, err = sizer_cli("count", str(path), "-q")
    assert (code, out) == (1, "64\n")
    assert "w_Q4: an initializer of uint8 without a scale by its name" in err


# What MatMulNBitsQuantizer of onnxruntime 1.32 makes of a matrix [K, N] and a table [50, K] (2026-11): its
# initializers, and the nodes with their inputs and attributes. `_Q4` of 100 inputs is padded to 128.
MADE = {
    "4 bits": (
        {"w_Q4": (48, 2, 16, "u1"), "w_scales": (48, 2, "f4")},
        [("MatMulNBits", ["x", "w_Q4", "w_scales"], {"K": 64, "N": 48, "bits": 4, "block_size": 32})],
        {"w": (48, 64)}, {"scales": 96},
    ),
    "4 bits, padded": (
        {"w_Q4": (33, 4, 16, "u1"), "w_scales": (33, 4, "f4"), "w_zero_points": (33, 2, "u1")},
        [("MatMulNBits", ["x", "w_Q4", "w_scales", "w_zero_points"],
          {"K": 100, "N": 33, "bits": 4, "block_size": 32})],
        {"w": (33, 100)}, {"scales": 132, "zero points": 66},
    ),
    "8 bits, padded": (
        {"w_Q8": (33, 4, 32, "u1"), "w_scales": (33, 4, "f4"), "w_zero_points": (33, 4, "u1")},
        [("MatMulNBits", ["x", "w_Q8", "w_scales", "w_zero_points"],
          {"K": 100, "N": 33, "bits": 8, "block_size": 32})],
        {"w": (33, 100)}, {"scales": 132, "zero points": 132},
    ),
    "nodes that dequantize": (
        {"w_DQ_Q4": (64, 48, "uint4"), "w_DQ_scales": (4, 48, "f4"), "w_DQ_zero_points": (4, 48, "uint4")},
        [("DequantizeLinear", ["w_DQ_Q4", "w_DQ_scales", "w_DQ_zero_points"], {"axis": 0, "block_size": 16})],
        {"w": (64, 48)}, {"scales": 192, "zero points": 192},
    ),
    "a table": (
        {"e_Q4": (50, 64, "uint4"), "e_scales": (50, 2, "f4"), "e_zero_points": (50, 2, "uint4")},
        [("GatherBlockQuantized", ["e_Q4", "ids", "e_scales", "e_zero_points"],
          {"block_size": 32, "gather_axis": 0, "quantize_axis": 1})],
        {"e": (50, 64)}, {"scales": 100, "zero points": 100},
    ),
    "a table in bytes": (
        {"e_Q4": (50, 32, "u1"), "e_scales": (50, 2, "f4"), "e_zero_points": (50, 1, "u1")},
        [("GatherBlockQuantized", ["e_Q4", "ids", "e_scales", "e_zero_points"],
          {"block_size": 32, "gather_axis": 0, "quantize_axis": 1, "bits": 4})],
        {"e": (50, 64)}, {"scales": 100, "zero points": 50},
    ),
    "attributes that are no whole numbers": (
        {"w_Q4": (48, 2, 16, "u1"), "w_scales": (48, 2, "f4"), "b": (7, "f4")},
        [("MatMulNBits", ["x", "w_Q4", "w_scales"],
          {"K": 64, "N": 48, "bits": 4, "block_size": 32, "alpha": 0.5, "note": "MatMulNBits"}),
         ("Gemm", ["x", "b"], {"alpha": 0.5})],
        {"w": (48, 64), "b": (7,)}, {"scales": 96},
    ),
    "scales of activations": (
        {"x_scale": ("f4",), "x_zero": ("u1",), "b": (7, "f4")},
        [("QuantizeLinear", ["x", "x_scale", "x_zero"], {}),
         ("DequantizeLinear", ["x_q", "x_scale", "x_zero"], {})],
        {"b": (7,)}, {"scales": 1, "zero points": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MADE)
def test_nodes_say_how_weights_are_packed(tmp_path: Path, case: str) -> None:
    arrays, nodes, weights, helpers = MADE[case]
    tensors = []
    for name, (*shape, kind) in arrays.items():
        if kind == "uint4":
            values = [0] * int(np.prod(shape))
            tensors.append(onnx.helper.make_tensor(name, onnx.TensorProto.UINT4, shape, values))
        else:
            tensors.append(array(name, tuple(shape), np.dtype(kind)))
    made = [onnx.helper.make_node(op, inputs, ["y"], **numbers) for op, inputs, numbers in nodes]
    path = tmp_path / "q.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(made, "g", [], [], tensors)), path)

    checkpoint = sizer.load_checkpoint(path)

    assert {t.name: t.shape for t in checkpoint.tensors()} == weights
    assert (checkpoint.count().helpers, checkpoint.problems) == (helpers, [])


def test_a_node_that_contradicts_its_initializer_is_said(tmp_path: Path) -> None:
    node = onnx.helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], K=64, N=2**40, bits=4, block_size=32)
    tensors = [array("w", (48, 2, 16), np.uint8), array("s", (48, 2))]
    path = tmp_path / "q.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], tensors)), path)

    checkpoint = sizer.load_checkpoint(path)

    assert (checkpoint.count().total, checkpoint.complete) == (0, False)
    assert "of another size than the node" in checkpoint.problems[0]


def test_a_node_of_more_bits_than_a_byte_is_said(tmp_path: Path) -> None:
    node = onnx.helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], K=64, N=48, bits=9, block_size=32)
    tensors = [array("w", (48, 2, 16), np.uint8), array("s", (48, 2))]
    path = tmp_path / "q.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], tensors)), path)

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.complete) == (0, False)
    assert "its node says 9 bits" in found.problems[0]


def test_of_a_sparse_initializer_the_values_are_counted(tmp_path: Path) -> None:
    values = array("w", (5,))
    places = onnx.helper.make_tensor("w_places", onnx.TensorProto.INT64, [5], [0, 3, 5, 7, 11])
    sparse = onnx.helper.make_sparse_tensor(values, places, [4, 4])
    graph = onnx.helper.make_graph([], "g", [], [], [array("b", (7,))], sparse_initializer=[sparse])
    path = tmp_path / "s.onnx"
    onnx.save(onnx.helper.make_model(graph), path)

    found = sizer.load_checkpoint(path)

    assert {t.name: t.shape for t in found.tensors()} == {"w": (5,), "b": (7,)}


@pytest.mark.parametrize(("elements", "said"), [(8, False), (8192, True)])
def test_constants_of_large_nodes_are_said_and_not_counted(tmp_path: Path, elements: int, said: bool) -> None:
    node = onnx.helper.make_node("Constant", [], ["c"], value=array("c", (elements,)))
    graph = onnx.helper.make_graph([node], "g", [], [], [array("b", (7,))])
    path = tmp_path / "c.onnx"
    onnx.save(onnx.helper.make_model(graph), path)

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.complete) == (7, True)
    assert ["may hold constants" in remark for remark in found.remarks] == [True] * said


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, data: bytes | int) -> bytes:
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(*fields: tuple[int, bytes | int]) -> bytes:
    return field(7, field(5, b"".join(field(n, data) for n, data in fields)))


def apart(*pairs: tuple[str, str]) -> bytes:
    """An initializer of sixteen bytes whose data is in another file."""
    entries = [(13, field(1, key.encode()) + field(2, value.encode())) for key, value in pairs]
    return tensor((1, 4), FLOAT, NAME, *entries)


NAME, FLOAT = (8, b"w"), (2, 1)
HOSTILE = {
    "empty": (b"", "is empty"),
    "no graph": (field(1, 8), "holds no graph"),
    "text": (b"hello, this is no model", "no ONNX file"),
    "huge dims": (tensor((1, 2**62), (1, 2**62), FLOAT, NAME), "over 2^63 elements"),
    "negative dim": (tensor((1, 2**64 - 1), FLOAT, NAME), "over 2^63 elements"),
    "many dims": (tensor(*[(1, 1)] * 100, FLOAT, NAME), "over 64 dimensions"),
    "packed dims": (tensor((1, b"\1" * 100), FLOAT, NAME), "over 64 dimensions"),
    "other length": (tensor((1, 4), FLOAT, NAME, (9, bytes(15))), "takes 16 bytes"),
    "type": (tensor((1, 4), (2, 99), NAME), "data type 99"),
    "twice": (tensor((1, 4), FLOAT, NAME) + tensor((1, 4), FLOAT, NAME), "is there twice"),
    "field beyond the end": (varint(7 << 3 | 2) + varint(10**12), "is cut off"),
    "field beyond its message": (field(7, varint(5 << 3 | 2) + varint(100)) + bytes(100), "is cut off"),
    "endless number": (b"\x08" + b"\xff" * 20, "over ten bytes"),
    "group": (b"\x0b\x0c", "no field at byte"),
    "many fields": (b"\x08\x01" * 400_001, "over 400,000 fields"),
    "long name": (tensor((8, b"a" * 70_000)), "is over the 65,536"),
    "offset": (apart(("location", "d"), ("offset", "-1")), "which are not whole numbers"),
    "length apart": (apart(("location", "d"), ("length", "15")), "its data in d has 15"),
    "many files": (
        field(
            7,
            b"".join(
                field(
                    5,
                    field(8, b"%d" % i)
                    + field(2, 1)
                    + field(13, field(1, b"location") + field(2, b"%d" % i)),
                )
                for i in range(10_001)
            ),
        ),
        "over 10,000 files",
    ),
}


def test_fields_that_are_not_asked_for_are_passed_over(tmp_path: Path) -> None:
    # Numbers of eight and four bytes, and a number in place of each message.
    wide, narrow = varint(99 << 3 | 1) + bytes(8), varint(98 << 3 | 5) + bytes(4)
    entry = field(13, field(1, b"location") + field(2, b"d") + field(3, 1) + narrow)
    inner = wide + field(5, 1) + field(15, field(2, b"") + field(1, 7)) + field(12, b"a")
    weight = field(1, 4) + field(2, 1) + field(8, b"w") + entry + narrow + field(4, bytes(16))
    path = tmp_path / "m.onnx"
    path.write_bytes(field(1, 8) + wide + field(7, inner + field(5, weight)))
    (tmp_path / "d").write_bytes(bytes(16))

    found = sizer.load_checkpoint(path)

    assert ([(t.name, t.shape) for t in found.stored], found.complete) == ([("w", (4,))], True)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_quickly(tmp_path: Path, sizer_cli: CLI, case: str) -> None:
    data, what = HOSTILE[case]
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    start = time.process_time()

    code, out, err = sizer_cli("count", str(path))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err
    assert time.process_time() - start < (5 if case == "many fields" else 1)
