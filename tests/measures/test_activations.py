"""The activation ledger against the tensors that real runs saved; see `tests/fixtures/README.md`."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest
from repository import FIXTURES

import sizer
from sizer.errors import SizerError
from sizer.measures.activations import activations, activations_formula
from sizer.measures.step.simulate import settings

CLASSES = {
    "bert": "BertForMaskedLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
}
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "int64": "int64", "int32": "int32", "bool": "bool"}
ROWS = [
    json.loads(line)
    for line in gzip.decompress((FIXTURES / "activations.jsonl.gz").read_bytes()).splitlines()
]


def of(row: dict[str, Any]) -> Any:
    return sizer.load(row["config"], cls=CLASSES[row["config"]["model_type"]])


def one_by_one(row: dict[str, Any]) -> bool:
    """Whether the experts ran in turn, which transformers calls eager."""
    return row["case"] == "mixtral_sdpa_eager_fp32"


def how(row: dict[str, Any]) -> Any:
    kernel = "sdpa" if "_sdpa_" in row["case"] else "eager"
    experts = "batched_mm" if "batched_mm" in row["case"] else "grouped_mm"
    if one_by_one(row):
        experts = "loop"
    return settings(
        batch_size=row["batch"],
        seq_len=row["seq"],
        precision=row["dtype"],
        attention=kernel,
        experts=experts,
    )


@pytest.mark.parametrize("row", [pytest.param(row, id=row["case"]) for row in ROWS])
def test_every_saved_tensor_and_its_storage(row: dict[str, Any]) -> None:
    found = activations(of(row), how(row))

    saved: Counter[tuple[Any, ...]] = Counter()
    for entry in found.entries:
        saved[entry.shape, DTYPES[entry.dtype], entry.n_bytes, bool(entry.new)] += entry.layers
    real = Counter({(tuple(s), d, b, new): n for s, d, b, new, n in row["tensors"]})
    assert found.total == row["total"]
    if one_by_one(row):
        # How many tokens each expert gets is the router's affair: all of them together are compared.
        saved, real = _by_width(saved), _by_width(real)
    assert saved == real


def _by_width(saved: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Bytes of activations by all but the first axis, without the matrices of the experts."""
    found: Counter[tuple[Any, ...]] = Counter()
    for (shape, dtype, n_bytes, new), times in saved.items():
        if shape not in ((256, 704), (352, 256)):
            found[shape[1:], dtype, new] += n_bytes * times
    return found


@pytest.mark.parametrize("row", [pytest.param(row, id=row["case"]) for row in ROWS])
def test_the_closed_form_is_the_number(row: dict[str, Any]) -> None:
    model = of(row)
    values = {**model.symbolic[1], "B": row["batch"], "T": row["seq"]}

    assert activations_formula(model, how(row)).value(values) == row["total"]


def test_the_closed_form_of_gpt2() -> None:
    form = activations_formula(
        sizer.load("gpt2-small"), settings(precision="fp32", attention="eager", seq_len=1024)
    )

    # 8 tensors of D a token and of 4·D five, as two scores a head and pair of tokens.
    assert str(form) == "4LT²BH + 112LTBD + 16LTB + 4VTB + 8TBD + 24TB + 8T + 8B + 4"


BAD = [
    ({"batch_size": 0}, "batch_size = 0 is zero; it must be at least 1"),
    ({"seq_len": -1}, "seq_len = -1 is negative; it must be at least 1"),
    ({"precision": "fp33"}, "did you mean 'fp32'"),
    ({"attention": "flahs"}, "did you mean 'flash'"),
    ({"checkpointing": "ful"}, "did you mean 'full'"),
    ({"lora": "r=0,target=c_attn"}, "not a positive whole number"),
    ({"lora": "target=c_attn"}, "give a rank and targets"),
    ({"experts": "grouped"}, "did you mean 'grouped_mm'"),
]


@pytest.mark.parametrize(("options", "fragment"), BAD, ids=lambda value: str(value)[:30])
def test_bad_settings_name_the_rule(options: dict[str, Any], fragment: str) -> None:
    with pytest.raises(SizerError, match=fragment):
        settings(**options)


def test_an_architecture_that_does_not_say_how_values_flow() -> None:
    with pytest.raises(SizerError, match="is not described yet"):
        sizer.load("transformer-base").activations()
