"""Answers that are kept, least used last; bounded by what they take, not by how many they are."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

# What an entry takes besides its bytes.
_OVERHEAD = 2_000
# A body longer than this is not worth keeping beside its answer.
MAX_KEY = 65_536

Key = tuple[str, bytes, bytes, bytes, bool]


Headers = list[tuple[bytes, bytes]]


class Kept:
    """An answer as it is sent: its status, its headers, and its bytes as they are and in gzip.

    `control` says how long others may keep it.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        data: bytes,
        packed: bytes,
        *,
        control: str = "no-store",
        more: Headers | None = None,
    ) -> None:
        self.status = status
        self.data = data
        self.packed = packed
        digest = blake2b(data, digest_size=12).hexdigest().encode()
        # The same bytes in another encoding are another thing to a cache, so they have another tag.
        self.tag, self.packed_tag = b'"%s"' % digest, b'"%s-gzip"' % digest
        shared = [
            (b"content-type", kind.encode()),
            (b"vary", b"accept, accept-encoding"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", control.encode() if status == 200 else b"no-store"),
            *(more or ()),
        ]
        self._headers = self._with(shared, self.tag, data)
        self._packed_headers = [*self._with(shared, self.packed_tag, packed), (b"content-encoding", b"gzip")]

    def _with(self, shared: Headers, tag: bytes, data: bytes) -> Headers:
        tags = [(b"etag", tag)] if self.status == 200 else []
        return [*shared, *tags, (b"content-length", str(len(data)).encode())]

    def for_client(self, encodings: bytes, known: bytes | None) -> tuple[int, Headers, bytes]:
        """Status, headers and bytes for a client that accepts these encodings and knows these tags."""
        zipped = bool(self.packed) and accepts_gzip(encodings)
        tag = self.packed_tag if zipped else self.tag
        headers = self._packed_headers if zipped else self._headers
        if known is not None and self.status == 200 and _matches(known, tag):
            return 304, [pair for pair in headers if not pair[0].startswith(b"content-")], b""
        return self.status, headers, self.packed if zipped else self.data

    @property
    def size(self) -> int:
        """Bytes it takes, about."""
        return len(self.data) + len(self.packed) + _OVERHEAD


def accepts_gzip(header: bytes) -> bool:
    """Whether a client reads gzip.

    >>> accepts_gzip(b"br, gzip;q=0.5"), accepts_gzip(b"gzip;q=0"), accepts_gzip(b"")
    (True, False, False)
    """
    for part in header.lower().split(b",") if header else ():
        name, _, rest = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return rest.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False


def _matches(header: bytes, tag: bytes) -> bool:
    tags = [part.strip().removeprefix(b"W/") for part in header.split(b",")]
    return tag in tags or tags == [b"*"]


class Cache:
    """Answers by request.

    >>> cache = Cache(10_000)
    >>> cache.put(("count", b"a=1", b"", b"", False), Kept(200, "text/plain", b"12", b""))
    >>> cache.get(("count", b"a=1", b"", b"", False)).data
    b'12'
    >>> size = cache.size
    >>> cache.put(("count", b"a=1", b"", b"", False), Kept(200, "text/plain", b"12", b""))
    >>> cache.size == size
    True
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
