"""What holds for every architecture, whatever its sizes: the definitions of the quantities themselves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from families import FAMILIES, WITHOUT_A_TYPE, family, has_flops
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import sizer
from sizer.architectures.index import ARCHITECTURE_MODULES
from sizer.architectures.registry import architecture
from sizer.core.config import letter, size_names
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.poly import as_poly
from sizer.core.walk import walk
from sizer.errors import NotDescribed, Rounded
from sizer.measures.activations import activations, activations_formula
from sizer.measures.closed_forms import cache_forms, flops_forms
from sizer.measures.count import count
from sizer.measures.inference import inference_formula
from sizer.measures.step.simulate import settings as run_of
from sizer.model import Model

every_family = pytest.mark.parametrize("name", sorted(FAMILIES))


def number(size: Any, values: Mapping[str, Any]) -> Any:
    return as_poly(size).value(values)


def has_lists(model: Model) -> bool:
    return any(isinstance(value, Pattern | PerLayer | tuple) for value in model.given.values())


def test_every_architecture_is_in_the_list() -> None:
    assert set(FAMILIES) | WITHOUT_A_TYPE == set(ARCHITECTURE_MODULES)
    assert all(family(name).architecture == name for name in FAMILIES)


@pytest.mark.parametrize("name", sorted(ARCHITECTURE_MODULES))
def test_a_letter_stands_for_one_size(name: str) -> None:
    config = architecture(name).config
    letters = [letter(config, size) for size in size_names(config)]

    assert sorted(letters) == sorted(set(letters))


@every_family
@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(words=st.integers(1, 50), batch=st.integers(1, 9), tokens=st.integers(1, 3000))
def test_formulas_with_numbers_are_the_numbers(name: str, words: int, batch: int, tokens: int) -> None:
    model = family(name)
    # Of a model of several parts, the words are a size of its text part.
    if isinstance(getattr(model.config, "vocab_size", None), int) and "text" not in model.given:
        model = model.with_values(vocab_size=words * 1000)
    run = {"batch_size": batch, "seq_len": tokens}

    letters, values = count(walk(model.symbolic_tree())), model.symbolic[1]
    found = model.count()
    for quantity in ("total", "active", "embedding", "non_embedding", "tied", "buffers"):
        assert number(getattr(letters, quantity), values) == getattr(found, quantity)

    # Sides that are not halved evenly are rounded, which no formula does.
    with suppress(NotDescribed, Rounded):
        forms, flops = flops_forms(model, **run), model.flops(**run)
        for quantity in ("forward", "backward", "training"):
            assert forms.value(quantity) == getattr(flops, quantity)
        assert sum(flops.components.values()) == flops.forward

    kept, cache = cache_forms(model, **run), model.kv_cache(**run)
    for quantity in ("bytes", "bytes_per_token", "constant_bytes"):
        assert kept.value(quantity) == getattr(cache, quantity)


@every_family
def test_a_formula_of_memory_is_the_number(name: str) -> None:
    model = family(name)
    run = {"batch_size": 3, "seq_len": 37}
    try:
        found = model.memory("infer", **run)
    except sizer.SizerError as error:
        assert "not described" in str(error) or "no activations" in str(error)  # noqa: PT017
    else:
        letters = {**cache_forms(model, **run).values, **model.symbolic[1], "B": 3, "T": 37, "Te": 37}
        assert inference_formula(model).value(letters) == found.total_bytes - found.activations_bytes

    try:
        kept = activations(model, run_of(**run))
    except sizer.SizerError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        values = {**model.symbolic[1], "B": 3, "T": 37}
        assert activations_formula(model, run_of(**run)).value(values) == kept.total


@every_family
def test_more_layers_are_more_of_the_same_rows(name: str) -> None:
    model = family(name)
    n_layers = getattr(model.config, "n_layers", None)
    if n_layers is None or has_lists(model):
        return  # tests/test_depth.py has those with an entry a layer
    one, two, three = (
        [(row.name, row.copies) for row in model.with_values(n_layers=k * n_layers).rows()] for k in (1, 2, 3)
    )

    assert [row for row, _ in one] == [row for row, _ in two] == [row for row, _ in three]
    steps = {(n - m, m - k) for (_, k), (_, m), (_, n) in zip(one, two, three, strict=True)}
    assert all(later == earlier >= 0 for later, earlier in steps)
    assert any(later for later, _ in steps) or name == "albert"  # its layers share one set of parameters


@every_family
def test_a_token_visits_no_more_than_there_is(name: str) -> None:
    found = family(name).count()

    assert 0 < found.active <= found.total
    assert found.embedding + found.non_embedding == found.total
    assert sum(found.components.values()) == found.total
    config = family(name).config
    if getattr(config, "n_experts", None) and config.top_k != config.n_experts:  # type: ignore[attr-defined]
        assert found.active < found.total


# What a tie of words spares beside V·D, as transformers 5.24 builds the classes: a second tie, of the
# biases of the head (BERT); and classes that have no such tie, whatever the file says.
BIASES_TOO = {"bert", "roc_bert", "roformer", "xmod"}
# Tables that are one where they are tied: none; three, with those of an encoder and a decoder.
TABLES = {"musicgen": 0, "nemo_speechlm": 0, "rembert": 0, "florence": 3}
# Its head has sizes of its own in the configuration.
OWN_HEAD = {"inkling2_multimodal", "ovis2"}


@every_family
def test_a_tie_spares_one_matrix_and_no_computation(name: str) -> None:
    model = family(name)
    config: Any = model.config
    if (
        name in OWN_HEAD
        or config.task != "causal"
        or "tie_embeddings" not in model.given
        or not hasattr(config, "d_model")
    ):
        return
    tied, untied = (model.with_values(tie_embeddings=tie) for tie in (True, False))

    spared = untied.count().total - tied.count().total
    matrix = config.vocab_size * (config.d_model + (name in BIASES_TOO))
    assert spared == matrix * TABLES.get(name, 1)
    if name != "cpmant":  # a tied head scores the rows of its prompts as well
        assert tied.flops(seq_len=9).forward == untied.flops(seq_len=9).forward


# Heads that two ranks cannot share: an odd number of them.
NO_TP = {
    "bitnet",
    "cvt",
    "deepseek_ocr",
    "emu3_vqgan",
    "falcon",
    "hiera_det",
    "pvt",
    "sam2",
    "sam2_video",
    "sam2_vision",
    "segformer",
    "swin",
}


@every_family
@pytest.mark.parametrize("framework", ["fsdp2", "deepspeed", "dtensor", "megatron", "vllm"])
def test_the_ranks_hold_the_model(name: str, framework: str) -> None:
    model = family(name)
    degrees = {"fsdp2": {"dp": 3}, "deepspeed": {"dp": 3, "zero": 3}}.get(framework, {"tp": 2})
    if name in NO_TP and framework in ("megatron", "vllm"):
        with pytest.raises(sizer.SizerError, match="divide"):
            model.shards(framework, **degrees)
        return

    found = model.shards(framework, **degrees)

    assert found.total == count(model.rows("transformers")).total
    assert sum(rank.count for rank in found.ranks) == found.plan.world
    assert sum(rank.params * rank.count for rank in found.ranks) >= found.total
    assert found.heaviest.params <= found.total


@every_family
@pytest.mark.parametrize("field", ["vocab_size", "d_ff"])
def test_an_element_of_a_sweep_is_the_number(name: str, field: str) -> None:
    model = family(name)
    size = getattr(model.config, field, None)
    if not isinstance(size, int):
        return
    sizes = np.array([size, 2 * size, 5 * size])
    sweep = model.with_values(**{field: sizes})
    alone = [model.with_values(**{field: int(one)}) for one in sizes]

    def elements(found: Any) -> list[int]:
        return [int(one) for one in np.broadcast_to(found, sizes.shape)]

    assert elements(sweep.count().total) == [m.count().total for m in alone]
    assert elements(sweep.count().active) == [m.count().active for m in alone]
    if has_flops(model):
        assert elements(sweep.flops(seq_len=9).training) == [m.flops(seq_len=9).training for m in alone]
    assert elements(sweep.kv_cache(seq_len=9).bytes) == [m.kv_cache(seq_len=9).bytes for m in alone]
