"""A step is the same whoever looks on: the profiler of a Dask worker takes the frames of every thread."""

from __future__ import annotations

import sys
import threading
import time

import sizer


def test_a_thread_that_looks_at_frames_changes_no_peak() -> None:
    model = sizer.load("llama-3-8b", d_model=1024, n_layers=88, d_ff=128)
    quiet = model.memory(mode="train").peak_bytes
    done, here, looks = threading.Event(), threading.get_ident(), 0

    def look() -> None:
        nonlocal looks
        while not done.is_set():
            frame, held = sys._current_frames().get(here), []
            while frame is not None:
                held.append(frame)
                frame = frame.f_back
            for _ in range(60_000):
                pass
            looks += 1
            del held
            time.sleep(0.0005)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        # Of 800 such runs 35 to 60 were wrong while other threads had their turn.
        runs, found = 0, set()
        while runs < 120 or looks <= 50:
            found.add(model.memory(mode="train").peak_bytes)
            runs += 1
    finally:
        done.set()
        watcher.join()
        sys.setswitchinterval(before)

    assert found == {quiet}
