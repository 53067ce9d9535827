"""Modules that refuse most values, hide their arithmetic, or have no formula, from `odd_modules`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sympy

pytest.importorskip("torch")
pytest.importorskip("transformers")

import odd_modules
from forms import assert_equal, document, parsed

import sizer
from sizer.oracles.derive.derive import derive
from sizer.report import derive as report

Run = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# A module, its configuration, the formula by hand, and the arguments that have to stay as they are.
FORMULAS: list[tuple[str, dict[str, Any], str, dict[str, int]]] = [
    ("Octets", {}, "2*width**2 + 2*width", {}),
    ("Grouped", {}, "(heads*channels + 1)*groups + (dim/heads + 1)*dim", {}),
    ("Large", {}, "depth*(width**2 + width)", {}),
    ("Only", {}, "(48 + 1)*out", {"width": 48}),
    ("Fixed", {}, "48*7 + 7", {"width": 48, "out": 7}),
    ("Powers", {}, "64*out", {"width": 64}),
    ("Idle", {}, "width**2 + width", {}),
    ("Late", {}, "9*d**2 + 2*2*d**2", {"layers": 11}),
    ("Triangle", {}, "d**2*layers*(layers + 1)/2", {}),
    ("Ranks", {}, "width**2", {"dims": 2}),
    ("Product", {}, "a*b*c*a", {}),
    # Linears and a list of tensors; two norms with a bias and one without, and a form of two matrices.
    ("Numbered", {}, "depth*(d**2 + d) + depth*d + 5*d + 2*d**2 + 2", {}),
    # Each stage holds one tensor.
    ("Shared", {}, "width**2 + (2*width)**2", {"depths[0]": 2}),
    ("Nested", {"inner": {"width": 6}}, "depth*inner_width*inner_rank + 3*other_width", {}),
    ("Without", {}, "width**2", {}),
    ("Without", {"extra": {"width": 3}}, "width**2 + extra_width*extra_rank", {}),
    ("Pydantic", {"width": 6}, "depth*width", {}),
    ("Configured", {"width": 6}, "depth*width", {}),
    ("positional", {"width": 6}, "width*options_out", {}),
    ("namesakes", {}, "a_0*a_1 + a_0_", {}),
    ("Padded", {}, "width", {}),
    ("Held", {}, "inner_width*inner_depth", {}),
    ("Special", {}, "width**2 + 3", {"layers": 12}),
    ("Given", {}, "100*100 + 100", {"width": 100}),
    ("Even", {}, "a*b", {}),
]


@pytest.mark.parametrize(
    ("name", "config", "expected", "fixed"), FORMULAS, ids=lambda x: x[:30] if isinstance(x, str) else ""
)
def test_an_odd_module(name: str, config: dict[str, Any], expected: str, fixed: dict[str, int]) -> None:
    found = document(f"odd_modules:{name}", **config)

    assert_equal(found, expected)
    assert {entry["argument"]: entry["value"] for entry in found["fixed"]} == fixed


def test_the_defaults_of_an_object_are_those_of_the_object_that_holds_it() -> None:
    """`other` is `Inner(5)`: 5 · 3, beside two layers of 6 · 2."""
    assert document("odd_modules:Nested", inner={"width": 6})["params"]["total"] == 2 * 6 * 2 + 5 * 3


def test_what_must_divide_is_a_rule() -> None:
    assert document("odd_modules:Octets")["rules"] == ["8 divides width: the module refuses others"]
    assert document("odd_modules:Grouped")["rules"] == [
        f"{rule}: the module refuses others"
        for rule in ("groups divides channels*heads", "heads divides dim", "2 divides dim/heads")
    ]


@pytest.mark.parametrize(("width", "heads", "extra"), [(42, 3, 2), (54, 2, 1), (20, 5, 3), (66, 6, 0)])
def test_arithmetic_of_python_is_that_of_the_formula(width: int, heads: int, extra: int) -> None:
    """`round` takes the even one of two; counted on the module at sizes that it was not given with."""
    found = document("odd_modules:Arithmetic")
    at = {"width": width, "heads": heads, "extra": extra}
    module = odd_modules.Arithmetic(**at)
    total = parsed(found["total"], list(found["values"]))

    value = total.subs({sympy.Symbol(name, integer=True, positive=True): n for name, n in at.items()})
    assert found["fixed"] == []
    assert value == sum(p.numel() for p in module.parameters())


NONE: list[tuple[str, dict[str, Any], str]] = [
    ("odd_modules:Chance", {}, "dimension 1 follows no expression of its arguments"),
    ("odd_modules:Once", {}, "is not built twice alike: RuntimeError: registered already"),
    ("odd_modules:Many", {}, "it makes over 60,000 tensors; give smaller sizes"),
    ("odd_modules:Squares", {}, "no expression holds at fresh points"),
    ("odd_modules:Pairs", {}, "it accepts too few combinations of arguments"),
    ("odd_modules:Nested", {}, "its Inner needs width, without a default"),
    ("odd_modules:Nested", {"inner": {"widht": 6}}, "no field of Inner named 'widht'; did you mean 'width'?"),
    ("odd_modules:Pydantic", {}, "its Checked needs width, without a default"),
    ("odd_modules:Configured", {}, "its Plain needs width, without a default"),
    ("user_modules:keywords", {f"o{i}": i for i in range(2001)}, "has 2,001 arguments; over 2,000"),
    ("transformers:PreTrainedModel", {}, "has no configuration class of its own"),
    ("transformers:CLIPModel", {"text_config": 3}, "its CLIPConfig refuses these values"),
]


@pytest.mark.parametrize(("target", "config", "words"), NONE, ids=[words[:40] for _, _, words in NONE])
def test_what_has_no_formula(target: str, config: dict[str, Any], words: str) -> None:
    with pytest.raises(sizer.SizerError) as caught:
        derive(target, config)

    assert words in str(caught.value)


@pytest.mark.parametrize("kind", ["types:SimpleNamespace", "argparse:Namespace"])
def test_a_class_that_takes_any_setting(kind: str) -> None:
    given = {"width": 4, "depth": 2}
    found = report.reported(derive("user_modules:Untyped", given, config_class=kind)).document()

    assert_equal(found, "depth*(width**2 + width)")
    with pytest.raises(sizer.SizerError, match="cannot be built"):
        derive("user_modules:Untyped", given, config_class="builtins:int")


def test_a_class_of_settings_that_is_none() -> None:
    with pytest.raises(sizer.SizerError, match="names no class"):
        derive("user_modules:Untyped", {"width": 4, "depth": 2}, config_class="SimpleNamespace")


@pytest.mark.parametrize(
    ("name", "words"),
    [("Stuck", "it takes over 1 s"), ("Slow", "no formula after 1 s"), ("Clinging", "it takes over 1 s")],
)
def test_a_module_that_takes_too_long(name: str, words: str) -> None:
    """The shortest time there is is a second."""
    with pytest.raises(sizer.SizerError, match=words):
        derive(f"odd_modules:{name}", timeout=1)


def test_a_module_of_the_folder_where_one_is(
    sizer_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have names that Python has too."""
    text = "from builtins import max\nfrom torch import nn\n\ndef net(width=8):\n"
    (tmp_path / "of_this_folder.py").write_text(text + "    return nn.Linear(max(width, 1), 2, bias=False)\n")
    monkeypatch.chdir(tmp_path)

    assert sizer_cli("derive", "of_this_folder:net", "-q") == (0, "2*width\n", "")


def test_in_a_thread() -> None:
    """Signals are for the main thread alone."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: report.reported(derive("odd_modules:Product")).document()).result()

    assert_equal(found, "a*b*c*a")
