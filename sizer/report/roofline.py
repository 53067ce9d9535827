"""`sizer roofline`: the least time of a prefill and of a step of decoding."""

from __future__ import annotations

from typing import Any

from sizer import units
from sizer.errors import InvalidConfig
from sizer.model import Model
from sizer.planning.hardware import hardware
from sizer.planning.roofline import Bound, Roofline
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

ASSUMPTIONS = (
    "a bound: arithmetic at the dense peak or bytes at the full bandwidth, whichever takes longer; "
    "links, kernels and scheduling are left out",
    "weights are read once a pass and the cache once a step; a table that is looked up is not read whole",
    "each token visits its experts at random, so that a batch reads more of them than a token",
    "users: weights and cache have to fit, and nothing else is counted",
)
SOURCE = "Williams, Waterman and Patterson 2009, Roofline (doi:10.1145/1498765.1498785)"


def report(
    model: Model,
    *,
    on: str,
    gpus: int = 1,
    batch_size: int = 1,
    seq_len: int = 4096,
    dtype: str = "bf16",
    kv_dtype: str | None = None,
    inter_token: float | None = None,
    hardware_file: str | None = None,
    explain: bool = False,
) -> Report:
    """Bounds of both passes, and how many sequences a target of `inter_token` milliseconds leaves."""
    if inter_token is not None and not 0 < inter_token < float("inf"):
        raise InvalidConfig(f"inter_token = {inter_token} is not a time above zero, in milliseconds")
    device = hardware(on, file=hardware_file)
    roof = Roofline(model, device, gpus=gpus, dtype=dtype, kv_dtype=kv_dtype)
    passes = {
        "prefill": roof.prefill(batch_size=batch_size, seq_len=seq_len),
        "decode": roof.decode(batch_size=batch_size, seq_len=seq_len),
    }
    users, why = roof.users(seq_len=seq_len, seconds=None if inter_token is None else inter_token / 1000)
    step = passes["decode"]

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "label": "bound",
            "accelerator": device.name,
            "gpus": gpus,
            "batch_size": batch_size,
            "seq_len": seq_len,
            "dtype": dtype,
            "kv_dtype": roof.cache_dtype,
            "peak_flops_per_s": roof.peak,
            "bandwidth_bytes_per_s": roof.bandwidth,
            "weights_bytes": roof.weights,
            "passes": {name: _record(one) for name, one in passes.items()},
            "inter_token_ms": inter_token,
            "users": users,
            "users_limit": why,
            "assumptions": [*model.assumptions, *ASSUMPTIONS],
            "sources": [*model.sources, SOURCE, *device.sources],
        }

    def view() -> View:
        target = "" if inter_token is None else f" at {inter_token:g} ms a token"
        lines = [
            f"{'weights':<10} {roof.weights:>18,} bytes  ({units.size(roof.weights)} in {dtype})",
            f"{'users':<10} {users:>18,} sequences of {seq_len:,} tokens{target}; the limit is {why}",
        ]
        if explain:
            lines += ["", *_explained(roof, passes)]
        return View(
            _table(passes),
            [f"{model.name} on {gpus} × {device.name}, a bound: {batch_size:,} × {seq_len:,} tokens"],
            lines,
            notes(model, (*ASSUMPTIONS, f"source: {SOURCE}")),
        )

    return Report(f"{step.tokens_per_s:.6g}", document, view)


def _record(one: Bound) -> dict[str, Any]:
    return {
        "tokens": one.tokens,
        "flops": one.flops,
        "weight_bytes": one.weight_bytes,
        "cache_bytes": one.cache_bytes,
        "compute_seconds": one.of_compute,
        "memory_seconds": one.of_memory,
        "seconds": one.seconds,
        "limit": one.limit,
        "tokens_per_second": one.tokens_per_s,
    }


def _table(passes: dict[str, Bound]) -> Table:
    headers = ("pass", "tokens", "compute", "memory", "at least", "bound by", "tokens a second")
    rows = [
        (
            name,
            f"{one.tokens:,}",
            _time(one.of_compute),
            _time(one.of_memory),
            _time(one.seconds),
            one.limit,
            f"{one.tokens_per_s:,.0f}",
        )
        for name, one in passes.items()
    ]
    records = [{"pass": name, **_record(one)} for name, one in passes.items()]
    return Table(headers, rows, (1, 2, 3, 4, 6), records)


def _time(seconds: float) -> str:
    return f"{1000 * seconds:,.2f} ms"


def _explained(roof: Roofline, passes: dict[str, Bound]) -> list[str]:
    lines = []
    for name, one in passes.items():
        lines += [
            f"{name}: compute = {one.flops:,} FLOPs / {roof.peak:.4g} FLOP/s = {_time(one.of_compute)}",
            f"{name}: memory = ({one.weight_bytes:,} of weights + {one.cache_bytes:,} of cache) bytes"
            f" / {roof.bandwidth:.4g} B/s = {_time(one.of_memory)}",
        ]
    return lines
