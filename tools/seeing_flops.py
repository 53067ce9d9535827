"""Write flops-seeing.jsonl.gz: FLOPs of models that see or hear, by torch's own counter.

    python tools/seeing_flops.py

Every class of the fixtures that takes one image, or a waveform through wav2vec 2.0's convolutions, runs on
the meta device, with eager attention, over the image that its configuration says and over `ODD` ones.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
OUT = FIXTURES / "flops-seeing.jsonl.gz"
# Sides that nothing divides, for the models that take any.
ODD = [(200, 231), (97, 161)]
ANY = (
    *("convnext", "donut-swin", "efficientnet", "glpn", "mobilenet_v1", "mobilenet_v2", "poolformer"),
    *("regnet", "resnet", "segformer", "swin"),
)
CONTRASTIVE = ("aimv2", "clip", "metaclip_2", "owlvit", "siglip")
FRAMES, WORDS = 21, 16


def main() -> None:
    """Measure and write."""
    lines = [json.dumps(row, separators=(",", ":")) for row in measured()]
    with gzip.GzipFile(OUT, "wb", mtime=0) as file:
        file.write("\n".join(lines).encode())
    print(f"{len(lines)} rows")


def rows() -> dict[str, dict[str, Any]]:
    """The first row of each class."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("seeing", "tasks"):
        for line in gzip.decompress((FIXTURES / f"transformers-{name}.jsonl.gz").read_bytes()).splitlines():
            row = json.loads(line)
            if "config" in row:
                found.setdefault(row["cls"], row)
    return found


def measured() -> Iterator[dict[str, Any]]:
    """A row for each class and input that it can run."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    for cls, row in rows().items():
        kind = getattr(transformers, cls, None)
        mixed = "text_config" in row["config"] and row["model_type"] not in CONTRASTIVE
        sees = getattr(kind, "main_input_name", "") in ("input_values", "pixel_values")
        if mixed or "PreTraining" in cls or not (sees or row["model_type"] in CONTRASTIVE):
            continue
        config = kind.config_class(**{k: v for k, v in row["config"].items() if k != "model_type"})
        config._attn_implementation = "eager"
        for run, given in inputs(kind, config, row["model_type"]):
            try:
                with torch.device("meta"):
                    module = kind(config).eval()
                    with torch.no_grad(), FlopCounterMode(display=False) as counted:
                        module(**{name: torch.zeros(*shape, dtype=dtype) for name, shape, dtype in given})
            except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                print(f"{cls}: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
                continue
            forward = int(counted.get_total_flops())
            image = {"image": run.pop("image")} if "image" in run else {}
            yield {"cls": cls, "config": row["config"], **image, "run": run, "forward": forward}


def inputs(kind: Any, config: Any, model_type: str) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """What a class is run over, in our words and as tensors."""
    import torch

    main, batch = getattr(kind, "main_input_name", ""), 3
    sides = getattr(config, "image_size", 224)
    vision = getattr(config, "vision_config", None)
    channels = getattr(config, "num_channels", 3)
    if main == "input_values" and hasattr(config, "conv_stride"):
        length = FRAMES * getattr(config, "squeeze_factor", 1)
        for kernel, step in zip(reversed(config.conv_kernel), reversed(config.conv_stride), strict=True):
            length = (length - 1) * step + kernel
        run = {"batch_size": batch, "seq_len": FRAMES}
        yield run, [("input_values", (batch, length), torch.float32)]
    elif model_type in CONTRASTIVE:
        side = vision.image_size
        images = ("pixel_values", (batch, 3, side, side), torch.float32)
        words = ("input_ids", (batch, WORDS), torch.int64)
        mask = ("attention_mask", (batch, WORDS), torch.int64)
        run = {"batch_size": batch, "seq_len": WORDS}
        yield run, [images, *(() if kind.__name__.endswith("ForImageClassification") else (words, mask))]
    elif model_type in ("pixtral", "radio"):
        tokens = (sides // config.patch_size) ** 2
        yield {"batch_size": 1, "seq_len": tokens}, [("pixel_values", (1, 3, sides, sides), torch.float32)]
    elif main == "pixel_values" and vision is None and getattr(config, "text_config", None) is None:
        frames = (config.num_frames,) if hasattr(config, "num_frames") else ()
        height, width = (sides, sides) if isinstance(sides, int) else sides
        shape = (batch, *frames, channels)
        yield {"batch_size": batch}, [("pixel_values", (*shape, height, width), torch.float32)]
        if model_type in ANY:
            for height, width in ODD:
                yield (
                    {"image": [height, width]},
                    [("pixel_values", (1, channels, height, width), torch.float32)],
                )


if __name__ == "__main__":
    main()
