"""GGUF: llama.cpp's own figures for its mixes, its names, its fallbacks, and files of the gguf library."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
from repository import FIXTURES

import sizer
from sizer.errors import InvalidConfig

CONFIGS = FIXTURES / "configs"

# Bits a weight of Llama-3.1-8B, and whether with an importance matrix.
# ggml-org/llama.cpp, tools/quantize/README.md, table of Llama-3.1-8B; the 16-bit row has fp32 norms.
TABLE = [
    ("iq1_s", 2.0042, True),
    ("iq1_m", 2.1460, True),
    ("iq2_xxs", 2.3824, True),
    ("iq2_xs", 2.5882, True),
    ("iq2_s", 2.7403, True),
    ("iq2_m", 2.9294, True),
    ("iq3_xxs", 3.2548, True),
    ("iq3_xs", 3.4977, True),
    ("iq3_s", 3.6606, False),
    ("iq3_m", 3.7628, False),
    ("iq4_xs", 4.4597, False),
    ("iq4_nl", 4.6818, False),
    ("q2_k_s", 2.9697, True),
    ("q2_k", 3.1593, False),
    ("q3_k_s", 3.6429, False),
    ("q3_k_l", 4.2979, False),
    ("q4_k_s", 4.6672, False),
    ("q4_k_m", 4.8944, False),
    ("q5_k_s", 5.5704, False),
    ("q5_k_m", 5.7036, False),
    ("q6_k", 6.5633, False),
    ("q8_0", 8.5008, False),
    ("fp16", 16.0005, False),
]


@pytest.fixture(scope="module")
def llama() -> Any:
    return sizer.load(CONFIGS / "llama-3.1-8b-instruct.json")


@pytest.mark.parametrize(("quant", "bits", "imatrix"), TABLE, ids=[row[0] for row in TABLE])
def test_bits_a_weight_as_llama_cpp_states_them(llama: Any, quant: str, bits: float, imatrix: bool) -> None:
    found = llama.size(quant=quant, container="gguf", imatrix=imatrix)

    assert round(found.data_bytes * 8 / 8_030_261_248, 4) == bits
    assert found.label == "exact"


@pytest.mark.parametrize(("imatrix", "kept"), [(True, "iq3_xxs"), (False, "iq3_s")])
def test_values_of_many_heads_follow_the_importance_matrix(imatrix: bool, kept: str) -> None:
    # llama-quant.cpp, MOSTLY_IQ3_XXS: below four heads a group, `!has_imatrix ? IQ3_S : IQ3_XXS`.
    found = sizer.load("llama-2-7b").size(quant="iq3_xxs", container="gguf", imatrix=imatrix)

    assert {t.dtype for t in found.tensors() if t.name.endswith("attn_v.weight")} == {kept}


def test_llama_70b_as_a_log_states_it() -> None:
    # ollama/ollama PR #6279: 37.22 GiB, 4.53 bits a weight.
    found = sizer.load("llama-3-70b").size(quant="q4_0")

    assert (round(found.data_bytes / 2**30, 2), round(found.bits_per_weight, 2)) == (37.22, 4.53)


def test_an_encoder_without_its_pooler() -> None:
    # bge-small in llama.cpp's logs: 33,212,160 params, 63.84 MiB, 16.12 bits a weight.
    sizes = {
        "hidden_size": 384,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    }
    model = sizer.load({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522, **sizes})
    found = model.size(quant="fp16", container="gguf")

    assert sum(prod(t.shape) for t in found.tensors()) == 33_212_160
    assert round(found.data_bytes / 2**20, 2) == 63.84
    assert round(found.data_bytes * 8 / 33_212_160, 2) == 16.12


# A preset for each model type, and llama.cpp's name of its architecture.
ARCHITECTURES = [
    ("gpt2-small", "gpt2"),
    ("llama-3-8b", "llama"),
    ("mixtral-8x7b", "llama"),
    ("qwen2.5-7b", "qwen2"),
    ("qwen3-8b", "qwen3"),
    ("qwen3-30b-a3b", "qwen3moe"),
    ("gemma-2-9b", "gemma2"),
    ("phi-2", "phi2"),
    ("falcon-40b", "falcon"),
    ("bloom-7b1", "bloom"),
    ("pythia-1b", "gptneox"),
    ("deepseek-v2-lite", "deepseek2"),
    ("deepseek-v3", "deepseek2"),
    ("olmo-2-7b", "olmo2"),
    ("gpt-oss-20b", "gpt-oss"),
    ("gemma-4-26b-a4b-text", "gemma4"),
    ("bert-base", "bert"),
    ("t5-base", "t5"),
    ("mamba-2.8b", "mamba"),
]
# What the library's table of names leaves to the converter: splits, and tensors renamed in it.
OWN = (
    "mlp.experts.gate_up_proj",
    "_bias",
    "router.scale",
    "router.per_expert_scale",
    "kv_b_proj",
    "e_score",
    "embeddings_layernorm",
    "post_attention_layernorm",
)


@pytest.mark.parametrize(("preset", "architecture"), ARCHITECTURES, ids=[row[0] for row in ARCHITECTURES])
def test_names_are_those_of_the_gguf_library(preset: str, architecture: str) -> None:
    gguf = pytest.importorskip("gguf")
    from sizer.measures.size.gguf_names import renamed
    from sizer.measures.size.rows import shape_of, stored_rows

    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    model = sizer.load(preset)
    model_type = (model.hf_config or {}).get("model_type", model.architecture)
    table = gguf.get_tensor_name_map(kinds[architecture], 200)
    compared = 0
    for row in stored_rows(model):
        if row.name.endswith(OWN) or any(part in row.name for part in OWN) or "pooler" in row.name:
            continue
        name = row.name.replace("{}", "0", 1).replace(".{}.", ".")
        theirs = table.get_name(name, try_suffixes=(".weight", ".bias"))
        ours = renamed(row.name, shape_of(row), 1, model_type, model.config)
        assert theirs is not None, row.name
        assert ours is not None, row.name
        # Experts in one tensor have no `.weight` in a checkpoint; the converter adds it.
        assert [one.name.replace("{}", "0").removesuffix(".weight") for one in ours] == [
            theirs.removesuffix(".weight")
        ]
        compared += 1
    assert compared > 5


# What llama.cpp's convert_hf_to_gguf.py makes of tensors that hold several: preset, tensor, shape, class.
SPLITS = [
    ("baichuan2-7b", "blk.0.attn_v.weight", (4096, 4096), "BaichuanModel: W_pack in three"),
    ("internlm2-20b", "blk.0.attn_q.weight", (48 * 128, 6144), "InternLM2Model: wqkv"),
    ("internlm2-20b", "blk.0.attn_k.weight", (8 * 128, 6144), "InternLM2Model: wqkv"),
    ("dbrx-132b", "blk.0.ffn_gate_exps.weight", (16, 10752, 6144), "DbrxModel: w1 as it is"),
    ("dbrx-132b", "blk.0.ffn_down_exps.weight", (16, 6144, 10752), "DbrxModel: w2 transposed"),
    ("gpt-oss-20b", "blk.0.ffn_up_exps.weight", (32, 2880, 2880), "GptOssModel: gate_up_proj in two"),
    ("gpt-oss-20b", "blk.0.ffn_gate_exps.bias", (32, 2880), "GptOssModel: gate_up_proj_bias in two"),
    ("gpt-oss-20b", "blk.0.ffn_down_exps.bias", (32, 2880), "GptOssModel"),
    ("granite-3.0-3b-a800m", "blk.0.ffn_up_exps.weight", (40, 512, 1536), "GraniteMoeModel: input_linear"),
    ("granite-3.0-3b-a800m", "blk.0.ffn_down_exps.weight", (40, 1536, 512), "GraniteMoeModel"),
    ("llama-4-scout-text", "blk.0.ffn_gate_exps.weight", (16, 8192, 5120), "Llama4Model: gate_up_proj"),
    ("llama-4-scout-text", "blk.0.ffn_down_exps.weight", (16, 5120, 8192), "Llama4Model"),
    ("gemma-4-26b-a4b-text", "blk.0.ffn_down_exps.weight", (128, 2816, 704), "Gemma4Model: as it is"),
    ("roberta-base", "position_embd.weight", (512, 768), "RobertaModel: from behind the padding token on"),
]


@pytest.mark.parametrize(
    ("preset", "name", "shape", "source"), SPLITS, ids=[f"{r[0]}-{r[1]}" for r in SPLITS]
)
def test_tensors_that_the_converter_takes_apart(
    preset: str, name: str, shape: tuple[int, ...], source: str
) -> None:
    found = sizer.load(preset).size(quant="fp16", container="gguf")

    assert {t.name: t.shape for t in found.tensors()}[name] == shape, source


@pytest.mark.parametrize(
    ("preset", "queries"),
    [
        ("llama-4-scout", (40 * 128, 5120)),
        ("gemma-3-4b", (8 * 256, 2560)),
        ("qwen2.5-vl-7b", (28 * 128, 3584)),
        ("clip-vit-base-patch32", (512, 512)),
    ],
)
def test_no_two_tensors_of_a_file_have_one_name(preset: str, queries: tuple[int, int]) -> None:
    """The blocks are those of the text: llama.cpp has the towers in a file of their own."""
    found = sizer.load(preset).size(quant="fp16", container="gguf")
    shapes = {t.name: t.shape for t in found.tensors()}

    assert len(shapes) == len(list(found.tensors()))
    assert shapes["blk.0.attn_q.weight"] == queries
    assert found.label == "estimate"


def test_gpt_oss_as_it_is_published() -> None:
    # huggingface.co/bartowski/openai_gpt-oss-20b-GGUF, README: 12.1GB.
    found = sizer.load("gpt-oss-20b").size(quant="mxfp4_moe", container="gguf")
    experts = [t for t in found.tensors() if t.name.endswith("_exps.weight")]

    assert round(found.data_bytes / 1e9, 1) == 12.1
    # Blocks of 32 in 17 bytes; 24 layers of 32 experts of three matrices.
    assert sum(t.bytes for t in experts) == 24 * 32 * 3 * 2880 * 2880 // 32 * 17
    assert {t.dtype for t in experts} == {"mxfp4"}


def test_factors_of_scaled_positions_are_stored() -> None:
    # convert_hf_to_gguf.py, LlamaModel.generate_extra_tensors: a factor of fp32 for each pair.
    scaled = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    config = {"model_type": "llama", "head_dim": 128}
    plain, found = (
        sizer.load(values).size(quant="fp16", container="gguf")
        for values in (config, {**config, "rope_scaling": scaled})
    )
    added = [t for t in found.tensors() if t.name == "rope_freqs.weight"]

    assert [(t.shape, t.dtype) for t in added] == [((64,), "fp32")]
    assert found.data_bytes - plain.data_bytes == 64 * 4


def test_types_of_ggml_have_the_sizes_of_the_library() -> None:
    gguf = pytest.importorskip("gguf")
    from sizer.measures.size.gguf import BLOCKS

    theirs = {kind.name.lower(): size for kind, size in gguf.GGML_QUANT_SIZES.items()}
    compared = [name for name in BLOCKS if name in theirs]

    assert len(compared) > 25
    assert {name: BLOCKS[name] for name in compared} == {name: theirs[name] for name in compared}


@pytest.mark.parametrize("kind", ["F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0"])
def test_a_file_of_the_library_has_the_predicted_bytes(tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = {"model_type": "llama", "vocab_size": 301, "num_key_value_heads": 2, **sizes}
    model = sizer.load({**config, "tie_word_embeddings": False})
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_token_list(["a", "bc"] * 40)
    writer.add_block_count(2)
    quant = "fp16" if kind == "F16" else kind.lower()
    found = model.size(quant=quant, container="gguf", pure=kind != "F16")
    types = {"fp32": "F32", "fp16": "F16"}
    for tensor in found.tensors():
        dtype = gguf.GGMLQuantizationType[types.get(tensor.dtype, tensor.dtype.upper())]
        data = gguf.quants.quantize(numpy.zeros(tensor.shape, numpy.float32), dtype)
        assert data.nbytes == tensor.bytes
        writer.add_tensor(tensor.name, data, raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    # Three keys, by the format's definition: architecture, tokens, block count.
    text = [8 + len("general.architecture") + 4 + 8 + len("llama")]
    text += [8 + len("tokenizer.ggml.tokens") + 4 + 4 + 8 + 40 * (8 + 1 + 8 + 2)]
    text += [8 + len("llama.block_count") + 4 + 4]

    whole = model.size(quant=quant, container="gguf", pure=kind != "F16", metadata_bytes=sum(text))

    assert whole.bytes == path.stat().st_size
    read = sizer.load_checkpoint(path)
    assert read.count().total == model.count().total
    assert {(t.name, t.shape, t.bytes) for t in read.stored} == {
        (t.name, t.shape, t.bytes) for t in found.tensors()
    }


def types_of(model: Any, quant: str, **options: Any) -> dict[str, str]:
    return {t.name: t.dtype for t in model.size(quant=quant, container="gguf", **options).tensors()}


def test_rows_that_are_no_whole_blocks_get_another_type() -> None:
    # llama.cpp, `tensor_type_fallback`: Q4_K → Q5_0, Q6_K → Q8_0; 1,600 is no multiple of 256.
    found = types_of(sizer.load("gpt2-xl"), "q4_k_m")

    assert found["blk.10.ffn_up.weight"] == "q5_0"
    assert found["blk.0.attn_qkv.weight"] == "q8_0"
    # Without a head of its own the embedding takes the type of one, Q8_0 where Q6_K does not fit.
    assert found["token_embd.weight"] == "q8_0"
    assert found["position_embd.weight"] == "fp32"


def test_where_no_type_fits_it_says_so() -> None:
    model = sizer.load("mamba-130m")
    with pytest.raises(InvalidConfig, match=r"blk\.0\.ssm_dt\.weight: rows of 48 .* no other type for q8_0"):
        model.size(quant="q8_0")

    assert types_of(model, "q8_0", skip=["ssm_dt"])["blk.0.ssm_dt.weight"] == "bf16"


def test_facts_of_a_model_that_the_mix_asks_for() -> None:
    # `llama_tensor_get_type_impl`: eight experts put values and keys in Q8_0, attention's output in Q5_K.
    mixtral = types_of(sizer.load("mixtral-8x7b"), "q4_k_m")
    assert [
        mixtral[f"blk.9.{part}.weight"] for part in ("attn_v", "attn_k", "attn_output", "ffn_gate_inp")
    ] == [*("q8_0", "q8_0", "q5_k", "fp32")]
    # 70B: values that would be Q4_K are Q5_K. Falcon: its head is Q8_0.
    assert types_of(sizer.load("llama-3-70b"), "q4_k_m")["blk.10.attn_v.weight"] == "q5_k"
    assert types_of(sizer.load("falcon-40b"), "q4_k_m")["output.weight"] == "q8_0"
    # 32 layers: more bits in the first four, the last four, and every third between.
    llama = types_of(sizer.load("llama-3-8b"), "q4_k_m")
    wide = [i for i in range(32) if llama[f"blk.{i}.ffn_down.weight"] == "q6_k"]
    assert wide == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]


def of_blocks(found: Any, part: str) -> list[str]:
    """The type of one tensor of each block, in the order of the blocks."""
    names = {t.name: t.dtype for t in found.tensors() if t.name.endswith(f".{part}.weight")}
    return [names[name] for name in sorted(names, key=lambda name: int(name.split(".")[1]))]


def test_the_first_blocks_have_more_bits() -> None:
    # llama-quant.cpp, llama_tensor_get_type. Q3_K_M: `i_attention_wv < 2 ? Q5_K : Q4_K` and, of n blocks,
    # `i_layer < n_layer/16 ? Q5_K : Q4_K`. Q4_0 and Q5_0 with an importance matrix: `i_layer < n_layer/8`.
    llama = sizer.load("llama-2-7b")  # 32 blocks
    medium = llama.size(quant="q3_k_m", container="gguf")

    assert of_blocks(medium, "attn_v") == ["q5_k"] * 2 + ["q4_k"] * 30
    assert of_blocks(medium, "ffn_down") == ["q5_k"] * 2 + ["q4_k"] * 30
    assert of_blocks(medium, "attn_output") == ["q4_k"] * 32
    assert of_blocks(medium, "attn_k") == ["q3_k"] * 32
    for quant, better in (("q4_0", "q4_1"), ("q5_0", "q5_1")):
        with_matrix = llama.size(quant=quant, container="gguf", imatrix=True)
        without = llama.size(quant=quant, container="gguf")
        assert of_blocks(with_matrix, "ffn_down") == [better] * 4 + [quant] * 28
        assert of_blocks(without, "ffn_down") == [quant] * 32


def test_eight_experts_have_keys_and_values_in_eight_bits() -> None:
    # llama-quant.cpp: "for the 8-expert model, bumping this to Q8_0 trades just ~128MB"; outputs in Q5_K;
    # of the mixes of two bits and less keys and values are Q4_K.
    mixtral = sizer.load("mixtral-8x7b")
    medium = mixtral.size(quant="q4_k_m", container="gguf")
    low = mixtral.size(quant="iq2_xs", container="gguf", imatrix=True)

    assert set(of_blocks(medium, "attn_k") + of_blocks(medium, "attn_v")) == {"q8_0"}
    assert set(of_blocks(medium, "attn_output")) == {"q5_k"}
    assert set(of_blocks(low, "attn_k") + of_blocks(low, "attn_v")) == {"q4_k"}
    assert set(of_blocks(low, "attn_output")) == {"q5_k"}


def test_sizes_beyond_the_offsets_of_a_file_are_refused() -> None:
    huge = sizer.load("gpt2-small", vocab_size=10**15, d_model=768 * 1000)

    for container in ("gguf", "safetensors"):
        with pytest.raises(InvalidConfig, match=r"2\^63 bytes and more"):
            huge.size(container=container)
