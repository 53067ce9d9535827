"""What a build runs under: without values, without a word, and within bounds of time and size."""

from __future__ import annotations

import contextlib
import io
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

# A model with more tensors than this has layers or experts to spare: its counts are made smaller.
MAX_TENSORS = 60_000
MAX_MODULES = 200_000


class TooMuch(Exception):
    """A build that goes on for too long, or makes too many tensors."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """On the meta device, without what a module prints or warns of."""
    import torch

    with (
        torch.device("meta"),
        torch.no_grad(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        _without_initial_values(),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _without_initial_values() -> Iterator[None]:
    """Values on the meta device are none: the functions that fill them in do nothing."""
    import torch

    names = [n for n in vars(torch.nn.init) if n.endswith("_") and not n.startswith("_")]
    kept = {name: getattr(torch.nn.init, name) for name in names}

    def nothing(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor

    try:
        for name in names:
            setattr(torch.nn.init, name, nothing)
        yield
    finally:
        for name, function in kept.items():
            setattr(torch.nn.init, name, function)


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Stop a build that makes too many tensors or modules, or that takes longer than that."""
    from torch.nn.modules import module as hooks

    made = {"tensors": 0, "modules": 0}
    end = time.monotonic() + seconds

    def counting(what: str, most: int) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            made[what] += 1
            if made[what] > most:
                raise TooMuch(f"it makes over {most:,} {what}")
            if time.monotonic() > end:
                raise TooMuch(f"it takes over {seconds:.0f} s")

        return hook

    handles = [
        hooks.register_module_parameter_registration_hook(counting("tensors", MAX_TENSORS)),
        hooks.register_module_module_registration_hook(counting("modules", MAX_MODULES)),
    ]
    alarmed = threading.current_thread() is threading.main_thread()
    before: Any = None
    if alarmed:

        def stop(_: int, frame: FrameType | None) -> None:
            # Python drops what is raised while it throws an object away; the next tick comes soon.
            if frame is None or frame.f_code.co_name != "__del__":
                raise TooMuch(f"it takes over {seconds:.0f} s")

        before = signal.signal(signal.SIGALRM, stop)
        # A backstop for loops that register nothing; the hooks above are to speak first.
        signal.setitimer(signal.ITIMER_REAL, seconds + 1, 0.1)
    try:
        yield
    finally:
        if alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        for handle in handles:
            handle.remove()
