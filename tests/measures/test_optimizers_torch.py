"""What optimizers really keep for tiny parameters, against the formulas; needs the torch extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sizer.measures.optimizers import Weight, optimizer_named  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
SHAPES = [(7,), (1,), (5, 3), (1, 9), (64, 80), (4, 6, 10)]
MAKERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p),
    "adamw": lambda p: torch.optim.AdamW(p),
    "adafactor": lambda p: torch.optim.Adafactor(p),
    "muon": lambda p: torch.optim.Muon(p),
}


def state_of(name: str, shape: tuple[int, ...], dtype: Any) -> int:
    """Bytes of every tensor that a step leaves in the optimizer's state."""
    parameter = torch.nn.Parameter(torch.ones(shape, dtype=dtype))
    optimizer = MAKERS[name]([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = [v for v in optimizer.state[parameter].values() if isinstance(v, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in held)


CASES = [
    pytest.param(name, shape, dtype, id=f"{name}-{'x'.join(map(str, shape))}-{dtype}")
    for name in MAKERS
    for shape in SHAPES
    for dtype in ("float32", "bfloat16")
    # torch's Muon takes matrices alone; the rest is left to AdamW.
    if name != "muon" or len(shape) == 2
]


@pytest.mark.parametrize(("name", "shape", "dtype"), CASES)
def test_the_state_of_a_step(name: str, shape: tuple[int, ...], dtype: str) -> None:
    real = getattr(torch, dtype)
    weight = Weight(shape, 1, real.itemsize, is_hidden_matrix=len(shape) == 2)

    assert optimizer_named(name).state(weight) == state_of(name, shape, real)


def test_adafactor_of_transformers_keeps_rows_and_columns_too() -> None:
    optimization = pytest.importorskip("transformers.optimization")
    if not hasattr(optimization, "Adafactor"):
        return
    parameter = torch.nn.Parameter(torch.ones(64, 80))
    optimizer = optimization.Adafactor([parameter], lr=0.1, relative_step=False)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = [v for v in optimizer.state[parameter].values() if isinstance(v, torch.Tensor) and v.ndim]

    # Its step is a number of Python's, where torch has a tensor of 4 bytes.
    ours = optimizer_named("adafactor").state(Weight((64, 80), 1, 4, True))
    assert sum(t.numel() * t.element_size() for t in held) == ours - 4 == (64 + 80) * 4


@pytest.mark.parametrize("shape", [(64,), (64, 80), (100, 41), (4096,), (4095,), (4097,)], ids=str)
@pytest.mark.parametrize(
    ("name", "cls"), [("adamw-8bit", "AdamW8bit"), ("adamw-8bit", "Adam8bit"), ("lion", "Lion")]
)
def test_the_state_of_bitsandbytes(name: str, cls: str, shape: tuple[int, ...]) -> None:
    optim = pytest.importorskip("bitsandbytes.optim")
    parameter = torch.nn.Parameter(torch.ones(shape))
    optimizer = getattr(optim, cls)([parameter], lr=0.1)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    # The tables of 256 values that 8 bits stand for are shared by all parameters.
    held = [v for k, v in optimizer.state[parameter].items() if k.startswith(("state", "absmax"))]

    real = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert optimizer_named(name).state(Weight(shape, 1, 4, len(shape) == 2)) == real
