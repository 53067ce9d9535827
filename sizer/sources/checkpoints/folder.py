"""A folder with weights: which of its files are the checkpoint.

Publishers put the same weights in a folder in several formats; the first of these is taken, and the
others are said: safetensors by index, as one file or numbered; PyTorch's files likewise; GGUF; the
consolidated files of Meta and Mistral.
"""

from __future__ import annotations

import os
import re

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.files import names_in
from sizer.sources.checkpoints.read import ENDINGS, INDEX_ENDING, read
from sizer.sources.checkpoints.shards import siblings
from sizer.sources.checkpoints.stored import Contents

_CONSOLIDATED = re.compile(r"^consolidated(\.[0-9]{2})?\.(pth|pt|safetensors)$")
_TRAINING = re.compile(
    r"^(training_args|optimizer|scheduler|scaler|rng_state.*|random_states.*)\.(bin|pt|pth)$"
)
# The names of the weights themselves, the most usual first.
_USUAL = (
    "model.safetensors.index.json",
    "model.safetensors",
    "adapter_model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "adapter_model.bin",
)


def read_folder(folder: str) -> Contents:
    """The contents of the checkpoint in a folder."""
    names = names_in(folder)
    chosen = _choice(folder, names)
    if isinstance(chosen, list):
        from sizer.sources.checkpoints.consolidated import read_consolidated

        contents = read_consolidated(folder, chosen)
    else:
        contents = read(os.path.join(folder, chosen))
    used = {os.path.basename(file) for file in contents.files} | {m.file for m in contents.missing}
    others = [n for n in names if n.endswith(ENDINGS) and n not in used and not _TRAINING.match(n)]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        contents.remarks.append(
            f"not read, other files of weights in the folder: {', '.join(others[:3])}{more}"
        )
    contents.path = folder
    return contents


def _choice(folder: str, names: list[str]) -> str | list[str]:
    """The file to read; a list where several together are one model."""
    present = set(names)
    for name in _USUAL:
        if name in present:
            return name
    consolidated = [n for n in names if _CONSOLIDATED.match(n)]
    for ending in (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".ckpt", ".onnx"):
        indexes = [n for n in names if n.endswith(ending + INDEX_ENDING)]
        found = [n for n in names if n.endswith(ending) and n not in consolidated and not _TRAINING.match(n)]
        sets = sorted({*indexes, *(siblings(n)[0] for n in found)} - _listed(indexes, found))
        if len(sets) == 1:
            wanted = [n for n in found if siblings(n)[0] == sets[0]]
            return wanted[0] if wanted else sets[0]
        if len(sets) > 1:
            raise BadInput(
                f"{clip(folder)} holds {len(sets)} checkpoints ({', '.join(clip(n) for n in sets[:4])}"
                f"{', …' if len(sets) > 4 else ''}); name the one to read"
            )
    if consolidated:
        kinds = {os.path.splitext(n)[1] for n in consolidated}
        ending = ".safetensors" if ".safetensors" in kinds else sorted(kinds)[0]
        return [n for n in consolidated if n.endswith(ending)]
    raise BadInput(
        f"{clip(folder)} is a folder without a config.json and without weights "
        f"({', '.join(ENDINGS)}); name a file, or a folder that has them"
    )


def _listed(indexes: list[str], found: list[str]) -> set[str]:
    """The sets of numbered files that an index beside them lists."""
    listed = set()
    for index in indexes:
        stem, ending = os.path.splitext(index.removesuffix(INDEX_ENDING))
        listed |= {siblings(n)[0] for n in found if n.startswith(f"{stem}-") and n.endswith(ending)}
    return listed
