"""The block of the network holds in this process and in those that a test starts."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

OUTSIDE = ("192.0.2.1", 80)  # a block of addresses that nobody has (RFC 5737)


def test_no_connection_from_here() -> None:
    with socket.socket() as found, pytest.raises(AssertionError, match="reached for the network"):
        found.connect(OUTSIDE)


@pytest.mark.parametrize(
    "code", [f"socket.socket().connect({OUTSIDE})", "socket.getaddrinfo('example.org', 80)"]
)
def test_no_connection_from_a_process_of_ours(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import socket; {code}"], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert "RuntimeError: a test reached for the network" in done.stderr
