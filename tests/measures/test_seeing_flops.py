"""FLOPs of models that see or hear: those of the real modules, by torch's own counter.

Measured on transformers 5.24 and torch 2.13, on the meta device, with eager attention, 2026-12-01
(tools/seeing_flops.py).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from repository import FIXTURES

import sizer
from sizer.errors import NotDescribed, Rounded
from sizer.measures.closed_forms import flops_forms
from sizer.model import Model

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in gzip.decompress((FIXTURES / "flops-seeing.jsonl.gz").read_bytes()).splitlines()
]


# Measured, and refused so far: nothing says at how many places of an image their convolutions run.
NOT_YET = {
    "BitForImageClassification",
    "BitModel",
    "CvtForImageClassification",
    "CvtModel",
    "FocalNetForImageClassification",
    "FocalNetModel",
    "HGNetV2Backbone",
    "HGNetV2ForImageClassification",
    "HieraForImageClassification",
    "HieraModel",
    "LevitForImageClassification",
    "LevitForImageClassificationWithTeacher",
    "LevitModel",
    "MgpstrForSceneTextRecognition",
    "MobileViTForImageClassification",
    "MobileViTModel",
    "MobileViTV2ForImageClassification",
    "MobileViTV2Model",
    "PPLCNetForImageClassification",
    "PvtForImageClassification",
    "PvtModel",
    "PvtV2ForImageClassification",
    "PvtV2Model",
    "Sam2HieraDetModel",
    "Sam2VisionModel",
    "Sam3ViTModel",
    "Sam3VisionModel",
    "SamHQVisionModel",
    "SamVisionModel",
    "Sapiens2Model",
    "Swin2SRModel",
    "TextNetForImageClassification",
    "TextNetModel",
    "VitDetModel",
}
# What their relative positions cost is not described.
ESTIMATES = {f"Wav2Vec2Conformer{head}" for head in ("Model", "ForCTC", "ForSequenceClassification")}


def name_of(row: dict[str, Any]) -> str:
    return "-".join(map(str, (row["cls"], *row["run"].values(), *row.get("image", ()))))


def model_of(row: dict[str, Any], folder: Path) -> Model:
    file = folder / "config.json"
    image = {"image_size": row["image"]} if "image" in row else {}
    file.write_text(json.dumps({**row["config"], **image, "architectures": [row["cls"]]}))
    return sizer.load(file)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_flops_are_those_of_the_module(row: dict[str, Any], tmp_path: Path) -> None:
    if row["cls"] in NOT_YET:
        with pytest.raises(NotDescribed, match="at how many places"):
            model_of(row, tmp_path).flops(**row["run"])
        return
    found = model_of(row, tmp_path).flops(**row["run"])

    if row["cls"] in ESTIMATES:
        assert found.forward == pytest.approx(row["forward"], rel=0.05)
        assert not found.exact
    else:
        assert (found.forward, found.exact) == (row["forward"], True)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_their_formula_with_numbers_is_the_number(row: dict[str, Any], tmp_path: Path) -> None:
    model = model_of(row, tmp_path)
    try:
        forms = flops_forms(model, **row["run"])
    except NotDescribed:
        assert row["cls"] in NOT_YET
        return
    except Rounded:
        # A side that is not halved evenly.
        assert "image" in row or row["config"]["image_size"] % 32
        return

    assert forms.value("forward") == model.flops(**row["run"]).forward


def test_an_image_size_may_be_asked_of_any_model_of_images(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "resnet", "architectures": ["ResNetForImageClassification"]}))

    # An image of twice the side has four times the places; the classifier reads one.
    once, twice = (sizer.load(file, image_size=side).flops() for side in (224, 448))

    assert once.components["head"] == twice.components["head"] == 2 * 2048 * 2
    assert twice.components["mixer"] == 4 * once.components["mixer"]


# Multiply-adds in billions: torchvision's documentation of each model ("GFLOPS", as they call them).
PUBLISHED = {
    "resnet-18": 1.81,
    "resnet-34": 3.66,
    "resnet-50": 4.09,
    "resnet-101": 7.8,
    "resnet-152": 11.51,
    "resnext50-32x4d": 4.23,
    "resnext101-32x8d": 16.41,
    "resnext101-64x4d": 15.46,
    "wide-resnet-50-2": 11.4,
    "wide-resnet-101-2": 22.75,
}


@pytest.mark.parametrize(("name", "billions"), PUBLISHED.items())
def test_multiply_adds_are_those_that_torchvision_publishes(name: str, billions: float) -> None:
    assert sizer.load(name).flops().forward / 2e9 == pytest.approx(billions, abs=0.0051)
