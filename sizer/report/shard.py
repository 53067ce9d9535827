"""`sizer shard`: what every rank holds, the heaviest of them, and how uneven that is."""

from __future__ import annotations

from typing import Any

from sizer import units
from sizer.errors import InvalidConfig
from sizer.measures.cache_dtypes import block
from sizer.measures.sharding import Rank, Shards
from sizer.model import Model
from sizer.report import figure
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

# A list of every rank is as long as this at most; beyond it, equal ranks are together.
MOST_RANKS = 4096


# What `--traffic` runs with beside the degrees.
RUN = ("batch_size", "seq_len", "micro_batches", "sp", "checkpointing")


def report(
    model: Model,
    *,
    framework: str = "megatron",
    dtype: str = "bf16",
    traffic: bool = False,
    plot: str | None = None,
    **degrees: Any,
) -> Report:
    """Parameters of every rank, equal ranks in one row; with `traffic`, what one of them sends in a step."""
    if plot is not None:
        figure.check(plot, text=True)
    stored = block(dtype)
    run = {name: degrees.pop(name) for name in RUN if name in degrees}
    found = model.shards(framework, **degrees)
    if not traffic and any(run.get(name) for name in ("sp", "checkpointing")):
        given = " and ".join(f"--{name}" for name in ("sp", "checkpointing") if run.get(name))
        raise InvalidConfig(f"{given}: that is of what ranks send; add --traffic")
    if traffic:
        from sizer.report import traffic as sending

        if plot is not None:
            raise InvalidConfig("--plot draws what ranks hold; leave --traffic out")
        return sending.report(model, found, cp=degrees.get("cp", 1), **run)
    label = "exact" if found.exact else "estimate"

    def size(elements: int) -> int:
        return -(-elements * stored.bytes // stored.elements)

    def view() -> View:
        heaviest = found.heaviest
        return View(
            table=_table(found, size),
            above=[
                f"{model.name}  ({model.architecture}), {label}: {framework}, "
                f"{found.plan.world:,} ranks, {dtype}"
            ],
            below=[
                f"heaviest   {heaviest.params:>18,}  rank {heaviest.first} "
                f"({units.size(size(heaviest.params))}, {units.size(size(heaviest.params), binary=True)})",
                f"imbalance  {found.imbalance:>18.4f}  heaviest over mean of {found.mean:,.0f}",
                f"model      {found.total:>18,}",
            ],
            notes=notes(model, found.assumptions),
        )

    def document() -> dict[str, Any]:
        heaviest = found.heaviest
        return {
            **head(model),
            "framework": framework,
            "world": found.plan.world,
            "total": found.total,
            "heaviest": {"rank": heaviest.first, "params": heaviest.params, "bytes": size(heaviest.params)},
            "mean": found.mean,
            "imbalance": found.imbalance,
            "label": label,
            "dtype": dtype,
            "ranks": [_record(rank, size) for rank in found.ranks],
            **({"params_by_rank": by_rank(found)} if found.plan.world <= MOST_RANKS else {}),
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": model.sources,
        }

    answer = Report(str(found.heaviest.params), document, view)
    return answer if plot is None else _drawn(answer, model, found, dtype, plot)


def _drawn(answer: Report, model: Model, found: Shards, dtype: str, path: str) -> Report:
    """The answer, with a bar for each rank: in a picture, or as text below it."""
    from sizer.report import bars, shard_plot

    stored = block(dtype)
    held = shard_plot.holdings(found, width=stored.bytes, per=stored.elements, dtype=dtype)
    if path == figure.TEXT:
        return bars.below(answer, shard_plot.lines(held))
    shard_plot.draw(path, held, title=f"{model.name}: {found.plan.framework}, {found.plan.world:,} ranks")
    return answer


def by_rank(found: Shards) -> list[int]:
    """Parameters of each rank, in order.

    >>> import sizer
    >>> by_rank(sizer.load("gpt2-small").shards("fsdp2", dp=2))
    [62220288, 62219520]
    """
    held = {number: rank.params for rank in found.ranks for part in rank.ranks for number in part}
    return [held[number] for number in sorted(held)]


def _numbers(rank: Rank) -> str:
    return ", ".join(str(r.start) if len(r) == 1 else f"{r.start}-{r.stop - 1}" for r in rank.ranks)


def _record(rank: Rank, size: Any) -> dict[str, Any]:
    return {
        "ranks": _numbers(rank),
        "place": rank.place,
        "params": rank.params,
        "padding": rank.padding,
        "copies": rank.copies,
        "gradients": rank.gradients,
        "optimizer": rank.optimizer,
        "reserved": rank.reserved,
        "bytes": size(rank.params),
    }


def _table(found: Shards, size: Any) -> Table:
    records = [_record(rank, size) for rank in found.ranks]
    names = ("params", "padding", "copies", "optimizer", "reserved", "bytes")
    rows = [(entry["ranks"], entry["place"], *(f"{entry[name]:,}" for name in names)) for entry in records]
    return Table(("ranks", "place", *names), rows, numbers=(2, 3, 4, 5, 6, 7), records=records)
