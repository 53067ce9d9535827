"""Run the tests under coverage.py, and say which branches of the package they take.

    python tools/branches.py [--missing] [-n 2 --dist worksteal] [tests/core ...]

The rest of the line goes to pytest; processes that the tests start are watched too. Tests marked `long`
are left out. Who is watched is several times slower, so a test that fails runs once more unwatched, and that
counts. What is printed last is the share of branches taken, by folder; the exit code is 1 where a test
failed or, of a whole run, a share is under `LEAST`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Percent. Calculators of the service cannot be watched behind their wall.
LEAST = {"architectures": 97, "core": 100, "measures": 97, "all": 97}
COVERAGE = (sys.executable, "-m", "coverage")
SOME_FAILED = 1  # pytest's exit code
Branches = dict[str, dict[str, list[list[int]]]]


def main() -> int:
    """Run the tests, and say what they took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--missing", action="store_true", help="list each branch that no test takes")
    given, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        data = f"--data-file={folder}/branches"
        tests = ["-m", "pytest", "-q", "-o", f"cache_dir={folder}/failed", "-m", "not long", *words]
        failed = subprocess.run([*COVERAGE, "run", data, *tests], cwd=ROOT).returncode
        if failed == SOME_FAILED:
            failed = subprocess.run([sys.executable, *tests, "--last-failed"], cwd=ROOT).returncode
        shares = shown(result(folder, data), given.missing)
    whole = not any(Path(word.partition("::")[0]).exists() for word in words)
    low = [name for name, least in LEAST.items() if whole and shares[name] < least]
    for name in low:
        print(f"{name} is under {LEAST[name]} %")
    return int(bool(failed or low))


def result(folder: str, data: str) -> Branches:
    """The branches of each file that were taken and those that were not."""
    answer = Path(folder) / "report.json"
    for words in (["combine", "-q", data, folder], ["json", "-q", data, "-o", str(answer)]):
        subprocess.run([*COVERAGE, *words], cwd=ROOT, check=True)
    files = json.loads(answer.read_text())["files"]
    return {
        name: {"taken": file["executed_branches"], "missing": file["missing_branches"]}
        for name, file in files.items()
    }


def shown(files: Branches, missing: bool) -> dict[str, float]:
    """Print the table, and the branches that are missing; the percent of each folder."""
    folders: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in files.items():
        folder = Path(name).parts[1] if len(Path(name).parts) > 2 else "."
        for where in (folder, "all"):
            folders[where][0] += len(file["taken"])
            folders[where][1] += len(file["missing"])
        if missing and file["missing"]:
            print(name, *(f"{start}→{end if end > 0 else 'exit'}" for start, end in file["missing"]))
    for name, (taken, left) in sorted(folders.items(), key=lambda item: item[0] == "all"):
        print(f"{name:15} {taken:6} of {taken + left:6} branches  {100 * taken / (taken + left or 1):5.1f} %")
    return {name: 100 * taken / (taken + left or 1) for name, (taken, left) in folders.items()}


if __name__ == "__main__":
    sys.exit(main())
