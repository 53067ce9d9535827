"""Published training runs come out, within the rounding of what was published."""

from __future__ import annotations

import json
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


LANDMARKS += [
    (
        "llama-3-70b",
        "tpu-v5p",
        {"tokens": 15 * T, "gpus": 1, "mfu": 1.0},
        "days",
        435 * 365,
        0.01,
        "the JAX scaling book, applied training: 435 years on one chip",
    ),
    ("llama-3-70b", "tpu-v5p", {"tokens": 15 * T, "mfu": 0.4}, "flops", 6.3e24, 0.01, "the same: 6.3e24"),
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


# Korthikanti et al. 2022 (arXiv:2205.05198), tables 3 and 5: heads, width, layers, batch, GPUs, seconds of
# an iteration, and utilisation without and with the attention that is computed again.
SELECTIVE = [
    (64, 6144, 48, 4, 8, 1.10, 41.5, 43.7),
    (96, 12288, 96, 64, 64, 13.75, 51.4, 52.8),
    (128, 20480, 105, 280, 280, 37.83, 56.0, 57.0),
    (160, 25600, 128, 512, 512, 71.49, 56.3, 57.0),
]


@pytest.mark.parametrize(("heads", "width", "layers", "batch", "gpus", "seconds", "mfu", "hfu"), SELECTIVE)
def test_utilisation_of_model_and_hardware(
    heads: int, width: int, layers: int, batch: int, gpus: int, seconds: float, mfu: float, hfu: float
) -> None:
    sizes = {"n_heads": heads, "d_head": width // heads, "d_model": width, "d_ff": 4 * width}
    model = sizer.load("gpt3-175b", n_layers=layers, vocab_size=51200, **sizes)
    given: dict[str, Any] = {"tokens": batch * 2048, "days": seconds / 86400, "gpus": gpus}
    run, hard = (
        training_run(model, hardware("a100-80gb"), rule=rule, **given)
        for rule in ("exact", "megatron-selective")
    )

    # A hundredth of a second of 1.10 is 0.9 %.
    assert 100 * run.mfu == pytest.approx(mfu, rel=0.005)
    assert 100 * hard.mfu == pytest.approx(hfu, rel=0.005)
    assert hard.mfu / run.mfu == pytest.approx(hfu / mfu, abs=0.002)


def test_what_attention_costs_again() -> None:
    # A forward pass of its scores: 4·T²·D a layer, of a step.
    model = sizer.load("gpt3-175b")
    given: dict[str, Any] = {"tokens": T, "gpus": 64, "mfu": 0.5, "seq_len": 2048}
    run = training_run(model, hardware("a100-80gb"), checkpointing="selective", **given)

    again = 96 * 4 * 2048**2 * 12288
    assert run.hfu == pytest.approx(0.5 * (1 + again / model.flops(1, 2048).training))


def test_palm_computed_three_quarters_of_a_pass_again() -> None:
    """PaLM says 57.8 % of the hardware beside 46.2 % of the model, and not what it computed again.

    torch's way, which spares each block's last matrix, makes it 56.9 %; a whole pass more, 61.6 %.
    """
    given: dict[str, Any] = {"tokens": 780 * B, "gpus": 6144, "days": 780 * B / 238_300 / 86400}
    run = training_run(
        sizer.load("palm-540b"), hardware("tpu-v4"), rule="palm", checkpointing="full", **given
    )

    assert run.hfu is not None
    assert run.hfu < 0.578 < run.mfu * 4 / 3
    assert run.hfu == pytest.approx(0.578, rel=0.02)


def test_a_rule_that_counts_it_already_goes_with_no_checkpointing(sizer_cli: Run) -> None:
    args = ("--on", "h100-sxm", "--tokens", "1T", "--gpus", "8", "--mfu", "0.4", "--checkpointing", "full")
    code, out, _ = sizer_cli("train", "gpt2-small", *args, "--json")
    refused, _, err = sizer_cli("train", "gpt2-small", *args, "--rule", "8n")

    assert (code, refused, err.count("\n")) == (0, 2, 1)
    # A forward pass more: a third, less the head and each layer's last matrix.
    assert 0.4 * 7 / 6 < json.loads(out)["hfu"] < 0.4 * 8 / 6
    assert "counts the pass that is done again already" in err


def test_a_mixture_is_measured_by_its_active_parameters() -> None:
    """By the total, utilisation of Qwen3-30B-A3B reads 9.1 times too high."""
    model = sizer.load("qwen3-30b-a3b")
    run = training_run(model, hardware("h100-sxm"), tokens=T, mfu=0.4)

    assert run.flops == 6 * model.count().active * T
    assert model.count().total / model.count().active == pytest.approx(9.11, rel=0.002)


def test_deepseek_v3_used_a_third_of_its_peak_in_bf16() -> None:
    """2.664 M hours for 14.8 T tokens: 6 · 36.7e9, looked-up rows apart, is 34.3 % of 989.4 TFLOP/s."""
    model = sizer.load("deepseek-v3")
    given: dict[str, Any] = {"tokens": 14_800 * B, "gpu_hours": 2_664_000, "peak": 989_400 * B}
    run = training_run(model, hardware("h800-sxm"), **given)

    visited = model.count().active - 129_280 * 7168
    assert visited == pytest.approx(36.7e9, rel=0.003)
    assert run.mfu * visited / model.count().active == pytest.approx(0.343, abs=0.0005)


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
