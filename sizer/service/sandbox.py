"""What a calculator may do: read the package's own files, write in its own folder, and compute.

A second wall behind the rules of each reader: whatever a request says, no other file is opened, no
address is connected to and no program is started. The hooks are those of Python's audit events.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NEVER = frozenset(
    (
        *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"),
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
        *("os.kill", "os.symlink", "os.link", "ftplib.connect", "urllib.Request"),
    )
)
_FILES = frozenset(("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir"))
_DEVICES = ("/dev/null", "/dev/urandom", "/proc/self/", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/")


def close(folder: str, memory: int) -> None:
    """Close the process in: files of `folder` alone, and `memory` bytes of data."""
    import sizer
    from sizer.sources import presets

    package = os.path.dirname(os.path.abspath(sizer.__file__))
    checkout = os.path.dirname(package)
    # Python's own folders; not the one of a checkout, in which other files lie beside the package.
    installed = [path for path in sys.path if path and os.path.abspath(path) != checkout]
    if os.path.basename(checkout) in ("site-packages", "dist-packages"):
        installed.append(checkout)
    readable = (package, presets.directory(), presets.directory("."), sys.prefix, sys.base_prefix, *installed)
    roots = tuple(f"{root.rstrip(os.sep)}{os.sep}" for path in readable for root in _spellings(path))
    own = tuple(f"{root}{os.sep}" for root in _spellings(folder))
    sys.addaudithook(lambda event, args: check(event, args, own, roots))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(event: str, args: tuple[Any, ...], own: tuple[str, ...], roots: tuple[str, ...]) -> None:
    """Refuse an audit event: what is not below `own`, and not read below `roots` or of a device."""
    if event in _NEVER:
        raise PermissionError(f"a request may not cause {event}")
    if event not in _FILES or isinstance(args[0], int) or args[0] is None:
        return
    path = os.path.abspath(os.fsdecode(args[0]))
    reads = event in ("os.listdir", "os.scandir") or (event == "open" and not _writes(args))
    inside = f"{path}{os.sep}"
    if not (inside.startswith(own) or (reads and (inside.startswith(roots) or path.startswith(_DEVICES)))):
        raise PermissionError(f"a request may not open {path}")


def _spellings(path: str) -> set[str]:
    return {os.path.abspath(path), os.path.realpath(path)}


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return bool(isinstance(flags, int) and flags & _WRITES)
