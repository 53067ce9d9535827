"""Latents in a cache: keys and values that a pass computes anew, or that are never computed.

A layer that keeps latents (DeepSeek-V2, arXiv:2405.04434) has no keys and values of the tokens before.
transformers expands the latents of all of them again in every pass. Engines multiply the matrix that
would do so into the queries and the outputs (section 2.1.2 there), and score the latents themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import Op, Param, State
from sizer.core.walk import Row
from sizer.errors import UnknownName

WAYS = {
    "expanded": "keys and values of all tokens in the cache are computed anew from latents in each pass, as "
    "transformers does",
    "absorbed": "queries are brought to the latents and scored with them, as engines do "
    "(DeepSeek-V2, arXiv:2405.04434, section 2.1.2)",
}


class Latent(Record):
    """What a layer keeps of a token: `width` elements, `rank` of them for keys and values.

    `window`: the tokens that are enough.
    """

    __slots__ = ("rank", "width", "window")

    def __init__(self, width: Dim, rank: Dim, window: Dim | None) -> None:
        self.width = width
        self.rank = rank
        self.window = window


def check_way(way: str) -> None:
    """Refuse a way that is none."""
    if way not in WAYS:
        raise UnknownName("way to read latents", way, WAYS, hint=f"known are {', '.join(WAYS)}")


def expanding(rows: Sequence[Row]) -> dict[str, Latent]:
    """The matrices that make keys and values out of latents which a cache keeps, by name."""
    kept = {
        row.name.rpartition(".")[0]: row.leaf
        for row in rows
        if isinstance(row.leaf, State) and row.leaf.name == "latent"
    }
    found: dict[str, Latent] = {}
    for row in rows if kept else ():
        leaf = row.leaf
        if isinstance(leaf, Param) and leaf.use == "matmul" and leaf.axes[-1].name == "kv_rank":
            state = kept.get(_attention_of(row))
            if state is not None:
                found[row.name] = Latent(state.per_token, leaf.axes[-1].size, state.window)
    return found


def reading_values(rows: Sequence[Row]) -> tuple[str, ...]:
    """The matrices that read the values of every token, new or kept, as those of Doge's mask do."""
    return tuple(
        row.name
        for row in rows
        if isinstance(row.leaf, Param)
        and row.leaf.use == "matmul"
        and [axis.name for axis in row.leaf.axes] == ["kv_heads", "kv_heads"]
    )


def absorbed(rows: Sequence[Row]) -> list[Row]:
    """The same layers, with scores over the latents themselves.

    Queries and outputs pass the expanding matrix as the new tokens' keys and values would: it costs the same.
    """
    latents = {name.rsplit(".", 2)[0]: latent for name, latent in expanding(rows).items()}
    found = []
    for row in rows:
        leaf = row.leaf
        latent = latents.get(row.name.rpartition(".")[0])
        if latent is not None and isinstance(leaf, Op) and leaf.kind == "attention":
            sizes = {**leaf.sizes, "d_qk": latent.width, "d_v": latent.rank}
            row = row._replace(leaf=leaf._replace(sizes=sizes))
        found.append(row)
    return found


def _attention_of(row: Row) -> str:
    return row.name.rsplit(".", 2)[0]
