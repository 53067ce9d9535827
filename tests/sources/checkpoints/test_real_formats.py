"""Files that the real libraries write, read back equal. Needs the extra `test-formats`; skipped without."""

from __future__ import annotations

import json
import math
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import raw

import sizer

M, K = 64, 256


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_every_dtype_of_safetensors(tmp_path: Path, torch: Any) -> None:
    library = pytest.importorskip("safetensors.torch")
    dtypes = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    ]
    tensors = {name: torch.zeros(3, 5).to(getattr(torch, name)) for name in dtypes}
    library.save_file({**tensors, "scalar": torch.tensor(1.0)}, tmp_path / "m.safetensors", {"format": "pt"})

    found = sizer.load_checkpoint(tmp_path / "m.safetensors")

    assert found.metadata == {"format": "pt"}
    assert {t.name: (t.shape, t.bytes) for t in found.stored if t.name != "scalar"} == {
        name: ((3, 5), 15 * tensor.element_size()) for name, tensor in tensors.items()
    }
    assert found.contents.problems == []


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=5),
    st.booleans(),
    st.integers(0, 8),
)
def test_the_library_takes_the_same_offsets(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]], laid: bool, size: int
) -> None:
    library = pytest.importorskip("safetensors")
    if laid:
        # One behind the other, and listed in another order.
        ends = list(accumulate(length for _, length in places))
        places = sorted((end - length, length) for end, (_, length) in zip(ends, places, strict=True))
        places, size = places[::2] + places[1::2], ends[-1]
    entries = {
        f"t{i}": {"dtype": "U8", "shape": [length], "data_offsets": [begin, begin + length]}
        for i, (begin, length) in enumerate(places)
    }
    path = tmp_path_factory.mktemp("offsets") / "m.safetensors"
    path.write_bytes(raw(json.dumps(entries, separators=(",", ":")).encode(), size))
    try:
        library.deserialize(path.read_bytes())
        taken = True
    except library.SafetensorError:
        taken = False

    try:
        # A file that ends early is read as far as its header goes.
        found = not sizer.load_checkpoint(path).contents.problems
    except sizer.SizerError:
        found = False

    assert found == taken


