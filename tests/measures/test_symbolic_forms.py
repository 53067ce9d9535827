"""Every closed form with numbers in it is the number, for each architecture and each way to run it."""

from __future__ import annotations

from typing import Any

import pytest
from families import FAMILIES, family

import sizer
from sizer.errors import NotDescribed, SizerError
from sizer.measures.activations import activations, activations_formula
from sizer.measures.closed_forms import cache_forms, flops_forms
from sizer.measures.memory import training_formula
from sizer.measures.step.simulate import settings
from sizer.model import Model

# Of the architectures that no model type names, the presets that have one.
PRESETS = {"gpt_from_scratch": "llms-from-scratch-124m", "palm": "palm-8b", "transformer": "transformer-base"}
RUN = {"batch_size": 3, "seq_len": 37}
STEPS: list[dict[str, Any]] = [
    {},
    {"precision": "fp32", "attention": "eager"},
    {"precision": "autocast", "checkpointing": True},
    {"attention": "eager", "checkpointing": "selective"},
    {"lora": "r=4,target=all-linear"},
    {"offload": "gradients"},
    {"loss_chunks": 1, "foreach": True},
]
every = pytest.mark.parametrize("name", sorted({**FAMILIES, **PRESETS}))


def of(name: str) -> Model:
    return sizer.load(PRESETS[name]) if name in PRESETS else family(name)


@every
def test_flops_by_every_kernel(name: str) -> None:
    model = of(name)
    if name == "efficientnet":
        # 600 pixels are not halved five times.
        model = model.with_values(image_size=640)
    for kernel in ("eager", "sdpa", "efficient", "flash"):
        for more in ({}, {"encoder_len": 11}):
            run = {**RUN, **more, "attention": kernel}
            try:
                found = model.flops(**run)
            except NotDescribed:
                with pytest.raises(NotDescribed):
                    flops_forms(model, **run)
                continue
            except SizerError as error:
                assert "no attention; drop the kernel" in str(error)  # noqa: PT017
                continue
            forms = flops_forms(model, **run)
            for quantity in ("forward", "backward", "training"):
                assert forms.value(quantity) == getattr(found, quantity)
            assert {part: forms.value(part) for part in found.components} == found.components


@every
@pytest.mark.parametrize("policy", ["architecture", "full", "static"])
def test_caches_of_every_type(name: str, policy: str) -> None:
    model, more = of(name), {"max_len": 64} if policy == "static" else {}
    for dtype in ("bf16", "fp8", "q8_0"):
        try:
            found = model.kv_cache(**RUN, dtype=dtype, policy=policy, **more)
        except SizerError as error:
            assert "use a type without blocks" in str(error)  # noqa: PT017
            continue
        forms = cache_forms(model, **RUN, dtype=dtype, policy=policy, **more)
        for quantity in ("bytes", "bytes_per_token", "constant_bytes"):
            assert forms.value(quantity) == getattr(found, quantity)


@every
@pytest.mark.parametrize("how", STEPS, ids=str)
def test_steps_in_every_setting(name: str, how: dict[str, Any]) -> None:
    model = of(name)
    foreach = how.get("foreach", False)
    step = settings(**RUN, **{key: value for key, value in how.items() if key != "foreach"})
    values = {**model.symbolic[1], "B": RUN["batch_size"], "T": RUN["seq_len"]}
    try:
        found, form = training_formula(model, step, foreach=foreach)
    except SizerError as error:
        said = str(error)
        assert "not described" in said or "a training step needs a loss" in said
        return

    assert form.value(values) == found.peak_bytes
    assert activations_formula(model, step).value(values) == activations(model, step).total
