"""Stored tensors and the weights they stand for, format by format.

Layouts are those of the libraries named in the rows; `test_real_formats.py` makes some with them.
"""

from __future__ import annotations

import gc
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from making import Entry, safetensors, sharded

import sizer

M, K, G = 64, 256, 128  # outputs, inputs, inputs of a group
Q = "model.layers.0.self_attn.q_proj"


def gptq(bits: int, index: bool = True) -> dict[str, Entry]:
    tensors: dict[str, Entry] = {
        f"{Q}.qweight": ("I32", [K // 32 * bits, M]),
        f"{Q}.qzeros": ("I32", [K // G, M // 32 * bits]),
        f"{Q}.scales": ("F16", [K // G, M]),
    }
    return tensors | ({f"{Q}.g_idx": ("I32", [K])} if index else {})


def awq(bits: int = 4) -> dict[str, Entry]:
    return {
        f"{Q}.qweight": ("I32", [K, M * bits // 32]),
        f"{Q}.qzeros": ("I32", [K // G, M * bits // 32]),
        f"{Q}.scales": ("F16", [K // G, M]),
    }


def packed(bits: int) -> dict[str, Entry]:
    return {
        f"{Q}.weight_packed": ("I32", [M, -(-K * bits // 32)]),
        f"{Q}.weight_scale": ("BF16", [M, K // G]),
        f"{Q}.weight_shape": ("I64", [2]),
    }


def compressed(bits: int, group: int | None = G) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "group_size": group}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}


def nf4(double: bool) -> dict[str, Entry]:
    n = M * K
    blocks = n // 64
    tensors: dict[str, Entry] = {
        f"{Q}.weight": ("U8", [n // 2, 1]),
        f"{Q}.weight.absmax": ("U8" if double else "F32", [blocks]),
        f"{Q}.weight.quant_map": ("F32", [16]),
        f"{Q}.weight.quant_state.bitsandbytes__nf4": ("U8", [80]),
    }
    if double:
        tensors |= {
            f"{Q}.weight.nested_absmax": ("F32", [-(-blocks // 256)]),
            f"{Q}.weight.nested_quant_map": ("F32", [256]),
        }
    return tensors


def mlx(bits: int, group: int = 64) -> dict[str, Entry]:
    return {
        f"{Q}.weight": ("U32", [M, K * bits // 32]),
        f"{Q}.scales": ("F16", [M, K // group]),
        f"{Q}.biases": ("F16", [M, K // group]),
    }


TEXT = {"model_type": "x"}
AO = json.dumps({"_type": "Int4Tensor", "_data": {"block_size": [1, 128]}})
# id, tensors, config.json, the shape of the weight, the helpers by component
ROWS: list[tuple[str, dict[str, Entry], dict[str, Any], tuple[int, ...], dict[str, int]]] = [
    *(
        (
            f"gptq-{bits}", gptq(bits), {}, (M, K),
            {"zero points": K // G * M // 32 * bits, "scales": K // G * M, "group indices": K},
        )
        for bits in (2, 3, 4, 8)
    ),
    (
        "gptq without g_idx", gptq(4, index=False), {}, (M, K),
        {"zero points": K // G * M // 8, "scales": K // G * M},
    ),
    ("awq", awq(), {}, (M, K), {"zero points": K // G * M // 8, "scales": K // G * M}),
    (
        "awq gemv",
        {
            f"{Q}.qweight": ("I32", [M, K // 8]),
            f"{Q}.scales": ("F16", [M, 2]),
            f"{Q}.qzeros": ("I32", [M, 1]),
        },
        {"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemv"}},
        (M, K),
        {"zero points": M, "scales": 2 * M},
    ),
    *(
        (
            f"compressed-tensors int{bits}", packed(bits), {"quantization_config": compressed(bits)}, (M, K),
            {"scales": M * K // G, "quant state": 2},
        )
        for bits in range(2, 9)
    ),
    (
        "compressed-tensors nested in text_config", packed(4),
        {"text_config": {"quantization_config": compressed(4)}}, (M, K),
        {"scales": M * K // G, "quant state": 2},
    ),
    (
        "compressed-tensors nvfp4",
        {
            f"{Q}.weight_packed": ("U8", [M, K // 2]),
            f"{Q}.weight_scale": ("F8_E4M3", [M, K // 16]),
            f"{Q}.weight_global_scale": ("F32", [1]),
            f"{Q}.input_global_scale": ("F32", [1]),
        },
        {}, (M, K), {"scales": M * K // 16 + 2},
    ),
    (
        "compressed-tensors mxfp4",
        {f"{Q}.weight_packed": ("U8", [M, K // 2]), f"{Q}.weight_scale": ("U8", [M, K // 32])},
        {}, (M, K), {"scales": M * K // 32},
    ),
    (
        "fp8 by channel", {f"{Q}.weight": ("F8_E4M3", [M, K]), f"{Q}.weight_scale": ("BF16", [M, 1])},
        {}, (M, K), {"scales": M},
    ),
    (
        "fp8 by block", {f"{Q}.weight": ("F8_E4M3", [M, K]), f"{Q}.weight_scale_inv": ("F32", [1, 2])},
        {}, (M, K), {"scales": 2},
    ),
    (
        "fp8 by block, scales of eight bits",
        {f"{Q}.weight": ("F8_E4M3", [M, K]), f"{Q}.weight_scale_inv": ("F8_E8M0", [1, 2])},
        {}, (M, K), {"scales": 2},
    ),
    (
        "int8 by channel", {f"{Q}.weight": ("I8", [M, K]), f"{Q}.weight_scale": ("F32", [M, 1])},
        {}, (M, K), {"scales": M},
    ),
    (
        "modelopt nvfp4",
        {
            f"{Q}.weight": ("U8", [M, K // 2]),
            f"{Q}.weight_scale": ("F8_E4M3", [M, K // 16]),
            f"{Q}.weight_scale_2": ("F32", []),
            f"{Q}.input_scale": ("F32", []),
        },
        {}, (M, K), {"scales": M * K // 16 + 2},
    ),
    (
        "mxfp8", {f"{Q}.weight": ("F8_E4M3", [M, K]), f"{Q}.weight_scale": ("U8", [M, K // 32])},
        {}, (M, K), {"scales": M * K // 32},
    ),
    (
        "mxfp4 of gpt-oss",
        {
            "model.layers.0.mlp.experts.down_proj_blocks": ("U8", [4, M, K // 32, 16]),
            "model.layers.0.mlp.experts.down_proj_scales": ("U8", [4, M, K // 32]),
        },
        {}, (4, M, K), {"scales": 4 * M * K // 32},
    ),
    (
        "llm.int8",
        {f"{Q}.weight": ("I8", [M, K]), f"{Q}.SCB": ("F32", [M]), f"{Q}.weight_format": ("U8", [])},
        {}, (M, K), {"scales": M, "quant state": 1},
    ),
    ("nf4", nf4(double=False), {}, (M * K,), {"scales": M * K // 64, "codebooks": 16, "quant state": 80}),
    (
        "nf4 double", nf4(double=True), {}, (M * K,),
        {"scales": M * K // 64 + 1, "codebooks": 16 + 256, "quant state": 80},
    ),
    *(
        (
            f"mlx {bits} bits", mlx(bits), {"quantization": {"bits": bits, "group_size": 64}}, (M, K),
            {"scales": M * K // 64, "zero points": M * K // 64},
        )
        for bits in (2, 3, 4, 6, 8)
    ),
    (
        "mlx, bits of one module", mlx(8),
        {"quantization": {"bits": 4, "group_size": 64, Q: {"bits": 8, "group_size": 64}}}, (M, K),
        {"scales": M * K // 64, "zero points": M * K // 64},
    ),
    (
        "hqq of a configuration",
        {
            f"{Q}.W_q": ("U8", [M // 2, K]),
            f"{Q}.scale": ("F16", [M * 4, 1]),
            f"{Q}.zero": ("F16", [M * 4, 1]),
        },
        {"quantization_config": {"quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}},
        (M * K,), {"scales": 4 * M, "zero points": 4 * M},
    ),
    (
        "exponents beside a weight",
        {f"{Q}.weight": ("F8_E4M3", [M, K]), f"{Q}.exponents": ("F8_E8M0", [M, K // 32])},
        {}, (M, K), {"scales": M * K // 32},
    ),
    (
        "mxfp4 without a word for packed",
        {f"{Q}.weight": ("U8", [M, K // 2]), f"{Q}.weight_scale": ("U8", [M, K // 32])},
        {}, (M, K), {"scales": M * K // 32},
    ),
    (
        "mxfp8 in bytes", {f"{Q}.weight": ("U8", [M, K]), f"{Q}.weight_scale": ("F8_E8M0", [M, K // 32])},
        {}, (M, K), {"scales": M * K // 32},
    ),
    (
        "gptq whose bits the configuration alone says",
        {f"{Q}.qweight": ("I32", [K // 8, M]), f"{Q}.scales": ("F16", [K // G, M])},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}}, (M, K), {"scales": K // G * M},
    ),
    (
        "gptq whose zero points are of no use",
        {
            f"{Q}.qweight": ("I32", [K // 8, M]), f"{Q}.scales": ("F16", [K // G, M]),
            f"{Q}.qzeros": ("I32", [1, 1]),
        },
        {"quantization_config": {"desc_act": False}, "compression_config": {"bits": 4}},
        (M, K), {"scales": K // G * M, "zero points": 1},
    ),
    (
        "compressed-tensors, of several groups the one that fits", packed(4),
        {"quantization_config": {**compressed(4), "config_groups": {
            "group_0": {"weights": {"num_bits": 8, "group_size": G}},
            "group_1": {"weights": {"num_bits": 4, "group_size": G}},
            "group_2": {"weights": None},
            "group_3": None,
        }}},
        (M, K), {"scales": M * K // G, "quant state": 2},
    ),
    (
        "mlx of a method without bits", mlx(4),
        {"quantization": {"bits": 4, "group_size": 64}, "quantization_config": {"mode": "affine"}}, (M, K),
        {"scales": M * K // 64, "zero points": M * K // 64},
    ),
    (
        "hqq of the second method",
        {f"{Q}.W_q": ("U8", [M // 2, K]), f"{Q}.scale": ("F16", [M * 4, 1])},
        {"quantization_config": {}, "quantization": {"weight_quant_params": {"nbits": 4}}},
        (M * K,), {"scales": 4 * M},
    ),
    (
        "aqlm",
        {
            f"{Q}.codes": ("I16", [M, K // 8, 1]),
            f"{Q}.codebooks": ("F16", [1, 65536, 1, 8]),
            f"{Q}.scales": ("F16", [M, 1, 1, 1]),
        },
        {}, (M, K), {"codebooks": 65536 * 8, "scales": M},
    ),
    (
        "bitnet", {f"{Q}.weight": ("U8", [M // 4, K]), f"{Q}.weight_scale": ("BF16", [1])},
        {"quantization_config": {"quant_method": "bitnet"}}, (M, K), {"scales": 1},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tensors", "config", "shape", "helpers"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_weight_of_a_matrix(
    tmp_path: Path,
    tensors: dict[str, Entry],
    config: dict[str, Any],
    shape: tuple[int, ...],
    helpers: dict[str, int],
) -> None:
    if config:
        (tmp_path / "config.json").write_text(json.dumps({**TEXT, **config}))
    plain: dict[str, Entry] = {"model.norm.weight": ("BF16", [M]), "lm_head.weight": ("BF16", [10, M])}
    path = safetensors(tmp_path / "model.safetensors", tensors | plain)

    found = sizer.load_checkpoint(path)
    count = found.count()

    elements = 1
    for size in shape:
        elements *= size
    assert [w.shape for w in found.logical.packed] == [shape]
    assert (count.total, count.helpers) == (elements + M + 10 * M, helpers)
    assert found.problems == []
    assert count.elements == sum(t.elements for t in found.stored)
    assert count.tensors == len(found.stored)


@pytest.mark.parametrize(("tensors", "config"), [row[1:3] for row in ROWS], ids=[row[0] for row in ROWS])
def test_one_module_stands_for_those_like_it(
    tmp_path: Path, tensors: dict[str, Entry], config: dict[str, Any]
) -> None:
    """Twelve layers, two of them of another kind: a module without a part of it, and one of another shape."""
    (tmp_path / "config.json").write_text(json.dumps({**TEXT, **config}))
    layers: dict[str, Entry] = {"model.norm.weight": ("BF16", [M])}
    for i in range(12):
        parts = {name.replace("layers.0.", f"layers.{i}."): entry for name, entry in tensors.items()}
        if i == 5:
            parts.pop(list(parts)[-1])
        if i == 7:
            parts = {name: (dtype, [2 * n for n in shape]) for name, (dtype, shape) in parts.items()}
        layers |= parts
    names = sorted(layers)
    # A weight and its scales in different files.
    sharded(tmp_path, [{n: layers[n] for n in names[::2]}, {n: layers[n] for n in names[1::2]}])
    one = sizer.load_checkpoint(tmp_path / "model.safetensors.index.json")
    whole = sizer.load_checkpoint(tmp_path / "model.safetensors.index.json")
    assert whole.logical.weights  # tensor by tensor, from here on

    found, expected = one.count(), whole.count()

    assert [(s.name, s.tensors, s.elements, s.bytes, s.params) for s in found.shares] == [
        (s.name, s.tensors, s.elements, s.bytes, s.params) for s in expected.shares
    ]
    assert (found.total, found.buffers, found.active) == (expected.total, expected.buffers, expected.active)
    assert (one.remarks, one.schemes) == (whole.remarks, whole.schemes)
    # Of several tensors with one problem either may be named.
    assert [p.partition(" ")[2] for p in one.problems] == [p.partition(" ")[2] for p in whole.problems]
    assert found.tensors == len(layers)


def test_a_shape_of_odd_width_is_read_from_its_tensor(tmp_path: Path) -> None:
    rows, inputs = 3, 67  # 67 values of 3 bits take seven words
    tensors: dict[str, Entry] = {
        f"{Q}.weight_packed": ("I32", [rows, 7]),
        f"{Q}.weight_scale": ("BF16", [rows, 1]),
        f"{Q}.weight_shape": ("I64", [2]),
    }
    values = {f"{Q}.weight_shape": struct.pack("<qq", rows, inputs)}
    path = safetensors(tmp_path / "m.safetensors", tensors, values=values)

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.problems) == (rows * inputs, [])


def test_torchao(tmp_path: Path) -> None:
    tensors: dict[str, Entry] = {
        f"{Q}._weight_qdata": ("U8", [M, K // 2]),
        f"{Q}._weight_scale": ("BF16", [K // 128, M]),
        f"{Q}._weight_zero_point": ("BF16", [K // 128, M]),
    }
    metadata = {f"{Q}.weight": AO, "tensor_names": json.dumps([f"{Q}.weight"])}
    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors, metadata))

    assert {t.name: t.shape for t in found.tensors()} == {f"{Q}.weight": (M, K)}
    assert found.count().helpers == {"scales": 2 * M, "zero points": 2 * M}


# class and what its metadata says beside, the packed tensor, the weight, what is said
TORCHAO: list[tuple[str, Any, Entry, tuple[int, ...], str]] = [
    ("Int8Tensor", {}, ("I8", [M, K]), (M, K), ""),
    ("Int4TilePackedTo4dTensor", {"shape": [M, K]}, ("I32", [M // 8, K // 128, 32, 4]), (M, K), ""),
    ("Int4TilePackedTo4dTensor", None, ("I32", [M // 8, K // 128, 32, 4]), (M * K,), ""),
    ("Int4Tensor", {"shape": [M, K + 1]}, ("U8", [M, K // 2]), (M, K + 1), "a shape of more weights"),
    ("Int3Tensor", {}, ("U8", [M, K]), (), "packed by TorchAO's Int3Tensor, whose layout"),
]


@pytest.mark.parametrize(("kind", "data", "entry", "shape", "said"), TORCHAO, ids=str)
def test_classes_of_torchao(
    tmp_path: Path, kind: str, data: Any, entry: Entry, shape: tuple[int, ...], said: str
) -> None:
    metadata = {"x": json.dumps({"_type": kind, "_data": data})}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", {"_x_qdata": entry}, metadata))

    assert [(w.name, w.shape) for w in found.logical.packed] == ([("x", shape)] if shape else [])
    assert said in "".join(found.problems)
    assert bool(found.problems) == bool(said)


@pytest.mark.parametrize("text", ["{", "[]", '{"_type": 3}'])
def test_metadata_that_is_not_torchaos_explains_nothing(tmp_path: Path, text: str) -> None:
    tensors: dict[str, Entry] = {"_x_qdata": ("I8", [M, K])}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors, {"x": text}))

    assert (found.count().total, found.complete) == (0, False)


# id, tensors, config.json, what is said; the count leaves the tensor out
UNCLEAR: list[tuple[str, dict[str, Entry], dict[str, Any], str]] = [
    ("mlx without its bits", mlx(4), {}, "`quantization` of config.json"),
    (
        "mlx with bits that do not fit",
        mlx(4),
        {"quantization": {"bits": 3, "group_size": 64}},
        "quantization",
    ),
    ("packed words without bits", packed(4), {}, "neither a configuration nor weight_shape"),
    ("bytes of no format", {"x.weight": ("U8", [8, 8])}, {}, "without scales"),
    (
        "bytes whose scales are of no format",
        {"x.weight": ("U8", [8, 8]), "x.weight_scale": ("F32", [8, 1])},
        {"quantization_config": {"quant_method": 3}},
        "scales agree with no format",
    ),
    ("packed halves of a word", {"x_packed": ("I16", [8]), "x_scale": ("F16", [1])}, {}, "of no format"),
    ("codes without their books", {"x.codes": ("I16", [8, 8, 1])}, {}, "of no format that sizer knows"),
    ("hqq without its bits", {"x.W_q": ("U8", [8, 8])}, {}, "its `shape`, or the bits in a configuration"),
    (
        "hqq of bits that it has not",
        {"x.W_q": ("U8", [8, 8]), "x.shape": ("F32", [2])},
        {"quantization_config": {"weight_quant_params": {"nbits": 5}}},
        "its `shape`, or the bits in a configuration",
    ),
    ("torchao without its metadata", {"x._weight_qdata": ("I8", [8, 8])}, {}, "without scales"),
    ("qdata of nobody", {"x.my_qdata": ("U8", [8, 8])}, {}, "without scales"),
    (
        "awq whose columns do not divide",
        {"x.qweight": ("I32", [K, 7]), "x.scales": ("F16", [2, M])},
        {},
        "agrees with no number of bits",
    ),
    (
        "gptq of no number of bits",
        {"x.qweight": ("I32", [K // 8, M]), "x.scales": ("F16", [2, M])},
        {},
        "agrees with no number of bits",
    ),
    (
        "channels of two widths",
        packed(4),
        {
            "quantization_config": {
                "config_groups": {
                    "a": {"weights": {"num_bits": 4}},
                    "b": {"weights": {"num_bits": 8}},
                    "c": {"weights": {}},
                    "d": {"weights": {"num_bits": 99_999}},
                }
            }
        },
        "neither a configuration nor weight_shape",
    ),
    ("words of no format", {"x.trellis": ("I16", [8, 8])}, {}, "of no format that sizer knows"),
]


@pytest.mark.parametrize(
    ("tensors", "config", "said"), [row[1:] for row in UNCLEAR], ids=[row[0] for row in UNCLEAR]
)
def test_what_is_unclear_is_said_and_not_counted(
    tmp_path: Path, tensors: dict[str, Entry], config: dict[str, Any], said: str
) -> None:
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    path = safetensors(tmp_path / "m.safetensors", tensors | {"norm.weight": ("F32", [8])})

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.complete) == (8, False)
    assert said in found.problems[0]


# Values of bitsandbytes' state: its shape, what the weights then are, and what is said.
STATES: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "its shape": ({"shape": [M, K]}, (M, K), ""),
    "another shape": ({"shape": [M, K + 1]}, (M * K,), "a shape of another number of weights"),
    "no shape": ({}, (M * K,), ""),
    "no sizes": ({"shape": [M, -K]}, (M * K,), ""),
    "no object": ([M, K], (M * K,), ""),
    "no JSON": (None, (M * K,), ""),
}


@pytest.mark.parametrize("case", STATES)
def test_the_state_of_bitsandbytes_says_the_shape(tmp_path: Path, case: str) -> None:
    value, shape, said = STATES[case]
    state = f"{Q}.weight.quant_state.bitsandbytes__nf4"
    text = (b"{" if value is None else json.dumps(value).encode()).ljust(80)
    path = safetensors(tmp_path / "m.safetensors", nf4(double=False), values={state: text})

    found = sizer.load_checkpoint(path)

    assert [w.shape for w in found.logical.packed] == [shape]
    assert found.count().total == M * K
    assert said in "".join(found.problems)
    assert bool(found.problems) == bool(said)


@pytest.mark.parametrize("blocks", [1, M * K + 1])
def test_an_absmax_of_no_block_size_is_said(tmp_path: Path, blocks: int) -> None:
    # bitsandbytes has blocks of 32 to 4,096 weights.
    tensors: dict[str, Entry] = {**nf4(double=False), f"{Q}.weight.absmax": ("F32", [blocks])}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))

    assert (found.count().total, found.complete) == (M * K, False)
    assert "fits no block size of bitsandbytes" in found.problems[0]


@pytest.mark.parametrize("name", ["x.absmax", "x.SCB", "x.codebooks", "x.scales"])
def test_a_parameter_with_the_name_of_a_helper_is_a_weight(tmp_path: Path, name: str) -> None:
    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", {name: ("F32", [8])}))

    assert (found.count().total, found.count().helpers, found.problems) == (8, {}, [])


@pytest.mark.parametrize(
    ("words", "shape"), [([M // 10 + 1, K], (M, K)), ([1, 1], (2, 3))], ids=["matrix", "one word"]
)
def test_ten_weights_of_hqq_lie_in_a_word(tmp_path: Path, words: list[int], shape: tuple[int, int]) -> None:
    # hqq/core/bitpack.py, pack_3bit_32: rows are padded to a multiple of ten.
    tensors: dict[str, Entry] = {f"{Q}.W_q": ("I32", words), f"{Q}.shape": ("I64", [2])}
    values = {f"{Q}.shape": struct.pack("<qq", *shape)}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors, values=values))

    assert [w.shape for w in found.logical.packed] == [shape]
    assert (found.count().total, found.count().helpers) == (shape[0] * shape[1], {"quant state": 2})


def test_a_shape_of_hqq_that_its_words_cannot_hold_is_not_believed(tmp_path: Path) -> None:
    tensors: dict[str, Entry] = {f"{Q}.W_q": ("I32", [1, 1]), f"{Q}.shape": ("I64", [2])}
    values = {f"{Q}.shape": struct.pack("<qq", 11, 3)}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors, values=values))

    assert (found.count().total, found.complete) == (0, False)


def test_a_file_that_is_gone_says_no_shapes(tmp_path: Path) -> None:
    values = {f"{Q}.weight_shape": struct.pack("<qq", M, K)}
    path = safetensors(tmp_path / "m.safetensors", packed(4), values=values)
    here, gone = sizer.load_checkpoint(path), sizer.load_checkpoint(path)
    assert here.count().total == M * K

    path.unlink()

    assert gone.count().total == 0
    assert "neither a configuration nor weight_shape" in gone.problems[0]


@pytest.mark.parametrize(("words", "said"), [(8, ""), (9, "neither a configuration nor weight_shape")])
def test_a_weight_shape_that_does_not_fit_its_words_is_not_believed(
    tmp_path: Path, words: int, said: str
) -> None:
    tensors: dict[str, Entry] = {
        f"{Q}.weight_packed": ("I32", [M, words]),
        f"{Q}.weight_scale": ("BF16", [M, 1]),
        f"{Q}.weight_shape": ("I64", [2]),
    }
    # 64 inputs of four bits take eight words; of nine, no width of them does.
    values = {f"{Q}.weight_shape": struct.pack("<qq", M, 64)}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors, values=values))

    assert found.count().total == (0 if said else M * 64)
    assert said in "".join(found.problems)
    assert bool(found.problems) == bool(said)


def test_rows_of_whole_words_are_assumed_and_said(tmp_path: Path) -> None:
    settings = {"quantization_config": compressed(4, group=None)}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    tensors: dict[str, Entry] = {
        f"{Q}.weight_packed": ("I32", [M, K // 8]),
        f"{Q}.weight_scale": ("BF16", [M, 1]),
    }

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))

    assert (found.count().total, found.problems) == (M * K, [])
    assert "rows of whole words are assumed" in found.remarks[0]


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (5_000, lambda i: "".join("abcdefghijklmnop"[i >> 4 * k & 15] for k in range(4)) + ".weight"),
        (5_000, lambda i: f"table.{i}"),
        (6_000, lambda i: f"{'ab'[i % 2]}.{i}"),
    ],
    ids=["names that are all unlike", "a list", "two lists"],
)
def test_packed_weights_of_more_kinds_than_a_model_has(tmp_path: Path, count: int, name: Any) -> None:
    tensors: dict[str, Entry] = {name(i): ("F8_E4M3", [3]) for i in range(count)}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))

    assert (found.count().total, found.schemes, found.problems) == (3 * count, {"FP8": count}, [])


def test_a_configuration_that_contradicts_the_shapes_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "gptq", "bits": 8}}')
    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", gptq(4)))

    assert found.count().total == M * K
    assert "GPTQ 4-bit by its shape, 8-bit by the configuration" in found.problems[0]


LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize("with_config", [True, False])
def test_zero_biases_that_gptq_adds(tmp_path: Path, with_config: bool) -> None:
    if with_config:
        (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    tensors = {**gptq(4), f"{Q}.bias": ("F16", [M])}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))
    count = found.count()

    if with_config:
        assert (count.total, count.helpers["added biases"]) == (M * K, M)
    else:
        assert count.total == M * K + M
    assert "zero biases" in found.remarks[0] or "GPTQ's writer added them" in found.remarks[0]


def test_biases_that_the_model_has_are_counted(tmp_path: Path) -> None:
    # Qwen2's projections of queries have biases.
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "model_type": "qwen2", "architectures": []}))
    tensors = {**gptq(4), f"{Q}.bias": ("F16", [M])}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))

    assert (found.count().total, found.remarks) == (M * K + M, [])


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path, on: bool) -> None:
    path = safetensors(tmp_path / "m.safetensors", gptq(4))
    (gc.enable if on else gc.disable)()
    try:
        assert sizer.load_checkpoint(path).count().total == M * K
        assert gc.isenabled() == on
    finally:
        gc.enable()


BUFFERS: list[tuple[str, Entry, int]] = [
    ("model.layers.0.self_attn.rotary_emb.inv_freq", ("F32", [64]), 64),
    ("h.0.attn.bias", ("F32", [1, 1, 8, 8]), 64),
    ("h.0.attn.masked_bias", ("F32", []), 1),
    ("gpt_neox.layers.0.attention.bias", ("BOOL", [1, 1, 8, 8]), 64),
    ("embeddings.position_ids", ("I64", [1, 64]), 64),
    ("model.layers.3.mlp.gate.e_score_correction_bias", ("F32", [256]), 256),
    ("bn.running_mean", ("F32", [8]), 8),
    ("bn.num_batches_tracked", ("I64", []), 1),
    ("transformer.h.0.attn.attention.bias", ("U8", [1, 1, 8, 8]), 64),
    ("embeddings.position_ids", ("I32", [1, 64]), 64),
    # A bias of that name is one where it has one axis.
    ("h.0.attn.bias", ("F32", [8]), 0),
]


@pytest.mark.parametrize(("name", "entry", "elements"), BUFFERS)
def test_buffers_are_no_parameters(tmp_path: Path, name: str, entry: Entry, elements: int) -> None:
    count = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", {name: entry})).count()

    assert count.buffers == elements
    assert bool(count.total) == (elements == 0)


COMPONENTS: list[tuple[str, str]] = [
    ("transformer.wte.weight", "embedding"),
    ("transformer.wpe.weight", "position"),
    ("transformer.h.0.attn.c_attn.weight", "attention"),
    ("transformer.h.0.mlp.c_fc.weight", "mlp"),
    ("transformer.h.0.ln_1.weight", "norm"),
    ("model.layers.0.self_attn.q_norm.weight", "norm"),
    ("model.layers.0.self_attn.out_proj.weight", "attention"),
    ("model.layers.0.mlp.gate.weight", "router"),
    ("model.layers.0.mlp.gate_proj.weight", "mlp"),
    ("model.layers.0.mlp.experts.0.gate_proj.weight", "experts"),
    ("model.layers.0.block_sparse_moe.gate.weight", "router"),
    ("model.layers.0.block_sparse_moe.experts.0.w1.weight", "experts"),
    ("model.layers.0.mlp.shared_expert_gate.weight", "router"),
    ("lm_head.weight", "head"),
    ("output.weight", "head"),
    ("bert.encoder.layer.0.attention.output.dense.weight", "attention"),
    ("bert.encoder.layer.0.output.dense.weight", "mlp"),
    ("bert.encoder.layer.0.output.LayerNorm.weight", "norm"),
    ("blk.0.attn_q.weight", "attention"),
    ("blk.0.ffn_gate_inp.weight", "router"),
    ("blk.0.ffn_down_exps.weight", "experts"),
    ("blk.0.attn_norm.weight", "norm"),
    ("token_embd.weight", "embedding"),
    ("backbone.layers.0.mixer.in_proj.weight", "mixer"),
    ("something.else", "other"),
]


@pytest.mark.parametrize(("name", "component"), COMPONENTS)
def test_components_by_name(tmp_path: Path, name: str, component: str) -> None:
    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", {name: ("F32", [2, 2])}))

    assert found.count().components == {component: 4}


def test_active_parameters_of_experts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_local_experts": 8, "num_experts_per_tok": 2}')
    tensors: dict[str, Entry] = {f"mlp.experts.{i}.w1.weight": ("F32", [4, 4]) for i in range(8)}
    tensors |= {"mlp.shared_expert.w1.weight": ("F32", [4, 4]), "lm_head.weight": ("F32", [4, 4])}
    path = safetensors(tmp_path / "m.safetensors", tensors)

    assert sizer.load_checkpoint(path).count().active == 2 * 16 + 16 + 16
    (tmp_path / "config.json").unlink()
    assert sizer.load_checkpoint(path).count().active is None


# -- public cases with independently known totals -----------------------------------------------


def test_gpt_oss_20b(tmp_path: Path) -> None:
    """20,914,757,184 parameters in 13,761,264,768 bytes: the published header's element counts."""
    experts, width = 32, 2880
    tensors: dict[str, Entry] = {}
    for i in range(24):
        stem = f"model.layers.{i}.mlp.experts."
        for name, rows in (("gate_up_proj", 2 * width), ("down_proj", width)):
            tensors[f"{stem}{name}_blocks"] = ("U8", [experts, rows, width // 32, 16])
            tensors[f"{stem}{name}_scales"] = ("U8", [experts, rows, width // 32])
    tensors["rest"] = ("BF16", [1_804_459_584])

    count = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors)).count()

    assert (count.total, count.bytes) == (20_914_757_184, 13_761_264_768)
    assert count.helpers == {"scales": 597_196_800}


def test_llama_8b_in_nf4(tmp_path: Path) -> None:
    """8,030,261,248 = 1,050,939,392 + 2·3,489,660,928; a count that adds absmax gives 8,248,929,342."""
    packed_bytes = 3_489_660_928
    tensors: dict[str, Entry] = {
        "a.weight": ("U8", [packed_bytes, 1]),
        "a.weight.absmax": ("U8", [2 * packed_bytes // 64]),
        "a.weight.nested_absmax": ("F32", [2 * packed_bytes // 64 // 256]),
        "a.weight.quant_map": ("F32", [16]),
        "rest": ("BF16", [1_050_939_392]),
    }

    assert (
        sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors)).count().total == 8_030_261_248
    )


def test_llama_7b_with_its_rotary_buffers(tmp_path: Path) -> None:
    """total_size 13,476,835,328 = 2·6,738,415,616 + 32·64·2 bytes of inv_freq."""
    tensors: dict[str, Entry] = {"rest": ("F16", [6_738_415_616])}
    for i in range(32):
        tensors[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = ("F16", [64])

    count = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors)).count()

    assert (count.total, count.buffers, count.bytes) == (6_738_415_616, 2048, 13_476_835_328)


def test_llama_3_8b_in_gptq(tmp_path: Path) -> None:
    """8,030,261,248 weights in 1,985,941,504 stored elements, the number that header readers print."""
    tensors: dict[str, Entry] = {}
    for tensor in sizer.load("llama-3-8b").tensors():
        stem = tensor.name.removesuffix(".weight")
        if not stem.endswith("_proj"):
            tensors[tensor.name] = ("BF16", list(tensor.shape))
            continue
        outputs, inputs = tensor.shape
        tensors[f"{stem}.qweight"] = ("I32", [inputs // 8, outputs])
        tensors[f"{stem}.qzeros"] = ("I32", [inputs // 128, outputs // 8])
        tensors[f"{stem}.scales"] = ("F16", [inputs // 128, outputs])
        tensors[f"{stem}.g_idx"] = ("I32", [inputs])

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))
    count = found.count()

    assert (count.total, count.elements) == (8_030_261_248, 1_985_941_504)
    assert {t.name: t.shape for t in found.tensors()} == {
        t.name: t.shape for t in sizer.load("llama-3-8b").tensors()
    }
    assert count.components == sizer.load("llama-3-8b").count().components


def test_deepseek_v3_in_fp8(tmp_path: Path) -> None:
    """684,531,386,000 stored elements: 684,489,830,400 weights, 41,540,496 scales, 15,104 router biases."""
    D, experts = 7168, 256
    tensors: dict[str, Entry] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        tensors[f"{name}.weight"] = ("F8_E4M3", [outputs, inputs])
        tensors[f"{name}.weight_scale_inv"] = ("F32", [-(-outputs // 128), -(-inputs // 128)])

    def plain(name: str, *shape: int, dtype: str = "BF16") -> None:
        tensors[name] = (dtype, list(shape))

    def mlp(name: str, width: int) -> None:
        linear(f"{name}.gate_proj", width, D)
        linear(f"{name}.up_proj", width, D)
        linear(f"{name}.down_proj", D, width)

    for i in range(62):
        layer = f"model.layers.{i}"
        attention = f"{layer}.self_attn"
        linear(f"{attention}.q_a_proj", 1536, D)
        linear(f"{attention}.q_b_proj", 128 * 192, 1536)
        linear(f"{attention}.kv_a_proj_with_mqa", 576, D)
        linear(f"{attention}.kv_b_proj", 128 * 256, 512)
        linear(f"{attention}.o_proj", D, 128 * 128)
        plain(f"{attention}.q_a_layernorm.weight", 1536)
        plain(f"{attention}.kv_a_layernorm.weight", 512)
        plain(f"{layer}.input_layernorm.weight", D)
        plain(f"{layer}.post_attention_layernorm.weight", D)
        if i < 3:
            mlp(f"{layer}.mlp", 18432)
            continue
        for expert in range(experts):
            mlp(f"{layer}.mlp.experts.{expert}", 2048)
        mlp(f"{layer}.mlp.shared_experts", 2048)
        plain(f"{layer}.mlp.gate.weight", experts, D)
        plain(f"{layer}.mlp.gate.e_score_correction_bias", experts, dtype="F32")
    for name in ("model.embed_tokens", "lm_head", "model.layers.61.embed_tokens"):
        plain(f"{name}.weight", 129280, D)
    plain("model.layers.61.shared_head.head.weight", 129280, D)
    plain("model.layers.61.eh_proj.weight", D, 2 * D)
    for name in ("norm", "layers.61.enorm", "layers.61.hnorm", "layers.61.shared_head.norm"):
        plain(f"model.{name}.weight", D)
    config = {"n_routed_experts": 256, "num_experts_per_tok": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))

    count = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors)).count()

    assert count.elements == 684_531_386_000
    assert (count.total, count.helpers, count.buffers) == (684_489_830_400, {"scales": 41_540_496}, 15_104)
    routed = 59 * 256 * 3 * 2048 * D
    assert count.active == count.total - routed + routed // 32
