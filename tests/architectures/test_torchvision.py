"""ResNets are those of torchvision, tensor by tensor; the narrow ones are those of the paper."""

from __future__ import annotations

import pytest
from digests import digest_shapes

import sizer

# Names and shapes of the state_dict of torchvision 0.28's models, read on the meta device (2026-11-30).
STATE_DICTS = [
    ("resnet-18", "867b8d8ae95f5a28"),
    ("resnet-34", "d6dbfa48843359d6"),
    ("resnet-50", "2d5b8870b35e1530"),
    ("resnet-101", "83dfe6275c4f12d9"),
    ("resnet-152", "f11957010a75631a"),
    ("resnext50-32x4d", "d244da4517087cbb"),
    ("resnext101-32x8d", "2769c97a01e491d3"),
    ("resnext101-64x4d", "5619a876105ebe46"),
    ("wide-resnet-50-2", "4facef4f573fef70"),
    ("wide-resnet-101-2", "c3229706cc9819c7"),
]


@pytest.mark.parametrize(("preset", "digest"), STATE_DICTS)
def test_tensors_are_those_of_torchvision(preset: str, digest: str) -> None:
    assert digest_shapes((t.name, t.shape) for t in sizer.load(preset).tensors()) == digest


# He et al. 2015 (arXiv:1512.03385), table 6: millions of parameters, in two digits.
@pytest.mark.parametrize(
    ("layers", "millions"), [(20, "0.27"), (32, "0.46"), (44, "0.66"), (56, "0.85"), (110, "1.7")]
)
def test_the_narrow_ones_are_those_of_the_paper(layers: int, millions: str) -> None:
    digits = len(millions.partition(".")[2])
    depth = (layers - 2) // 6
    given = sizer.load("resnet-56", depths=[depth] * 3)

    assert given.count().total == sizer.load(f"resnet-{layers}").count().total
    assert f"{given.count().total / 1e6:.{digits}f}" == millions
