"""Loaded by every Python that a test starts: nothing that it connects to is outside this machine."""

from __future__ import annotations

import sys

HERE = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", None)


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if event == "socket.connect":
        address = args[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if host not in HERE:
        raise RuntimeError(f"a test reached for the network: {host!r}")


sys.addaudithook(_refuse)
