"""What each format stores for a matrix and for a model: published figures, and the libraries' own tensors."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
from repository import FIXTURES

import sizer
from sizer.measures.size.formats import parse
from sizer.measures.size.stored import bytes_of

CONFIGS = FIXTURES / "configs"


def parts(quant: str, m: int, k: int, dtype: str = "bf16") -> dict[str, tuple[tuple[int, ...], str]]:
    form = parse(quant)
    assert form.pack is not None
    packed = form.pack(m, k, bits=form.bits, group=form.group, dtype=dtype)
    return {part.ending: (part.shape, part.dtype) for part in packed}


@pytest.mark.parametrize(("m", "k"), [(64, 100), (100, 64)])
def test_gptq_packs_32_of_both_sides(m: int, k: int) -> None:
    # AutoGPTQ, qlinear_cuda.py: 3-bit words and zero points are packed 32 at a time.
    with pytest.raises(sizer.SizerError, match="packs 32 inputs and 32 outputs"):
        parts("gptq-int4-g-1", m, k)


def total(quant: str, m: int, k: int) -> int:
    return sum(bytes_of(shape, dtype) for shape, dtype in parts(quant, m, k).values())


# Bytes of one matrix, worked out by hand from the layout of the named source.
MATRICES = [
    # AutoGPTQ, qlinear_cuda.py: 4096·4096/2 + zeros 32·512·4 + scales 32·4096·2 + g_idx 4096·4
    ("gptq-int4-g128", 4096, 4096, 8_388_608 + 65_536 + 262_144 + 16_384),
    ("gptq-int3-g-1", 64, 96, 4 * 9 * 64 + 4 * 6 + 2 * 64 + 4 * 96),
    # AutoAWQ, gemm.py: no g_idx
    ("awq", 4096, 4096, 8_388_608 + 65_536 + 262_144),
    # bitsandbytes 0.50: 33·65 = 2,145 weights in 1,073 bytes and 34 blocks; a map of 16; 78 letters
    ("nf4", 33, 65, 1_073 + 4 * 34 + 64 + 78),
    ("bnb-int8", 64, 128, 64 * 128 + 4 * 64 + 1),
    # DeepSeek-V3: 576 × 7168 has 5 × 56 blocks, the last of them half
    ("fp8-block", 576, 7168, 576 * 7168 + 4 * 5 * 56),
    ("fp8-dynamic", 64, 128, 64 * 128 + 2 * 64),
    ("mxfp4", 64, 128, 64 * 64 + 64 * 4),
    ("mxfp8", 64, 128, 64 * 128 + 64 * 4),
    ("nvfp4a16", 64, 128, 64 * 64 + 64 * 8 + 4),
    ("w4a16", 64, 256, 4 * 64 * 32 + 2 * 64 * 2 + 16),
    ("w3a16-g32", 64, 96, 4 * 64 * 9 + 2 * 64 * 3 + 16),
    ("w4a16-asym", 33, 256, 4 * 33 * 32 + 2 * 33 * 2 + 16 + 4 * 5 * 2),
    ("w8a8", 64, 128, 64 * 128 + 2 * 64),
    ("mlx-q4", 64, 128, 64 * 64 + 2 * 2 * 64 * 2),
]


@pytest.mark.parametrize(("quant", "m", "k", "expected"), MATRICES, ids=[row[0] for row in MATRICES])
def test_bytes_of_a_matrix(quant: str, m: int, k: int, expected: int) -> None:
    assert total(quant, m, k) == expected


# What `HQQLinear.state_dict` of hqq 0.2.8 holds on the CPU, of 64 outputs and 128 inputs (run 2026-11).
HQQ = {
    "shape": ((2,), "int64"), "nbits": ((), "int32"), "group_size": ((), "int32"), "axis": ((), "int32"),
    "scale": ((128, 1), "bf16"), "zero": ((128, 1), "bf16"), "packing": ((7,), "uint8"),
    "unpack_view_dtype": ((11,), "uint8"), "compute_dtype": ((14,), "uint8"),
    **dict.fromkeys(
        ("view_as_float", "quant_scale", "quant_zero", "offload_meta", "encoded_state_dict",
         "stores_quant_config", "channel_wise", "optimize", "round_zero"),
        ((), "uint8"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "shape", "dtype"),
    [
        (8, (128, 64), "uint8"), (4, (64, 64), "uint8"), (3, (13, 64), "int32"), (2, (32, 64), "uint8"),
        (1, (16, 64), "uint8"),
    ],
)  # fmt: skip
def test_tensors_of_hqq(bits: int, shape: tuple[int, ...], dtype: str) -> None:
    assert parts(f"hqq-int{bits}-g64", 64, 128) == {"W_q": (shape, dtype), **HQQ}


def test_groups_that_hqq_cannot_pack_are_refused() -> None:
    with pytest.raises(sizer.SizerError, match="HQQ packs 4 groups to a byte"):
        parts("hqq-int2-g64", 33, 128)


def test_gptq_of_llama_3_8b() -> None:
    # 6,979,321,856 packed weights in words of eight, zeros likewise, scales, g_idx, and 1,050,939,392 others.
    found = sizer.load("llama-3-8b").size(quant="gptq-int4-g128")

    assert sum(prod(t.shape) for t in found.tensors()) == 1_985_941_504
    assert found.parts["indices"] == 4 * 32 * (6 * 4096 + 14336)


def test_nf4_of_llama_3_1_8b() -> None:
    # huggingface/huggingface.js PR #2323: a header of 1,050,939,392 bf16 and 3,489,660,928 bytes of weights.
    found = sizer.load(CONFIGS / "llama-3.1-8b-instruct.json").size(quant="nf4")

    sums: dict[str, int] = {}
    for (_, part, dtype), (_, n_bytes) in found.shares.items():
        if part == "weights":
            sums[dtype] = sums.get(dtype, 0) + n_bytes
    assert sums == {"bf16": 2 * 1_050_939_392, "uint8": 3_489_660_928}


def test_blocks_of_bitsandbytes_of_another_size() -> None:
    """A scale of four bytes for 128 weights instead of 64; in the state of each matrix, a letter more."""
    model = sizer.load("llama-3-8b")
    # 32 layers of four matrices of attention and three of the MLP.
    weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    usual, found = model.size(quant="nf4"), model.size(quant="nf4", group_size=128)

    assert usual.data_bytes - found.data_bytes == weights // 64 * 4 - weights // 128 * 4 - 32 * 7


@pytest.mark.parametrize("most", [1, 3_000, 20_000, 70_000, 10**9])
@pytest.mark.parametrize("tie", [False, True])
def test_shards_are_those_of_the_hub(most: int, tie: bool) -> None:
    """Also where one tensor is larger than a file may be, and where the last is."""
    hub = pytest.importorskip("huggingface_hub")
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 4}
    config = {**sizes, "num_hidden_layers": 3, "vocab_size": 500, "tie_word_embeddings": tie}
    module = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).bfloat16()
    stored = {name: t for name, t in module.state_dict().items() if not (tie and name == "lm_head.weight")}
    theirs = hub.split_torch_state_dict_into_shards(stored, max_shard_size=most)
    found = sizer.load({"model_type": "llama", **config}).size(dtype="bf16", max_shard_size=most)

    assert [file.data_bytes for file in found.files] == [
        sum(stored[name].nbytes for name in names) for names in theirs.filename_to_tensors.values()
    ]


def test_mxfp4_of_gpt_oss_20b() -> None:
    # huggingface/huggingface.js PR #2323: 1,804,459,584 bf16, 9,555,148,800 + 597,196,800 bytes.
    found = sizer.load("gpt-oss-20b").size(quant="mxfp4")

    assert found.parts == {"weights": 2 * 1_804_459_584 + 9_555_148_800, "scales": 597_196_800}
    assert found.data_bytes == 13_761_264_768


def test_w8a8_of_llama_3_1_70b() -> None:
    # vllm-project/vllm PR #12569: int8 68,451,041,280, bf16 2,102,665,216, scales 6,717,440.
    found = sizer.load("llama-3.1-70b").size(quant="w8a8")

    kinds = {"int8": 0, "bf16": 0, "scales": 0}
    for (_, part, dtype), (_, n_bytes) in found.shares.items():
        kinds["scales" if part == "scales" else dtype] += n_bytes // (1 if dtype == "int8" else 2)
    assert kinds == {"int8": 68_451_041_280, "bf16": 2_102_665_216, "scales": 6_717_440}


@pytest.mark.parametrize(
    ("preset", "dtype", "expected"),
    [
        # vllm-project/vllm PR #10511: 14.96 GiB; `total_size` of the published index
        ("llama-3-8b", "bf16", 16_060_522_496),
        # huggingface/huggingface.js spec: index of BLOOM
        ("bloom-176b", "bf16", 352_494_542_848),
        # index of Phi-2 in fp32
        ("phi-2", "fp32", 11_118_735_360),
    ],
)
def test_total_size_of_published_files(preset: str, dtype: str, expected: int) -> None:
    assert sizer.load(preset).size(quant=dtype).data_bytes == expected


def test_shards_of_llama_3_8b_as_they_are_published() -> None:
    # The four files of meta-llama/Meta-Llama-3-8B, cut at 5 GB.
    found = sizer.load("llama-3-8b").size(max_shard_size="5GB")

    assert [file.bytes for file in found.files] == [
        *(4_976_698_672, 4_999_802_720, 4_915_916_176, 1_168_138_808)
    ]


def test_deepseek_v3_as_it_is_published() -> None:
    # The published files have 688,586,727,753 bytes in all. They hold a layer for multi-token prediction
    # too: one more layer, copies of the embedding and the head, a projection of [D, 2D] and three norms.
    found = sizer.load("deepseek-v3").size(quant="fp8-block", max_shard_size="4.3GB")
    layer = sum(t.bytes for t in found.tensors() if t.name.startswith("model.layers.60."))
    more = layer + 2 * (2 * 129280 * 7168 + 2 * 7168 * 7168 + 3 * 7168)

    assert abs(found.bytes - found.index_bytes + more - 688_586_727_753) < 1_000_000


# scheme of compressed-tensors, its weights, our name, inputs
SCHEMES: list[tuple[str, dict[str, Any], str, int]] = [
    *(
        (
            "pack-quantized",
            {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32},
            f"w{bits}a16-g32",
            256,
        )
        for bits in range(2, 9)
    ),
    ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "channel"}, "w4a16-g-1", 67),
    (
        "pack-quantized",
        {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": False},
        "w4a16-g128-asym",
        256,
    ),
    ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}, "fp8-dynamic", 256),
    ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, "w8a8", 256),
    (
        "nvfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
        "nvfp4a16",
        256,
    ),
    (
        "mxfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"},
        "mxfp4",
        256,
    ),
]


def compressed(scheme: Any, layout: str, inputs: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """The tensors of a bf16 matrix of 33 outputs, as the library compresses it."""
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("compressed_tensors")
    quantization = pytest.importorskip("compressed_tensors.quantization")
    model = torch.nn.Sequential(torch.nn.Linear(inputs, 33, bias=False)).to(torch.bfloat16)
    config = quantization.QuantizationConfig(
        config_groups={"group_0": scheme}, format=layout, quantization_status="frozen"
    )
    quantization.apply_quantization_config(model, config)
    for name, value in list(model[0].named_parameters()):
        if name.endswith(("scale", "zero_point")):
            value.data = torch.ones_like(value)
    library.ModelCompressor(quantization_config=config).compress_model(model)
    names = {"float8_e4m3fn": "fp8_e4m3", "bfloat16": "bf16", "float32": "fp32"}
    return {
        name.removeprefix("0."): (tuple(value.shape), names.get(kind := str(value.dtype)[6:], kind))
        for name, value in model.state_dict().items()
    }


@pytest.mark.parametrize(("layout", "weights", "quant", "inputs"), SCHEMES, ids=[row[2] for row in SCHEMES])
def test_tensors_of_compressed_tensors(layout: str, weights: dict[str, Any], quant: str, inputs: int) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    scheme = quantization.QuantizationScheme(
        targets=["Linear"], weights=quantization.QuantizationArgs(**weights), format=layout
    )

    assert parts(quant, 33, inputs) == compressed(scheme, layout, inputs)


# Presets of `quant_scheme.py`, their format, our name: with what they keep for what goes in.
PRESETS = [
    ("FP8", "float-quantized", "fp8"),
    ("FP8_DYNAMIC", "float-quantized", "fp8-dynamic"),
    ("W8A8", "int-quantized", "w8a8"),
    ("W4A16", "pack-quantized", "w4a16"),
    ("W4A16_ASYM", "pack-quantized", "w4a16-asym"),
    ("W8A16", "pack-quantized", "w8a16"),
    ("NVFP4", "nvfp4-pack-quantized", "nvfp4"),
    ("NVFP4A16", "nvfp4-pack-quantized", "nvfp4a16"),
    ("MXFP4", "mxfp4-pack-quantized", "mxfp4"),
    ("MXFP8", "mxfp8-quantized", "mxfp8"),
]


@pytest.mark.parametrize(("preset", "layout", "quant"), PRESETS, ids=[row[0] for row in PRESETS])
def test_presets_of_compressed_tensors(preset: str, layout: str, quant: str) -> None:
    schemes = pytest.importorskip("compressed_tensors.quantization.quant_scheme")
    scheme = schemes.preset_name_to_scheme(preset, ["Linear"])
    scheme.format = layout

    assert parts(quant, 33, 256) == compressed(scheme, layout, 256)


# Formats whose tensors sizer's own reader turns back into the weights of the model.
ROUND_TRIPS = [
    *(f"gptq-int{bits}-g{group}" for bits in (2, 3, 4, 8) for group in (32, 64, -1)),
    *("awq-int4-g64", "nf4", "nf4-dq", "fp4", "bnb-int8", "fp8-block", "fp8", "fp8-dynamic"),
    *("mxfp4", "mxfp8", "nvfp4", "nvfp4a16", "w4a16-g64", "w8a16-g64", "w3a16-g32-asym", "w8a8"),
    *("mlx-q4-g32", "mlx-q8", "bf16", "fp32"),
]
# What the reader needs beside the tensors, by the format: what its tool writes into config.json.
CONFIG_OF = {
    "mlx-q4-g32": {"quantization": {"bits": 4, "group_size": 32}},
    "mlx-q8": {"quantization": {"bits": 8, "group_size": 64}},
}


@pytest.mark.parametrize("quant", ROUND_TRIPS)
@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
def test_what_is_stored_reads_as_the_model(tmp_path: Path, quant: str, moe: bool) -> None:
    library = pytest.importorskip("safetensors.numpy")
    numpy = pytest.importorskip("numpy")
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2}
    config: dict[str, Any] = {"vocab_size": 96, "num_key_value_heads": 1, "head_dim": 64, **sizes}
    config |= {"model_type": "mixtral", "num_local_experts": 3} if moe else {"model_type": "llama"}
    model = sizer.load(config)
    quantized = ["experts"] if moe and parse(quant).scope == "modules" else []
    found = model.size(quant=quant, quantize=quantized)
    types = {
        "bf16": "uint16",
        "fp16": "float16",
        "fp32": "float32",
        "fp8_e4m3": "uint8",
        **{name: name for name in ("int32", "int64", "uint8", "int8", "uint32")},
    }
    tensors = {}
    for t in found.tensors():
        value = numpy.zeros(t.shape, types[t.dtype])
        if t.name.endswith("weight_shape"):
            value[:] = (2, 2)
        tensors[t.name] = value
    # numpy has no bf16 and no fp8, so the header of its file is written anew with those names.
    raw = library.save(tensors, {"format": "pt"})
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    codes = {"bf16": "BF16", "fp8_e4m3": "F8_E4M3"}
    for t in found.tensors():
        header[t.name]["dtype"] = codes.get(t.dtype, header[t.name]["dtype"])
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])
    (tmp_path / "config.json").write_text(
        json.dumps({**config, **settings_of(quant), **CONFIG_OF.get(quant, {})})
    )

    read = sizer.load_checkpoint(tmp_path)

    assert read.problems == []
    assert read.count().total == model.count().total


def settings_of(quant: str) -> dict[str, Any]:
    """What compressed-tensors writes into config.json, where the words of a row do not say their bits."""
    form = parse(quant)
    if not quant.startswith("w") or quant == "w8a8":
        return {}
    weights = {"num_bits": form.bits, "group_size": form.group}
    return {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"g": {"weights": weights}},
        }
    }
