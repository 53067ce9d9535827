"""Which branches of the package the tests take: `python tools/branches.py [--missing] [FILE ...]`.

Runs each file of tests, and the examples of the package, in a process of its own under coverage.py,
processes that the tests start included. What is printed last is the share of branches taken, by folder;
the exit code is 1 where one is under its share in `LEAST`, or a test failed. With `--keep` a second call
runs only what has not passed yet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
# It derives all of transformers' types, minutes for branches that its neighbours take too.
LONG = ("test_derive_transformers_torch.py",)
# Percent. Calculators of the service cannot be watched behind their wall.
LEAST = {"architectures": 95, "core": 95, "measures": 95, "all": 90}
COVERAGE = (sys.executable, "-m", "coverage")


def main() -> int:
    """Run the tests, and say what they took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--missing", action="store_true", help="list each branch that no test takes")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="go on from, and leave, what was measured"
    )
    given = parser.parse_args()
    chosen = given.files or [ROOT / "sizer", *sorted((ROOT / "tests").rglob("test_*.py"))]
    with tempfile.TemporaryDirectory() as folder:
        kept = (given.keep or Path(folder)).resolve()
        kept.mkdir(parents=True, exist_ok=True)
        failed = [path for path in chosen if path.name not in LONG and not measured(path.resolve(), kept)]
        for path in failed:
            print(f"failed: {path}")
        shares = shown(result(kept), given.missing)
    low = [name for name, least in LEAST.items() if shares[name] < least]
    return int(bool(failed or low))


def measured(path: Path, kept: Path) -> bool:
    """Run the tests of one file; whether they passed, now or before."""
    name = "-".join(path.relative_to(ROOT).with_suffix("").parts)
    said = kept / f"{name}.passed"
    if said.exists():
        return True
    begin = time.monotonic()
    words = (
        "run",
        f"--data-file={kept / 'parts' / 'branches'}",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(path),
    )
    run = subprocess.run([*COVERAGE, *words], cwd=ROOT, capture_output=True, text=True)
    print(f"{time.monotonic() - begin:6.0f} s  {name}", flush=True)
    passed = run.returncode in (0, 5)  # 5: nothing to run without an extra
    said.with_suffix(".passed" if passed else ".failed").write_text(run.stdout + run.stderr)
    return passed


def result(kept: Path) -> dict[str, dict[str, list[list[int]]]]:
    """The branches of each file that were taken and those that were not."""
    data, answer = f"--data-file={kept / 'branches'}", kept / "report.json"
    subprocess.run([*COVERAGE, "combine", "-q", "--keep", data, str(kept / "parts")], cwd=ROOT, check=True)
    subprocess.run([*COVERAGE, "json", "-q", data, "-o", str(answer), "--fail-under=0"], cwd=ROOT, check=True)
    files = json.loads(answer.read_text())["files"]
    return {
        name: {"taken": file["executed_branches"], "missing": file["missing_branches"]}
        for name, file in files.items()
    }


def shown(files: dict[str, dict[str, list[list[int]]]], missing: bool) -> dict[str, float]:
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
