"""Figures that others published or logged, with where they are from and how near ours must be."""

from __future__ import annotations

import pytest

import sizer
from sizer.measures.published import published
from sizer.planning.demand import Demand
from sizer.planning.fit import capacity, fit
from sizer.planning.hardware import hardware
from sizer.planning.held import Held, held, model_states
from sizer.planning.job import Job
from sizer.planning.layout import Layout

GB, GIB = 10**9, 2**30
VLLM = {"mode": "infer", "engine": "vllm"}


def rank(name: str, on: str, job: Job, layout: Layout) -> Held:
    return held(Demand(sizer.load(name)), hardware(on), job, layout)


# Rajbhandari et al. 2020, arXiv:1910.02054, figure 1 and table 1: 7.5 billion parameters, 64 GPUs, K = 12.
@pytest.mark.parametrize(("zero", "gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_on_64_gpus(zero: int, gb: float) -> None:
    states = model_states(7_500_000_000, 0, (2, 2, 12), zero=zero, dp=64)

    assert sum(states) / GB == pytest.approx(gb, abs=0.05)


# Table 1 of the same paper: bytes of a rank for 7.5B and 128B parameters at more degrees, in GB.
@pytest.mark.parametrize(
    ("params", "dp", "gb"),
    [
        (7.5e9, 4, (52.5, 41.3, 30)),
        (7.5e9, 16, (35.6, 21.6, 7.5)),
        (7.5e9, 256, (30.4, 15.4, 0.47)),
        (128e9, 1024, (513, 257, 2)),
    ],
)
def test_zero_at_other_degrees(params: float, dp: int, gb: tuple[float, ...]) -> None:
    for zero, expected in zip((1, 2, 3), gb, strict=True):
        states = model_states(int(params), 0, (2, 2, 12), zero=zero, dp=dp)

        assert sum(states) / GB == pytest.approx(expected, rel=0.01), zero


def test_a_whole_model_on_64_gpus_is_the_papers_table() -> None:
    """A model of about 7.5 billion parameters: its states are 16 bytes each, shared as the stage says."""
    model = sizer.load("gpt3-6.7b", n_layers=36)
    params = model.count().total
    for zero, a_param in ((0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)):
        one = held(Demand(model), hardware("v100"), Job("train", 64, 64), Layout(dp=64, zero=zero))
        states = one.of("weights") + one.of("gradients") + one.of("optimizer state")

        # AdamW keeps the number of its step beside each tensor.
        assert states == pytest.approx(a_param * params, rel=1e-6)


# DeepSpeed's documentation of its estimators, t5-3b on 8 GPUs: 15.93 GiB (ZeRO-2) and 6.10 GiB (ZeRO-3)
# a GPU without offload, from 2,851M parameters and a largest layer of 32M.
@pytest.mark.parametrize(("name", "gib"), [("deepspeed-zero2", 15.93), ("deepspeed-zero3", 6.10)])
def test_deepspeed_estimates_of_t5_3b(name: str, gib: float) -> None:
    assert published(sizer.load("t5-3b"), name, gpus=8).n_bytes / GIB == pytest.approx(gib, abs=0.005)


def test_our_zero_3_of_t5_3b_is_near_deepspeeds() -> None:
    """18 bytes a parameter over 8 GPUs; DeepSpeed adds one layer in fp32, 0.12 GiB of the 6.10."""
    one = rank("t5-3b", "v100", Job("train", 8, 512, precision="megatron"), Layout(dp=8, zero=3))
    states = one.of("weights") + one.of("gradients") + one.of("optimizer state")

    assert states / GIB == pytest.approx(6.10 - 0.12, abs=0.01)


# vLLM's "model weights take" (vllm-project/vllm pull request 10511, Llama 3 8B with its rotary table of
# 8,192 tokens; 12569, Llama 3.1 70B in W8A8).
@pytest.mark.parametrize(
    ("name", "dtype", "tp", "gib"),
    [
        ("llama-3-8b", "bf16", 1, 14.96),
        ("llama-3-8b", "bf16", 2, 7.48),
        ("llama-3.1-70b", "int8", 1, 67.7228),
    ],
)
def test_loaded_weights(name: str, dtype: str, tp: int, gib: float) -> None:
    one = rank(name, "h100", Job(**VLLM, seq_len=1, dtype=dtype), Layout(tp=tp))  # type: ignore[arg-type]
    given = 4 if gib > 60 else 2  # decimals

    assert round((one.of("weights") + one.of("buffers")) / GIB, given) == gib


# The same log: 79.22 GiB · 0.9 less weights, 1.26 of activations and 1.79 beside tensors is 53.29 GiB.
def test_what_vllm_leaves_for_the_cache() -> None:
    one = rank("llama-3-8b", "h100", Job(**VLLM, seq_len=8192), Layout())  # type: ignore[arg-type]

    assert one.of("activations") / GIB == pytest.approx(1.26, rel=0.05)
    assert (one.left + one.of("KV cache")) / GIB == pytest.approx(53.29, rel=0.05)


# vLLM's "GPU blocks" and "Maximum concurrency" for a logged pool: issues 10517 (Llama 3.1 8B on an
# RTX 3090, two runs) and 21348 (Qwen3 235B on four ranks, tokens · 48,128 bytes).
@pytest.mark.parametrize(
    ("name", "tp", "seq_len", "pool", "tokens", "concurrency"),
    [
        ("llama-3.1-8b", 1, 20000, 1952 * 2**21, 31232, 1.56),
        ("llama-3.1-8b", 1, 29000, 1478 * 2**21, 23648, 0.82),
        ("qwen3-235b-a22b", 4, 40960, 178_880 * 48_128, 178_880, 4.37),
    ],
)
def test_tokens_and_concurrency_of_a_logged_pool(
    name: str, tp: int, seq_len: int, pool: int, tokens: int, concurrency: float
) -> None:
    demand, layout = Demand(sizer.load(name)), Layout(tp=tp)
    job = Job(**VLLM, seq_len=seq_len, overhead=0)  # type: ignore[arg-type]
    device = hardware("mi355x")
    one = held(demand, device, job, layout)
    # The runtime takes what the log's pool leaves.
    job = job._replace(overhead=one.left + one.of("KV cache") - pool)
    room = capacity(demand, job, layout, held(demand, device, job, layout))

    assert room is not None
    assert (room.pool_tokens, round(room.concurrency or 0, 2)) == (tokens, concurrency)


# What is known to run, and what is known not to.
FACTS = [
    # DeepSeek-V3 README: FP8 weights of 671B; eight H200 serve it, eight H100 (640 GB) do not.
    ("deepseek-v3", "h200", Job(**VLLM, dtype="fp8"), Layout(tp=8), True),  # type: ignore[arg-type]
    ("deepseek-v3", "h100", Job(**VLLM, dtype="fp8"), Layout(tp=8), False),  # type: ignore[arg-type]
    # Llama 3.1 405B: BF16 needs two nodes of eight H100, FP8 runs on one (Meta, 2024-07-23).
    ("llama-3.1-405b", "h100", Job(**VLLM), Layout(tp=8), False),  # type: ignore[arg-type]
    ("llama-3.1-405b", "h100", Job(**VLLM), Layout(tp=8, pp=2), True),  # type: ignore[arg-type]
    ("llama-3.1-405b", "h100", Job(**VLLM, dtype="fp8"), Layout(tp=8), True),  # type: ignore[arg-type]
    # The Llama 3 herd, arXiv:2407.21783, table 4: TP 8, CP 1, PP 16, DP 64 on 8,192 H100, 8,192 tokens;
    # TP 8, CP 16, PP 16, DP 8 for 131,072. Checkpointed here, since our norms keep fp32 copies.
    (
        "llama-3.1-405b",
        "h100",
        Job("train", 2048, 8192),
        Layout(8, 16, 64, 1, zero=1, checkpointing="full"),
        True,
    ),
    (
        "llama-3.1-405b",
        "h100",
        Job("train", 128, 131072),
        Layout(8, 16, 8, 16, zero=1, checkpointing="full"),
        True,
    ),
    ("llama-3.1-405b", "h100", Job("train", 1, 8192), Layout(8), False),
    # A 24 GB card runs Llama 3 8B in 16 bits, and not its training with AdamW.
    ("llama-3-8b", "rtx-4090", Job(seq_len=8192), Layout(), True),
    ("llama-3-8b", "rtx-4090", Job("train", 1, 512), Layout(), False),
]


@pytest.mark.parametrize(("name", "on", "job", "layout", "fits"), FACTS, ids=lambda x: str(x)[:40])
def test_what_is_known_to_run_fits(name: str, on: str, job: Job, layout: Layout, fits: bool) -> None:
    assert fit(sizer.load(name), hardware(on), job, layout).fits is fits
