"""Inside a process: counts a second, a sweep, and how the time of a count grows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import sizer
from sizer.model import Model


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median time of one call, on the processor."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def fresh(model: Model) -> Model:
    """A model of the same sizes with nothing worked out yet."""
    return Model(model.name, model.architecture, model.given)


def report() -> None:
    print("\ninside a process, medians of processor time\n")
    for name in ("gpt2-small", "llama-3.1-405b"):
        model = sizer.load(name)
        one = seconds(lambda model=model: [fresh(model).count() for _ in range(200)], 15) / 200
        again = seconds(lambda model=model: [model.count() for _ in range(200)], 15) / 200
        print(f"count of {name:20}{one * 1e6:10.0f} µs {1 / one:12,.0f} a second, each a model of its own")
        print(f"{'the same again':29}{again * 1e6:10.0f} µs {1 / again:12,.0f} a second")
    for layers in (10, 100, 1000):
        model = sizer.load("llama-3-8b", n_layers=layers)
        one = seconds(lambda model=model: fresh(model).count(), 51)
        print(f"count of {layers:5} layers       {one * 1e6:10.0f} µs")
    try:
        import numpy as np
    except ImportError:
        print("a sweep needs numpy")
        return
    for points in (10_000, 100_000, 1_000_000):
        model = sizer.load("gpt2-small", d_model=np.arange(1, points + 1) * 12)
        print(f"sweep over {points:9,} widths {seconds(model.count, 5):12.3f} s")
