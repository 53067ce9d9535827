"""Checkpoints of public reports: the totals and sizes that their files have, by who measured them."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
from making import Entry, gguf, safetensors

import sizer
from sizer.sources.checkpoints.ggml import TYPES

CLI = Callable[..., tuple[int, str, str]]
GIB = 2**30
# name -> elements and bytes of a block of ggml, and the number of its type
BLOCKS = {name: (number, block, size) for number, (name, block, size) in TYPES.items()}


def gpt_oss() -> dict[str, Entry]:
    """The element counts of openai/gpt-oss-20b: blocks of MXFP4 and their exponents, 32 to each."""
    return {
        "model.embed_tokens.weight": ("BF16", [1804459584]),
        "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", [9555148800 // 16, 1, 16]),
        "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", [597196800, 1]),
    }


def nf4() -> dict[str, Entry]:
    """Llama 3.1 8B by bitsandbytes: two weights a byte, an absmax for 64 of them."""
    packed = 3489660928
    name = "model.layers.0.mlp.up_proj.weight"
    return {
        "model.embed_tokens.weight": ("BF16", [1050939392]),
        name: ("U8", [packed, 1]),
        f"{name}.absmax": ("F32", [2 * packed // 64]),
        f"{name}.quant_map": ("F32", [16]),
    }


def gptq_biases() -> tuple[dict[str, Entry], dict[str, object]]:
    """Llama 3.1 8B of GPTQ: each packed matrix has a bias of zeros that the model has not."""
    sizes = {"q": (4096, 4096), "k": (4096, 1024), "v": (4096, 1024), "o": (4096, 4096)}
    names = {f"self_attn.{n}_proj": size for n, size in sizes.items()}
    names |= {"mlp.gate_proj": (4096, 14336), "mlp.up_proj": (4096, 14336), "mlp.down_proj": (14336, 4096)}
    found: dict[str, Entry] = {
        "lm_head.weight": ("F16", [128256, 4096]),
        "model.norm.weight": ("F16", [4096]),
    }
    found["model.embed_tokens.weight"] = ("F16", [128256, 4096])
    for i in range(32):
        layer = f"model.layers.{i}"
        found |= {f"{layer}.{n}_layernorm.weight": ("F16", [4096]) for n in ("input", "post_attention")}
        for name, (inputs, outputs) in names.items():
            stem = f"{layer}.{name}"
            found[f"{stem}.qweight"] = ("I32", [inputs // 8, outputs])
            found[f"{stem}.qzeros"] = ("I32", [inputs // 128, outputs // 8])
            found[f"{stem}.scales"] = ("F16", [inputs // 128, outputs])
            found[f"{stem}.g_idx"] = ("I32", [inputs])
            found[f"{stem}.bias"] = ("F16", [outputs])
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    }
    return found, config


def kimi() -> tuple[dict[str, Entry], dict[str, object]]:
    """Kimi-K2.5: experts of 4 bits whose settings are within text_config."""
    rows = 60 * 384 * 3 * 2048
    name = "language_model.model.layers.1.mlp.experts.0.up_proj.weight"
    found: dict[str, Entry] = {
        f"{name}_packed": ("I32", [rows, 7168 // 8]),
        f"{name}_scale": ("BF16", [rows, 7168 // 32]),
        f"{name}_shape": ("I64", [2]),
        "language_model.model.embed_tokens.weight": ("BF16", [12193329648]),
        "language_model.model.layers.1.mlp.gate.e_score_correction_bias": ("F32", [23040]),
    }
    weights = {"num_bits": 4, "group_size": 32, "strategy": "group", "symmetric": True, "type": "int"}
    settings = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    groups = {"group_0": {"weights": weights, "targets": ["Linear"]}}
    return found, {"text_config": {"quantization_config": {**settings, "config_groups": groups}}}


def w8a8() -> dict[str, Entry]:
    """Llama 3.1 70B of 8 bits: a scale for each row."""
    found: dict[str, Entry] = {"model.embed_tokens.weight": ("BF16", [2102665216])}
    for name, rows, inputs in (("up_proj", 80 * 75776, 8192), ("down_proj", 80 * 8192, 28672)):
        found[f"model.layers.0.mlp.{name}.weight"] = ("I8", [rows, inputs])
        found[f"model.layers.0.mlp.{name}.weight_scale"] = ("F32", [rows, 1])
    return found


def with_rotary(dtype: str, params: int, layers: int, width: int, kind: str) -> dict[str, Entry]:
    """A checkpoint of that many parameters, with the rotary table that older writers stored."""
    found: dict[str, Entry] = {"model.embed_tokens.weight": (dtype, [params])}
    for i in range(layers):
        found[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = (kind, [width])
    return found


# case -> what is stored, its configuration, parameters, buffers, and bytes where they are known
CASES = {
    "a01 gpt-oss-20b": (gpt_oss(), {}, 20914757184, 0, 13761264768),
    "a03 llama-3.1-8b nf4": (nf4(), {}, 8030261248, 0, None),
    "a05 llama-3.1-8b gptq": (*gptq_biases(), 8030261248, 0, None),
    # The report's total has the 23,040 corrections of routers, which are buffers.
    "a08 kimi-k2.5": (*kimi(), 1026879376368 - 23040, 23040, None),
    "c03 llama-3.1-70b w8a8": (w8a8(), {}, 70553706496, 0, 68451041280 + 2 * 2102665216 + 4 * 6717440),
    "c11 llama-7b": (with_rotary("F16", 6738415616, 32, 64, "F16"), {}, 6738415616, 2048, 13476835328),
    "c11 chatglm2-6b": (with_rotary("F16", 6243584000, 1, 32, "F16"), {}, 6243584000, 32, 12487168064),
    "c11 wizard-30b": (with_rotary("F32", 32528943616, 60, 64, "F32"), {}, 32528943616, 3840, 130115789824),
    "c12 reflection-70b": ({"lm_head.weight": ("F32", [70553804800])}, {}, 70553804800, 0, 282215219200),
    "c12 phi-2": ({"lm_head.weight": ("F32", [2779683840])}, {}, 2779683840, 0, 11118735360),
}


@pytest.mark.parametrize("case", CASES)
def test_parameters_of_a_checkpoint(tmp_path: Path, case: str) -> None:
    tensors, config, params, buffers, size = CASES[case]
    path = safetensors(tmp_path / "model.safetensors", tensors, {"format": "pt"})
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))

    checkpoint = sizer.load_checkpoint(path)
    found = checkpoint.count()

    assert (found.total, found.buffers, checkpoint.problems) == (params, buffers, [])
    assert found.elements == sum(prod(shape) for _, shape in tensors.values())
    assert size is None or found.bytes == size


def test_c03_what_a_server_loads(tmp_path: Path) -> None:
    """vLLM's log says 67.7229 GiB: what is stored, and a table of rotary positions it makes itself."""
    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", w8a8())).count()
    assert round((found.bytes + 33554432) / GIB, 4) == 67.7228


