"""The walk against a reading of the same tree that unrolls everything and counts one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizer.core.layers import after_first, first_and_rest, renamed
from sizer.core.poly import symbol
from sizer.core.tree import Axis, Buffer, Layers, Module, Op, Param
from sizer.core.walk import name_at, names, walk
from sizer.measures.count import count

WIDTH = Axis("embed", 2)


def leaf(name: str) -> Param:
    return Param(name, (WIDTH,))


@st.composite
def trees(draw: Any, depth: int = 0, layers: int = 0) -> Module:
    """A module of random parts; `layers`: of the nearest repeated module above it."""
    name = draw(st.sampled_from(("a", "b", "c_{}", ""))) if depth else ""
    extra: dict[str, Any] = {}
    how = draw(st.sampled_from(("", "repeat", "some", "active", "uses", "at", "shared"))) if name else ""
    inside = layers
    if name == "c_{}" and how not in ("repeat", "some", "active"):
        how = "repeat"
    if how in ("repeat", "active"):
        extra["repeat"] = inside = draw(st.integers(1, 4))
        if how == "active":
            extra["active"] = draw(st.integers(1, inside))
            extra["visits"] = draw(st.none() | st.integers(1, 3))
    elif how == "some":
        indices = tuple(sorted(draw(st.sets(st.integers(0, 5), min_size=1))))
        extra["repeat"], inside = Layers(len(indices), indices), 0
    elif how == "uses":
        extra["uses"] = draw(st.integers(1, 3))
    elif how in ("at", "shared") and layers:
        indices = tuple(sorted(draw(st.sets(st.integers(0, layers - 1), min_size=1))))
        extra |= {"at": Layers(len(indices), indices), "shared": how == "shared"}
        inside = 0
    children = [leaf(draw(st.sampled_from("xyz")) + str(i)) for i in range(draw(st.integers(0, 2)))]
    if depth < 3:
        children += draw(st.lists(trees(depth=depth + 1, layers=inside), max_size=2))
    return Module(name, tuple(children), **extra)


def unrolled(
    module: Module, prefix: str = "", at: tuple[int, ...] = (), once: bool = False
) -> list[tuple[str, bool]]:
    """The name of each leaf, copy by copy, and whether a copy before it is the same tensor."""
    if module.at is not None:
        indices = list(module.at.indices or ())
        if at[-1] not in indices:
            return []
        once = once or (module.shared and at[-1] != indices[0])
    place = ".".join(part for part in (prefix, module.name) if part)
    if module.repeat is None:
        return inside(module, place, at, once)
    indices = module.repeat.indices if isinstance(module.repeat, Layers) else range(module.repeat)
    where = place if "{}" in module.name else f"{place}.{{}}" if place else "{}"
    found = []
    for i in indices or ():
        found += inside(module, where.replace("{}", str(i), 1), (*at, i), once)
    return found


def inside(module: Module, place: str, at: tuple[int, ...], once: bool) -> list[tuple[str, bool]]:
    found = []
    for child in module.children:
        if isinstance(child, Module):
            found += unrolled(child, place, at, once)
        else:
            found.append((".".join(part for part in (place, child.name) if part), once))
    return found


@given(trees())
def test_names_and_copies_are_those_of_the_unrolled_tree(tree: Module) -> None:
    rows = walk(tree)
    expected = unrolled(tree)

    assert Counter(name for row in rows for name in names(row)) == Counter(name for name, _ in expected)
    assert sum(row.copies for row in rows) == sum(not again for _, again in expected)


def block(**more: Any) -> Module:
    return Module("h", (leaf("w"),), **more)


def test_what_one_token_visits() -> None:
    # (copies, of which a token visits, runs a pass), by hand.
    for tree, expected in [
        (block(), (1, 1, 1)),
        (block(repeat=5), (5, 5, 5)),
        (block(repeat=5, active=2), (5, 2, 2)),
        (block(repeat=5, active=2, visits=3), (5, 2, 3)),
        (block(repeat=5, visits=1), (5, 5, 1)),
        (block(uses=4), (1, 1, 4)),
        (block(repeat=3, uses=4), (3, 3, 12)),
        (Module("", (block(repeat=3, uses=4),), repeat=2, uses=5), (6, 6, 120)),
        (Module("", (block(repeat=8, active=2),), repeat=3), (24, 6, 6)),
        (Module("", (block(at=Layers(2, (0, 2))),), repeat=4), (2, 2, 2)),
        (Module("", (block(at=Layers(2, (0, 2)), shared=True),), repeat=4), (1, 1, 2)),
        (Module("", (block(at=Layers(2, (0, 2)), repeat=3, active=1),), repeat=4), (6, 2, 2)),
    ]:
        (row,) = walk(tree)
        assert (row.copies, row.active, row.visits) == expected


def test_what_a_place_says() -> None:
    inner = Module("inner", (leaf("w"), Param("b", (), component="own")), kind="linear")
    outer = Module("outer", (inner, Op("", "act", {})), component="mlp", stream="encoder", kind="block")
    tree = Module("", (outer, leaf("last")))

    assert [(r.name, r.component, r.kind, r.stream) for r in walk(tree)] == [
        ("outer.inner.w", "mlp", "linear", "encoder"),
        ("outer.inner.b", "own", "linear", "encoder"),
        ("outer", "mlp", "block", "encoder"),
        ("last", "other", "", ""),
    ]


def test_parts_for_some_layers_stand_in_a_repeated_module() -> None:
    with pytest.raises(ValueError, match="h: `at` needs a repeated module above it"):
        walk(block(at=Layers(1, (0,))))


def test_layers_that_are_letters_have_no_names() -> None:
    (row,) = walk(block(repeat=symbol("L")))

    assert row.copies == symbol("L")
    with pytest.raises(ValueError, match=r"h\.\{\}\.w: the layers of a symbolic model have no names"):
        list(names(row))


def test_a_name_takes_its_indices_in_order() -> None:
    assert name_at("h.{}.e.{}.w", (3, 1)) == "h.3.e.1.w"
    assert name_at("wte", ()) == "wte"
    assert name_at("{}", (7,)) == "7"


def test_the_first_layer_and_the_rest() -> None:
    first, rest = walk(first_and_rest("h", (leaf("a"),), (leaf("b"),), 4))
    D = symbol("D")

    assert list(names(first)) == ["h.0.a"]
    assert list(names(rest)) == ["h.1.b", "h.2.b", "h.3.b"]
    assert (after_first(4).count, list(after_first(4).indices or ())) == (3, [1, 2, 3])
    assert (after_first(D).count, after_first(D).indices) == (D - 1, None)


def test_other_names_for_the_same_tree() -> None:
    tree = Module("a", (Module("b", (leaf("w"), leaf("c"))), leaf("b")), repeat=2)

    assert [row.name for row in walk(renamed(tree, {"b": "x", "w": "y"}))] == [
        "a.{}.x.y",
        "a.{}.x.c",
        "a.{}.x",
    ]


def test_what_counts_by_hand() -> None:
    # Three blocks: a weight of 2, a frozen one of 2, a buffer of 2; an embedding of 10 and a head tied to it.
    wide = Axis("vocab", 5)
    block = (leaf("w"), Param("f", (WIDTH,), trainable=False), Buffer("b", (WIDTH,)))
    tree = Module(
        "",
        (
            Module("e", (Param("weight", (wide, WIDTH), "lookup"),), component="embedding"),
            Module("h", block, repeat=3, component="mlp"),
            Module("head", (Param("weight", (wide, WIDTH), "matmul", tied_to="e.weight"),), component="head"),
        ),
    )
    found = count(walk(tree))

    assert (found.total, found.trainable, found.tied, found.buffers) == (10 + 12, 10 + 6, 10, 6)
    assert (found.embedding, found.non_embedding, found.active) == (10, 12, 22)
    assert found.components == {"embedding": 10, "mlp": 12}
