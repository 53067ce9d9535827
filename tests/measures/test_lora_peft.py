"""Adapters are those that PEFT makes, on the meta device."""

from __future__ import annotations

from typing import Any

import pytest

import sizer
from sizer.measures.lora import parse, trainable

pytest.importorskip("peft")
# PEFT and transformers warn about each other.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 128,
}
LLAMA = {**_SMALL, "model_type": "llama", "num_key_value_heads": 2}
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 128, "n_positions": 32}
BERT = {**_SMALL, "model_type": "bert", "architectures": ["BertForMaskedLM"]}
T5 = {
    "model_type": "t5",
    "d_model": 64,
    "d_kv": 8,
    "d_ff": 96,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 128,
}
DEEPSEEK = {
    **_SMALL,
    "model_type": "deepseek_v3",
    "num_key_value_heads": 4,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "n_group": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "first_k_dense_replace": 1,
}
LLAMA_2_7B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}


@pytest.mark.parametrize(
    ("config", "lora"),
    [
        (LLAMA_2_7B, "r=8,target=q_proj+v_proj"),
        (LLAMA_2_7B, "r=16,target=all-linear"),
        (LLAMA, "r=8,target=q_proj+v_proj"),
        (LLAMA, "r=4,target=all-linear"),
        (LLAMA, "r=8,target=q_proj+down_proj,dora"),
        (LLAMA, "r=8,target=embed_tokens+q_proj"),
        (LLAMA, "r=8,target=lm_head"),
        (GPT2, "r=8,target=c_attn"),
        (GPT2, "r=8,target=c_proj"),
        (GPT2, "r=8,target=c_attn+c_fc,dora"),
        (GPT2, "r=8,target=all-linear"),
        (BERT, "r=8,target=query+value"),
        (BERT, "r=8,target=dense"),
        (BERT, "r=2,target=all-linear"),
        (T5, "r=8,target=q+v"),
        (T5, "r=8,target=all-linear"),
        (DEEPSEEK, "r=8,target=q_a_proj+q_b_proj+kv_b_proj"),
        (LLAMA, "r=8,target=embed_tokens,dora"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value['model_type']}-{len(value)}",
)
def test_trainable_parameters_are_those_of_peft(config: dict[str, Any], lora: str) -> None:
    assert trainable(sizer.load(config).rows("transformers"), parse(lora)) == _with_peft(config, lora)


def _with_peft(config: dict[str, Any], text: str) -> int:
    import torch
    import transformers
    from peft import LoraConfig, get_peft_model

    rank, targets, *rest = text.split(",")
    named = targets.removeprefix("target=").split("+")
    made = transformers.AutoConfig.for_model(**config)
    task = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    cls = (
        getattr(transformers, config["architectures"][0])
        if "architectures" in config
        else (transformers.T5ForConditionalGeneration if config["model_type"] == "t5" else task[type(made)])
    )
    with torch.device("meta"):
        model = get_peft_model(
            cls(made),
            LoraConfig(
                r=int(rank.removeprefix("r=")),
                target_modules="all-linear" if named == ["all-linear"] else named,
                use_dora=rest == ["dora"],
                fan_in_fan_out=config["model_type"] == "gpt2",
            ),
            low_cpu_mem_usage=True,
        )
    trained: int = model.get_nb_trainable_parameters()[0]
    return trained
