"""What the layers of a model must keep while decoding, kind by kind, as its tree says."""

from __future__ import annotations

from collections.abc import Iterable

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import Op, State
from sizer.core.walk import Row
from sizer.measures.passes import Pass
from sizer.measures.streams import idle_parts

# A word for each kind of state in a table.
WORDS = {
    "kv": "keys and values",
    "cross_kv": "keys and values of the encoder",
    "latent": "latents (MLA)",
    "compressed": "compressed keys and values",
    "index": "indexer keys",
    "index_keys": "indexer keys",
    "conv": "convolution inputs",
    "ssm": "recurrent state",
    "delta": "recurrent state",
    "wkv": "recurrent state",
    "shift": "last token",
}
LATENTS = ("latent", "compressed")


class Kept(Record):
    """What some layers of one kind keep, each: elements a token and elements a sequence.

    `keys` and `values` are a token's; a latent is all `keys`. `heads`: KV heads, where it has any.
    `window`: the tokens that are enough. `dtype`: a type of its own, if not the cache's.
    `channels`: of a convolution, whose engines may keep one input less a channel. `repeated`: query
    heads, where transformers keeps keys and values for each of them. `whole`: transformers keeps every
    token, though those of the window are enough.
    """

    __slots__ = (
        "channels",
        "cross",
        "dtype",
        "heads",
        "keys",
        "layers",
        "name",
        "per_sequence",
        "repeated",
        "values",
        "whole",
        "window",
    )

    def __init__(
        self,
        name: str,
        layers: Dim,
        keys: Dim,
        values: Dim,
        per_sequence: Dim,
        window: Dim | None,
        dtype: str | None,
        heads: Dim | None,
        channels: Dim,
        cross: bool,
        repeated: Dim | None = None,
        whole: bool = False,
    ) -> None:
        self.name = name
        self.layers = layers
        self.keys = keys
        self.values = values
        self.per_sequence = per_sequence
        self.window = window
        self.dtype = dtype
        self.heads = heads
        self.channels = channels
        self.cross = cross
        self.repeated = repeated
        self.whole = whole

    @property
    def word(self) -> str:
        """What it is, for a table."""
        word = WORDS.get(self.name, self.name.replace("_", " "))
        return word if self.window is None else f"{word}, window {self.window}"


def kept(rows: Iterable[Row], *, encoder_given: bool = False) -> list[Kept]:
    """What each kind of layer keeps, in the order of the model.

    `encoder_given`: somebody said how long the encoder's sequence is. A decoder by itself keeps nothing
    of an encoder without that.
    """
    rows = list(rows)
    idle = idle_parts(rows, Pass(encoder_given=encoder_given))
    found: dict[str, Kept] = {}
    cores: dict[str, Op] = {}
    convolutions: dict[str, Op] = {}
    for row in rows:
        leaf = row.leaf
        if idle and row.name.startswith(idle):
            continue
        if isinstance(leaf, Op):
            place = row.name.rpartition(".")[0]
            if leaf.kind in ("attention", "cross_attention"):
                cores[place] = leaf
            elif leaf.kind == "conv":
                convolutions[place] = leaf
        elif isinstance(leaf, State):
            place = row.name.rpartition(".")[0]
            one = _kept(row, leaf, cores.get(place), convolutions.get(place))
            key = repr(one._replace(layers=0))
            same = found.get(key)
            found[key] = one if same is None else same._replace(layers=same.layers + one.layers)
    return list(found.values())


def _kept(row: Row, leaf: State, core: Op | None, convolution: Op | None) -> Kept:
    heads: Dim | None = None
    repeated: Dim | None = None
    keys, values = leaf.per_token, 0
    if core is not None and leaf.name in ("kv", "cross_kv"):
        heads = core.sizes["kv_heads"]
        keys = heads * core.sizes["d_qk"]  # type: ignore[operator]
        values = leaf.per_token - keys
        repeated = core.sizes["heads"] if "repeats" in core.traits else None
    channels = convolution.sizes["channels"] if convolution is not None and leaf.name == "conv" else 0
    return Kept(
        leaf.name,
        row.visits,
        keys,
        values,
        leaf.per_sequence,
        leaf.window,
        leaf.dtype,
        heads,
        channels,
        leaf.name == "cross_kv",
        repeated,
        core is not None and "whole_past" in core.traits,
    )
