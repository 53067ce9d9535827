"""Write the fixtures of tests/measures from rows that were measured on torch and transformers.

A row keeps its configuration, what was run and what was read off; names of tensors and classes of
layers are left out. `flops`, `kv-cache` and `shard` name the three files.

    python tools/measured_fixtures.py FOLDER
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "tests" / "fixtures"
# Keys of a configuration that never decide a size, a cache or a FLOP.
NOISE = {
    "architectures",
    "id2label",
    "label2id",
    "return_dict",
    "transformers_version",
    "dtype",
    "problem_type",
    "chunk_size_feed_forward",
    "_name_or_path",
    "output_attentions",
    "output_hidden_states",
    "initializer_range",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
}
LEFT_OUT = {"fwd_ops", "bwd_ops", "tensors", "layers", "full_shapes", "local_shapes", "placements"}


def main(folder: str) -> None:
    """Read the measured files of a folder and write the fixtures."""
    for name in ("flops", "kv-cache", "shard"):
        with gzip.open(Path(folder) / f"{name}.jsonl.gz", "rt") as measured:
            rows = [json.loads(line) for line in measured]
        out = OUT / f"{name}.jsonl.gz"
        with gzip.GzipFile(out, "wb", mtime=0) as file:
            file.write("\n".join(json.dumps(compact(row), separators=(",", ":")) for row in rows).encode())
        print(f"{name}: {len(rows)} rows, {out.stat().st_size:,} bytes")


def compact(row: dict[str, Any]) -> dict[str, Any]:
    """One row of a fixture."""
    kept = {key: value for key, value in row.items() if key not in LEFT_OUT}
    if "config" in kept:
        kept["config"] = {key: value for key, value in kept["config"].items() if key not in NOISE}
    return kept


if __name__ == "__main__":
    main(sys.argv[1])
