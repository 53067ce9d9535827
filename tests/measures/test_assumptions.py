"""An answer names each thing that it assumes where it assumes it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sizer

Answer = Callable[[], Any]


def gpt2(**how: Any) -> Answer:
    return lambda: sizer.load("gpt2-small").memory(seq_len=16, **how)


def shards(framework: str, **how: Any) -> Answer:
    return lambda: sizer.load("gpt2-small").shards(framework, **how)


def flops(name: str, **how: Any) -> Answer:
    return lambda: sizer.load(name).flops(seq_len=16, **how)


def said(found: Any) -> list[str]:
    return [*found.assumptions, *getattr(found, "sources", ())]


# What is assumed, an answer that assumes it, and one of the same kind that does not.
CASES: list[tuple[str, Answer, Answer]] = [
    ("LoRA", gpt2(lora="r=4,target=all-linear"), gpt2()),
    ("ZeRO-Offload", gpt2(offload="optimizer"), gpt2()),
    ("ZeRO-Offload", gpt2(offload="gradients"), gpt2(offload="activations", checkpointing=True)),
    ("mm, addmm, bmm", gpt2(checkpointing="matmuls"), gpt2(checkpointing=True)),
    ("torchao", gpt2(precision="fp8"), gpt2(precision="bf16")),
    ("multiple of 64", shards("vllm", tp=2), shards("megatron", tp=2)),
    ("persistence_threshold", shards("deepspeed", dp=2, zero=3), shards("deepspeed", dp=2, zero=2)),
    ("cannot use torch's flash kernel", flops("t5-small", attention="flash"), flops("t5-small")),
    (
        "cannot use torch's flash kernel",
        flops("t5-small", attention="flash"),
        flops("gpt2-small", attention="flash"),
    ),
    ("mask and a window leave", flops("gpt2-small", causal=True), flops("gpt2-small")),
    ("no backward pass", flops("gpt2-small", past_len=8), flops("gpt2-small")),
    ("an indexer picks tokens", flops("deepseek-v3.2"), flops("deepseek-v3")),
    ("estimate: ", flops("mamba2-130m"), flops("gpt2-small")),
]


@pytest.mark.parametrize(("text", "with_it", "without"), CASES)
def test_what_is_assumed_is_named(text: str, with_it: Answer, without: Answer) -> None:
    assert any(text in one for one in said(with_it()))
    assert not any(text in one for one in said(without()))
