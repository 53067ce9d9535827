"""Architecture files that `derive --write` makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from forms import closed

from sizer.report import derive as report

Run = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize(
    ("target", "config"),
    [
        *(
            (f"user_modules:{n}", {})
            for n in ("Attention", "Sparse", "SwiGLU", "Tagger", "UNet", "Tied", "Scales", "Noisy")
        ),
        ("user_modules:Net", {"n_kv_heads": 2}),
        *((f"odd_modules:{name}", {}) for name in ("Arithmetic", "Grouped", "Numbered", "Triangle")),
    ],
)
def test_a_written_architecture_counts_the_same(tmp_path: Path, target: str, config: dict[str, Any]) -> None:
    """Loaded as a file of its own, and counted by the tree; the module counts by itself."""
    import importlib.util
    import sys

    from sizer.core.walk import walk
    from sizer.measures.count import count

    path = tmp_path / "derived_by_test.py"
    report.reported(closed(target, config), write=str(path))
    spec = importlib.util.spec_from_file_location("derived_by_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["derived_by_test"] = module
    spec.loader.exec_module(module)
    ((_, made),) = module.ARCHITECTURES.items()
    package, _, name = target.partition(":")
    modules = importlib.import_module(package)
    found = getattr(modules, name)
    built = found(modules.NetConfig(**config)) if name == "Net" else found(**config)

    assert count(walk(made.build(made.config()))).total == sum(p.numel() for p in built.parameters())


def test_a_written_class_of_transformers(tmp_path: Path) -> None:
    """GPT-2 keeps its matrices as `Conv1D`, input first; 124,439,808 of OpenAI's file."""
    path = tmp_path / "gpt2.py"
    found = report.reported(closed("transformers:GPT2LMHeadModel", {}), write=str(path)).document()

    assert found["params"]["total"] == 124_439_808
    assert "transposed=True" in path.read_text()


def test_a_file_that_python_does_not_import(sizer_cli: Run, tmp_path: Path) -> None:
    code, _, err = sizer_cli("derive", "user_modules:deep", "--write", str(tmp_path / "deep.txt"))

    assert (code, "a name that ends in .py" in err) == (2, True)


def test_a_written_architecture_has_a_formula(tmp_path: Path) -> None:
    """Letters pass through its builder, as through one written by hand."""
    import runpy
    import sys
    import types

    from sizer.core.config import symbolic
    from sizer.core.walk import walk
    from sizer.measures.formula import closed_form

    path = tmp_path / "net.py"
    report.reported(closed("user_modules:deep", {}), write=str(path))
    module = types.ModuleType("__sizer_net__")
    sys.modules["__sizer_net__"] = module
    names = runpy.run_path(str(path), run_name="__sizer_net__")
    ((_, made),) = names["ARCHITECTURES"].items()
    symbols, _ = symbolic(made.config, {"width": 32, "depth": 4})

    assert str(closed_form(walk(made.build(made.config(**symbols)))).total.text(ascii_only=True)) == (
        "depth*width**2 + depth*width + 4*width"
    )
