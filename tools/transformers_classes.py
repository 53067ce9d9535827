"""Write transformers-tasks.jsonl.gz: classes that no other fixture has, as transformers builds them.

    python tools/transformers_classes.py

Every class that a reader accepts and transformers has, from its type's own defaults, and `VARIANTS`: those
with a switch that no published configuration of a fixture turns. Each is built on the meta device.
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from digests import digest_buffers, digest_shapes, digest_ties  # noqa: E402
from transformers_fixture import NOISE, pruned  # noqa: E402

from sizer.architectures.registry import HF_MODULES  # noqa: E402
from sizer.sources.hf_config import record_of  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
OUT = FIXTURES / "transformers-tasks.jsonl.gz"
VARIANTS: list[tuple[str, str, dict[str, Any]]] = []


def known() -> set[tuple[str, str]]:
    """The types and classes of the other fixtures."""
    names = ("transformers", "transformers-seeing", "transformers-drawn")
    texts = (gzip.decompress((FIXTURES / f"{name}.jsonl.gz").read_bytes()).decode() for name in names)
    return {(row["model_type"], row["cls"]) for text in texts for row in map(json.loads, text.splitlines())}


def wanted() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is built: type, class, and what differs from the defaults."""
    accepted = {
        (name, cls)
        for name in HF_MODULES
        for classes in record_of(name).get("classes", {}).values()
        for cls in classes
    }
    yield from ((name, cls, {}) for name, cls in sorted(accepted - known()))
    yield from VARIANTS


def row(model_type: str, cls: str, changes: dict[str, Any]) -> dict[str, Any] | None:
    """One class, built; nothing where transformers has no such class, or its defaults build none."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = getattr(transformers, cls, None)
    if kind is None or model_type not in CONFIG_MAPPING:
        return None
    config = CONFIG_MAPPING[model_type](**changes)
    try:
        with torch.device("meta"):
            module = kind(config)
    except (KeyError, TypeError, ValueError) as error:
        print(f"{model_type} {cls} {changes}: {error}", file=sys.stderr)
        return None
    names: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    left_out = {
        f"{path}.{name}".lstrip(".")
        for path, part in module.named_modules()
        for name in part._non_persistent_buffers_set
    }
    own = {key: value for key, value in config.to_dict().items() if key not in NOISE}
    return {
        "model_type": model_type,
        "cls": cls,
        "variant": ",".join(changes) or None,
        "config": json.loads(json.dumps(pruned({**own, "model_type": model_type}), default=str)),
        "total": sum(tensor.numel() for tensor in module.parameters()),
        "trainable": sum(tensor.numel() for tensor in module.parameters() if tensor.requires_grad),
        "params": digest_shapes(
            (name, list(tensor.shape)) for name, tensor in module.named_parameters(remove_duplicate=False)
        ),
        "buffers": digest_buffers(
            (name, list(tensor.shape), name not in left_out) for name, tensor in module.named_buffers()
        ),
        "ties": digest_ties(group for group in names.values() if len(group) > 1),
        "checkpoint": None,
    }


def main() -> None:
    """Build all and write the file."""
    warnings.simplefilter("ignore")
    rows = [found for found in (row(*one) for one in wanted()) if found]
    with gzip.GzipFile(OUT, "wb", mtime=0) as file:
        file.write("\n".join(json.dumps(one, separators=(",", ":")) for one in rows).encode())
    print(f"{len(rows)} rows, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