@pytest.mark.parametrize(
    "kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0"]
)
def test_gguf_types(tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    dtype = gguf.GGMLQuantizationType[kind]
    data = gguf.quants.quantize(numpy.zeros((4, 512), numpy.float32), dtype)
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_token_list(["a"] * 3000)
    writer.add_tensor("blk.0.attn_q.weight", data, raw_dtype=dtype)
    writer.add_tensor("output_norm.weight", numpy.zeros(512, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    found = sizer.load_checkpoint(path)

    theirs = {t.name: (tuple(int(n) for n in t.shape), t.n_bytes) for t in gguf.GGUFReader(path).tensors}
    assert {t.name: (tuple(reversed(t.shape)), t.bytes) for t in found.stored} == theirs
    assert (found.count().total, found.complete, found.architecture) == (4 * 512 + 512, True, "llama")


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_gguf_splits_and_byte_orders(tmp_path: Path, order: str) -> None:
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(
        tmp_path / "m.gguf", "llama", endianess=gguf.GGUFEndian[order], split_max_tensors=2
    )
    for i in range(5):
        writer.add_tensor(f"blk.{i}.ffn_up.weight", numpy.zeros((4, 32), numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(tmp_path.glob("*.gguf"))
    assert len(parts) == 3

    found = sizer.load_checkpoint(parts[1])
    assert (found.count().total, found.complete) == (5 * 128, True)

    parts[2].unlink()
    found = sizer.load_checkpoint(parts[0])
    assert [(m.file, m.tensors) for m in found.missing] == [("m-00003-of-00003.gguf", 1)]


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_bitsandbytes_4bit(tmp_path: Path, torch: Any, kind: str, double: bool) -> None:
    functional = pytest.importorskip("bitsandbytes.functional")
    library = pytest.importorskip("safetensors.torch")
    # Both sizes odd: the last byte holds one weight.
    shape = (33, 65)
    packed, state = functional.quantize_4bit(torch.randn(shape), quant_type=kind, compress_statistics=double)
    parts = {f"q.weight.{name}": value for name, value in state.as_dict(packed=True).items()}
    library.save_file({"q.weight": packed, **parts}, tmp_path / "m.safetensors")

    found = sizer.load_checkpoint(tmp_path / "m.safetensors")

    assert [(w.name, w.shape, w.params) for w in found.logical.weights] == [("q.weight", shape, 33 * 65)]
    assert found.problems == []


def test_bitsandbytes_in_a_file_of_torch(tmp_path: Path, torch: Any) -> None:
    """The shape lies within the archive, whose small parts are not looked up: the number is right."""
    functional = pytest.importorskip("bitsandbytes.functional")
    packed, state = functional.quantize_4bit(torch.randn(32, 64), quant_type="nf4")
    parts = {f"q.weight.{name}": value for name, value in state.as_dict(packed=True).items()}
    torch.save({"q.weight": packed, **parts}, tmp_path / "m.bin")

    found = sizer.load_checkpoint(tmp_path / "m.bin")

    assert [(w.name, w.params) for w in found.logical.weights] == [("q.weight", 32 * 64)]
    assert found.problems == []


@given(
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.sampled_from(["nf4", "fp4"]),
    st.sampled_from([64, 128, 256, 512, 1024]),
    st.booleans(),
    st.integers(1, 3),
)
def test_any_matrices_of_bitsandbytes_in_4_bits(
    tmp_path_factory: pytest.TempPathFactory,
    torch: Any,
    shape: tuple[int, int],
    kind: str,
    block: int,
    double: bool,
    layers: int,
) -> None:
    functional = pytest.importorskip("bitsandbytes.functional")
    library = pytest.importorskip("safetensors.torch")
    stored: dict[str, Any] = {}
    for i in range(layers):
        packed, state = functional.quantize_4bit(
            torch.zeros(shape), quant_type=kind, blocksize=block, compress_statistics=double
        )
        stored[f"layers.{i}.q.weight"] = packed
        stored |= {f"layers.{i}.q.weight.{name}": t for name, t in state.as_dict(packed=True).items()}
    path = tmp_path_factory.mktemp("bnb") / "m.safetensors"
    library.save_file(stored, path)

    found = sizer.load_checkpoint(path)

    assert (found.count().total, found.complete) == (layers * shape[0] * shape[1], True)
    assert [w.shape for w in found.logical.weights] == [shape] * layers
    assert found.count().bytes == sum(t.numel() * t.element_size() for t in stored.values())


@given(data=st.data())
def test_any_types_and_shapes_of_gguf(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    # What llama.cpp computes with, and never stores as weights.
    types = [t for t in gguf.GGMLQuantizationType if t.name not in ("Q8_1", "Q8_K")]
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    expected: dict[str, tuple[tuple[int, ...], int]] = {}
    for i in range(data.draw(st.integers(1, 4))):
        dtype = data.draw(st.sampled_from(types))
        block, _ = gguf.GGML_QUANT_SIZES[dtype]
        rows = data.draw(st.lists(st.integers(1, 3), max_size=2))
        shape = (*rows, block * data.draw(st.integers(1, 3)))
        stored = gguf.quants.quant_shape_to_byte_shape(shape, dtype)
        name = f"blk.{i}.ffn_up.weight"
        writer.add_tensor(name, numpy.zeros(stored, numpy.uint8), raw_shape=stored, raw_dtype=dtype)
        expected[name] = shape, math.prod(stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    found = sizer.load_checkpoint(path)

    assert {t.name: (t.shape, t.bytes) for t in found.stored} == expected
    assert found.complete
    assert sum(w.params for w in found.logical.weights) == sum(math.prod(s) for s, _ in expected.values())


def test_bitsandbytes_8bit(tmp_path: Path, torch: Any) -> None:
    functional = pytest.importorskip("bitsandbytes.functional")
    library = pytest.importorskip("safetensors.torch")
    weight, scales, _ = functional.int8_vectorwise_quant(torch.randn(M, K, dtype=torch.float16))
    values = {"q.weight": weight, "q.SCB": scales, "q.weight_format": torch.tensor(0, dtype=torch.uint8)}
    library.save_file(values, tmp_path / "m.safetensors")

    count = sizer.load_checkpoint(tmp_path / "m.safetensors").count()

    assert (count.total, count.helpers) == (M * K, {"scales": M, "quant state": 1})


# scheme, arguments of its weights, inputs: 67 is no whole number of words
SCHEMES: list[tuple[str, dict[str, Any], int]] = [
    *(
        ("pack-quantized", {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32}, K)
        for bits in range(2, 9)
    ),
    ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "channel"}, 67),
    ("pack-quantized", {"num_bits": 3, "type": "int", "strategy": "channel"}, 67),
    (
        "pack-quantized",
        {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": False}, K,
    ),
    ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}, K),
    (
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 32]}, K,
    ),
    ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, K),
    (
        "nvfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, K,
    ),
    (
        "mxfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, K,
    ),
]  # fmt: skip


def compressed(
    folder: Path, torch: Any, layout: str, weights: dict[str, Any], shape: tuple[int, int], with_config: bool
) -> sizer.Checkpoint:
    """A matrix and its bias as the library writes them, read back."""
    library = pytest.importorskip("compressed_tensors")
    quantization = pytest.importorskip("compressed_tensors.quantization")
    save_file = pytest.importorskip("safetensors.torch").save_file
    model = torch.nn.Sequential(torch.nn.Linear(*reversed(shape), bias=True))
    scheme = quantization.QuantizationScheme(
        targets=["Linear"], weights=quantization.QuantizationArgs(**weights), format=layout
    )
    config = quantization.QuantizationConfig(
        config_groups={"group_0": scheme}, format=layout, quantization_status="frozen"
    )
    quantization.apply_quantization_config(model, config)
    for module in model:
        for name, value in list(module.named_parameters()):
            if name.endswith(("scale", "zero_point")):
                value.data = torch.ones_like(value)
    compressor = library.ModelCompressor(quantization_config=config)
    compressor.compress_model(model)
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    if with_config:
        values = {"model_type": "x", "quantization_config": json.loads(config.model_dump_json())}
        (folder / "config.json").write_text(json.dumps(values))
    return sizer.load_checkpoint(folder / "model.safetensors")


@pytest.mark.parametrize("with_config", [True, False], ids=["config", "no config"])
@pytest.mark.parametrize(
    ("layout", "weights", "inputs"), SCHEMES, ids=[f"{s[0]}-{s[1]['num_bits']}-{s[2]}" for s in SCHEMES]
)
def test_compressed_tensors(
    tmp_path: Path, torch: Any, layout: str, weights: dict[str, Any], inputs: int, with_config: bool
) -> None:
    outputs = 33 if inputs == 67 else M

    found = compressed(tmp_path, torch, layout, weights, (outputs, inputs), with_config)

    shapes = {w.name: w.shape for w in found.logical.weights}
    assert shapes == {"0.weight": (outputs, inputs), "0.bias": (outputs,)}
    assert (found.count().total, found.problems) == (outputs * inputs + outputs, [])


@given(
    st.integers(2, 8),
    st.sampled_from([None, 16, 32, 64, 128]),
    st.booleans(),
    st.integers(1, 70),
    st.integers(1, 70),
)
def test_any_packed_matrix_of_compressed_tensors(
    tmp_path_factory: pytest.TempPathFactory,
    torch: Any,
    bits: int,
    group: int | None,
    symmetric: bool,
    outputs: int,
    times: int,
) -> None:
    weights: dict[str, Any] = {"num_bits": bits, "type": "int", "symmetric": symmetric}
    weights |= {"strategy": "group", "group_size": group} if group else {"strategy": "channel"}
    # Groups are whole; rows of words need not be.
    shape = outputs, times * group if group else times
    folder = tmp_path_factory.mktemp("compressed")

    found = compressed(folder, torch, "pack-quantized", weights, shape, with_config=True)

    assert {w.name: w.shape for w in found.logical.weights} == {"0.weight": shape, "0.bias": (outputs,)}
    assert found.problems == []


# type, sizes that are no whole blocks of 64, with biases, a tied head and one of its own
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    (
        "qwen2",
        {"hidden_size": 72, "intermediate_size": 130, "num_key_value_heads": 3, "num_attention_heads": 6},
    ),
    ("opt", {"hidden_size": 60, "ffn_dim": 110, "word_embed_proj_dim": 60, "num_attention_heads": 4}),
]
METHODS: list[dict[str, Any]] = [
    {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4", "llm_int8_skip_modules": ["q_proj", "lm_head"]},
    {"load_in_8bit": True},
]


@pytest.mark.parametrize("method", METHODS, ids=["nf4 double", "fp4 but q_proj", "int8"])
@pytest.mark.parametrize(("model_type", "sizes"), FAMILIES, ids=[f[0] for f in FAMILIES])
def test_models_that_transformers_packs(
    tmp_path: Path, torch: Any, model_type: str, sizes: dict[str, Any], method: dict[str, Any]
) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("accelerate")
    config = transformers.AutoConfig.for_model(model_type, num_hidden_layers=2, vocab_size=99, **sizes)
    made = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    made.save_pretrained(tmp_path / "plain")
    packed = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain",
        quantization_config=transformers.BitsAndBytesConfig(**method),
        dtype=torch.bfloat16,
        device_map="cpu",
    )
    packed.save_pretrained(tmp_path / "packed")
    file = tmp_path / "packed" / "model.safetensors"

    checkpoint = sizer.load_checkpoint(file)
    found = checkpoint.count()

    with file.open("rb") as opened:
        header = 8 + int.from_bytes(opened.read(8), "little")
    assert found.total == sum(p.numel() for p in made.parameters())
    assert (found.bytes, checkpoint.problems) == (file.stat().st_size - header, [])
    linear = [n for n, m in made.named_modules() if isinstance(m, torch.nn.Linear) and n != "lm_head"]
    skipped = method.get("llm_int8_skip_modules", [])
    assert sum(checkpoint.schemes.values()) == sum(n.rpartition(".")[2] not in skipped for n in linear)
