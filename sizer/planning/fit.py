"""Whether a job fits on accelerators in a layout, what each rank holds, and what would make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.record import Record
from sizer.measures.cache_budget import Fit as Room
from sizer.measures.cache_budget import fit as room_for
from sizer.planning.changes import Change, changes_of, together
from sizer.planning.demand import POLICIES, Demand, setup_of
from sizer.planning.hardware import Accelerator
from sizer.planning.held import Held, held, settled
from sizer.planning.job import Job
from sizer.planning.layout import Layout, check

if TYPE_CHECKING:
    from sizer.model import Model

# Changes that give something up: more hardware, less work, or time.
LAST_RESORTS = ("gpus", "accelerator", "seq_len", "batch_size", "offload")


class Fit(Record):
    """An answer: what a rank holds, the changes where that is too much, and how large a cache fits.

    `room`: tokens and sequences that what is left for a cache holds; `None` when training.
    """

    __slots__ = ("changes", "device", "held", "job", "layout", "room")

    def __init__(
        self,
        device: Accelerator,
        job: Job,
        layout: Layout,
        held: Held,
        changes: list[Change],
        room: Room | None,
    ) -> None:
        self.device = device
        self.job = job
        self.layout = layout
        self.held = held
        self.changes = changes
        self.room = room

    @property
    def fits(self) -> bool:
        """Yes or no."""
        return self.held.fits


def fit(model: Model | Demand, device: Accelerator, job: Job, layout: Layout) -> Fit:
    """Whether the job fits.

    >>> import sizer
    >>> from sizer.planning.hardware import hardware
    >>> found = fit(sizer.load("llama-3-70b"), hardware("h100"), Job(), Layout())
    >>> found.fits, [change.text for change in found.changes][:2]
    (False, ['weights in fp8', '2 GPUs: tp=2'])
    """
    demand = model if isinstance(model, Demand) else Demand(model)
    job = settled(job, device)
    check(job, layout)
    found = held(demand, device, job, layout)
    changes = [] if found.fits else list(changes_of(demand, device, job, layout))
    if not found.fits and all(change.name in LAST_RESORTS for change in changes):
        changes = [*together(demand, device, job, layout), *changes]
    room = None if job.trains else capacity(demand, job, layout, found)
    return Fit(device, job, layout, found, changes, room)


def capacity(demand: Demand, job: Job, layout: Layout, found: Held) -> Room | None:
    """What the memory that is left for a cache holds, on the ranks of one replica."""
    free = found.left + found.of("KV cache")
    layers = found.stage.layers if job.gpu_layers is None else min(job.gpu_layers, found.stage.layers)
    if free <= 0 or not layers or not demand.states:
        return None
    n_layers = demand.pieces(job, layout).n_layers
    setup = setup_of(job, layout, 1)
    return room_for(demand.states, setup, POLICIES[job.engine], free * n_layers // layers)