# Sizes of an index that has no file beside it, of 4 bytes an element: c12, and the reward head's 2,049.
@pytest.mark.parametrize(("total", "params"), [(282215219200, 70553804800), (5246377988, 1311594497)])
def test_c12_an_index_alone_is_read_at_every_width(
    tmp_path: Path, sizer_cli: CLI, total: int, params: int
) -> None:
    path = tmp_path / "pytorch_model.bin.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": {"w": "pytorch_model.bin"}}))

    code, out, _ = sizer_cli("count", str(path), "--json")

    assert code == 1
    assert {"reading": "4 bytes each", "params": params} in json.loads(out)["readings"]


# a21: the total_size that the report gives for bloom's files. a22, a30: of these the reports give the
# parameters alone, so the totals are two bytes for each.
@pytest.mark.parametrize(
    ("total", "params"),
    [
        (352494542848, 176247271424),
        (2 * 179522565120, 179522565120),
        (2 * 41835970560, 41835970560),
        (2 * 7721324544, 7721324544),
        (2 * 72287920128, 72287920128),
    ],
    ids=["a21 bloom", "a22 falcon-180b", "a22 falcon-40b", "a30 qwen-7b", "a30 qwen-72b"],
)
def test_an_index_alone_states_the_parameters(
    tmp_path: Path, sizer_cli: CLI, total: int, params: int
) -> None:
    path = tmp_path / "pytorch_model.bin.index.json"
    names = [f"pytorch_model_0000{i}-of-00002.bin" for i in (1, 2)]
    weight_map = {"a.weight": names[0], "b.weight": names[1]}
    path.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))

    code, out, err = sizer_cli("count", str(path), "--json")

    assert code == 1
    assert {"reading": "2 bytes each", "params": params} in json.loads(out)["readings"]
    assert all(name in err for name in names)


