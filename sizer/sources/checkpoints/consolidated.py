"""The consolidated files of Meta and Mistral: `params.json` beside `consolidated.00.pth`, …

Meta's files are the ranks of tensor parallelism, not shards of a list: each holds its slice of every
matrix, and all of what is not split. Which axis is split is that of `llama/model.py`
(https://github.com/meta-llama/llama).
"""

from __future__ import annotations

import os
import re

from sizer.errors import clip
from sizer.sources.checkpoints.files import json_file, of_each
from sizer.sources.checkpoints.read import read_file
from sizer.sources.checkpoints.shards import read_files
from sizer.sources.checkpoints.stored import Contents, Missing, StoredTensor

# Last module of a matrix -> the axis its ranks split.
_SPLIT = {"wq": 0, "wk": 0, "wv": 0, "w1": 0, "w3": 0, "output": 0, "wo": 1, "w2": 1}
_NUMBER = re.compile(r"\.([0-9]{2})\.")


def read_consolidated(folder: str, names: list[str]) -> Contents:
    """The tensors of all ranks, put together."""
    params = json_file(os.path.join(folder, "params.json")) or {}
    numbers = {int(found[1]) for name in names if (found := _NUMBER.search(name))}
    expected = list(names)
    if numbers:
        stem, ending = names[0].split(".")[0], names[0].rsplit(".", 1)[1]
        expected = [f"{stem}.{i:02d}.{ending}" for i in range(max(numbers) + 1)]
    if len(expected) == 1:
        contents = read_file(os.path.join(folder, expected[0]))
        contents.metadata["params.json"] = params
        return contents
    present = [name for name in expected if name in names]
    paths = [os.path.join(folder, name) for name in present]
    parts = list(zip(present, of_each(read_file, paths), strict=True))
    shared = [{t.name for t in part.stored} for _, part in parts]
    if len(shared) > 1 and not set.intersection(*shared):
        return read_files(folder, "consolidated", [os.path.join(folder, n) for n in expected], read_file)
    whole = Contents(folder, f"consolidated {parts[0][1].format}", files=[p.files[0] for _, p in parts])
    whole.metadata = {"params.json": params}
    whole.missing = [Missing(name) for name in expected if name not in names]
    for _, part in parts:
        whole.problems += part.problems
        whole.remarks += part.remarks
        whole.missing += part.missing
    ranks = [part.stored for _, part in parts if part.stored]
    dim = params.get("dim")
    _join(whole, ranks, dim if isinstance(dim, int) else 0)
    return whole


def _join(whole: Contents, ranks: list[list[StoredTensor]], dim: int) -> None:
    """The whole of each tensor from the slices of the ranks."""
    by_name: dict[str, list[StoredTensor]] = {}
    for rank in ranks:
        for tensor in rank:
            by_name.setdefault(tensor.name, []).append(tensor)
    unlike = [
        name
        for name, slices in by_name.items()
        if len({t.shape for t in slices}) > 1 or len(slices) != len(ranks)
    ]
    if unlike:
        more = f" and {len(unlike) - 1:,} more" if len(unlike) > 1 else ""
        whole.problems.append(f"the ranks differ in {clip(unlike[0])}{more}, so the whole is unknown")
    for name, slices in by_name.items():
        first = slices[0]
        axis = _axis(name, first.shape, dim)
        if axis is None:
            whole.stored.append(first)
            continue
        shape = list(first.shape)
        shape[axis] *= len(slices)
        whole.stored.append(
            StoredTensor(
                name,
                tuple(shape),
                first.dtype,
                sum(t.elements for t in slices),
                sum(t.bytes for t in slices),
                first.file,
            )
        )


def _axis(name: str, shape: tuple[int, ...], dim: int) -> int | None:
    """The axis that ranks split; `None` for what each holds whole."""
    if len(shape) != 2:
        return None
    module = name.split(".")[-2] if "." in name else name
    if module == "tok_embeddings":
        # Llama 1 and 2 split the width, Llama 3 the vocabulary.
        return 0 if shape[1] == dim else 1
    return _SPLIT.get(module)
