"""`sizer shard --traffic`: what one rank sends in a training step, by kind of collective."""

from __future__ import annotations

from typing import Any

from sizer import units
from sizer.core.tree import Param
from sizer.errors import InvalidConfig
from sizer.measures.context import warnings
from sizer.measures.passes import check_positive
from sizer.measures.sharding import Shards, layers_of
from sizer.measures.traffic import Transfer, traffic
from sizer.model import Model
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

# Activations and gradients that ranks exchange are of 16 bits, and weights as well.
WIDTH = 2


def report(
    model: Model,
    found: Shards,
    *,
    batch_size: int = 1,
    seq_len: int = 1024,
    micro_batches: int = 1,
    cp: int = 1,
    sp: bool = False,
    checkpointing: bool = False,
) -> Report:
    """The traffic of the heaviest rank, in 16 bits."""
    plan = found.plan
    if plan.framework == "vllm":
        raise InvalidConfig("--traffic is that of a training step, and vllm trains nothing")
    check_positive(batch_size=batch_size, seq_len=seq_len, micro_batches=micro_batches, cp=cp)
    width = getattr(model.config, "d_model", None)
    if not isinstance(width, int):
        raise InvalidConfig(f"{model.name} has no width d_model that its layers exchange")
    rank, rows = found.heaviest, model.rows("transformers")
    first, last, n_layers = layers_of(rows, plan, rank.first)
    mine = last - first
    routed = {
        layer
        for row in rows
        if isinstance(row.leaf, Param) and row.leaf.active is not None and row.frames
        for layer in row.frames[0].indices or ()
        if first <= layer < last
    }
    length = -(-seq_len // cp)
    keys_values = (
        model.kv_cache(batch_size, length).bytes * mine // (max(n_layers, 1) * plan.tp) if cp > 1 else 0
    )
    # FSDP and ZeRO-3 gather what no rank keeps whole.
    zero = 3 if plan.framework == "fsdp2" else plan.zero
    whole = found.total if plan.framework in ("fsdp2", "deepspeed") else rank.params
    parts = traffic(
        layers=mine,
        between=batch_size * length * width * WIDTH,
        micro_batches=micro_batches,
        weights=whole * WIDTH,
        gradients=whole * WIDTH,
        tp=plan.tp,
        sp=sp,
        pp=plan.pp,
        cp=cp,
        dp=plan.dp // cp,
        replicate=plan.replicate,
        ep=plan.ep,
        zero=zero,
        again=checkpointing,
        moe_layers=len(routed),
        top_k=int(getattr(model.config, "top_k", 1) or 1),
        keys_values=keys_values,
    )
    total = sum(part.sent for part in parts)
    told = [
        f"a step of {micro_batches} × {batch_size} × {seq_len} tokens on each rank of data, all in 16 bits",
        "rings; the bytes that the heaviest rank sends, and it receives as many",
        *(["experts are taken to be chosen evenly"] if plan.ep > 1 else []),
    ]

    def view() -> View:
        records = [_record(part) for part in parts]
        names = ("group", "collective", "ranks", "times", "bytes each", "sent")
        rows = [
            (
                p.group,
                p.collective,
                f"{p.ranks:,}",
                f"{p.times:,}",
                f"{p.n_bytes:,}",
                f"{p.sent:,}",
                p.formula,
            )
            for p in parts
        ]
        return View(
            table=Table((*names, "of"), rows, numbers=(2, 3, 4, 5), records=records),
            above=[f"{model.name}  ({model.architecture}), estimate: {plan.framework}, {plan.world:,} ranks"],
            below=[f"rank {rank.first} sends {total:,} bytes a step ({units.size(total)})"],
            notes=[*notes(model, told), *(f"source: {p.source}" for p in parts)],
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "framework": plan.framework,
            "world": plan.world,
            "rank": rank.first,
            "sent_bytes": total,
            "transfers": [_record(part) for part in parts],
            "label": "estimate",
            "assumptions": [*model.assumptions, *found.assumptions, *told],
            "sources": [*model.sources, *dict.fromkeys(part.source for part in parts)],
        }

    said = warnings(model, seq_len)
    return Report(str(total), document, view, talk=[f"warning: {text}" for text in said])


def _record(part: Transfer) -> dict[str, Any]:
    return {
        "group": part.group,
        "collective": part.collective,
        "ranks": part.ranks,
        "times": part.times,
        "bytes": part.n_bytes,
        "sent_bytes": part.sent,
        "formula": part.formula,
    }