# a21, a22, a30: the keys that decide, written after the public configurations; the total that the report
# gives, and the wrong number of a wrong reading.
READ: dict[str, tuple[dict[str, object], int, int, str]] = {
    "a21 bloom": (
        {"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
         "vocab_size": 250880},
        176247271424, 179843887104, "tied head counted again",
    ),
    "a22 falcon-180b": (
        {"model_type": "falcon", "hidden_size": 14848, "num_hidden_layers": 80, "num_attention_heads": 232,
         "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True, "parallel_attn": True,
         "bias": False, "vocab_size": 65024},
        178557088768, 179522565120, "tied head counted again",
    ),
    "a22 falcon-40b": (
        {"model_type": "RefinedWeb", "hidden_size": 8192, "n_layer": 60, "n_head": 128, "n_head_kv": 8,
         "parallel_attn": True, "bias": False, "vocab_size": 65024},
        41303293952, 41835970560, "tied head counted again",
    ),
    "a30 qwen-7b": (
        {"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
         "num_attention_heads": 32, "kv_channels": 128, "vocab_size": 151936, "no_bias": True},
        7721324544, 12049846272, "MLP of twice the width",
    ),
    "a30 qwen-72b": (
        {"model_type": "qwen", "hidden_size": 8192, "intermediate_size": 49152, "num_hidden_layers": 80,
         "num_attention_heads": 64, "kv_channels": 128, "vocab_size": 152064, "no_bias": True},
        72287920128, 120606302208, "MLP of twice the width",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_a_configuration_beside_its_files_and_the_wrong_number(
    tmp_path: Path, sizer_cli: CLI, case: str
) -> None:
    config, params, wrong, term = READ[case]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))

    assert sizer_cli("count", str(path), "-q")[:2] == (0, f"{params}\n")
    code, out, _ = sizer_cli("reconcile", str(path), str(wrong), "--json")
    assert code == 0
    assert [t["name"] for t in json.loads(out)["terms"]] == [term]


def test_c02_what_a_server_loads(tmp_path: Path) -> None:
    """vLLM PR #10511: 14.96 GiB on one card and 7.48 on each of two, with the cosines of 8,192 places."""
    model = sizer.load("llama-3-8b")
    table = 8192 * 128 * 2
    weights = model.size(quant="bf16").data_bytes

    assert round((weights + table) / GIB, 4) == 14.9595
    assert round((2 * model.shards("vllm", tp=2).heaviest.params + table) / GIB, 2) == 7.48
    # 0.9 of 79.22 GiB, less the weights, the activations and the rest of the log.
    assert round(0.9 * 79.22 - round((weights + table) / GIB, 2) - 1.79 - 1.26, 1) == 53.3


# c05: the README of llama.cpp's quantize, GiB of Llama 3.1 8B under each named mix.
@pytest.mark.parametrize(
    ("quant", "bits", "gib"),
    [
        ("Q4_K_M", 4.8944, 4.58), ("Q6_K", 6.5633, 6.14), ("Q8_0", 8.5008, 7.95), ("F16", 16.0005, 14.96),
        ("Q2_K", 3.1593, 2.95), ("IQ4_XS", 4.4597, 4.17), ("Q5_K_M", 5.7036, 5.33), ("Q3_K_L", 4.2979, 4.02),
    ],
)  # fmt: skip
def test_c05_named_mixes(quant: str, bits: float, gib: float) -> None:
    found = sizer.load("llama-3.1-8b").size(quant=quant, container="gguf")

    assert round(8 * found.data_bytes / 8030261248, 4) == bits
    assert round(found.data_bytes / GIB, 2) == gib


