"""Which parts of a model run: its towers, its encoder, and what no gradient reaches."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim
from sizer.core.tree import Op, Param, State
from sizer.core.walk import Row
from sizer.errors import UnknownName
from sizer.measures.passes import Pass


def with_streams(rows: Sequence[Row], run: Pass) -> Pass:
    """Towers beside the text do not run unless their length is given; a model of one tower is that tower."""
    streams = {row.stream for row in rows if isinstance(row.leaf, Param) and row.leaf.use == "matmul"}
    unknown = set(run.lengths) - streams
    if unknown:
        have = ", ".join(sorted(streams - {""})) or "no other stream than its text"
        raise UnknownName("stream", min(unknown), streams - {""}, hint=f"this model has {have}")
    towers = streams - {"", "encoder", "patches", *run.lengths}
    crossed = any(_reads_the_encoder(row) for row in rows)
    if streams >= {"", "encoder"} and not crossed and not run.encoder_given:
        # An encoder whose output joins the text, as one of sound does.
        towers.add("encoder")
    if not towers:
        return run
    length: Dim = 0 if streams & {"", "encoder"} else run.tokens
    return run._replace(lengths={**run.lengths, **dict.fromkeys(towers, length)})


def idle_parts(rows: Sequence[Row], run: Pass) -> tuple[str, ...]:
    """Where the cross-attentions stand of a decoder by itself, which nothing is read from."""
    if run.encoder_given:
        return ()
    crossed = set()
    for row in rows:
        if isinstance(row.leaf, Op) and row.leaf.kind == "cross_attention":
            place = row.name.rpartition(".")[0]
            crossed.add(place.removesuffix(".self") + ".")
    places = tuple(sorted(crossed))
    # Keys and values of an encoder, and nothing else of it.
    encoded = [
        row for row in rows if row.stream == "encoder" and isinstance(row.leaf, Param) and row.leaf.use
    ]
    if not encoded or not all(row.name.startswith(places) for row in encoded):
        return ()
    return places


def untrained_parts(rows: Sequence[Row]) -> tuple[str, ...]:
    """Where indexers stand: they pick tokens, and no gradient passes through a choice."""
    found = {
        row.name.rpartition(".")[0] + "."
        for row in rows
        if isinstance(row.leaf, State) and row.leaf.name in ("index", "index_keys")
    }
    return tuple(sorted(found))


def _reads_the_encoder(row: Row) -> bool:
    leaf = row.leaf
    return (isinstance(leaf, Op) and leaf.kind == "cross_attention") or (
        isinstance(leaf, Param) and leaf.use == "cross_qkv_matmul"
    )
