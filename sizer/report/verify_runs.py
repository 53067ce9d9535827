"""`sizer verify --what flops|kv-cache|shards`: our numbers against a run of the real module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.model import Model
from sizer.oracles import torch as oracle
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

WHAT = ("flops", "kv-cache", "shards")
# Of a run whose FLOPs are counted: what `sizer flops` calls the same.
FLOPS_OPTIONS = ("encoder_len", "checkpointing", "past_len", "chunk", "decode", "logits_to_keep")


def report(model: Model, what: str, **run: Any) -> Report:
    """Equal, or what differs; exit 1 where anything does."""
    pairs, note = {"flops": _flops, "kv-cache": _cache, "shards": _shards}[what](model, run)
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    versions = oracle.versions()

    def view() -> View:
        rows = [
            (name, f"{ours:,}", f"{theirs:,}", "equal" if ours == theirs else f"{ours - theirs:+,}")
            for name, (ours, theirs) in pairs.items()
        ]
        against = ", ".join(f"{name} {version}" for name, version in versions.items())
        word = "equal" if not differing else f"{len(differing)} differ"
        return View(
            table=Table((what, "sizer", "torch", ""), rows, numbers=(1, 2)),
            above=[f"{model.name}: {word} ({note}; {against})"],
            notes=notes(model),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "ok": not differing,
            "what": what,
            "run": note,
            "differences": [
                {"kind": what, "name": name, "ours": ours, "theirs": theirs}
                for name, (ours, theirs) in differing.items()
            ],
            "measured": {name: theirs for name, (_, theirs) in pairs.items()},
            "versions": versions,
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    return Report(
        "equal" if not differing else f"{len(differing)} differ", document, view, int(bool(differing))
    )


Pairs = Mapping[str, tuple[int, int]]


def _flops(model: Model, run: Mapping[str, Any]) -> tuple[Pairs, str]:
    from sizer.oracles.flops import measure

    batch, tokens, kernel = run["batch_size"], run["seq_len"], run["attention"]
    how = {name: run[name] for name in FLOPS_OPTIONS if run.get(name)}
    theirs = measure(model, batch_size=batch, seq_len=tokens, attention=kernel, **how)
    ours = model.flops(batch, tokens, kernel, **how)
    pairs = {name: (getattr(ours, name), theirs[name]) for name in ("forward", "backward")}
    return pairs, f"{batch} × {tokens} tokens, {kernel}"


def _cache(model: Model, run: Mapping[str, Any]) -> tuple[Pairs, str]:
    from sizer.oracles.caches import measure

    batch, tokens, encoder = run["batch_size"], run["seq_len"], run.get("encoder_len")
    dtype, policy = run.get("dtype", "bf16"), run.get("policy", "transformers")
    given = {"batch_size": batch, "seq_len": tokens, "dtype": dtype, "policy": policy}
    theirs = measure(model, encoder_len=encoder, **given)
    ours = model.kv_cache(encoder_len=encoder, **given)
    pairs = {
        "logical": (ours.bytes, theirs["logical"]),
        "stored": (ours.stored_bytes, theirs["stored"]),
        "bookkeeping": (ours.bookkeeping_bytes, theirs["bookkeeping"]),
    }
    return pairs, f"{batch} × {tokens} tokens, {dtype}, {policy}"


def _shards(model: Model, run: Mapping[str, Any]) -> tuple[Pairs, str]:
    from sizer.oracles.shards import measure
    from sizer.report.shard import by_rank

    framework, ranks = run.get("framework", "fsdp2"), run.get("ranks", 8)
    theirs = measure(model, framework=framework, ranks=ranks)
    degree = {"fsdp2": {"dp": ranks}, "dtensor": {"tp": ranks}}[framework]
    ours = by_rank(model.shards(framework, **degree))
    pairs = {f"rank {i}": pair for i, pair in enumerate(zip(ours, theirs, strict=True))}
    return pairs, f"{framework}, {ranks} ranks"
