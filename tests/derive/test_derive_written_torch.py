"""Architecture files that `derive --write` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from forms import closed

from sizer.report import derive as report

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize(
    ("name", "config"),
    [("Sparse", {}), ("SwiGLU", {}), ("Tagger", {}), ("UNet", {}), ("Net", {"n_kv_heads": 2}), ("Tied", {})],
)
def test_a_written_architecture_counts_the_same(tmp_path: Path, name: str, config: dict[str, Any]) -> None:
    """Loaded as a file of its own, and counted by the tree; the module counts by itself."""
    import importlib.util
    import sys

    import user_modules

    from sizer.core.walk import walk
    from sizer.measures.count import count

    path = tmp_path / "derived_by_test.py"
    report.reported(closed(f"user_modules:{name}", config), write=str(path))
    spec = importlib.util.spec_from_file_location("derived_by_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["derived_by_test"] = module
    spec.loader.exec_module(module)
    ((_, made),) = module.ARCHITECTURES.items()
    found = getattr(user_modules, name)
    built = found(user_modules.NetConfig(**config)) if name == "Net" else found(**config)

    assert count(walk(made.build(made.config()))).total == sum(p.numel() for p in built.parameters())


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
