"""An answer over HTTP is the document of the command's `--json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from service.conftest import Server

Run = Callable[..., tuple[int, str, str]]

LLAMA = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}
BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
MOE = {"model_type": "mixtral", "num_hidden_layers": 4, "auto_map": {"AutoModel": "evil.py--Evil"}}

# path and query -> the same as a command line
GETS: list[tuple[str, str]] = [
    ("count?model=gpt2-small", "count gpt2-small"),
    ("count?model=gpt2-small&set=n_layers%3D24", "count gpt2-small --set n_layers=24"),
    ("count?model=gpt2-small&set=L%3D24&set=D%3D1024&set=H%3D16", "count gpt2-small -L24 -D1024 -H16"),
    ("count?model=gpt2-small&by=layer", "count gpt2-small --by layer"),
    ("count?model=gpt2-small&by=module&depth=3", "count gpt2-small --by module --depth 3"),
    ("count?model=gpt2-small&by=tensor", "count gpt2-small --by tensor"),
    ("count?model=gpt2", "count gpt2"),
    ("count?model=llama-3-8b", "count llama-3-8b"),
    ("count?model=mixtral-8x7b", "count mixtral-8x7b"),
    ("count?model=deepseek-v3", "count deepseek-v3"),
    ("count?model=qwen3-30b-a3b", "count qwen3-30b-a3b"),
    ("count?model=t5-small", "count t5-small"),
    ("count?model=bert-base&class=BertForPreTraining", "count bert-base --class BertForPreTraining"),
    (
        "count?model=llama-7b&lora=r%3D8,target%3Dq_proj%2Bv_proj",
        "count llama-7b --lora r=8,target=q_proj+v_proj",
    ),
    (
        "count?model=gpt2-small&set=tie_embeddings%3Dfalse&set=qkv_bias%3Dno",
        "count gpt2-small --set tie_embeddings=false --set qkv_bias=no",
    ),
    ("formula?model=gpt2-small", "formula gpt2-small"),
    ("formula?model=llama-3-8b&keep=D,L", "formula llama-3-8b --keep D,L"),
    ("formula?model=gpt2-small&diff=D", "formula gpt2-small --diff D"),
    ("formula?model=gpt2-small&latex=true", "formula gpt2-small --latex"),
    ("formula?model=gpt2-small&ascii", "formula gpt2-small --ascii"),
    ("formula?model=llama-3-8b&of=flops", "formula llama-3-8b --of flops"),
    ("formula?model=llama-3-8b&of=kv-cache&dtype=fp8", "formula llama-3-8b --of kv-cache --dtype fp8"),
    (
        "formula?model=gpt2-small&of=activations&attention=eager",
        "formula gpt2-small --of activations --attention eager",
    ),
    ("formula?model=gpt2-small&of=memory", "formula gpt2-small --of memory"),
    ("size?model=llama-3-8b&quant=q4_k_m", "size llama-3-8b --quant q4_k_m"),
    ("size?model=gpt2-small&quant=nf4&tensors=true", "size gpt2-small --quant nf4 --tensors"),
    (
        "fit?model=llama-3-70b&on=h100&gpus=2&engine=vllm",
        "fit llama-3-70b --on h100 --gpus 2 --engine vllm",
    ),
    (
        "fit?model=gpt2-xl&on=rtx-4090&mode=train&seq_len=1024&checkpointing=full",
        "fit gpt2-xl --on rtx-4090 --mode train --seq-len 1024 --checkpointing full",
    ),
    (
        "plan?model=llama-3-8b&on=h100&max_gpus=8&mode=train",
        "plan llama-3-8b --on h100 --max-gpus 8 --mode train",
    ),
    (
        "train?model=llama-3-8b&tokens=15T&on=h100&gpus=2048&mfu=0.4",
        "train llama-3-8b --tokens 15T --on h100 --gpus 2048 --mfu 0.4",
    ),
    (
        "solve?model=gpt2-small&params=1557611200&for=d_model,n_layers&d_head=64",
        "solve gpt2-small --params 1557611200 --for d_model,n_layers --d-head 64",
    ),
    (
        "sweep?model=gpt2-small&axes=d_model%3D768:2304:768&axes=n_layers%3D12,24&what=params,kv_cache",
        "sweep gpt2-small d_model=768:2304:768 n_layers=12,24 --what params,kv_cache",
    ),
    (
        "roofline?model=llama-3-8b&on=h100&batch_size=32&inter_token=20",
        "roofline llama-3-8b --on h100 --batch-size 32 --inter-token 20",
    ),
    ("compare?models=gpt2-small&models=gpt2-medium", "compare gpt2-small gpt2-medium"),
    (
        "compare?models=gpt2-small&models=gpt2-small:n_layers%3D24,tie_embeddings%3Dno&all=true",
        "compare gpt2-small gpt2-small:n_layers=24,tie_embeddings=no --all",
    ),
    (
        "solve?model=gpt2-small&params=160M&for=d_model&d_head=64&tied=false&tolerance=5%25",
        "solve gpt2-small --params 160M --for d_model --d-head 64 --untied --tolerance 5%",
    ),
    ("scaling?flops=5.76e23", "scaling --flops 5.76e23"),
    ("scaling?model=llama-3-8b&tokens=15T&law=epoch", "scaling --model llama-3-8b --tokens 15T --law epoch"),
    ("reconcile?model=gpt2-small&number=163037184", "reconcile gpt2-small 163037184"),
    ("reconcile?model=gpt2-small&number=117M", "reconcile gpt2-small 117M"),
    ("hardware?vendor=amd", "hardware list --vendor amd"),
    ("hardware/h100-sxm", "hardware show h100-sxm"),
    ("explain?model=gpt2-small", "explain gpt2-small"),
    ("explain?model=gpt2-small&set=n_layers%3D3", "explain gpt2-small --set n_layers=3"),
    ("tensors?model=gpt2-small", "tensors gpt2-small"),
    ("tensors?model=gpt2-small&dtype=bf16", "tensors gpt2-small --dtype bf16"),
    ("tensors?model=mixtral-8x7b&layout=transformers", "tensors mixtral-8x7b --layout transformers"),
    ("tensors?model=gpt2-small&expand=true", "tensors gpt2-small --expand"),
    ("tensors?model=gpt2-xl&expand=1&dtype=fp16", "tensors gpt2-xl --expand --dtype fp16"),
    (
        "flops?model=gpt2-small&seq_len=1024&rule=6n&rule=palm",
        "flops gpt2-small --seq-len 1024 --rule 6n --rule palm",
    ),
    (
        "flops?model=llama-3-8b&batch_size=8&seq_len=8192&attention=flash&checkpointing=full",
        "flops llama-3-8b --batch-size 8 --seq-len 8192 --attention flash --checkpointing full",
    ),
    ("flops?model=llama-3-8b&seq-len=8192&decode=100", "flops llama-3-8b --seq-len 8192 --decode 100"),
    ("flops?model=llama-3-8b&chunk=256&logits_to_keep=1", "flops llama-3-8b --chunk 256 --logits-to-keep 1"),
    ("flops?model=gpt2-small&causal=yes&explain=true", "flops gpt2-small --causal --explain"),
    ("flops?model=gpt2-small&explain=false", "flops gpt2-small"),
    (
        "flops?model=t5-small&encoder_len=512&decoder_len=64",
        "flops t5-small --encoder-len 512 --decoder-len 64",
    ),
    (
        "kv-cache?model=llama-3-8b&batch_size=4&seq_len=8192",
        "kv-cache llama-3-8b --batch-size 4 --seq-len 8192",
    ),
    (
        "kv-cache?model=llama-3-8b&seq_len=20000&policy=vllm&budget=3.8125GiB",
        "kv-cache llama-3-8b --seq-len 20000 --policy vllm --budget 3.8125GiB",
    ),
    ("kv-cache?model=llama-3-8b&draft=gpt2-small", "kv-cache llama-3-8b --draft gpt2-small"),
    ("kv-cache?model=deepseek-v3&dtype=fp8&tp=8", "kv-cache deepseek-v3 --dtype fp8 --tp 8"),
    (
        "kv-cache?model=llama-3-8b&policy=static&max_len=9000&prefill=true",
        "kv-cache llama-3-8b --policy static --max-len 9000 --prefill",
    ),
    ("memory?model=gpt2-small&batch_size=8", "memory gpt2-small --batch-size 8"),
    ("memory?model=llama-3-8b&mode=infer&seq_len=8192", "memory llama-3-8b --mode infer --seq-len 8192"),
    ("memory?model=gpt2-small&ledger=true", "memory gpt2-small --ledger"),
    ("memory?model=gpt2-small&estimate=korthikanti", "memory gpt2-small --estimate korthikanti"),
    (
        "memory?model=gpt2-small&optimizer=sgd&foreach=1&master_weights=1",
        "memory gpt2-small --optimizer sgd --foreach --master-weights",
    ),
    (
        "memory?model=gpt2-small&freeze=transformer.wte&freeze=transformer.wpe",
        "memory gpt2-small --freeze transformer.wte --freeze transformer.wpe",
    ),
    ("shard?model=llama-3-8b&tp=8", "shard llama-3-8b --tp 8"),
    ("shard?model=llama-3-8b&framework=fsdp2&dp=8", "shard llama-3-8b --framework fsdp2 --dp 8"),
    ("shard?model=mixtral-8x7b&tp=2&ep=4", "shard mixtral-8x7b --tp 2 --ep 4"),
    ("presets?family=gpt2", "presets list --family gpt2"),
    (
        "presets?kind=moe&kind=decoder&max=50000000000",
        "presets list --kind moe --kind decoder --max 50000000000",
    ),
    ("presets?search=coder", "presets list --search coder"),
    ("presets/llama-3-8b", "presets show llama-3-8b"),
    ("presets/qwen3-8b?hf=true", "presets show qwen3-8b --hf"),
]

# path and body -> the same as a command line; a configuration is the file CONFIG
POSTS: list[tuple[str, dict[str, Any], str]] = [
    ("count", {"model": "gpt2-small", "set": {"n_layers": 24}}, "count gpt2-small -L24"),
    (
        "count",
        {"model": "gpt2-small", "set": ["n_layers=24"], "by": "layer"},
        "count gpt2-small -L24 --by layer",
    ),
    ("count", {"model": LLAMA}, "count CONFIG"),
    (
        "count",
        {"model": LLAMA, "set": {"num_key_value_heads": 4}, "by": "tensor"},
        "count CONFIG --set n_kv_heads=4 --by tensor",
    ),
    (
        "count",
        {"model": LLAMA, "set": {"tie_word_embeddings": True}},
        "count CONFIG --set tie_word_embeddings=true",
    ),
    ("count", {"model": BERT}, "count CONFIG"),
    ("count", {"model": BERT, "class": "BertModel"}, "count CONFIG --class BertModel"),
    ("count", {"model": MOE}, "count CONFIG"),
    ("formula", {"model": LLAMA, "keep": "D"}, "formula CONFIG --keep D"),
    ("explain", {"model": LLAMA}, "explain CONFIG"),
    ("tensors", {"model": LLAMA, "expand": True}, "tensors CONFIG --expand"),
    (
        "flops",
        {"model": LLAMA, "batch_size": 8, "rule": ["6n", "palm"], "causal": None},
        "flops CONFIG --batch-size 8 --rule 6n --rule palm",
    ),
    ("flops", {"model": "llama-3-8b", "rule": "6n", "explain": False}, "flops llama-3-8b --rule 6n"),
    (
        "kv-cache",
        {"model": MOE, "seq_len": 4096, "dtype": "q8_0"},
        "kv-cache CONFIG --seq-len 4096 --dtype q8_0",
    ),
    (
        "memory",
        {"model": LLAMA, "freeze": ["model.embed_tokens"], "checkpointing": "full"},
        "memory CONFIG --freeze model.embed_tokens --checkpointing full",
    ),
    (
        "memory",
        {"model": LLAMA, "mode": "infer", "kv-dtype": "fp8"},
        "memory CONFIG --mode infer --kv-dtype fp8",
    ),
    ("shard", {"model": LLAMA, "tp": "2", "pp": 2}, "shard CONFIG --tp 2 --pp 2"),
    (
        "compare",
        {"models": ["gpt2-small", {"model": "gpt2-small", "set": {"n_layers": 24}}]},
        "compare gpt2-small gpt2-small:n_layers=24",
    ),
    ("presets", {"family": "qwen3", "kind": ["moe"]}, "presets list --family qwen3 --kind moe"),
    ("presets", {}, "presets list"),
]


@pytest.mark.parametrize(("path", "words"), GETS, ids=[path for path, _ in GETS])
def test_a_get_answers_as_the_command(sizer_cli: Run, server: Server, path: str, words: str) -> None:
    code, out, _ = sizer_cli(*words.split(), "--json")
    response = server.client.get(f"/v1/{path}")

    assert (response.status_code, response.headers["sizer-exit"]) == (200, str(code))
    assert response.text == out


@pytest.mark.parametrize(
    ("path", "body", "words"), POSTS, ids=[f"{path} {json.dumps(body)[:60]}" for path, body, _ in POSTS]
)
def test_a_post_answers_as_the_command(
    sizer_cli: Run,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    # A configuration in a request has no name, so the file is called as the answer calls it.
    (tmp_path / "config").write_text(json.dumps(body.get("model")))
    code, out, _ = sizer_cli(*words.replace("CONFIG", "config").split(), "--json")
    response = server.client.post(f"/v1/{path}", json=body)

    assert (response.status_code, response.headers["sizer-exit"]) == (200, str(code))
    assert response.text == out


def test_the_table_is_of_at_least_sixty_requests() -> None:
    assert len(GETS) + len(POSTS) >= 60
