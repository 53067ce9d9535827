"""Bounds of serving, by arithmetic on published sizes and data sheets."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import sizer
from sizer.planning.hardware import hardware
from sizer.planning.roofline import Roofline

Run = Callable[..., tuple[int, str, str]]

# Llama-3-8B: 8,030,261,248 parameters, 525,336,576 of them the table that is looked up, and 2·32·8·128
# elements of cache a token. H100 SXM: 989 TFLOP/s dense in bf16, 3.35 TB/s.
READ = 2 * (8_030_261_248 - 525_336_576)
A_TOKEN = 2 * 2 * 32 * 8 * 128


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1024), (32, 4096), (128, 2048)])
def test_decoding_reads_weights_and_cache(batch: int, tokens: int) -> None:
    step = Roofline(sizer.load("llama-3-8b"), hardware("h100")).decode(batch_size=batch, seq_len=tokens)

    assert step.of_memory == pytest.approx((READ + batch * tokens * A_TOKEN) / 3.35e12)
    assert step.limit == "memory"


def test_a_prefill_computes() -> None:
    """2 FLOPs an element and token, and 4·T²·H·Dh a layer of attention; one row of logits."""
    roof = Roofline(sizer.load("llama-3-8b"), hardware("h100"))
    tokens, head = 4096, 128_256 * 4096
    norms = 65 * 4096
    products = 2 * tokens * (8_030_261_248 - 2 * head - norms) + 2 * head
    attention = 32 * 4 * tokens * tokens * 32 * 128

    assert roof.prefill(seq_len=tokens).of_compute == pytest.approx((products + attention) / 989e12)


def test_a_batch_reads_more_experts_than_a_token() -> None:
    """Mixtral: 2 of 8 experts for a token, and 8·(1 − (3/4)^B) of them for B tokens."""
    roof = Roofline(sizer.load("mixtral-8x7b"), hardware("h200"))
    total, experts, table = 46_702_792_704, 45_097_156_608, 32_000 * 4096

    for batch in (1, 2, 8, 64):
        step = roof.decode(batch_size=batch, seq_len=16)
        share = 1 - 0.75**batch
        assert step.weight_bytes == pytest.approx(2 * (total - table - experts * (1 - share)), rel=1e-9)


def test_nothing_keeps_a_model_without_a_cache_from_more_users(sizer_cli: Run) -> None:
    words = ("mamba-130m", "--on", "h100", "--gpus", "4000", "--json")
    found = json.loads(sizer_cli("roofline", *words)[1])

    assert found["users_limit"] == "nothing that is counted here"


def test_users_at_a_target(sizer_cli: Run) -> None:
    words = ("llama-3-8b", "--on", "h100", "--seq-len", "4096", "--json")
    free = json.loads(sizer_cli("roofline", *words)[1])
    held = json.loads(sizer_cli("roofline", *words, "--inter-token", "10")[1])
    step = (READ + 34 * 4096 * A_TOKEN) / 3.35e12

    assert free["users_limit"] == "memory to hold the cache"
    # 34 sequences take under 10 ms and 35 take more.
    assert step < 0.010 < step + 4096 * A_TOKEN / 3.35e12
    assert (held["users"], held["users_limit"]) == (34, "memory")


def test_two_accelerators_halve_the_time() -> None:
    model, device = sizer.load("llama-3-8b"), hardware("h100")

    one, two = (Roofline(model, device, gpus=n).decode() for n in (1, 2))

    assert two.seconds == pytest.approx(one.seconds / 2)


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("llama-3-8b", "--on", "h101"), "did you mean"),
        (("llama-3-8b", "--on", "h100", "--gpus", "0"), "--gpus 0"),
        (("llama-3-8b", "--on", "h100", "--batch-size", "-1"), "--batch-size -1"),
        (("llama-3-8b", "--on", "h100", "--seq-len", "0"), "--seq-len 0"),
        (("llama-3-8b", "--on", "h100", "--inter-token", "0"), "not a time above zero"),
        (("llama-3-8b", "--on", "h100", "--dtype", "nf5"), "no weight format"),
        (("bert-base", "--on", "h100"), "keeps no cache"),
    ],
)
def test_questions_without_an_answer(sizer_cli: Run, words: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli("roofline", *words)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fragment in err
