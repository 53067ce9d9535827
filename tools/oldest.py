"""Run the tests in random order in an environment of their own, with the oldest versions allowed.

    python tools/oldest.py                                    the oldest Python, the oldest of everything
    python tools/oldest.py --python python3.13 --newest       another Python, and the newest versions
    python tools/oldest.py --extras serve tests/service/test_service.py -k token

What the package and these extras name in pyproject.toml is as old as it may be, and what those need is
new. The rest of the line goes to pytest, `--randomly-seed=N` for the same order again among it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What the tests themselves import, where `--extras` leaves out the extra `test`.
RUNNER = ("hypothesis>=6.100", "httpx>=0.27", "prometheus-client>=0.20", "pytest>=8", "pytest-xdist>=3.5")
# Old versions say what newer ones of their own dependencies will drop; that is no fault of the package.
QUIET = ("-W", "ignore::DeprecationWarning", "-p", "no:cacheprovider")


def main() -> int:
    """Make the environment, say what is in it, and run the tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="python3.11")
    parser.add_argument("--extras", default="test", metavar="A,B")
    parser.add_argument("--newest", action="store_true")
    given, rest = parser.parse_known_args()
    which = "highest" if given.newest else "lowest-direct"
    runner = () if "test" in given.extras.split(",") else RUNNER
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([given.python, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        subprocess.run([python, "-m", "pip", "install", "-q", "uv"], check=True)
        uv = [python, "-m", "uv", "pip"]
        wanted = (f"{ROOT}[{given.extras}]", *runner, "pytest-randomly>=3.15")
        subprocess.run([*uv, "install", "-q", "--python", python, "--resolution", which, *wanted], check=True)
        subprocess.run([*uv, "list", "--python", python], check=True)
        return subprocess.run([python, "-m", "pytest", "-q", *QUIET, *rest], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
