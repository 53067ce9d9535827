"""Pointers of Git LFS: small texts that stand for files that were not downloaded.

https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
"""

from __future__ import annotations

from sizer.errors import clip

LFS_START = b"version https://git-lfs.github.com/spec/"


def lfs_size(head: bytes) -> int | None:
    """The bytes of the file that a pointer stands for; nothing of a text that is no pointer.

    >>> lfs_size(b"version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a\\nsize 548105171\\n")
    548105171
    """
    if not head.startswith(LFS_START):
        return None
    for line in head[:1024].splitlines():
        key, _, value = line.partition(b" ")
        if key == b"size" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def not_downloaded(path: str, size: int) -> str:
    """What to say of a pointer; a size of zero is none that it says."""
    of = f", of {size:,} bytes," if size else ""
    return f"{clip(path)} is a Git LFS pointer: the file itself{of} was not downloaded; run git lfs pull"
