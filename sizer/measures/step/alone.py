"""A step runs while no other thread does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds for which another thread waits for its turn; a step takes milliseconds.
PATIENCE = 10.0
_turn = threading.RLock()


@contextmanager
def alone() -> Iterator[None]:
    """Keep other threads waiting.

    Storages live as long as something refers to them, and a thread that looks at the frames of this
    one, as the profiler of a Dask worker does a hundred times a second, refers to all that is in them.
    """
    with _turn:
        before = sys.getswitchinterval()
        sys.setswitchinterval(PATIENCE)
        # Who waits already has its turn now, or begins to wait anew.
        time.sleep(0)
        try:
            yield
        finally:
            sys.setswitchinterval(before)
            time.sleep(0)
