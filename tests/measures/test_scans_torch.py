"""FLOPs of scans, op by op: what transformers' own step of one token does with each element of the state."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from sizer.measures.passes import Pass  # noqa: E402
from sizer.measures.scans import SCANS  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
HEADS, WIDTH, STATE = 2, 8, 16
ELEMENTS = HEADS * WIDTH * STATE
# One FLOP an element of what comes out, or of what goes in; two a product of a matrix.
POINTWISE = {"mul", "add", "sub", "exp", "div", "softplus"}
FREE = {
    *("view", "_unsafe_view", "unsqueeze", "squeeze", "expand", "transpose", "permute", "select", "slice"),
    *("clone", "copy_", "_to_copy", "zeros", "zeros_like", "new_zeros", "detach", "alias"),
}


class Counted(TorchDispatchMode):  # type: ignore[misc]
    """The ops over the state, as (name, FLOPs an element of it, whether it is one number a head)."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[tuple[str, int, bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        if name in ("bmm", "mm"):
            flops = 2 * args[0].numel() * args[1].shape[-1]
        elif name == "sum":
            flops = args[0].numel()
        else:
            assert name in POINTWISE | FREE, f"{name} is not known to this test"
            flops = out.numel() if name in POINTWISE else 0
        if flops >= ELEMENTS:
            shared = out.numel() == ELEMENTS and bool(
                (out.view(HEADS, -1) == out.view(HEADS, -1)[:, :1]).all()
            )
            self.ops.append((name, flops // ELEMENTS, shared))
        return out


def flops(kind: str) -> Any:
    return SCANS[kind].per_token({"width": 1, "d_state": 1}, Pass(1, 1))


def random(*shape: int) -> Any:
    return torch.rand(*shape) + 0.1


def test_mamba_2() -> None:
    from transformers.models.mamba2.modeling_mamba2 import mamba2_selective_state_update as step

    # As `Mamba2Mixer.forward` hands them over: a step and a decay a head, spread over its channels.
    dt, decay = random(1, HEADS, 1).expand(1, HEADS, WIDTH), -random(HEADS, 1, 1).expand(HEADS, WIDTH, STATE)
    state, x = random(1, HEADS, WIDTH, STATE), random(1, HEADS, WIDTH)
    b, c = random(1, 1, STATE), random(1, 1, STATE)
    with Counted() as counted:
        step(state, x, dt, decay, b, c)

    # The decay of a head is one number, which the fallback works out for every element.
    assert [(name, n) for name, n, shared in counted.ops if shared] == [("mul", 1), ("exp", 1)]
    own = [(name, n) for name, n, shared in counted.ops if not shared]
    assert own == [
        ("mul", 1),  # dt·B
        ("mul", 1),  # dt·B·x
        ("mul", 1),  # the state, decayed
        ("add", 1),
        ("bmm", 2),  # read by C
    ]
    assert sum(n for _, n in own) == flops("ssd") == 6


def test_the_gated_delta_rule() -> None:
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule as run

    q, k, v = random(1, 1, HEADS, STATE), random(1, 1, HEADS, STATE), random(1, 1, HEADS, WIDTH)
    g, beta = -random(1, 1, HEADS), random(1, 1, HEADS)
    with Counted() as counted:
        run(q, k, v, g, beta)

    assert [(name, n) for name, n, _ in counted.ops] == [
        ("mul", 1),  # the state, decayed
        *(("mul", 1), ("sum", 1)),  # what it has for the key
        *(("mul", 1), ("add", 1)),  # the correction
        *(("mul", 1), ("sum", 1)),  # read by the query
    ]
    assert sum(n for _, n, _ in counted.ops) == flops("delta_rule") == flops("delta") == 7


def test_mamba() -> None:
    from transformers.models.mamba.modeling_mamba import mamba_selective_state_update as step

    channels = HEADS * WIDTH
    state, x, dt = random(1, channels, STATE), random(1, channels), random(1, channels)
    decay, b, c = -random(channels, STATE), random(1, STATE), random(1, STATE)
    with Counted() as counted:
        step(state, x, dt, decay, b, c)

    # As in Mamba-2, with a decay for each element: a product and an exponential more.
    assert [(name, n) for name, n, _ in counted.ops] == [
        *(("mul", 1), ("exp", 1)),
        *(("mul", 1), ("mul", 1)),
        *(("mul", 1), ("add", 1)),
        ("bmm", 2),
    ]
    # The counter that is usually quoted has one more.
    assert sum(n for _, n, _ in counted.ops) + 1 == flops("scan") == 9
