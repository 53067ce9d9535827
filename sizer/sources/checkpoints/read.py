"""The contents of a checkpoint, whatever its format: the first bytes of a file decide, not its name."""

from __future__ import annotations

import os

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.files import is_file, is_folder, opened, read_at, size_of
from sizer.sources.checkpoints.stored import Contents, Missing
from sizer.sources.lfs import LFS_START, lfs_size

ENDINGS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx")
INDEX_ENDING = ".index.json"
# Formats that sizer knows of and does not read: how they begin, and what to do.
NOT_READ = {
    b"\x89HDF": "an HDF5 file (Keras); convert it to safetensors",
    b"tjgg": "a ggml file from before GGUF; convert it with llama.cpp's convert_llama_ggml_to_gguf.py",
    b"lmgg": "a ggml file from before GGUF; convert it with llama.cpp's convert_llama_ggml_to_gguf.py",
    b"fmgg": "a ggml file from before GGUF; convert it with llama.cpp's convert_llama_ggml_to_gguf.py",
    b"\x93NUM": "a numpy file; save its arrays as safetensors",
}

# What a folder of a model may call its configuration, in the order in which they are looked for.
CONFIG_FILES = ("config.json", "model_config.yaml", "params.json", "hparams.json")


def is_checkpoint(path: str) -> bool:
    """Whether a path that exists is a file of weights, an index of them, or a folder with either.

    A folder with a `config.json`, or another tool's, is a configuration; its formula says more.
    """
    if is_folder(path):
        return not any(is_file(os.path.join(path, name)) for name in CONFIG_FILES)
    if path.endswith((*ENDINGS, INDEX_ENDING, ".h5")):
        return True
    if path.endswith((".json", ".toml")) or not is_file(path):
        return False
    with opened(path) as file:
        head = read_at(file, 0, 16)
    return _begins_like_weights(head)


def _begins_like_weights(head: bytes) -> bool:
    known = (b"GGUF", b"PK\x03\x04", LFS_START[:16], *NOT_READ)
    return head.startswith(known) or _is_pickle(head) or _is_safetensors(head)


def _is_pickle(head: bytes) -> bool:
    return head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5")


def _is_safetensors(head: bytes) -> bool:
    # The length of a header, under 2^32, and the brace it begins with. A file that begins as another
    # format does not: no length has a brace after it there.
    return head[4:8] == b"\0\0\0\0" and head[8:9] == b"{"


def read(path: str) -> Contents:
    """The contents of a file of weights, of an index, or of a folder."""
    if is_folder(path):
        from sizer.sources.checkpoints.folder import read_folder

        return read_folder(path)
    if path.endswith(INDEX_ENDING):
        from sizer.sources.checkpoints.index import read_index

        return read_index(path, read_file)
    if not path.endswith(".gguf"):
        from sizer.sources.checkpoints.shards import index_beside, read_files, siblings

        # A numbered file stands for the set that it belongs to.
        index = index_beside(path)
        if index is not None:
            return read(index)
        files = siblings(path)
        if len(files) > 1:
            return read_files(path, "", files, read_file)
    return read_file(path)


def read_file(path: str) -> Contents:
    """The contents of one file."""
    size = size_of(path)
    with opened(path) as file:
        head = read_at(file, 0, 1024)
    pointer = lfs_size(head) if size <= 1024 else None
    if pointer is not None:
        return Contents(path, "git lfs pointer", missing=[Missing(os.path.basename(path), bytes=pointer)])
    if path.endswith(".onnx"):
        from sizer.sources.checkpoints import onnx_file

        return onnx_file.read(path)
    if _is_safetensors(head):
        from sizer.sources.checkpoints import safetensors

        return safetensors.read(path)
    for start, what in NOT_READ.items():
        if head.startswith(start):
            raise BadInput(f"{clip(path)} is {what}; sizer does not read it")
    if head.startswith(b"GGUF") or path.endswith(".gguf"):
        from sizer.sources.checkpoints import gguf

        return gguf.read(path)
    if head.startswith(b"PK\x03\x04") or _is_pickle(head) or path.endswith((".bin", ".pt", ".pth", ".ckpt")):
        from sizer.sources.checkpoints import torch_file

        return torch_file.read(path)
    if path.endswith(".safetensors"):
        from sizer.sources.checkpoints import safetensors

        return safetensors.read(path)
    raise BadInput(
        f"{clip(path)} is no file of weights that sizer reads; it reads safetensors, GGUF, ONNX "
        "and PyTorch's files"
    )
