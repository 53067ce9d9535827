"""The boxes of a sweep worked out in this process, or spread over the workers of a Dask scheduler.

Either way the same function makes the rows, and they come back in the order of the points: a worker
that dies costs time and no rows, since what it was doing is done again elsewhere.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from sizer.errors import BadInput, MissingExtra, SizerError, clip
from sizer.planning.sweeping.chunk import Chunk

T = TypeVar("T")
# Boxes that are under way for each worker; more would fill the memory of this process.
AHEAD = 2
# A task costs the scheduler some milliseconds, so a box that travels is so many times as large, or more
# where there are more than enough of them for each worker.
WIDER, WIDEST = 4, 16
ENOUGH = 4
# Dask has its workers return memory at once and take it anew, page by page: twice the time of closed forms.
KEPT = {"MALLOC_TRIM_THRESHOLD_": 2**26, "MALLOC_MMAP_THRESHOLD_": 2**25}
SETTINGS: dict[str, Any] = {
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEPT.items()},
    # Nobody looks at what workers of our own were doing each hundredth of a second.
    "distributed.worker.profile.enabled": False,
}
# After so many boxes the scheduler is asked how many workers it has.
ASKED = 64
# How often a box is tried again that a worker took down with it.
RETRIES = 10
MAX_LOCAL = 256


class Job(Protocol):
    """A sweep, of one model or of many; `chunk_points`: how many points a box has at most."""

    chunk_points: int

    @property
    def names(self) -> list[str]:
        """The columns."""
        ...

    @property
    def size(self) -> int | None:
        """The points in all, where they are known."""
        ...

    def boxes(self) -> Iterator[Any]:
        """The boxes, in order."""
        ...

    def chunk(self, box: Any) -> Chunk:
        """The points of a box."""
        ...


def each(job: Job, then: Callable[[Chunk], T], scheduler: str | None = None) -> Iterator[tuple[int, T]]:
    """For each box in order: its points, and what `then` makes of them.

    `scheduler`: the address of a Dask scheduler, or "local:2" for two processes on this machine.
    """
    if scheduler is None:
        for box in job.boxes():
            chunk = job.chunk(box)
            yield len(chunk), then(chunk)
        return
    with spread(job, then, scheduler) as workers:
        yield from map(result, workers.ahead(workers.work))


class Workers:
    """The workers of a scheduler, and what they do with each box of a sweep."""

    def __init__(self, client: Any, job: Job, then: Callable[[Chunk], Any]) -> None:
        self.client = client
        self.job = copy(job)
        even = (job.size or 0) // (ENOUGH * self.threads)
        self.job.chunk_points *= min(max(even // job.chunk_points, WIDER), WIDEST)
        self.task = pickle.dumps((self.job, then))

    @property
    def threads(self) -> int:
        """How many boxes are worked on at once."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def submit(self, function: Callable[..., Any], *values: Any, priority: int = 0) -> Any:
        """The future of a function's answer."""
        return self.client.submit(function, *values, pure=False, retries=RETRIES, priority=priority)

    def work(self, box: Any) -> Any:
        """The future of a box: its points, and what is made of them."""
        return self.submit(_work, self.task, box)

    def ahead(self, begin: Callable[[Any], T]) -> Iterator[T]:
        """What is begun for each box, in order, with more under way than there are workers."""
        waiting: deque[T] = deque()
        room = 0
        for number, box in enumerate(self.job.boxes()):
            if number % ASKED == 0:
                room = AHEAD * self.threads
            waiting.append(begin(box))
            if len(waiting) >= room:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()


@contextmanager
def spread(job: Job, then: Callable[[Chunk], Any], scheduler: str) -> Iterator[Workers]:
    """The workers of a scheduler, or processes that live as long as this."""
    with _client(scheduler) as client:
        yield Workers(client, job, then)


def _work(task: bytes, box: Any) -> tuple[int, Any]:
    """What a worker does: the same as is done without one."""
    job, then = _job(task)
    chunk = job.chunk(box)
    return len(chunk), then(chunk)


@lru_cache(maxsize=4)
def _job(task: bytes) -> tuple[Job, Callable[[Chunk], Any]]:
    """The sweep of a task; a worker reads it once and keeps what it has derived."""
    found: tuple[Job, Callable[[Chunk], Any]] = pickle.loads(task)
    return found


def result(future: Any) -> Any:
    """What a worker answers; an error where workers die of it."""
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise SizerError(f"the workers of the scheduler died again and again: {clip(error)}") from None


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler, or of processes that live as long as it."""
    if find_spec("distributed") is None:
        raise MissingExtra("dask", "--scheduler")
    import logging

    import dask
    from distributed import Client, LocalCluster

    where, _, number = scheduler.partition(":")
    with dask.config.set({"distributed.scheduler.allowed-failures": RETRIES, **SETTINGS}):
        if where == "local":
            if not number.isdecimal() or not 0 < int(number) <= MAX_LOCAL:
                raise BadInput(f"{clip(scheduler)}: write local:2 for two processes, at most {MAX_LOCAL}")
            cluster = LocalCluster(
                n_workers=int(number),
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                # A worker that takes its time to end is nobody's concern.
                silence_logs=logging.CRITICAL,
            )
            with cluster, Client(cluster, direct_to_workers=True) as client:
                yield client
            return
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise BadInput(
                f"there is no scheduler at {clip(scheduler)} ({type(error).__name__}); "
                "give the address of one, such as tcp://127.0.0.1:8786, or local:2"
            ) from None
        with client:
            yield client
