"""The tree that describes a model; `sizer.core.walk` turns it into rows.

Six words say every architecture:

- `Axis`: a named dimension. Its name decides how it is sharded.
- `Param`, `Buffer`, `Op`, `State`: the facts, at the leaves.
- `Module`: a name, its children in the order they run, and how often it stands in its parent.

What never changes (`docs/design.md` gives the reasons):

- Sizes flow, flags decide: no branch on the value of a size, no division.
- Repeats are not unrolled: 126 equal layers are one row with a count of 126.
- A tie is written where the tied tensor stands; it has no parameters and still does its matmul.
- Names and shapes are those of the published checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sizer.core.dims import Dim
from sizer.core.record import Record


class Axis(Record):
    """One dimension of a tensor.

    `unit` is the granule a shard may not split: the width of a head, for an axis of heads.
    `parts` are the axes that were laid end to end, as in a fused query-key-value projection.
    `padded` is the size of the tensor where it has more rows than mean anything: names and shapes
    show it, and counts do not.
    """

    __slots__ = ("name", "padded", "parts", "size", "unit")

    def __init__(
        self,
        name: str,
        size: Dim,
        unit: Dim = 1,
        parts: tuple[Axis, ...] = (),
        padded: Dim | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.unit = unit
        self.parts = parts
        self.padded = padded

    def __mul__(self, times: int) -> Axis:
        """The same axis `times` over, end to end: `3 * heads` for a fused q, k and v."""
        return Axis(self.name, times * self.size, self.unit, (self,) * times)

    __rmul__ = __mul__

    def __add__(self, other: Axis) -> Axis:
        """Two axes end to end: `heads + 2 * kv_heads`."""
        parts = (self.parts or (self,)) + (other.parts or (other,))
        return Axis(self.name, self.size + other.size, self.unit, parts)


def heads_axis(name: str, count: Dim, width: Dim) -> Axis:
    """An axis of `count` heads of `width` each, which shards only between heads."""
    return Axis(name, count * width, width)


class Param(Record):
    """A learned tensor.

    `use` is what a forward pass does with it: "matmul" (2 FLOPs an element and token),
    "pooled" (2 FLOPs an element and sequence: a matrix over one token of it),
    "lookup" (a row is read), "idle" (nothing), or "" (scaled, added or scanned, by the module it stands in).
    `tied_to` is the full name of the tensor whose storage it shares.
    `active` is how many of its elements one token visits, where that is not all of them.
    """

    __slots__ = ("active", "axes", "component", "name", "tied_to", "trainable", "use")

    def __init__(
        self,
        name: str,
        axes: tuple[Axis, ...],
        use: str = "",
        tied_to: str | None = None,
        trainable: bool = True,
        active: Dim | None = None,
        component: str = "",
    ) -> None:
        self.name = name
        self.axes = axes
        self.use = use
        self.tied_to = tied_to
        self.trainable = trainable
        self.active = active
        self.component = component


class Buffer(Record):
    """A tensor that is kept but not learned. Only persistent ones are stored in a checkpoint."""

    __slots__ = ("axes", "component", "name", "persistent", "tied_to")

    def __init__(
        self,
        name: str,
        axes: tuple[Axis, ...],
        persistent: bool = True,
        component: str = "",
        tied_to: str | None = None,
    ) -> None:
        self.name = name
        self.axes = axes
        self.persistent = persistent
        self.component = component
        self.tied_to = tied_to


class Op(Record):
    """Compute that no single tensor states: attention scores, a convolution, a scan.

    `kind` names the rule by which a measure reads `sizes`; see `sizer.measures.flops`.
    `traits` are switches of the op, where its reference computes it in a way of its own:
    "rotary" (positions turn queries and keys), "fp32_softmax" (the scores are brought to fp32), "causal"
    (a token sees those before it), "laid_by_head" (the result is not copied token by token), "pairs"
    (positions turn neighbours, not the halves of a head), "parted" (they turn the first part of a head,
    and the rest is put beside it, "parts_named" where the code names the parts meanwhile),
    "turned_in_turn" (queries wholly before keys), "turned_in_fp32", "turned_by_kind" (by angles of the
    kind of layer), "fp32_angles" (angles are not brought to the model's type), "angles_again" (each layer
    repeats them), "late_norms" (norms after all three projections, "norms_by_head" with heads as the
    outer axis), "sliced" (one projection is cut by three slices), "capped" (scores have a soft cap),
    "full_mask" (the mask of all tokens is made, though no layer may need it), "repeats" (transformers
    keeps keys and values once for each query head), "whole_past" (it keeps and scores every token, and a
    window is in the mask alone). Of a router: "normalized" (the weights of a token's
    experts sum to one), "chosen_first" (a softmax over those that were chosen alone), "cast" (they are
    brought to the type of the scores), "fp32" (kept and run in fp32), "made_last" (the module makes the
    router after the experts). Of a head: "made_first" (the module makes it before the body).
    """

    __slots__ = ("component", "kind", "name", "sizes", "traits")

    def __init__(
        self,
        name: str,
        kind: str,
        sizes: Mapping[str, Dim | None],
        component: str = "",
        traits: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.sizes = sizes
        self.component = component
        self.traits = traits


class State(Record):
    """What decoding keeps for each sequence: `per_token` elements for each of its tokens
    (of at most the last `window`), and `per_sequence` elements whatever its length.

    `dtype` is set where the reference keeps the state in a type of its own, not the model's.
    """

    __slots__ = ("component", "dtype", "name", "per_sequence", "per_token", "window")

    def __init__(
        self,
        name: str,
        per_token: Dim = 0,
        per_sequence: Dim = 0,
        window: Dim | None = None,
        dtype: str | None = None,
        component: str = "",
    ) -> None:
        self.name = name
        self.per_token = per_token
        self.per_sequence = per_sequence
        self.window = window
        self.dtype = dtype
        self.component = component


Leaf: TypeAlias = Param | Buffer | Op | State


class Layers(Record):
    """Some of the layers of a repeated module: how many, and which, where that is known."""

    __slots__ = ("count", "indices")

    def __init__(
        self,
        count: Dim,
        indices: Sequence[int] | None = None,
    ) -> None:
        self.count = count
        self.indices = indices


class Places(Record):
    """At how many places of its input a module runs: `fixed`, and `each` for every token of its stream.

    The patches of an image are `fixed`. A convolution before one that takes steps of two frames runs
    at two places for each token. `shared`: what is computed there serves all inputs.
    """

    __slots__ = ("each", "fixed", "shared")

    def __init__(self, fixed: Dim = 0, each: Dim = 0, *, shared: bool = False) -> None:
        self.fixed = fixed
        self.each = each
        self.shared = shared


# Where one vector stands for the whole input, as in a classifier.
ONCE = Places(fixed=1)
# Where each token has its place, as the patches have that a convolution reads one by one.
EACH = Places(each=1)


class Module(Record):
    """A part of a model.

    `repeat`: it stands that often in its parent, under the names `name.0`, `name.1`, …, or under
    the indices of a `Layers`; a `{}` in its name says where else the index goes (`expert_{}`).
    `at`: it stands only in these repeats of the nearest repeated module above it.
    `active`: of the repeats, one token visits this many (the routed experts of a MoE).
    `visits`: how many of the repeats run each time the parent runs, where that is not `active`
    (a shared block whose every use has an adapter of its own).
    `shared`: the layers of `at` are one and the same set of tensors.
    `uses`: a forward pass runs it that often, on the same tensors.
    `kind`: what it computes ("linear", "layer_norm", …), where a measure needs to know.
    `stream`: the sequence it runs over, where a model has more than one ("encoder").
    `places`: at how many places of its input it runs, where they are not the tokens of its stream; those of
    a module around it on the same stream unless given.
    `flow`: how values pass through its children, where not from each to the next: "residual" (what goes
    in is added to what comes out; "residual_after" where the norm follows the sum, "residual_held" and
    "residual_named" where the block still names what its part gave, "residual_scaled" where a multiple is
    added), "parallel" (attention and an MLP read one norm; "parallel_after" where the stream is added to
    their sum), "embeddings" ("embeddings_counted" where places are counted in each sequence), "attention"
    (all projections read what goes in), "latent" (queries, and keys and values from one latent), "gated"
    (gate and up read it), "experts" (a router sends each token to some), "relative" (attention with a
    bias by distance), "widened" (an MLP whose last matrix is given its own type), "block" (a repeated
    module whose parts all say theirs). What a training step keeps follows from it; a tree that does not
    say it still counts.
    """

    __slots__ = (
        "active",
        "at",
        "children",
        "component",
        "flow",
        "kind",
        "name",
        "places",
        "repeat",
        "shared",
        "stream",
        "uses",
        "visits",
    )

    def __init__(
        self,
        name: str,
        children: tuple[Module | Leaf, ...],
        repeat: Dim | Layers | None = None,
        at: Layers | None = None,
        active: Dim | None = None,
        visits: Dim | None = None,
        component: str = "",
        kind: str = "",
        shared: bool = False,
        uses: Dim | None = None,
        stream: str = "",
        flow: str = "",
        places: Places | None = None,
    ) -> None:
        self.name = name
        self.children = children
        self.repeat = repeat
        self.at = at
        self.active = active
        self.visits = visits
        self.component = component
        self.kind = kind
        self.shared = shared
        self.uses = uses
        self.stream = stream
        self.flow = flow
        self.places = places
