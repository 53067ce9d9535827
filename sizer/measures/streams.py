"""Which parts of a model run: its towers, its encoder, and what no gradient reaches."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim, is_array
from sizer.core.tree import ONCE, Op, Param, State
from sizer.core.walk import Row
from sizer.errors import NotDescribed, UnknownName
from sizer.measures.passes import Pass, is_zero
from sizer.measures.products import is_convolution

CORES = ("attention", "cross_attention", "matmul")


def with_streams(rows: Sequence[Row], run: Pass) -> Pass:
    """Towers beside the text do not run unless their length is given; a model of one tower is that tower."""
    streams = {row.stream for row in rows if isinstance(row.leaf, Param) and row.leaf.use == "matmul"}
    unknown = set(run.lengths) - streams
    if unknown:
        have = ", ".join(sorted(streams - {""})) or "no other stream than its text"
        raise UnknownName("stream", min(unknown), streams - {""}, hint=f"this model has {have}")
    towers = streams - {"", "encoder", "patches", *run.lengths}
    crossed = any(_reads_the_encoder(row) for row in rows)
    beside = any(_computes(row) and not row.stream and row.component != "head" for row in rows)
    if not run.encoder_given:
        run = run._replace(encoder=encoder_length(rows, run.encoder))
    if "encoder" in streams and beside and not crossed and not run.encoder_given:
        # An encoder whose output joins the text, as one of sound does.
        towers.add("encoder")
    if not towers:
        return run
    length: Dim = 0 if streams & {"", "encoder"} else run.tokens
    return run._replace(lengths={**run.lengths, **dict.fromkeys(towers, length)})


def check_places(rows: Sequence[Row]) -> None:
    """Refuse convolutions over an image of which nothing says at how many places of it they run."""
    for row in rows:
        if row.stream or row.places is not None or not is_convolution(row):
            continue
        if len(row.leaf.axes) > 3 and (is_array(row.visits) or row.visits != 0):  # type: ignore[union-attr]
            raise NotDescribed(
                f"at how many places of an image {row.name} runs is not described yet, so there are no FLOPs "
                "to give; sizer count and sizer size do not need it"
            )


def encoder_length(rows: Sequence[Row], otherwise: Dim) -> Dim:
    """Tokens of an encoder whose inputs all have one size, as Whisper's have; of others, `otherwise`."""
    places = _crossed_places(rows)
    return otherwise if places is None else places


def _crossed_places(rows: Sequence[Row]) -> Dim | None:
    crossed = any(_reads_the_encoder(row) for row in rows)
    return _last_places(rows, "encoder") if crossed else None


def own_places(rows: Sequence[Row], run: Pass) -> Dim | None:
    """The places that a model makes of an input whose size its configuration says; else `None`.

    A model of words has none: somebody says how long a text is.
    """
    used = [row for row in rows if _computes(row)]
    if not used or any(row.places is None or not is_zero(row.places.each) for row in used if not row.stream):
        return None
    streams = {row.stream for row in used} - {""}
    if streams and (streams != {"encoder"} or run.encoder_given or _crossed_places(rows) is None):
        return None
    return _last_places(rows, "")


def _last_places(rows: Sequence[Row], stream: str) -> Dim | None:
    """Places of what is computed last in a stream, but for what runs once for all of them."""
    for row in reversed(rows):
        if row.stream == stream and _computes(row) and row.places not in (None, ONCE):
            return row.places.fixed if is_zero(row.places.each) else None
    return None


def _computes(row: Row) -> bool:
    leaf = row.leaf
    return (isinstance(leaf, Param) and leaf.use == "matmul") or (isinstance(leaf, Op) and leaf.kind in CORES)


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
