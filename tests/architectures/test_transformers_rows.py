"""Every text class of transformers: totals, names, shapes, ties and buffers of the real modules.

The rows were measured on transformers 5.24 and torch 2.13, on the meta device, 2026-11-29
(tools/transformers_fixture.py). Where transformers 4 and 5 build different models from one
configuration ("disputed"), the published checkpoints decide.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest
from digests import digest_buffers, digest_shapes, digest_ties
from repository import FIXTURES

import sizer
from sizer.architectures.registry import HF_MODULES
from sizer.core.walk import walk
from sizer.measures.count import count
from sizer.measures.tensors import Tensor

FIXTURE = FIXTURES / "transformers.jsonl.gz"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(FIXTURE.read_bytes()).decode().splitlines()
]
KNOWN = [row for row in ROWS if row["model_type"] in HF_MODULES]


def name_of(row: dict[str, Any]) -> str:
    return f"{row['model_type']}-{row['cls']}-{row['variant'] or 'default'}"


def groups(tensors: Iterable[Tensor]) -> list[set[str]]:
    found: dict[str, set[str]] = {}
    for tensor in tensors:
        if tensor.kind == "param" and tensor.tied_to is not None:
            found.setdefault(tensor.tied_to, {tensor.tied_to}).add(tensor.name)
    return list(found.values())


@pytest.mark.parametrize("row", KNOWN, ids=name_of)
def test_a_class_is_what_transformers_builds(row: dict[str, Any]) -> None:
    model = sizer.load(row["config"], cls=row["cls"])
    found = model.count()
    totals = {row["total"], row.get("disputed", {}).get("total_transformers_4", row["total"])}

    assert found.total in totals
    if found.total == row["total"]:
        assert row["trainable"] == found.trainable

    tensors = model.tensors(layout="transformers")
    params = [t for t in tensors if t.kind == "param"]
    buffers = [t for t in tensors if t.kind == "buffer"]
    assert row["params"] == digest_shapes((t.name, t.shape) for t in params)
    assert row["buffers"] == digest_buffers((t.name, t.shape, t.persistent) for t in buffers)
    assert row["ties"] == digest_ties(groups(params))
    if row["checkpoint"] and "disputed" not in row:
        stored = model.tensors(layout="checkpoint")
        tied = {name for group in groups(params) for name in group}
        tied_shapes = {t.shape for t in params if t.name in tied}
        names = [(t.name, t.shape) for t in stored if t.persistent and t.shape not in tied_shapes]
        assert row["checkpoint"] == digest_shapes(names)


@pytest.mark.parametrize("row", KNOWN, ids=name_of)
def test_the_formula_with_numbers_is_the_count(row: dict[str, Any]) -> None:
    model = sizer.load(row["config"], cls=row["cls"])
    _, values = model.symbolic
    letters = count(walk(model.symbolic_tree()))
    total = letters.total if isinstance(letters.total, int) else letters.total.value(values)

    assert model.count().total == total
