"""What all tests share: no network, and bounded property tests."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, Phase, settings
from repository import ROOT

settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=2000, deadline=None)
# The same examples each time, and a failure as it was found.
settings.register_profile(
    "same",
    settings.get_profile("default"),
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# What Python itself imports, and what tests of derivation import where torch is: no modules of tests.
collect_ignore = ["offline", *(f"derive/{name}_modules.py" for name in ("odd", "stepping", "user"))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are marked `torch` wait for the extra."""
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason="needs the torch extra"))


# The same block as below for the processes that tests start.
_PATHS = (str(ROOT / "tests" / "offline"), os.environ.get("PYTHONPATH", ""))
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in _PATHS if path)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket.connect

    def connect(self: socket.socket, address: object) -> object:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test reached for the network: {address}")
        return real(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def sizer_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process: exit code, stdout, stderr."""
    from sizer.cli import main

    def run(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        out, err = capsys.readouterr()
        return code, out, err

    return run
