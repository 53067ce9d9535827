"""Models side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import sizer
from sizer.planning.comparison import comparison

Run = Callable[..., tuple[int, str, str]]


def test_what_differs_comes_first(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("compare", "gpt2-small", "gpt2-medium", "--json")
    found = json.loads(out)

    assert code == 0
    # Radford et al. 2019, table 2: layers and widths; the heads are those of the published files.
    assert {
        f["field"]: f["values"] for f in found["fields"] if f["field"] in ("n_layers", "d_model", "n_heads")
    } == {
        "n_layers": [12, 24],
        "d_model": [768, 1024],
        "n_heads": [12, 16],
    }
    assert "vocab_size" not in {f["field"] for f in found["fields"]}
    params = next(q for q in found["quantities"] if q["quantity"] == "params")
    assert params["values"] == [124_439_808, 354_823_168]
    assert params["ratios"] == [1.0, 354_823_168 / 124_439_808]


def test_a_ratio_stands_behind_its_number(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("compare", "llama-2-7b", "llama-3-8b", "qwen3-8b")

    assert "cache a token                 524,288         131,072  0.25 ×         147,456  0.28 ×" in out
    assert "norm                          266,240         266,240  1.00 ×" in out


def test_equal_models_differ_in_nothing(sizer_cli: Run) -> None:
    assert "nothing differs" in sizer_cli("compare", "gpt2-small", "gpt2")[1]
    assert "124,439,808" in sizer_cli("compare", "gpt2-small", "gpt2", "--all")[1]


def test_architectures_of_different_kinds(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("compare", "gpt2-small", "mamba-130m", "bert-base", "resnet-50")

    assert code == 0
    assert "n_heads                         12            –" in out


def test_closed_forms(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("compare", "gpt2-small", "gpt2-medium", "--explain")

    assert "gpt2-medium = VD + CD + L(12D² + 13D) + 2D" in out


def test_a_picture(sizer_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "compare.png"

    assert sizer_cli("compare", "gpt2-small", "gpt2-medium", "--plot", str(path))[0] == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("gpt2-small",), "1 model: compare takes 2 to 12"),
        ((), "0 models: compare takes 2 to 12"),
        (("gpt2-small", "gpt22"), "did you mean"),
        (("gpt2-small", "gpt2-medium", "--seq-len", "0"), "--seq-len 0"),
        (("gpt2-small", "gpt2-medium", "--dtype", "fp7"), "no dtype named 'fp7'"),
        (("gpt2-small", "gpt2-medium", "--plot", "nowhere/x.png"), "there is no folder"),
    ],
)
def test_comparisons_that_cannot_be_made(sizer_cli: Run, words: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli("compare", *words)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fragment in err


def test_models_that_differ_in_no_quantity_say_so(sizer_cli: Run) -> None:
    # Llama 3.1 has the tensors of Llama 3, and a longer context.
    _, out, _ = sizer_cli("compare", "llama-3-8b", "llama-3.1-8b")
    _, whole, _ = sizer_cli("compare", "llama-3-8b", "llama-3.1-8b", "--all")

    assert "131,072" in out
    assert "every quantity is the same; --all shows them" in out
    assert "8,030,261,248" in whole
    assert "the same" not in whole


def test_models_of_images_have_no_tokens(tmp_path: Path) -> None:
    other = tmp_path / "config.json"
    other.write_text(json.dumps({"model_type": "bit"}))

    found = comparison([sizer.load("gpt2-small"), sizer.load("resnet-50"), sizer.load(other)])

    lines = {line.name: line.values for line in found.quantities}
    # torchvision publishes 4.09 billion multiply-adds; of BiT nothing says where it runs.
    assert lines["forward an input"] == [None, 8_178_368_512, None]
    assert [value is None for value in lines["forward a token"]] == [False, True, True]
