"""Answers that are kept, least used last; bounded by what they take, not by how many they are."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

# What an entry takes besides its bytes.
_OVERHEAD = 1_000
# A body longer than this is not worth keeping beside its answer.
MAX_KEY = 65_536

Key = tuple[str, bytes, bytes, bytes, bool]


class Kept:
    """An answer as it is sent: its status, its headers, and its bytes as they are and in gzip."""

    def __init__(self, status: int, kind: str, data: bytes, packed: bytes, exit_code: int | None) -> None:
        self.status = status
        self.data = data
        self.packed = packed
        digest = blake2b(data, digest_size=12).hexdigest()
        # The same bytes in another encoding are another thing to a cache, so they have another tag.
        self.tag = f'"{digest}"'.encode()
        self.packed_tag = f'"{digest}-gzip"'.encode()
        exits = [] if exit_code is None else [(b"sizer-exit", str(exit_code).encode())]
        self.headers = [(b"content-type", kind.encode()), (b"vary", b"accept, accept-encoding"), *exits]

    @property
    def size(self) -> int:
        """Bytes it takes, about."""
        return len(self.data) + len(self.packed) + _OVERHEAD


class Cache:
    """Answers by request.

    >>> cache = Cache(10_000)
    >>> cache.put(("count", b"a=1", b"", b"", False), Kept(200, "text/plain", b"12", b"", 0))
    >>> cache.get(("count", b"a=1", b"", b"", False)).data
    b'12'
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._kept: OrderedDict[Key, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Kept | None:
        """The answer to a request, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Key, answer: Kept) -> None:
        """Keep an answer, and forget those that were not asked for the longest."""
        if key in self._kept:
            return
        self._kept[key] = answer
        self.size += answer.size + len(key[1]) + len(key[2])
        while self.size > self.most and self._kept:
            (_, query, body, _, _), old = self._kept.popitem(last=False)
            self.size -= old.size + len(query) + len(body)
