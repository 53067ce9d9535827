"""Published training runs come out, within the rounding of what was published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sizer
from sizer.planning.hardware import hardware
from sizer.planning.training_run import training_run

Run = Callable[..., tuple[int, str, str]]
B, T = 10**9, 10**12

# model, accelerator, what is given, the figure that follows, its published value, the tolerance of its
# rounding, and where it is from.
LANDMARKS: list[tuple[str, str, dict[str, Any], str, float, float, str]] = [
    ("gpt3-175b", "a100-80gb", {"tokens": 300 * B, "mfu": 0.3}, "flops", 3.14e23, 0.002, "GPT-3, table D.1"),
    (
        "palm-540b",
        "tpu-v4",
        {"tokens": 780 * B, "mfu": 0.4},
        "flops",
        2.527e24,
        0.002,
        "PaLM, table 21: 2,527 ZFLOPs",
    ),
    (
        "llama-2-7b",
        "a100-80gb",
        {"tokens": 2 * T, "gpu_hours": 184_320},
        "mfu",
        0.3906,
        0.0002,
        "Llama 2, table 2, over 312 TFLOP/s",
    ),
    (
        "llama-2-70b",
        "a100-80gb",
        {"tokens": 2 * T, "gpu_hours": 1_720_320},
        "mfu",
        0.4284,
        0.0002,
        "Llama 2, table 2, over 312 TFLOP/s",
    ),
    (
        "llama-3.1-405b",
        "h100-sxm",
        {"tokens": 15_600 * B, "gpu_hours": 30_840_000, "peak": 989_400 * B},
        "mfu",
        0.3458,
        0.0002,
        "model card of Llama 3.1, over 989.4 TFLOP/s",
    ),
    (
        "llama-3.1-405b",
        "h100-sxm",
        {"tokens": 15_600 * B, "mfu": 0.4},
        "flops",
        3.8e25,
        0.001,
        "Llama 3, section 3.2",
    ),
    (
        "gpt3-175b",
        "a100-80gb",
        {"tokens": 300 * B, "gpus": 1024, "achieved": 140 * T, "rule": "8n"},
        "days",
        33.8,
        0.002,
        "Narayanan et al. 2021 (arXiv:2104.04473), section 5.1: 34 days",
    ),
    (
        "llama-3-70b",
        "tpu-v5p",
        {"tokens": 15 * T, "gpus": 8960, "mfu": 0.4},
        "days",
        44.3,
        0.01,
        "the JAX scaling book, applied training: 44 days at 4.2e11 FLOPs a token",
    ),
    (
        "llama-2-13b",
        "a100-80gb",
        {"tokens": 2 * T, "gpu_hours": 368_640},
        "mfu",
        0.377,
        0.002,
        "Llama 2, table 2: 6 · 13.02e9 · 2e12 over 368,640 h of 312 TFLOP/s",
    ),
    (
        "deepseek-v3",
        "h800-sxm",
        {"tokens": 14_800 * B, "gpus": 2048, "days": 2_664_000 / 2048 / 24},
        "gpu_hours",
        2_664_000,
        1e-9,
        "DeepSeek-V3, table 1: 180K hours a trillion tokens, 3.7 days on 2,048",
    ),
]


@pytest.mark.parametrize(
    ("model", "chip", "given", "figure", "value", "tolerance", "source"),
    LANDMARKS,
    ids=lambda x: x if isinstance(x, str) and len(x) < 16 else "",
)
def test_published_runs(
    model: str, chip: str, given: dict[str, Any], figure: str, value: float, tolerance: float, source: str
) -> None:
    run = training_run(sizer.load(model), hardware(chip), **given)

    assert getattr(run, figure) == pytest.approx(value, rel=tolerance)


def test_the_megatron_trillion_takes_84_days() -> None:
    """Narayanan et al. 2021, table 1 and section 5.1: 128 layers of width 25,600 with 160 heads."""
    model = sizer.load(
        "gpt3-175b", n_layers=128, d_model=25600, n_heads=160, d_head=160, d_ff=4 * 25600, vocab_size=51200
    )
    run = training_run(model, hardware("a100-80gb"), tokens=450 * B, gpus=3072, achieved=163 * T, rule="8n")

    assert model.count().total == pytest.approx(1008 * B, rel=0.001)
    assert run.days == pytest.approx(83.9, rel=0.002)


def test_palm_used_46_percent_of_its_chips() -> None:
    """PaLM (arXiv:2204.02311), table 3: 46.2 % at 238.3 thousand tokens a second on 6,144 TPU v4."""
    seconds = 780 * B / 238_300
    run = training_run(
        sizer.load("palm-540b"),
        hardware("tpu-v4"),
        tokens=780 * B,
        gpus=6144,
        days=seconds / 86400,
        rule="palm",
    )

    assert f"{100 * run.mfu:.1f}" == "46.2"


def test_a_mixture_is_measured_by_its_active_parameters() -> None:
    """By the total, utilisation of Qwen3-30B-A3B reads 9.1 times too high."""
    model = sizer.load("qwen3-30b-a3b")
    run = training_run(model, hardware("h100-sxm"), tokens=T, mfu=0.4)

    assert run.flops == 6 * model.count().active * T
    assert model.count().total / model.count().active == pytest.approx(9.11, rel=0.002)


@pytest.mark.parametrize("left_out", ["tokens", "days", "gpus", "mfu"])
def test_any_figure_follows_from_the_others(left_out: str) -> None:
    model, chip = sizer.load("llama-3-8b"), hardware("h100-sxm")
    whole = training_run(model, chip, tokens=15 * T, gpus=2048, mfu=0.4)
    given = {"tokens": 15 * T, "days": whole.days, "gpus": 2048, "mfu": 0.4}
    expected = given.pop(left_out)

    found = training_run(model, chip, **given)  # type: ignore[arg-type]

    assert getattr(found, left_out) == pytest.approx(expected, rel=1e-9)


def test_cost_of_deepseek_v3(sizer_cli: Run) -> None:
    """DeepSeek-V3, table 1: 2.664 M hours of pre-training at 2 dollars are 5.328 M."""
    import json

    code, out, _ = sizer_cli(
        *("train", "deepseek-v3", "--tokens", "14.8T", "--on", "h800-sxm"),
        *("--gpu-hours", "2664000", "--price", "2", "--json"),
    )

    assert code == 0
    assert json.loads(out)["cost"] == 5_328_000


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--tokens", "15T"), ("days, gpus, mfu are open here",)),
        (("--tokens", "0", "--gpus", "8", "--mfu", "0.4"), ("--tokens 0 is no whole number above zero",)),
        (("--tokens", "many", "--gpus", "8", "--mfu", "0.4"), ("--tokens many",)),
        (("--tokens", "1T", "--gpus", "-8", "--mfu", "0.4"), ("--gpus -8 is not above zero",)),
        (
            ("--tokens", "1T", "--gpus", "8", "--mfu", "40"),
            ("more than all of the peak", "write 0.4 for 40 %"),
        ),
        (("--tokens", "1T", "--gpus", "8", "--mfu", "nan"), ("--mfu nan is not above zero",)),
        (("--tokens", "1T", "--gpus", "8", "--mfu", "0.4", "--days", "3"), ("leave one out",)),
        (("--tokens", "1T", "--gpu-hours", "8", "--days", "3"), ("give it or the days",)),
        (("--tokens", "1T", "--gpus", "8", "--mfu", "0.4", "--rule", "7n"), ("no rule named '7n'",)),
        (("--tokens", "1T", "--gpus", "8", "--mfu", "0.4", "--dtype", "fp3"), ("peak for fp3 is not known",)),
        (("--tokens", "1T", "--gpus", "8", "--mfu", "0.4", "--price", "-1"), ("--price -1.0 is below zero",)),
    ],
)
def test_what_cannot_be_worked_out(
    sizer_cli: Run, options: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    code, out, err = sizer_cli("train", "gpt2-small", "--on", "h100-sxm", *options)

    assert (code, out, err.count("\n")) == (2, "", 1)
    for fragment in fragments:
        assert fragment in err


def test_more_than_the_peak_is_a_no(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("train", "gpt2-small", "--on", "h100-sxm", "--tokens", "15T", "--gpu-hours", "1")

    assert code == 1
    assert "one of the figures cannot be right" in err
