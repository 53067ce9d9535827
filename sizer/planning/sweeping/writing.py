"""The rows of a sweep as text in a file, in order.

Workers that see the file write their rows into it themselves, each at its place: one process that takes
the rows of all and writes them is what many workers would wait for.
"""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Callable, Iterator
from stat import S_ISREG
from typing import IO, Any, NamedTuple

from sizer.planning.sweeping.chunk import Chunk
from sizer.planning.sweeping.spread import Job, each, result, spread
from sizer.planning.sweeping.writers import Encoder

# Of fewer points at once, the rows are less than what it takes to ask where they belong.
FEW = 4096
# Boxes that are on their way into the file; more would fill the memory of the workers.
LANDING = 4


def write(job: Job, encoder: Encoder, file: IO[bytes], scheduler: str | None) -> Iterator[tuple[int, int]]:
    """Write the rows of each box: its points, and how many of them have no answer.

    Nothing is written before there is an answer, such as that there is no scheduler.
    """
    head, then = encoder.begin(), Rows(encoder.chunk)
    place = None if scheduler is None or job.chunk_points < FEW else place_of(file)
    if scheduler is not None and place is not None:
        yield from _placed(job, head, then, file, place, scheduler)
        return
    for points, (rows, wrong) in each(job, then, scheduler):
        file.write(head)
        file.write(rows)
        head = b""
        yield points, wrong
    file.write(head)


class Rows:
    """The rows of a chunk as an array of bytes, which Dask sends as they lie in memory, and its errors."""

    def __init__(self, text: Callable[[Chunk], bytes]) -> None:
        self.text = text

    def __call__(self, chunk: Chunk) -> tuple[Any, int]:
        """The bytes, and how many of the rows are errors."""
        import numpy

        return numpy.frombuffer(self.text(chunk), numpy.uint8), chunk.wrong


class Place(NamedTuple):
    """A file as another process finds it, if it finds it: its path, its machine, and what it is there."""

    path: str
    machine: str
    device: int
    inode: int


def place_of(file: IO[bytes]) -> Place | None:
    """Where a file is; `None` of what is no plain file, or is one that only grows at its end."""
    try:
        number, path = file.fileno(), getattr(file, "name", None)
        if "a" in getattr(file, "mode", "") or not hasattr(os, "pwrite"):
            return None
        return _here(number, os.path.abspath(path)) if isinstance(path, str) else None
    except OSError:
        return None


def _here(number: int, path: str) -> Place | None:
    found = os.fstat(number)
    return Place(path, platform.node(), found.st_dev, found.st_ino) if S_ISREG(found.st_mode) else None


def _placed(
    job: Job, head: bytes, then: Rows, file: IO[bytes], place: Place, scheduler: str
) -> Iterator[tuple[int, int]]:
    landing: deque[tuple[Any, int]] = deque()

    def settle(most: int) -> None:
        while len(landing) > most:
            future, at = landing.popleft()
            rows = result(future)
            if rows is not None:
                _put(file.fileno(), rows, at)

    with spread(job, then, scheduler) as workers:

        def begin(box: Any) -> tuple[Any, Any]:
            made = workers.work(box)
            return made, workers.submit(_sizes, made, priority=1)

        at = file.tell()
        for made, sizes in workers.ahead(begin):
            points, wrong, length = result(sizes)
            file.write(head)
            at, head = at + len(head), b""
            file.flush()
            landing.append((workers.submit(_land, made, place, at, priority=2), at))
            at += length
            settle(LANDING)
            yield points, wrong
        settle(0)
    file.write(head)
    file.seek(at + len(head))


def _sizes(made: tuple[int, tuple[Any, int]]) -> tuple[int, int, int]:
    """What is told of rows that stay where they are: points, errors, and bytes."""
    points, (rows, wrong) = made
    return points, wrong, rows.nbytes


def _land(made: tuple[int, tuple[Any, int]], place: Place, at: int) -> Any:
    """Write rows into the file; the rows where this worker has not that file."""
    rows = made[1][0]
    try:
        number = os.open(place.path, os.O_WRONLY)
    except OSError:
        return rows
    try:
        if _here(number, place.path) != place:
            return rows
        _put(number, rows, at)
    finally:
        os.close(number)
    return None


def _put(number: int, rows: Any, at: int) -> None:
    left = memoryview(rows)
    while left:
        done = os.pwrite(number, left, at)
        left, at = left[done:], at + done
