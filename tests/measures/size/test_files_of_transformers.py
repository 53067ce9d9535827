"""Files that transformers, bitsandbytes and safetensors write, predicted to the byte."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sizer

pytestmark = pytest.mark.torch

L = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 300, "n_positions": 64}
BERT = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
T5 = {"d_model": 64, "d_ff": 128, "num_layers": 2, "d_kv": 16, "num_heads": 4, "vocab_size": 100}
MLA = {
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 12,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 64,
}
TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
CAUSAL = "AutoModelForCausalLM"

# class of the configuration, its values, class of the model, dtype, largest shard
PLAIN: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("LlamaConfig", L, CAUSAL, "bf16", "50GB"),
    ("LlamaConfig", L, CAUSAL, "fp32", "50GB"),
    ("LlamaConfig", L, CAUSAL, "fp16", "300KB"),
    ("LlamaConfig", L, CAUSAL, "bf16", "100KB"),
    ("LlamaConfig", L, CAUSAL, "bf16", "1KB"),
    ("LlamaConfig", {**L, "tie_word_embeddings": True}, CAUSAL, "bf16", "100KB"),
    ("GPT2Config", GPT2, CAUSAL, "fp32", "80KB"),
    ("Qwen2Config", L, CAUSAL, "bf16", "100KB"),
    ("Gemma3TextConfig", {**L, "head_dim": 32}, CAUSAL, "bf16", "100KB"),
    # Views of one tensor in memory go into one file, over the limit.
    ("MixtralConfig", {**L, "num_local_experts": 3}, CAUSAL, "bf16", "100KB"),
    ("Qwen3MoeConfig", {**L, "moe_intermediate_size": 64, "num_experts": 12}, CAUSAL, "bf16", "200KB"),
    ("DeepseekV3Config", {**L, **MLA, "num_key_value_heads": 4}, CAUSAL, "fp32", "400KB"),
    ("GptOssConfig", {**L, "head_dim": 32, "num_local_experts": 4}, CAUSAL, "bf16", "200KB"),
    ("T5Config", T5, "AutoModelForSeq2SeqLM", "bf16", "50GB"),
    ("BertConfig", BERT, "AutoModelForSequenceClassification", "fp16", "50GB"),
]
# And the arguments of BitsAndBytesConfig, and the name of the format.
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
FP4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}
INT8 = {"load_in_8bit": True}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
PACKED: list[tuple[str, str, dict[str, Any], str, str, str, dict[str, Any]]] = [
    ("nf4", "LlamaConfig", L, CAUSAL, "bf16", "10KB", NF4),
    ("fp4", "LlamaConfig", L, CAUSAL, "fp16", "50GB", FP4),
    ("nf4", "LlamaConfig", {**L, "tie_word_embeddings": True}, CAUSAL, "fp32", "50GB", NF4),
    ("bnb-int8", "LlamaConfig", L, CAUSAL, "bf16", "30KB", INT8),
    ("bnb-int8", "GPT2Config", GPT2, CAUSAL, "fp16", "50GB", INT8),
    ("nf4", "GPT2Config", GPT2, CAUSAL, "bf16", "50GB", NF4),
    # Experts are one tensor a layer, which is no nn.Linear; the gate of the shared ones is.
    ("nf4", "MixtralConfig", {**L, "num_local_experts": 3}, CAUSAL, "bf16", "50KB", NF4),
    (
        "nf4",
        "Qwen2MoeConfig",
        {**L, **MOE, "shared_expert_intermediate_size": 64},
        CAUSAL,
        "bf16",
        "50GB",
        NF4,
    ),
    # Routers that a bias corrects stay in fp32; T5's `wo` stays as it is.
    ("nf4", "DeepseekV3Config", {**L, **MLA, "num_key_value_heads": 4}, CAUSAL, "bf16", "200KB", NF4),
    ("nf4", "T5Config", T5, "AutoModelForSeq2SeqLM", "fp16", "50GB", NF4),
    ("nf4", "GptOssConfig", {**L, "head_dim": 32, "num_local_experts": 4}, CAUSAL, "fp16", "50GB", NF4),
    ("nf4", "BertConfig", BERT, "AutoModelForSequenceClassification", "bf16", "50GB", NF4),
]


def title(row: Any) -> str:
    return "-".join(str(part) for part in row if isinstance(part, str))


def written(folder: Path) -> dict[str, int]:
    return {
        name: os.path.getsize(folder / name)
        for name in sorted(os.listdir(folder))
        if name.startswith("model") and not name.endswith(".py")
    }


def predicted(found: Any) -> dict[str, int]:
    files = {file.name: file.bytes for file in found.files}
    return files | ({"model.safetensors.index.json": found.index_bytes} if found.index_bytes else {})


def read_back(folder: Path) -> tuple[Any, Any]:
    return sizer.load(json.loads((folder / "config.json").read_text())), sizer.load_checkpoint(folder)


@pytest.fixture(scope="module")
def transformers() -> Iterator[Any]:
    pytest.importorskip("torch").manual_seed(0)
    found = pytest.importorskip("transformers")
    found.utils.logging.disable_progress_bar()
    yield found
    # Of the client of the hub too, which other tests ask for a bar.
    found.utils.logging.enable_progress_bar()


@pytest.mark.parametrize("row", PLAIN, ids=title)
def test_a_checkpoint_as_it_is(tmp_path: Path, transformers: Any, row: Any) -> None:
    kind, values, cls, dtype, shard = row
    config = getattr(transformers, kind)(**values)
    model = (
        getattr(transformers, cls)
        .from_config(config)
        .to(getattr(transformers.modeling_utils.torch, TORCH[dtype]))
    )
    model.save_pretrained(tmp_path, max_shard_size=shard)
    ours, stored = read_back(tmp_path)

    found = ours.size(quant=dtype, max_shard_size=shard)

    assert predicted(found) == written(tmp_path)
    assert found.label == "exact"
    assert {(t.name, t.shape, t.bytes) for t in found.tensors()} == {
        (t.name, t.shape, t.bytes) for t in stored.stored
    }


@pytest.mark.parametrize("row", PACKED, ids=title)
def test_a_checkpoint_that_bitsandbytes_packed(tmp_path: Path, transformers: Any, row: Any) -> None:
    pytest.importorskip("bitsandbytes")
    quant, kind, values, cls, dtype, shard, packing = row
    torch = transformers.modeling_utils.torch
    config = getattr(transformers, kind)(**values)
    maker = getattr(transformers, cls)
    maker.from_config(config).to(getattr(torch, TORCH[dtype])).save_pretrained(tmp_path / "plain")
    model = maker.from_pretrained(
        tmp_path / "plain",
        quantization_config=transformers.BitsAndBytesConfig(**packing),
        device_map="cpu",
        dtype=getattr(torch, TORCH[dtype]),
    )
    model.save_pretrained(tmp_path / "packed", max_shard_size=shard)
    ours = sizer.load(json.loads((tmp_path / "plain" / "config.json").read_text()))
    stored = sizer.load_checkpoint(tmp_path / "packed")

    found = ours.size(quant=quant, dtype=dtype, max_shard_size=shard)

    assert predicted(found) == written(tmp_path / "packed")
    assert found.label == "exact"
    assert {(t.name, t.shape, t.bytes) for t in found.tensors()} == {
        (t.name, t.shape, t.bytes) for t in stored.stored
    }
    # What is stored stands for the parameters of the model.
    assert stored.problems == []
    assert stored.count().total == ours.count().total


def test_double_quantization_but_for_a_number_as_text(tmp_path: Path, transformers: Any) -> None:
    pytest.importorskip("bitsandbytes")
    torch = transformers.modeling_utils.torch
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**L)).to(torch.bfloat16).save_pretrained(
        tmp_path / "a"
    )
    model = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "a",
        quantization_config=transformers.BitsAndBytesConfig(**NF4, bnb_4bit_use_double_quant=True),
        device_map="cpu",
        dtype=torch.bfloat16,
    )
    model.save_pretrained(tmp_path / "b")
    ours = sizer.load(json.loads((tmp_path / "a" / "config.json").read_text()))

    found = ours.size(quant="nf4-dq")

    (real,) = written(tmp_path / "b").values()
    assert found.label == "estimate"
    # 21 matrices, of each a few letters.
    assert abs(real - found.bytes) <= 21 * 6
    stored = {
        t.name: t.bytes for t in sizer.load_checkpoint(tmp_path / "b").stored if "quant_state" not in t.name
    }
    assert {t.name: t.bytes for t in found.tensors() if t.part != "state"} == stored


def test_types_are_laid_out_as_the_library_does(tmp_path: Path) -> None:
    torch, library = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    from sizer.sources.checkpoints.safetensors_types import DTYPES

    names = (
        "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 complex64 "
    )
    names += "float8_e4m3fn float8_e5m2 float8_e8m0fnu float8_e4m3fnuz float4_e2m1fn_x2"
    tensors = {}
    for name in names.split():
        dtype = getattr(torch, name)
        tensors[name] = torch.zeros(8, dtype=torch.uint8).view(dtype)
    raw = library.save(tensors, {"format": "pt"})
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    del header["__metadata__"]
    theirs = [entry["dtype"] for _, entry in sorted(header.items(), key=lambda e: e[1]["data_offsets"][0])]

    assert theirs == [code for code in DTYPES if code in theirs]
    assert len(theirs) == len(names.split())
