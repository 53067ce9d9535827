"""Digests of lists of tensors, so that a fixture holds names and shapes in a few bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any


def digest_shapes(tensors: Iterable[Sequence[Any]]) -> str:
    """Of names and shapes, in any order."""
    return _digest(f"{name} {list(shape)}" for name, shape in tensors)


def digest_buffers(buffers: Iterable[Sequence[Any]]) -> str:
    """Of names and shapes of buffers, and whether a checkpoint stores them."""
    return _digest(f"{name} {list(shape)} {bool(persistent)}" for name, shape, persistent in buffers)


def digest_ties(groups: Iterable[Iterable[str]]) -> str:
    """Of the groups of names that are one tensor."""
    return _digest(" = ".join(sorted(group)) for group in groups)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
