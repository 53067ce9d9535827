"""Closed forms of modules of users, from the modules alone, against polynomials derived by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from forms import assert_equal, closed, document

from sizer.report import derive as report

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
Run = Callable[..., tuple[int, str, str]]

# Each by hand, from the text of the module.
USER = [
    ("SwiGLU", {}, "3*dim*multiple_of*ceiling(floor(8*dim/3)/multiple_of)"),
    ("Rounded", {}, "256*d*ceiling(d/96) + 64*d*ceiling(3*d/64)"),
    (
        "mlp",
        {},
        "sizes_0*sizes_1 + sizes_1 + sizes_1*sizes_2 + sizes_2 + sizes_2*sizes_3 + sizes_3",
    ),
    ("mlp", {"sizes": [10, 20], "bias": False}, "sizes_0*sizes_1"),
    ("deep", {}, "4*width + depth*(width**2 + width)"),
    # Conv2d(a, b, 3): 9ab + b; BatchNorm2d(b): 2b; ConvTranspose2d(b, a, 2): 4ab + a.
    (
        "UNet",
        {},
        "(9*in_channels*base + 9*base**2 + 6*base)"
        " + (18*base**2 + 36*base**2 + 12*base) + (72*base**2 + 144*base**2 + 24*base)"
        " + (8*base**2 + base) + (32*base**2 + 2*base)"
        " + (18*base**2 + 9*base**2 + 6*base) + (72*base**2 + 36*base**2 + 12*base)"
        " + classes*base + classes",
    ),
    ("Attention", {}, "4*embed_dim**2 + 4*embed_dim"),
    ("Attention", {"kdim": 10, "bias": False}, "2*embed_dim**2 + 2*embed_dim*kdim"),
    # Four gates in two directions, each with two biases.
    (
        "Tagger",
        {},
        "vocab*width + 8*hidden*(width + hidden + 2)"
        " + (layers - 1)*8*hidden*(3*hidden + 2) + 2*hidden*tags + tags",
    ),
    (
        "Tagger",
        {"cell": "gru", "bidirectional": False},
        "vocab*width + 3*hidden*(width + hidden + 2)"
        " + (layers - 1)*3*hidden*(2*hidden + 2) + hidden*tags + tags",
    ),
    ("Tied", {}, "vocab*width + factor*width**2 + factor*width"),
    ("Tied", {"tie": False}, "2*vocab*width + factor*width**2 + factor*width"),
    ("Scales", {}, "count*d + (context + 1)*d + 1"),
    ("Net", {}, "vocab*d_model + n_layers*(11*d_model**2 + 8*d_model)"),
    (
        "Net",
        {"n_kv_heads": 2, "d_ff": 100, "kind": "gated"},
        "vocab*d_model + n_layers*(d_model**2 + d_model + 2*(d_model + 1)*d_model*n_kv_heads/n_heads"
        " + 3*d_model*d_ff + 2*d_ff + d_model)",
    ),
    ("Pydantic", {}, "depth*(width + 1)*floor(width/2)"),
    ("Book", {"vocab_size": 90, "emb_dim": 12, "qkv_bias": False}, "2*vocab_size*emb_dim"),
    (
        "Sparse",
        {},
        "dense*d*d_ff + (layers - dense)*(experts*d*d_ff + d*experts) + d*floor(layers/2)",
    ),
    ("Needs", {"width": 16, "depth": 3}, "depth*(width**2 + width)"),
    ("Noisy", {}, "Max(width, least)*Min(width, 16)"),
    ("keywords", {"a": 7}, "3*a + 3"),
]


@pytest.mark.parametrize(
    ("name", "config", "expected"), USER, ids=lambda x: x[:40] if isinstance(x, str) else ""
)
def test_a_module_of_a_user(name: str, config: dict[str, Any], expected: str) -> None:
    found = document(f"user_modules:{name}", **config)

    assert_equal(found, expected)
    assert found["checked"]["points"] == 20
    assert found["fixed"] == []


def test_a_boolean_that_removes_tensors() -> None:
    (found,) = [s for s in document("user_modules:Attention")["switches"] if s["argument"] == "bias"]

    assert (found["value"], found["other"]) == (True, False)
    assert found["removes"] == ["attn.in_proj_bias", "attn.out_proj.bias"]


def test_a_word_that_changes_tensors() -> None:
    (found,) = [s for s in document("user_modules:Tagger", cell="gru")["switches"] if s["argument"] == "cell"]

    assert (found["value"], found["other"]) == ("gru", "lstm")
    assert "rnn.weight_ih_l0" in found["changes"]


def test_switches_that_were_not_seen_are_named() -> None:
    """85 switches, of which 80 are turned over; the module refuses one of those."""
    found = document("user_modules:Many")
    text = "\n".join(report.reported(closed("user_modules:Many", {})).view().below)

    assert [s["argument"] for s in found["switches"]] == [f"bias_{i}" for i in range(1, 80)]
    unseen = {s["argument"]: s["why"] for s in found["switches_not_seen"]}
    assert "the first layer has no bias" in unseen.pop("bias_0")
    assert list(unseen) == [f"bias_{i}" for i in range(80, 85)]
    assert "80" in unseen["bias_84"]
    assert "bias_80=true, bias_81=true, bias_82=true, bias_83=true, bias_84=true" in text
    assert "the first layer has no bias: bias_0=true" in text


def test_what_must_divide_is_named() -> None:
    rules = document("user_modules:Attention")["rules"]

    assert rules == ["num_heads divides embed_dim: the module refuses others"]


def test_equal_widths_stay_equal() -> None:
    """Between equal widths there is no shortcut, and the formula says that it takes them as equal."""
    found = document("user_modules:Residual")

    assert_equal(found, "(widths_0**2 + widths_0*widths_2)*kernel**2/groups + widths_0*widths_2")
    assert any("widths_0" in rule and "widths_1" in rule for rule in found["rules"])


def test_what_has_no_expression_is_fixed_and_shown() -> None:
    found = document("user_modules:Stages")

    (fixed,) = found["fixed"]
    assert (fixed["argument"], fixed["value"]) == ("stages", 3)
    assert "stages" in fixed["seen"]
    assert_equal(found, "2*base**2*(1 + 4 + 16)")


ERRORS = [
    ("nothing", {}, "names no module"),
    ("no_such_module:Net", {}, "no module 'no_such_module'"),
    ("user_modules:Nett", {}, "did you mean 'Net' or"),
    ("user_modules:CONSTANT", {}, "is of type int, not a class"),
    ("user_modules:number", {}, "returns an object of type int, not a torch.nn.Module"),
    ("user_modules:Needs", {}, "needs width, depth, without a default"),
    ("user_modules:Needs", {"width": 3}, "needs depth"),
    ("user_modules:Needs", {"widht": 3, "depth": 1}, "did you mean 'width'?"),
    ("user_modules:Net", {"d_modle": 3}, "did you mean 'd_model'?"),
    ("user_modules:Net", {"kind": "round"}, "no Kind named 'round'"),
    ("user_modules:Reads", {}, "cannot be built on the meta device"),
    ("user_modules:Lazy", {}, "lazy"),
    ("user_modules:Attention", {"num_heads": 5}, "embed_dim must be divisible by num_heads"),
    ("user_modules:Needs", {"width": "wide", "depth": 2}, "cannot be built"),
    ("transformers:Qwen9ForCausalLM", {}, "did you mean"),
    ("transformers:LlamaForCausalLM", {"hidden_sice": 3}, "did you mean 'hidden_size' or"),
    ("transformers:Trainer", {}, "no model class named 'Trainer'"),
]


@pytest.mark.parametrize(("target", "config", "fragment"), ERRORS, ids=lambda x: str(x)[:40])
def test_what_cannot_be_derived_says_so_in_a_line(
    sizer_cli: Run, target: str, config: dict[str, Any], fragment: str
) -> None:
    code, out, err = sizer_cli("derive", target, "--config", json.dumps(config), "--timeout", "20")

    assert (code, out) == (2, "")
    assert fragment in err
    assert err.count("\n") == 1
    assert len(err) < 400


# An error raised while hypothesis counts what is thrown away is dropped, and comes again a moment later.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["Endless", "Hungry"])
def test_a_build_without_an_end(sizer_cli: Run, name: str) -> None:
    code, _, err = sizer_cli("derive", f"user_modules:{name}", "--timeout", "2")

    assert code == 2
    assert "takes over 2 s" in err or "makes over" in err


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--timeout", "0"], "no time for a derivation"),
        (["--checks", "0"], "no number of checks"),
        (["--config", "missing.json"], "neither a JSON object nor a file"),
        (["--config", '{"width": 3'], "not valid JSON"),
        (["--write", "out.txt"], "ends in .py"),
        (["--write", "/nowhere/out.py"], "cannot write"),
        (["--config-class", "user_modules:Nothing"], "no class in user_modules named 'Nothing'"),
    ],
)
def test_bad_options(sizer_cli: Run, options: list[str], fragment: str) -> None:
    code, out, err = sizer_cli("derive", "user_modules:deep", *options)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fragment in err


def test_a_configuration_never_leads_to_an_import(sizer_cli: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"auto_map": {"AutoModel": "evil.Model"}, "trust_remote_code": true}')
    code, _, err = sizer_cli("derive", "transformers:GPT2LMHeadModel", "--config", str(config))

    assert code == 2
    assert "trust_remote_code" in err


def test_a_config_class_that_nothing_else_names() -> None:
    found = report.report("user_modules:Untyped", config_class="user_modules:Wide").document()

    assert_equal(found, "depth*(width**2 + width)")


def test_what_a_module_prints_is_not_our_answer(sizer_cli: Run) -> None:
    code, out, err = sizer_cli("derive", "user_modules:Noisy", "-q")

    assert (code, err) == (0, "")
    assert "building" not in out


# By hand: 3 · 32 + 32 and 4 · (32² + 32); 784 · 256 + 256 and so on; 12 · 20².
SHOWN = [
    (["deep"], ["* × depth, each", "width²", "4,352", "width = 32", "fresh random points"]),
    (["deep", "--tensors"], ["[width, 3]", "4,096", "depth + 1"]),
    (["mlp"], ["200,960", "32,896", "1,290", "235,146", "sizes[3]", "bias=false removes"]),
    (["Every"], ["4,800", "without effect at the sizes tried, kept as given: period = 6"]),
]


@pytest.mark.parametrize(("args", "fragments"), SHOWN, ids=lambda x: " ".join(x)[:20])
def test_what_a_reader_sees(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("derive", f"user_modules:{args[0]}", *args[1:])

    assert (code, err) == (0, "")
    for fragment in fragments:
        assert fragment in out


def test_a_file_that_is_written_is_named(sizer_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    _, out, _ = sizer_cli("derive", "user_modules:deep", "--write", str(path))

    assert f"wrote {path}; it counts the same at" in out
    assert "width" in path.read_text()


def test_an_argument_that_is_computed_with_and_changes_nothing() -> None:
    found = document("user_modules:Every")

    assert found["without_effect"] == ["period"]
    assert_equal(found, "layers*d**2")
