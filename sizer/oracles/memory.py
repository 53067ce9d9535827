"""A real training step under torch's own eyes: what it saves, and the most that is alive at once.

It knows nothing of the tree: storages are counted as the dispatcher makes them and as the
interpreter frees them, which is what `torch.distributed._tools.mem_tracker.MemTracker` counts.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any, NamedTuple

from sizer.oracles.torch import import_torch

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "autocast": "float32"}


class Measured(NamedTuple):
    """The peak of each phase in bytes, and the saved tensors: shape, type, bytes, new storage or not."""

    peaks: dict[str, int]
    saved: Counter[tuple[tuple[int, ...], str, int, bool]]
    saved_bytes: int


def measure(
    module: Any,
    *,
    batch_size: int,
    seq_len: int,
    precision: str = "fp32",
    foreach: bool = False,
) -> Measured:
    """One step of AdamW of a module of transformers, after one that made the optimizer's state."""
    torch = import_torch("measuring a training step")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    live: dict[str, Any] = {"now": 0, "phase": "forward"}
    peaks: dict[str, int] = {}
    seen: set[int] = set()

    def track(tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in seen:
            return
        seen.add(key)
        live["now"] += size

        def gone() -> None:
            seen.discard(key)
            live["now"] -= size

        weakref.finalize(storage, gone)

    class Tracker(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    track(leaf)
            phase = live["phase"]
            peaks[phase] = max(peaks.get(phase, 0), live["now"])
            return out

    module.train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, foreach=foreach)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, module.config.vocab_size, (batch_size, seq_len), generator=generator)

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            return module(input_ids=ids, labels=ids)

    module.config.use_cache = False
    saved, saved_bytes = _saved(torch, module, forward)
    forward().loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    gc.collect()
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    for tensor in [*module.parameters(), *module.buffers(), *state, ids]:
        track(tensor)
    with Tracker():
        out = forward()
        live["phase"] = "backward"
        out.loss.backward()
        del out
        live["phase"] = "step"
        optimizer.step()
    optimizer.zero_grad()
    return Measured(peaks, saved, saved_bytes)


def _saved(torch: Any, module: Any, forward: Any) -> tuple[Counter[Any], int]:
    kept = {t.untyped_storage()._cdata for t in [*module.parameters(), *module.buffers()]}
    storages: dict[int, Any] = {}
    found: Counter[Any] = Counter()

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        key = storage._cdata
        new = key not in kept and key not in storages
        if new:
            storages[key] = storage
        n_bytes = tensor.numel() * tensor.element_size()
        found[tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), n_bytes, new] += 1
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = forward()
    del out
    return found, sum(storage.nbytes() for storage in storages.values())
