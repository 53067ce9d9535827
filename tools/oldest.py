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
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The extra `test` names those of the package, and then what the tests themselves need.
OWN, *RUNNER = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][
    "test"
]
# Old versions say what newer ones of their own dependencies will drop; that is no fault of the package.
QUIET = ("DeprecationWarning", "PendingDeprecationWarning")
# Help is printed as the newest click lays it out.
NEWEST_ONLY = "tests/test_docs.py::test_what_is_written_from_the_code_is_current"


def main() -> int:
    """Make the environment, say what is in it, and run the tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="python3.11")
    parser.add_argument("--extras", default=OWN[OWN.index("[") + 1 : -1], metavar="A,B")
    parser.add_argument("--newest", action="store_true")
    given, rest = parser.parse_known_args()
    which = "highest" if given.newest else "lowest-direct"
    words = [word for name in QUIET for word in ("-W", f"ignore::{name}")]
    if not given.newest:
        words += ["--deselect", NEWEST_ONLY]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([given.python, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        subprocess.run([python, "-m", "pip", "install", "-q", "uv"], check=True)
        uv = [python, "-m", "uv", "pip"]
        install = [*uv, "install", "-q", "--python", python]
        subprocess.run([*install, "--resolution", which, f"{ROOT}[{given.extras}]"], check=True)
        # What is there stays as it is.
        subprocess.run([*install, *RUNNER, "pytest-randomly>=3.15"], check=True)
        subprocess.run([*uv, "list", "--python", python], check=True)
        return subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, *rest], cwd=ROOT
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
