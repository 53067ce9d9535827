"""What never changes about the tree (docs/design.md, section 2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import sizer
from sizer.architectures.decoders.gpt2 import GPT2Config, gpt2
from sizer.core.layers import linear
from sizer.core.poly import Poly, symbol
from sizer.core.tree import Axis, Layers, Module, Param
from sizer.core.walk import names, walk
from sizer.errors import InvalidConfig
from sizer.measures.count import count
from sizer.measures.flops import flops

SIZES: dict[str, Any] = {"d_model": 64, "n_layers": 3, "n_heads": 4, "vocab_size": 100, "n_ctx": 16}


def test_a_builder_may_not_branch_on_a_letter() -> None:
    with pytest.raises(TypeError, match="may not branch"):
        bool(symbol("D") == 3 or symbol("D") > 3)


def test_the_same_builder_takes_sympy_symbols() -> None:
    D, L, H, V, C = sympy.symbols("D L H V C", positive=True)
    config = GPT2Config(d_model=D, n_layers=L, n_heads=H, vocab_size=V, n_ctx=C)

    total = count(walk(gpt2(config))).total

    assert sympy.expand(total - (V * D + C * D + L * (12 * D**2 + 13 * D) + 2 * D)) == 0


def test_the_same_builder_takes_arrays() -> None:
    widths = np.array([64, 128, 256])
    sweep = sizer.load("gpt2-small", **{**SIZES, "d_model": widths}).count().total

    assert list(sweep) == [
        sizer.load("gpt2-small", **{**SIZES, "d_model": int(w)}).count().total for w in widths
    ]


def test_a_sweep_beyond_64_bits_is_exact() -> None:
    widths = np.array([12, 12 * 10**9])
    sweep = sizer.load("gpt2-small", d_model=widths).count().total

    assert list(sweep) == [sizer.load("gpt2-small", d_model=int(w)).count().total for w in widths]
    assert sweep[1] > 2**63


def test_an_array_that_does_not_divide_is_an_error() -> None:
    with pytest.raises(InvalidConfig, match="do not divide"):
        sizer.load("gpt2-small", d_model=np.array([768, 770]))


def test_repeats_are_not_unrolled() -> None:
    few, many = (len(sizer.load("gpt2-small", n_layers=n).rows()) for n in (2, 2000))

    assert few == many


def test_repeats_of_repeats_are_named() -> None:
    expert = Module("experts", (Param("w", (Axis("embed", 2),)),), repeat=2)
    tree = Module("layers", (Module("", (expert,), at=Layers(2, (1, 3))),), repeat=4)

    (row,) = walk(tree)

    assert list(names(row)) == [
        "layers.1.experts.0.w",
        "layers.1.experts.1.w",
        "layers.3.experts.0.w",
        "layers.3.experts.1.w",
    ]
    assert row.copies == 4


def test_shared_layers_are_stored_once_and_run_each_time() -> None:
    shared = linear("block", Axis("embed", 8), Axis("embed", 8))._replace(
        at=Layers(3, (0, 2, 4)), shared=True
    )
    tree = Module("layers", (shared,), repeat=6)

    rows = walk(tree)

    assert count(rows).total == 64
    assert flops(rows, seq_len=1).forward == 3 * 2 * 64


def test_experts_are_active_by_the_number_a_token_visits() -> None:
    expert = linear("experts", Axis("embed", 8), Axis("embed", 8))._replace(repeat=5, active=2)
    rows = walk(Module("layers", (expert,), repeat=3))

    assert (count(rows).total, count(rows).active) == (3 * 5 * 64, 3 * 2 * 64)


small = st.integers(1, 6)


@given(
    width=small,
    heads=small,
    layers=small,
    vocab=st.integers(1, 500),
    context=st.integers(1, 99),
    tie=st.booleans(),
    bias=st.booleans(),
    qkv_bias=st.booleans(),
)
def test_formula_count_and_tie_agree(
    width: int, heads: int, layers: int, vocab: int, context: int, tie: bool, bias: bool, qkv_bias: bool
) -> None:
    model = sizer.load(
        "gpt2-small",
        d_model=width * heads,
        n_heads=heads,
        n_layers=layers,
        vocab_size=vocab,
        n_ctx=context,
        tie_embeddings=tie,
        bias=bias,
        qkv_bias=qkv_bias,
    )
    _, values = model.symbolic
    letters = count(walk(model.symbolic_tree()))

    assert letters.total.value(values) == model.count().total
    untied = model.with_values(tie_embeddings=False)
    assert untied.count().total - model.count().total == (vocab * width * heads if tie else 0)
    assert untied.flops(seq_len=7).forward == model.flops(seq_len=7).forward


@given(st.integers(1, 30))
def test_twice_the_layers_are_twice_the_blocks(layers: int) -> None:
    once, twice = (sizer.load("llama-3-8b", n_layers=n).count() for n in (layers, 2 * layers))

    for part in ("attention", "mlp"):
        assert twice.components[part] == 2 * once.components[part]
    assert twice.embedding == once.embedding


polys = st.dictionaries(
    st.tuples(st.sampled_from("DLV"), st.integers(1, 3)), st.integers(-5, 5).filter(bool), max_size=4
).map(lambda terms: Poly({(factor,): c for factor, c in terms.items()}))


@given(polys, polys, polys)
def test_polynomials_form_a_ring(a: Poly, b: Poly, c: Poly) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert a * (b + c) == a * b + a * c
    assert a - a == 0


@given(polys)
def test_a_polynomial_reads_back_from_its_text(a: Poly) -> None:
    letters = {code: sympy.Symbol(code) for code in "DLV"}

    assert sympy.expand(sympy.parse_expr(a.text(ascii_only=True), local_dict=letters) - a.to_sympy()) == 0
