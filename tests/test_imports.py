"""What is imported when, and which way imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

import sizer

HEAVY = ("sympy", "numpy", "pydantic", "torch", "transformers", "tabulate", "tomllib", "huggingface_hub")


def loaded_by(code: str) -> set[str]:
    script = (
        f"import sys\nbefore = set(sys.modules)\n{code}\n"
        f"print('\\n'.join(m for m in {HEAVY!r} if m in sys.modules and m not in before), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("form", ["-q", "--json", "--by=layer"])
def test_count_of_a_preset_imports_nothing_heavy(form: str) -> None:
    assert (
        loaded_by(f"from sizer.cli import main\nmain(['count', '--preset', 'gpt2-small', {form!r}])") == set()
    )


def test_the_python_api_imports_nothing_heavy() -> None:
    assert loaded_by("import sizer; sizer.load('llama-3-8b').count()") == set()


def test_a_preset_of_a_model_type_imports_nothing_heavy() -> None:
    assert loaded_by("import sizer; sizer.load('qwen3-30b-a3b').count()") == set()


def test_a_config_json_imports_nothing_heavy() -> None:
    path = ROOT / "tests" / "fixtures" / "configs" / "llama-3.1-8b-instruct.json"

    assert loaded_by(f"from sizer.cli import main\nmain(['count', {str(path)!r}, '-q'])") == set()


@pytest.mark.parametrize("quant", ["nf4", "q4_k_m"])
def test_size_imports_nothing_heavy(quant: str) -> None:
    assert (
        loaded_by(f"from sizer.cli import main\nmain(['size', 'llama-3-8b', '--quant', {quant!r}, '-q'])")
        == set()
    )


def test_formula_imports_nothing_heavy() -> None:
    assert loaded_by("from sizer.cli import main\nmain(['formula', 'gpt2-small'])") == set()


def test_public_names_change_only_on_purpose() -> None:
    assert (
        sorted(sizer.__all__)
        == sizer.__all__
        == [
            *("Checkpoint", "Model", "SizerError", "__version__"),
            *("load", "load_checkpoint", "presets", "summary"),
        ]
    )
    assert all(hasattr(sizer, name) for name in sizer.__all__)
    with pytest.raises(AttributeError):
        _ = sizer.nonsense


# From the bottom up; a module imports from its own layer and those before it.
LAYERS = [
    ["sizer.errors", "sizer.units", "sizer.dtypes", "sizer.__init__"],
    ["sizer.core"],
    ["sizer.sources"],
    ["sizer.architectures"],
    ["sizer.measures"],
    ["sizer.model"],
    ["sizer.loading"],
    ["sizer.checkpoint"],
    ["sizer.planning"],
    ["sizer.oracles"],
    ["sizer.checking"],
    ["sizer.report"],
    ["sizer.cli", "sizer.service", "sizer.testing", "sizer.__main__"],
]


def layer(module: str) -> int:
    if module == "sizer":
        return 0
    return next(i for i, names in enumerate(LAYERS) if any((module + ".").startswith(n + ".") for n in names))


def imports(path: Path) -> list[str]:
    """Modules of the package that a file imports, those for type checkers aside."""
    found: list[str] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sizer":
            package = node.module
            found.extend(
                f"{package}.{alias.name}"
                if (ROOT / package.replace(".", "/") / f"{alias.name}.py").exists()
                else package
                for alias in node.names
            )
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


@pytest.mark.parametrize(
    "path", sorted((ROOT / "sizer").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_point_downwards(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    if module == "sizer.__init__":
        return
    mine = layer(module.removesuffix(".__init__"))
    # `Model` is the door to the measures and its methods open it.
    above = [name for name in imports(path) if layer(name) > mine]

    assert above == []
