"""A command line for every option that the service answers too, and the request that says the same."""

from __future__ import annotations

import shlex

from sizer.service.endpoints import find

# Command lines; a request with the same words under `model`, `set` and the names of the options follows.
LINES = [
    "count gpt2-small --set n_layers=3 --by module --depth 2",
    "count llama-7b --lora r=8,target=q_proj+v_proj",
    "formula gpt2-small --keep D,L --ascii",
    "formula gpt2-small --mathml",
    "formula gpt2-small --python",
    "formula gpt2-small --latex",
    "formula gpt2-small --diff D",
    "formula gpt2-small --of activations --batch-size 2 --seq-len 128 --attention eager --precision fp32",
    "formula gpt2-small --of activations --checkpointing full",
    "formula t5-small --of flops --encoder-len 64",
    "formula gemma-2-2b --of kv-cache --policy full --dtype fp8",
    "flops llama-3-8b --past 100 --seq-len 8 --causal",
    "flops llama-3-8b --decode 4 --batch-size 3",
    "flops deepseek-v3 --decode 4 --latents absorbed",
    "flops llama-3-8b --chunk 256 --logits-to-keep 1 --attention flash",
    "flops gpt2-small --lora r=8,target=c_attn --explain",
    "flops gpt2-small --checkpointing full",
    "flops llava-1.5-7b --stream encoder=576 --seq-len 8",
    "flops gpt2-small --rule 6n --rule palm",
    "flops t5-small --encoder-len 64 --decoder-len 8",
    "kv-cache t5-small --encoder-len 64 --batch-size 2",
    "kv-cache llama-3-8b --policy vllm --block-size 32 --max-batched-tokens 2048 --budget 4GiB",
    "kv-cache llama-3-8b --key-dtype q8_0 --value-dtype q4_0 --policy llama.cpp --ubatch 256 --unified",
    "kv-cache gemma-2-2b --policy llama.cpp --sliding-dtype q8_0",
    "kv-cache llama-3-8b --policy static --max-len 9000 --prefill --unit MiB --explain",
    "kv-cache mamba-130m --state-dtype fp32 --dtype bf16 --seq-len 9",
    "kv-cache qwen3-next-80b-a3b --policy vllm --state-pages 2 --budget 40GiB",
    "kv-cache llama-3-8b --draft gpt2-small --tp 2",
    "memory gpt2-small --batch-size 2 --seq-len 64 --precision autocast --attention eager --optimizer lion",
    "memory mixtral-8x7b --seq-len 64 --experts grouped_mm",
    "memory gpt2-small --seq-len 64 --offload optimizer --loss-chunks 4 --ledger --unit GB",
    "memory llama-7b --seq-len 64 --lora r=8,target=q_proj --quant nf4 --explain",
    "memory gpt2-small --seq-len 64 --gpus 8 --estimate deepspeed-zero2",
    "memory gpt2-small --seq-len 64 --foreach --master-weights --checkpointing full",
    "memory gpt2-small --seq-len 64 --freeze transformer.wte --along batch-size",
    "memory gpt2-small --mode infer --kv-dtype fp8 --dtype fp16 --seq-len 64",
    "shard llama-3-8b --tp 2 --pp 2 --dp 2 --cp 2 --sp --traffic --zero 1 --seq-len 4096 --micro-batches 4",
    "shard mixtral-8x7b --ep 4 --etp 2 --tp 2 --traffic --checkpointing --framework megatron",
    "shard gpt2-small --framework fsdp2 --batch-size 2 --dp 4 --replicate 2",
    "shard gpt2-small --tp 4 --vocab-multiple 128 --dtype bf16",
    "size llama-3-8b --quant hqq-int4-g64 --group-size 32 --skip lm_head --dtype fp16 --max-shard-size 2GB",
    "size llama-3-8b --quant q4_k_m --container gguf --imatrix --metadata-bytes 1000 --unit GiB",
    "size llama-3-8b --quant q4_k_m --pure --tensors",
    "size llama-3-8b --quantize lm_head --quant hqq-int4-g64",
    "fit llama-3-70b --on h100 --gpus 8 --tp 4 --pp 2 --dtype fp8 --kv-dtype fp8 --unit GB --explain",
    "fit llama-3-8b --on h100 --engine vllm --gpu-memory-utilization 0.8 --max-batched-tokens 4096",
    "fit llama-3-8b --on rtx-4090 --engine llama.cpp --gpu-layers 10 --batch-size 2 --seq-len 512",
    "fit llama-3-8b --on h100 --gpus 8 --mode train --dp 8 --zero 3 --micro-batch 1 --precision bf16"
    " --optimizer adamw --attention sdpa --checkpointing full --overhead 1GiB",
    "fit mixtral-8x7b --on h100 --gpus 8 --ep 8 --cp 1",
    "fit llama-3-8b --on h100 --gpus 8 --mode train --pp 4 --vpp 2 --dp 2 --batch-size 16 --seq-len 512",
    "fit llama-3-8b --on h100 --mode train --dtype bf16 --offload optimizer --host-memory 200GB --seq-len 64",
    "plan llama-3-8b --on h100 --gpus 2 --mode train --offload gradients --host-memory 200GB --seq-len 512",
    "plan llama-3-8b --on h100 --gpus 8 --mode train --pp 4 --vpp 2 --batch-size 16 --seq-len 512",
    "plan llama-3-8b --on h100 --gpus 2 --for batch-size --seq-len 512 --dtype bf16 --kv-dtype fp8 --unit GB",
    "plan llama-3-8b --on h100 --max-gpus 2 --overlap 0.5 --engine vllm --gpu-memory-utilization 0.8"
    " --batch-size 2 --max-batched-tokens 4096 --explain",
    "plan gpt2-xl --on h100 --gpus 4 --mode train --micro-batch 1 --precision bf16 --optimizer adamw"
    " --attention sdpa --overhead 1GiB --tp 2 --pp 1 --dp 2 --cp 1 --ep 1 --zero 1 --checkpointing full",
    "train llama-3-8b --tokens 1T --on h100 --gpus 64 --days 90 --dtype bf16 --rule palm --seq-len 2048"
    " --price 2.5 --pue 1.2 --explain",
    "train llama-3-8b --gpu-hours 1e5 --mfu 0.4 --on h100 --gpus 64 --watts 700 --checkpointing full",
    "train llama-3-8b --tokens 1T --on h100 --gpus 64 --achieved 400e12 --peak 989e12",
    "roofline llama-3-8b --on h100 --gpus 2 --batch-size 4 --seq-len 512 --dtype fp8 --kv-dtype fp8"
    " --inter-token 20 --explain",
    "solve mixtral-8x7b --active 13B --params 47B --for d_ff_expert,n_layers --top 3"
    " --tolerance 5% --multiple d_ff_expert=256",
    "solve llama-3-8b --memory 80GiB --dtype bf16 --for n_layers,d_model --d-head 128 --kv-ratio 4"
    " --ff-ratio 3.5 --pad-vocab 128 --tp 8 --untied --explain",
    "solve gpt2-small --flops 1e21 --tokens-per-param 20 --for d_model,n_layers --d-head 64 --aspect 50:100",
    "solve gpt2-small --flops 1e21 --tokens 10B --for n_layers --tolerance 10%",
    "solve llama-3-8b --kv-per-token 128KiB --kv-dtype bf16 --for n_layers --where n_layers=16:64",
    "solve mixtral-8x7b --params 30B --for n_layers --sparsity 4 --tolerance 10%",
    "sweep gpt2-small n_layers=12,24 --what params,kv_cache --max-points 10 --explain",
    "compare gpt2-small gpt2-medium:n_layers=3 --seq-len 64 --dtype fp8 --all --explain",
    "scaling --params 7B --tokens 1T --law epoch --explain",
    "scaling --model llama-3-8b --tokens 15T",
    "scaling --flops 5.76e23",
    "reconcile llama-3-8b 16.06GB --dtype bf16",
    "explain gpt2-small --set n_layers=3",
    "tensors gpt2-small --expand --dtype bf16 --layout transformers",
    "hardware list --search h100 --vendor nvidia --min-memory 80GB --explain",
    "hardware show h100-sxm --explain",
    "presets list --family qwen3 --kind moe --min 1000000000",
    "presets list --search llama --max 10000000000",
    "presets show gpt2-small --hf",
]


def request(line: str) -> tuple[str, list[tuple[str, str]]]:
    """The path and the fields that say the same as a command line."""
    command, *words = shlex.split(line)
    if command in ("hardware", "presets"):
        verb, *words = words
        command += f"/{words.pop(0)}" if verb == "show" else ""
    found = find(command)
    assert found is not None, command
    _, endpoint, _ = found
    fields: list[tuple[str, str]] = []
    places = [name for name, param in endpoint.options.items() if param.param_type_name == "argument"]
    if endpoint.has_model:
        places = ["model", *places]
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            # The last place takes all words that are left.
            fields.append((places.pop(0) if len(places) > 1 else places[0], word))
            continue
        key = {"--untied": "tied"}.get(word, word[2:].replace("-", "_"))
        if key != "set" and getattr(endpoint.options[key], "is_flag", False):
            fields.append((key, str(word != "--untied").lower()))
        else:
            fields.append((key, words.pop(0)))
    return command, fields
