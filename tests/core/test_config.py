"""What a configuration refuses, derives and replaces by letters; how its layers go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from sizer.core.config import Config, check_size, configuration, is_symbolic, letter, meaning, symbolic
from sizer.core.dims import MAX_SIZE, Dim, Quotient, divide, is_array, quotients, round_up
from sizer.core.pattern import LONGEST_CYCLE, Pattern, PerLayer, form, resized
from sizer.core.poly import symbol
from sizer.core.tree import Axis, Layers, heads_axis
from sizer.errors import InvalidConfig


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "size = 0 is zero; it must be at least 1"),
        (-3, "size = -3 is negative; it must be at least 1"),
        (True, "size = True is not a whole number"),
        (1.0, "size = 1.0 is not a whole number"),
        (PerLayer((1, None)), "size = [1, None] is not a whole number"),
        ("3", "size = '3' is not a whole number"),
        (MAX_SIZE + 1, "size is beyond 1,000,000,000,000,000"),
        (np.array([1, 0]), "an array of sizes must hold positive integers"),
        (np.array([1.0, 2.0]), "an array of sizes must hold positive integers"),
    ],
    ids=repr,
)
def test_what_cannot_be_a_size(value: Any, words: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        check_size("size", value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "value",
    [1, MAX_SIZE, None, symbol("D"), sympy.Symbol("D"), np.array([1, 2]), np.array([10**30])],
    ids=repr,
)
def test_what_can(value: Any) -> None:
    check_size("size", value)
    if value is not None:
        assert is_symbolic(value) == (not isinstance(value, int) and not is_array(value))


def test_a_size_that_may_be_zero() -> None:
    check_size("size", 0, least=0)
    check_size("size", np.array([0, 1]), least=0)
    with pytest.raises(InvalidConfig, match="size = -1 is negative; it must be at least 0"):
        check_size("size", -1, least=0)


@configuration
class Small(Config):
    d_model: Dim
    n_heads: Dim
    gates: Dim | None = None
    d_head: Dim | None = None
    pattern: Pattern = Pattern(("a",))

    letters = {"gates": "G"}
    meanings = {"gates": "gates of a head"}

    def __post_init__(self) -> None:
        self.derive(gates=3)
        self.derive_quotient("d_head", "d_model", "n_heads")


def test_sizes_that_were_not_given_are_derived() -> None:
    assert Small(d_model=12, n_heads=3).d_head == 4
    assert Small(d_model=12, n_heads=3).gates == 3
    assert Small(d_model=12, n_heads=5, d_head=7, gates=1).d_head == 7
    assert Small(d_model=12, n_heads=3, gates=1).gates == 1
    with pytest.raises(
        InvalidConfig, match="d_model = 13 is not a multiple of n_heads = 3; use d_model = 12 or 15"
    ):
        Small(d_model=13, n_heads=3)


def test_letters_and_meanings() -> None:
    assert [letter(Small, name) for name in ("gates", "d_model", "what")] == ["G", "D", "what"]
    assert meaning(Small, "gates") == "gates of a head"
    assert meaning(Small, "d_model") == "width of the residual stream"
    assert meaning(Small, "a_field") == "a field"


def test_given_sizes_become_letters_and_nothing_else() -> None:
    given_values = {
        "d_model": 12,
        "n_heads": np.array([3, 4]),
        "task": "base",
        "pattern": Pattern(("a", "b", "a")),
    }
    letters, values = symbolic(Small, given_values, suffix="t")

    assert letters["d_model"] == symbol("Dt")
    assert letters["n_heads"] == symbol("Ht")
    assert letters["task"] == "base"
    assert "d_head" not in letters
    # A size with a default is a size of the model, given or not.
    assert letters["n_labels"] == symbol("Nlt")
    assert values["Dt"] == 12
    assert list(values["Ht"]) == [3, 4]
    assert (values["Nlt"], values["patternt_a"], values["patternt_b"]) == (2, 2, 1)
    assert letters["pattern"].layers("a", "b").count == symbol("patternt_a") + symbol("patternt_b")


def test_quotients_of_numbers_arrays_and_letters() -> None:
    D, H = symbol("D"), symbol("H")

    assert divide(12, 4, names="a / b") == 3
    assert list(divide(np.array([12, 8]), 4, names="a / b")) == [3, 2]
    assert list(divide(24, np.array([2, 3]), names="a / b")) == [12, 8]
    with pytest.raises(InvalidConfig, match="a / b: some of the sizes given do not divide"):
        divide(np.array([12, 9]), 4, names="a / b")
    with pytest.raises(InvalidConfig, match="a = 3 is not a multiple of b = 4; use a = 4, or more"):
        divide(3, 4, names="a / b", fix="more")
    with quotients() as outer:
        divide(D, H, names="a / b")
        with quotients() as inner:
            divide(H, 2, names="c / d")
    divide(D, 2, names="not noted")
    assert [(q.dividend, q.divisor, q.names) for q in outer] == [(D, H, "a / b")]
    assert [(q.dividend, q.divisor, q.names) for q in inner] == [(H, 2, "c / d")]
    assert str(Quotient(D, H, "a / b", "").error(7, 2)) == "a = 7 is not a multiple of b = 2; use a = 6 or 8"


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_the_next_multiple(size: int, multiple: int) -> None:
    found = round_up(size, multiple)

    assert found % multiple == 0
    assert 0 <= found - size < multiple


def test_axes_end_to_end() -> None:
    heads, keys = heads_axis("heads", 4, 8), heads_axis("kv", 2, 8)
    fused = heads + 2 * keys

    assert (heads.size, heads.unit) == (32, 8)
    assert (fused.name, fused.size, fused.unit) == ("heads", 64, 8)
    assert fused.parts == (heads, keys, keys)
    assert (keys * 3).parts == (keys, keys, keys)
    assert (fused + keys).parts == (heads, keys, keys, keys)


def test_records_are_equal_by_what_they_say() -> None:
    a, b = Axis("a", 3), Axis("a", 3)

    assert a == b
    assert hash(a) == hash(b)
    assert a != Axis("a", 4)
    assert a != Layers(3)
    assert a._replace(size=4) == Axis("a", 4)
    assert repr(Layers(2, (0, 1))) == "Layers(count=2, indices=(0, 1))"


def brute(items: Any) -> tuple[int, int]:
    """The shortest start and cycle that describe a list, tried one by one."""
    found = []
    for period in range(1, len(items) // 2 + 1):
        for start in range(len(items) - 2 * period + 1):
            cycle = items[start : start + period]
            goes_on = all(x == cycle[i % period] for i, x in enumerate(items[start:]))
            if goes_on and (2 if period == 1 else 3) * start <= len(items):
                found.append((start + period, period, start))
                break
    if not found:
        return 0, 0
    _, period, start = min(found)
    return start, period


@given(st.text("ab", max_size=12) | st.text("abc", max_size=9))
def test_the_form_of_a_list_is_the_shortest(items: str) -> None:
    assert form(items) == brute(items)


@given(
    st.text("ab", min_size=1, max_size=5), st.text("ab", max_size=2), st.integers(2, 5), st.integers(0, 40)
)
def test_a_list_goes_on_as_it_began(cycle: str, start: str, times: int, length: int) -> None:
    items = start + cycle * times
    if form(items) == (0, 0):
        with pytest.raises(InvalidConfig, match="follow no repeating pattern"):
            resized(items, len(items) + 1)
        return
    longer = resized(items, length + len(items))

    assert "".join(longer[: len(items)]) == items
    assert resized("".join(longer), len(items)) == tuple(items)
    begin, period = form(items)
    assert all(longer[i] == longer[i - period] for i in range(begin + period, len(longer)))


def test_a_cycle_longer_than_any_models_is_none() -> None:
    cycle = [*range(LONGEST_CYCLE)]

    assert form(cycle * 2) == (0, LONGEST_CYCLE)
    assert form([*cycle, -1] * 2) == (0, 0)


def test_layers_by_kind() -> None:
    pattern = Pattern(("dense", "moe_a", "moe_b", "moe_a"))

    assert len(pattern) == 4
    assert pattern.layers("moe_a") == Layers(2, (1, 3))
    assert pattern.layers("none") == Layers(0, ())
    assert pattern.layers("moe_a", among=("moe_a", "moe_b")) == Layers(2, (0, 2))
    assert pattern.kinds_like("moe") == ("moe_a", "moe_b")
    assert (pattern.has("dense"), pattern.has("x", "moe_b"), pattern.has("x")) == (True, True, False)
    letters, counts = pattern.symbolic("L")
    assert counts == {"L_dense": 1, "L_moe_a": 2, "L_moe_b": 1}
    assert letters.layers("moe_a", "none") == Layers(symbol("L_moe_a"))
    assert letters.layers("none").count == 0
    assert Pattern(("a", "b") * 3, "L").resized(4) == Pattern(("a", "b") * 2, "L")


def test_layers_by_size() -> None:
    sizes = PerLayer((16, None, 32, 16))

    assert len(sizes) == 4
    assert list(sizes.groups()) == [(16, Layers(2, (0, 3))), (32, Layers(1, (2,)))]
    assert sizes.sizes() == [16, None, 32, 16]
    assert sizes.distinct() == [16, 32]
    letters, values = sizes.symbolic("F")
    assert values == {"F_16": 16, "L_F_16": 2, "F_32": 32, "L_F_32": 1}
    assert letters.sizes() == [symbol("F_16"), None, symbol("F_32"), symbol("F_16")]
    assert list(letters.groups()) == [
        (symbol("F_16"), Layers(symbol("L_F_16"))),
        (symbol("F_32"), Layers(symbol("L_F_32"))),
    ]
    assert PerLayer((1, 2) * 3, "F").resized(3) == PerLayer((1, 2, 1), "F")
