"""Write tests/fixtures/transformers.jsonl.gz from rows measured on transformers' own modules.

Models of text are in that file; those that see or hear in transformers-seeing.jsonl.gz beside it, where
a type without a reader is named and no more.

A row holds what the meta device said of one class built from one configuration; here it becomes a
configuration, the totals, and digests of the sorted names and shapes, small enough to commit.

    python tools/transformers_fixture.py MEASURED.jsonl.gz [...]
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from digests import digest_buffers, digest_shapes, digest_ties  # noqa: E402

from sizer.architectures.registry import HF_MODULES  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
TEXT = {"causal", "masked", "seq2seq"}
# Keys that never decide a size, and make most of a file.
NOISE = {
    "id2label",
    "label2id",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "initializer_range",
    "attention_dropout",
    "hidden_dropout_prob",
    "use_cache",
    "output_attentions",
    "return_dict",
    "output_hidden_states",
    "problem_type",
    "chunk_size_feed_forward",
    "_name_or_path",
}
# What the nested configurations of the other file have besides.
NESTED_NOISE = NOISE | {
    "architectures",
    "dtype",
    "is_encoder_decoder",
    "attention_probs_dropout_prob",
    "dropout",
    "activation_dropout",
    "layer_norm_eps",
    "rms_norm_eps",
    "initializer_factor",
    "image_token_id",
    "video_token_id",
    "layerdrop",
    "rope_theta",
}


def main(paths: list[str]) -> None:
    """Read measured rows and write the fixture."""
    texts = [gzip.decompress(Path(path).read_bytes()).decode() for path in paths]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    text = {row["model_type"] for row in rows if TEXT & set(row["kinds"])}
    write("transformers.jsonl.gz", [compact(row) for row in rows if row["model_type"] in text])
    write("transformers-seeing.jsonl.gz", [seeing(row) for row in rows if row["model_type"] not in text])


def write(name: str, kept: list[dict[str, Any]]) -> None:
    """Write one file of rows."""
    out = FIXTURES / name
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write("\n".join(json.dumps(row, separators=(",", ":")) for row in kept).encode())
    types = len({row["model_type"] for row in kept})
    print(f"{name}: {len(kept)} rows of {types} model types, {out.stat().st_size:,} bytes")


def seeing(row: dict[str, Any]) -> dict[str, Any]:
    """One row of the fixture of models that see or hear."""
    if row["model_type"] not in HF_MODULES:
        keys = ("model_type", "cls", "variant", "kinds")
        return {key: row.get(key) for key in keys}
    found = compact(row)
    return {**found, "config": pruned(found["config"]), "kinds": row["kinds"]}


def pruned(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without what never decides a size, in its parts as well."""
    return {
        key: pruned(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in NESTED_NOISE
    }


def compact(row: dict[str, Any]) -> dict[str, Any]:
    """One row of the fixture."""
    checkpoint = row.get("checkpoint")
    tied = {name for group in row.get("tied_groups", []) for name in group}
    # A tied tensor is stored under one of its names; which one is left open, here by its shape.
    tied_shapes = {tuple(shape) for name, shape in row["params"] if name in tied}
    labels = row["config"].get("id2label", {})  # null where a type has a number of its own
    stored = None
    if isinstance(checkpoint, list) and all(isinstance(entry, list) for entry in checkpoint):
        stored = [(name, shape) for name, shape in checkpoint]
    elif not row["checkpoint_names_differ"]:
        stored = [(name, shape) for name, shape in row["params"]]
        stored += [(name, shape) for name, shape, persistent in row["buffers"] if persistent]
    return {
        "model_type": row["model_type"],
        "cls": row["cls"],
        "variant": row.get("variant"),
        "config": {
            **{key: value for key, value in row["config"].items() if key not in NOISE},
            **({"num_labels": len(labels)} if labels is not None and len(labels) != 2 else {}),
        },
        "total": row["total"],
        "trainable": row["trainable"],
        "params": digest_shapes(row["params"]),
        "buffers": digest_buffers(row["buffers"]),
        "ties": digest_ties(row.get("tied_groups", [])),
        "checkpoint": stored and digest_shapes((n, s) for n, s in stored if tuple(s) not in tied_shapes),
        **({"disputed": row["disputed"]} if "disputed" in row else {}),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
