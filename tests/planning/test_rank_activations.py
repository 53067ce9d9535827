"""Activations of a rank, and how near the estimate is where a step cannot be run."""

from __future__ import annotations

import pytest

import sizer
from sizer.planning import activations
from sizer.planning.activations import Kept, kept


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("name", ["llama-3-8b", "gpt2-small", "mixtral-8x7b", "qwen3-30b-a3b"])
def test_the_estimate_is_near_the_run(name: str, checkpointing: str) -> None:
    """A mixture of experts is priced by the experts that a token visits (NVIDIA/Megatron-LM #1784)."""
    model = sizer.load(name)
    run = kept(model, batch_size=1, seq_len=1024, checkpointing=checkpointing)
    estimate = activations._estimated(model, 1, 1024, checkpointing)

    assert run.exact
    assert not estimate.exact
    assert estimate.layers == pytest.approx(run.layers, rel=0.3)


# Architectures whose step cannot be run have an estimate, and never an error.
@pytest.mark.parametrize(
    "name", ["deepseek-v3", "t5-3b", "jamba-v0.1", "mamba2-130m", "starcoder-15b", "rwkv-4-169m"]
)
def test_every_architecture_has_activations(name: str) -> None:
    model = sizer.load(name)
    none, full = (kept(model, batch_size=2, seq_len=256, checkpointing=c) for c in ("none", "full"))

    assert none.layers > full.layers > 0
    assert activations.working(model, batch_size=1, seq_len=256) > 0


def test_layers_of_a_batch_are_in_proportion() -> None:
    one, four = (kept(sizer.load("gpt2-small"), batch_size=b, seq_len=512) for b in (1, 4))

    assert four.layers == 4 * one.layers


def test_a_stage_has_its_layers_and_what_is_under_way() -> None:
    whole = Kept(layers=1200, inside=100, loss=300, exact=True)
    stage = {"tp": 1, "stage_layers": 3, "n_layers": 12, "last": False}

    assert whole.on_rank(**stage, in_flight=4) == 1200 + 100  # type: ignore[arg-type]
    assert whole.on_rank(**{**stage, "last": True}, in_flight=1) == 300 + 300  # type: ignore[arg-type]
    assert whole.on_rank(**{**stage, "tp": 4}, in_flight=4) == 300 + 25  # type: ignore[arg-type]