def test_a11_parts_of_a_model_add_up_beside_its_backbone(tmp_path: Path) -> None:
    """A card that states the backbone alone: 552B, and files with 197B, 14B and 485M more."""
    parts = {"model.layers.0.mlp.up_proj": 552_000_000_000, "model.layers.0.engram.table": 197_000_000_000}
    parts |= {"model.dspark.up_proj": 14_000_000_000, "model.visual.blocks.0.mlp.fc1": 485_000_000}
    tensors: dict[str, Entry] = {f"{name}.weight": ("BF16", [1000, n // 1000]) for name, n in parts.items()}

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors)).count()

    assert found.total == 763_485_000_000
    assert round(found.total, -9) == 763e9


def test_a31_stages_of_a_pipeline_hold_a_tied_embedding_twice(sizer_cli: CLI) -> None:
    """bigscience-workshop/Megatron-DeepSpeed #99: the sum over stages is too large by vocabulary · width."""
    model = sizer.load("gpt2-small", vocab_size=50304)
    total = sum(rank.params for rank in model.shards("megatron", pp=2).ranks)

    assert total - model.count().total == 50304 * 768
    _, out, _ = sizer_cli("reconcile", "gpt2-small", str(total), "--set", "vocab_size=50304", "--json")
    assert [t["name"] for t in json.loads(out)["terms"]] == ["tied head counted again"]


def llama_8b(matrices: str) -> list[tuple[str, list[int], int, int]]:
    """Llama 3.1 8B as llama.cpp writes it: norms in fp32, the matrices in one type."""
    return decoder(32, 4096, 14336, 1024, 128256, matrices, matrices)


def decoder(
    layers: int, width: int, ff: int, kv: int, vocab: int, matrices: str, head: str
) -> list[tuple[str, list[int], int, int]]:
    found: list[tuple[str, list[int], int, int]] = []

    def add(name: str, sizes: list[int], dtype: str) -> None:
        number, block, size = BLOCKS[dtype]
        found.append((f"{name}.weight", sizes, number, prod(sizes) // block * size))

    add("token_embd", [width, vocab], matrices)
    for i in range(layers):
        stem = f"blk.{i}."
        for name, sizes in (
            ("attn_q", [width, width]), ("attn_k", [width, kv]), ("attn_v", [width, kv]),
            ("attn_output", [width, width]), ("ffn_gate", [width, ff]), ("ffn_up", [width, ff]),
            ("ffn_down", [ff, width]),
        ):  # fmt: skip
            add(stem + name, sizes, matrices)
        add(f"{stem}attn_norm", [width], "fp32")
        add(f"{stem}ffn_norm", [width], "fp32")
    add("output_norm", [width], "fp32")
    add("output", [width, vocab], head)
    return found


# c05: the table in the README of llama.cpp's quantize; c07: the log of ollama/ollama PR #6279.
GGUF = {
    "c05 F16": (llama_8b("fp16"), 8030261248, 16.0005, 14.96),
    "c05 Q8_0": (llama_8b("q8_0"), 8030261248, 8.5008, 7.95),
    "c05 Q6_K": (llama_8b("q6_k"), 8030261248, 6.5633, 6.14),
    "c07 llama-3.1-70b Q4_0": (
        decoder(80, 8192, 28672, 1024, 128256, "q4_0", "q6_k"), 70553706496, 4.53, 37.22
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GGUF)
def test_bits_of_a_parameter_in_gguf(tmp_path: Path, case: str) -> None:
    tensors, params, bits, gib = GGUF[case]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(tensors, [("general.architecture", 8, "llama")], data=False))
    with path.open("r+b") as file:
        file.truncate(-(-path.stat().st_size // 32) * 32 + sum(-(-size // 32) * 32 for *_, size in tensors))

    checkpoint = sizer.load_checkpoint(path)
    found = checkpoint.count()

    assert (found.total, checkpoint.problems) == (params, [])
    digits = len(str(bits).partition(".")[2])
    assert round(8 * found.bytes / params, digits) == bits
    assert round(found.bytes / GIB, 2) == gib


def test_c08_an_encoder_of_llama_cpp_has_no_pooler(tmp_path: Path) -> None:
    """bge-small: 33,212,160 parameters in 63.84 MiB at 16.12 bits, as llama.cpp's CI logs say."""
    D, F, V, C, L = 384, 1536, 30522, 512, 12
    tensors: list[tuple[str, list[int], int, int]] = []

    def add(name: str, sizes: list[int], wide: bool = False) -> None:
        tensors.append((name, sizes, 0 if wide else 1, prod(sizes) * (4 if wide else 2)))

    add("token_embd.weight", [D, V])
    add("position_embd.weight", [D, C])
    add("token_types.weight", [D, 2], wide=True)
    for part in ("weight", "bias"):
        add(f"token_embd_norm.{part}", [D], wide=True)
    for i in range(L):
        for name, sizes in {
            "attn_q": [D, D],
            "attn_k": [D, D],
            "attn_v": [D, D],
            "attn_output": [D, D],
        }.items():
            add(f"blk.{i}.{name}.weight", sizes)
            add(f"blk.{i}.{name}.bias", [D], wide=True)
        for name, sizes in {"ffn_up": [D, F], "ffn_down": [F, D]}.items():
            add(f"blk.{i}.{name}.weight", sizes)
            add(f"blk.{i}.{name}.bias", [sizes[1]], wide=True)
        for name in ("attn_output_norm", "layer_output_norm"):
            for part in ("weight", "bias"):
                add(f"blk.{i}.{name}.{part}", [D], wide=True)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(tensors, [("general.architecture", 8, "bert")]))

    found = sizer.load_checkpoint(path).count()

    assert found.total == 33212160
    # The log's size and bits are of the whole file, whose vocabulary takes the rest.
    assert 63.4 < found.bytes / 2**20 < 63.84
    assert 16.0 < 8 * found.bytes / found.total < 16.12


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8])
def test_g14_words_are_packed_densely(tmp_path: Path, bits: int) -> None:
    """Three and five bits do not divide a word: 1,024 inputs of 3 bits take 96 words, not 103."""
    words = 1024 * bits // 32
    path = safetensors(
        tmp_path / "model.safetensors",
        {
            "mlp.up_proj.weight_packed": ("I32", [64, words]),
            "mlp.up_proj.weight_scale": ("BF16", [64, 1024 // 128]),
        },
    )
    weights = {"num_bits": bits, "group_size": 128, "strategy": "group", "symmetric": True, "type": "int"}
    groups = {"group_0": {"weights": weights, "targets": ["Linear"]}}
    settings = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": settings}))

    found = sizer.load_checkpoint(path).count()

    assert (found.total, found.helpers) == (64 * 1024, {"scales": 512})
    assert found.total / (64 * words) == 32 / bits


def test_g11_parts_of_gguf_add_up_or_are_named(tmp_path: Path, sizer_cli: CLI) -> None:
    """694 tensors and 604 are 1,298; `split.no` counts from zero, `split.tensors.count` is of all."""
    parts = (694, 604)
    for i, count in enumerate(parts):
        keys = [("split.no", 2, i), ("split.count", 2, 2), ("split.tensors.count", 5, sum(parts))]
        tensors = [(f"blk.{i}.{n}.weight", [8], 0, 32) for n in range(count)]
        (tmp_path / f"m-0000{i + 1}-of-00002.gguf").write_bytes(gguf(tensors, keys))
    for i in (1, 2):
        assert sizer_cli("count", str(tmp_path / f"m-0000{i}-of-00002.gguf"), "-q")[:2] == (0, "10384\n")

    (tmp_path / "m-00002-of-00002.gguf").unlink()
    code, out, err = sizer_cli("count", str(tmp_path / "m-00001-of-00002.gguf"), "-q")
    assert (code, out) == (1, "5552\n")
    assert "missing: m-00002-of-00002.gguf, with 604 of the tensors" in err
