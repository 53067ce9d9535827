"""One repository at one commit, answering as a file system does.

Of a file only what is asked for is read, and of its first read at least `HEAD` bytes, which hold most
headers whole. A file that the local cache of `huggingface_hub` has is read from there.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, TypeVar, cast

from sizer.errors import BadInput, clip
from sizer.sources.hub.client import Client, Unreachable, constants, is_offline, offline
from sizer.sources.hub.target import PREFIX, Target, is_plain, parse

HEAD = 1 << 16
# Heads that are kept: of a thousand files.
MAX_KEPT = HEAD * 1024
MAX_FILES = 100_000
# Seconds after which a branch may have moved.
FRESH = 300.0
WORKERS = 8
_COMMIT = re.compile(r"[0-9a-f]{40}")
T = TypeVar("T")


class Repository:
    """The files of a repository: `sizes` by path, `None` where the hub does not say one."""

    def __init__(self, target: Target, where: str) -> None:
        self.target = target
        self.where = where
        self.sizes: dict[str, int | None] = {}
        self.commit = ""
        # What the hub says that the headers hold: elements by dtype.
        self.stated: dict[str, int] = {}
        self.client: Client | None = None
        self.note = ""
        self.since = time.monotonic()
        self._heads: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._snapshots = os.path.join(_cache(), "models--" + target.name.replace("/", "--"), "snapshots")
        self._open()

    def _open(self) -> None:
        if is_offline():
            self._of_cache(offline(self.where))
            return
        try:
            self.client = Client(self.target.name, self.target.revision, self.where)
            self._of_listing(self.client.listing())
        except Unreachable as error:
            self._of_cache(str(error))

    def _of_listing(self, found: Any) -> None:
        siblings = found.get("siblings") if isinstance(found, dict) else None
        if not isinstance(siblings, list) or len(siblings) > MAX_FILES:
            raise BadInput(f"{self.where}: the hub answers with no list of at most {MAX_FILES:,} files")
        for entry in siblings:
            name = entry.get("rfilename") if isinstance(entry, dict) else None
            if isinstance(name, str) and is_plain(name):
                size = entry.get("size")
                self.sizes[name] = size if type(size) is int and size >= 0 else None
        commit = found.get("sha")
        known = isinstance(commit, str) and _COMMIT.fullmatch(commit)
        self.commit = commit if known else self.target.revision
        safetensors = found.get("safetensors")
        dtypes = safetensors.get("parameters") if isinstance(safetensors, dict) else None
        for dtype, elements in (dtypes or {}).items() if isinstance(dtypes, dict) else ():
            if type(elements) is int and 0 <= elements < 2**63 and len(dtype) < 20:
                self.stated[dtype] = elements

    def _of_cache(self, why: str) -> None:
        """The files of the commit that the cache has for the revision; `why` the hub is not asked."""
        revision = self.target.revision
        ref = os.path.join(os.path.dirname(self._snapshots), "refs", *revision.split("/"))
        if os.path.isfile(ref):
            with open(ref, encoding="ascii", errors="replace") as file:
                revision = file.read(100).strip()
        folder = os.path.join(self._snapshots, revision)
        if not _COMMIT.fullmatch(revision) or not os.path.isdir(folder):
            raise Unreachable(why)
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if os.path.isfile(path):
                    self.sizes[os.path.relpath(path, folder).replace(os.sep, "/")] = os.path.getsize(path)
        self.client = None
        self.commit = revision
        self.note = "read from the local cache alone"

    def local(self, path: str) -> str | None:
        """The file in the local cache, if it is there."""
        found = os.path.join(self._snapshots, self.commit, *path.split("/"))
        return found if _COMMIT.fullmatch(self.commit) and os.path.isfile(found) else None

    def names(self, folder: str) -> list[str]:
        """What is in a folder, by name."""
        start = f"{folder}/" if folder else ""
        return list({path[len(start) :].split("/")[0]: None for path in self.sizes if path.startswith(start)})

    def is_folder(self, path: str) -> bool:
        """Whether files are below a path."""
        return not path or any(name.startswith(f"{path}/") for name in self.sizes)

    def size(self, path: str) -> int:
        """The bytes of a file."""
        if self.sizes[path] is None:
            local = self.local(path)
            if local is not None:
                return os.path.getsize(local)
            self._head(path)
        size = self.sizes[path]
        if size is None:
            raise BadInput(f"{clip(self.where)}: the hub does not say how large {clip(path)} is")
        return size

    def read(self, path: str, start: int, length: int) -> bytes:
        """Bytes of a file from a place on; fewer only at its end."""
        head = self._head(path)
        length = min(length, self.size(path) - start)
        if start + length <= len(head):
            return head[start : start + length]
        known = head[start:]
        return known + self._fetched(path, start + len(known), length - len(known))

    def _head(self, path: str) -> bytes:
        head = self._heads.get(path)
        if head is None:
            size = self.sizes[path]
            head = self._fetched(path, 0, HEAD if size is None else min(HEAD, size))
            with self._lock:
                self._heads[path] = head
                kept = sum(map(len, self._heads.values())) if len(self._heads) > MAX_KEPT // HEAD else 0
                while kept > MAX_KEPT:
                    kept -= len(self._heads.popitem(last=False)[1])
        return head

    def _fetched(self, path: str, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        if self.client is None:
            raise Unreachable(offline(f"{self.where}: {clip(path)}"))
        data, size = self.client.read(self.commit, path, start, length)
        if self.sizes[path] is None:
            self.sizes[path] = size
        elif size is not None and size != self.sizes[path]:
            raise BadInput(
                f"{self.where}: the hub lists {clip(path)} with {self.sizes[path]:,} bytes and sends {size:,}"
            )
        return data


class RemoteFile:
    """A file of a repository, open for reading."""

    def __init__(self, repository: Repository, path: str, name: str) -> None:
        self.repository = repository
        self.path = path
        self.name = name
        self.at = 0

    def seek(self, offset: int) -> int:
        """Go to a place."""
        self.at = offset
        return offset

    def read(self, length: int) -> bytes:
        """The next bytes."""
        data = self.repository.read(self.path, self.at, length)
        self.at += len(data)
        return data

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_OPEN: OrderedDict[str, Repository] = OrderedDict()


def place(path: str) -> tuple[Repository, str]:
    """The repository of a path, listed once in a while, and the path in it."""
    target = parse(path)
    constants()
    branch = "" if target.revision == "main" and "/" in target.name else f"@{target.revision}"
    key = f"{PREFIX}{target.name}{branch}"
    found = _OPEN.get(key)
    if found is None or time.monotonic() - found.since > FRESH:
        found = _OPEN[key] = Repository(target, key)
        while len(_OPEN) > 8:
            _OPEN.popitem(last=False)
    return found, target.path


def opened(path: str) -> BinaryIO:
    """A file on a hub, or its copy in the local cache, open for reading."""
    repository, inside = place(path)
    local = repository.local(inside)
    if local is not None:
        return open(local, "rb", buffering=0)
    return cast("BinaryIO", RemoteFile(repository, inside, path))


def in_parallel(function: Callable[[str], T], paths: Iterable[str]) -> Iterator[T]:
    """What a function answers for each path, in order; on a terminal with a bar on standard error."""
    from concurrent.futures import ThreadPoolExecutor

    from huggingface_hub.utils import tqdm

    paths = list(paths)
    pool = ThreadPoolExecutor(WORKERS)
    try:
        found = pool.map(function, paths)
        yield from tqdm(found, total=len(paths), desc="headers", unit="file", disable=None, leave=False)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _cache() -> str:
    """The folder of the local cache of `huggingface_hub`."""
    set_by = os.environ.get
    home = set_by("HF_HOME")
    found = set_by("HF_HUB_CACHE") or set_by("HUGGINGFACE_HUB_CACHE") or (home and os.path.join(home, "hub"))
    return os.path.expanduser(os.path.expandvars(found)) if found else str(constants().HF_HUB_CACHE)
