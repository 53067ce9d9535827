"""FLOPs of a step that trains adapters alone, against PEFT's modules and torch's own counter."""

from __future__ import annotations

import random
from typing import Any

import pytest
from drawn_models import FAMILIES, MORE, decoder, drawn

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from sizer.oracles import flops as oracle  # noqa: E402
from sizer.oracles.runs import inputs, ready  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
# Products this small take longer on two threads than on one.
torch.set_num_threads(1)

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
GATED = ["gate_proj", "up_proj", "down_proj"]
FUSED = ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"]
# What may be adapted; of experts and of latents, attention alone.
TARGETS: dict[str, list[str]] = {
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "bert": ["query", "key", "value", "dense"],
    "t5": ["q", "k", "v", "o", "wo"],
    "mixtral": ATTENTION,
    "qwen3_moe": ATTENTION,
    "gpt_oss": ATTENTION,
    "deepseek_v3": ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj"],
    "opt": ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"],
    "gpt_neox": FUSED,
    "falcon": FUSED,
}
# Blocks whose MLP reads what attention reads.
PARALLEL = [
    (
        "gpt_neox",
        "GPTNeoXForCausalLM",
        lambda draw: {
            "vocab_size": 60,
            "hidden_size": 16,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "use_parallel_residual": draw.choice((True, False)),
        },
    ),
    (
        "cohere",
        "CohereForCausalLM",
        lambda draw: {**decoder(draw), "hidden_size": 48, "num_attention_heads": 6},
    ),
]
FREE = [family for family in (*FAMILIES, *MORE, *PARALLEL) if family[0] not in ("gemma2", "deepseek_v2")]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FREE, ids=lambda family: family[0])
def test_torchs_counter_counts_as_much(family: Any, seed: int) -> None:
    model, lengths = drawn(family, seed)
    draw = random.Random(f"adapters of {family[0]} {seed}")
    kernel = draw.choice(("eager", "sdpa", "flash"))
    names = {row.name.rsplit(".", 2)[-2] for row in model.rows() if row.name.endswith(".weight")}
    pool = [name for name in TARGETS.get(family[0], ATTENTION + GATED) if name in names]
    targets, rank = draw.sample(pool, draw.randrange(1, len(pool) + 1)), draw.randrange(1, 9)

    found = model.flops(attention=kernel, lora=f"r={rank},target={'+'.join(targets)}", **lengths)

    assert (found.forward, found.backward) == _measured(model, kernel, targets, rank, **lengths)


def _measured(
    model: Any,
    kernel: str,
    targets: list[str],
    rank: int,
    *,
    batch_size: int,
    seq_len: int,
    encoder_len: int | None,
) -> tuple[int, int]:
    backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH] if kernel == "flash" else [SDPBackend.MATH]
    mapping = oracle._mapping(torch)
    with sdpa_kernel(backends):
        module = ready(model, attention="eager" if kernel == "eager" else "sdpa", real=True, train=True)
        kind = peft.LoraConfig(
            r=rank, target_modules=targets, lora_dropout=0.0, fan_in_fan_out=model.architecture == "gpt2"
        )
        whole = peft.get_peft_model(module, kind).base_model.model
        given = inputs(model, whole, batch_size, seq_len, encoder_len)
        with FlopCounterMode(display=False, custom_mapping=mapping) as forward:
            output = whole(**given)
        loss = sum(value.sum() for value in oracle._results(output) if value.requires_grad)
        with FlopCounterMode(display=False, custom_mapping=mapping) as backward:
            loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()
