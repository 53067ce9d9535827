"""How the benchmarks install, run and tell; no peer is installed here and nothing is timed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import processes, profile
from benchmarks.peers import asking, environments, growth, roster
from benchmarks.peers.asking import Peer, Place
from benchmarks.peers.environments import Environment
from benchmarks.peers.grading import Number
from benchmarks.peers.measuring import Asked, Kept, Runner, plainly, timing
from benchmarks.peers.page import QUANTITIES, Results, Row, better, page, reasons, table, tally, wrong
from benchmarks.peers.subjects import SUBJECTS
from benchmarks.processes import Run

LLAMA = next(subject for subject in SUBJECTS if subject.key == "llama-3-8b")


def peer(code: str) -> Peer:
    read = asking.from_json(dict)
    return Peer("a peer", (), "config", lambda place, s: [sys.executable, "-c", code], read, ())


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print('{\"total\": 5}')", ""),
        ("print('five')", "no number in its output"),
        ("raise KeyError('text_config')", "KeyError: 'text_config'"),
        (
            "import sys; sys.exit('cannot read /tmp/a/b/c.json at http://127.0.0.1:1/x')",
            "cannot read … at the hub",
        ),
        ("import os; os.abort()", "no message"),
    ],
)
def test_a_peer_that_fails_is_a_row_with_its_reason(tmp_path: Path, code: str, problem: str) -> None:
    runner = Runner(peer(code), Environment(tmp_path), tmp_path, "http://127.0.0.1:1", tmp_path)
    kept = Kept(tmp_path / "answers.json")

    asked = kept.asked(runner, LLAMA, "1.0")

    assert problem in asked.problem
    assert bool(asked.problem) == bool(problem)
    assert bool(asked.answers) == (not problem)
    assert Kept(tmp_path / "answers.json").asked(runner, LLAMA, "1.0") == asked


def test_a_peer_that_is_not_there_is_said(tmp_path: Path) -> None:
    gone = Peer("gone", (), "config", lambda place, s: [place.script("gone")], asking.from_json(dict), ())

    asked = Runner(gone, Environment(tmp_path), tmp_path, "", tmp_path).asked(LLAMA)

    assert asked.problem == "does not start: No such file or directory"


def test_only_the_address_of_a_hub_is_replaced_in_a_copy(tmp_path: Path) -> None:
    package = tmp_path / "env" / "lib" / "python3" / "site-packages" / "asks"
    package.mkdir(parents=True)
    source = "url = 'https://huggingface.co/x'\nother = 1\n"
    (package / "__init__.py").write_text(source)
    asks = Peer("asks", (), "hub", lambda place, s: None, asking.from_json(dict), (), patched="asks")
    (tmp_path / "scratch").mkdir()

    runner = Runner(asks, Environment(tmp_path / "env"), tmp_path, "http://127.0.0.1:9", tmp_path / "scratch")

    copy = Path(runner.variables()["PYTHONPATH"]) / "asks" / "__init__.py"
    assert copy.read_text() == "url = 'http://127.0.0.1:9/x'\nother = 1\n"
    assert (package / "__init__.py").read_text() == source
    assert runner.asked(LLAMA).problem == "not among the models it knows"


def distribution(packages: Path, name: str, size: int, *requires: str) -> None:
    info = packages / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        "Version: 1.0",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    (packages / f"{name}.py").write_bytes(b"#" * size)
    (packages / f"{name}.pyc").write_bytes(b"#" * 1000)
    (info / "RECORD").write_text(f"{name}.py,,\n{name}.pyc,,\n{name}-gone.py,,\n")


def test_the_size_is_of_what_a_package_needs(tmp_path: Path) -> None:
    distribution(tmp_path, "tool", 10, "needed[fast]>=1", "absent", "other; python_version < '3'")
    distribution(tmp_path, "needed", 200, "quick; extra == 'fast'", "slow; extra == 'slow'", "tool")
    for name, size in (("quick", 3000), ("slow", 40_000), ("other", 500_000)):
        distribution(tmp_path, name, size)

    found = environments.needed(tmp_path, ["Tool"])

    assert sorted(found) == ["needed", "quick", "tool"]
    assert environments.size(found.values()) == 3210


def test_the_cache_lies_outside_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(environments.VARIABLE, str(tmp_path))

    assert environments.cache_folder() == tmp_path
    with pytest.raises(SystemExit, match="outside it with --cache"):
        environments.cache_folder(str(environments.ROOT / "build"))


def test_what_fails_to_install_is_kept_and_tried_again_when_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[tuple[str, ...]] = []

    def make(folder: Path, requirements: tuple[str, ...]) -> str:
        tried.append(requirements)
        return environments.last_line(
            "WARNING: x\nERROR: No matching distribution found for nonesuch==1\n\nhint"
        )

    monkeypatch.setattr(environments, "_make", make)
    one = environments.install(tmp_path, "nonesuch", ("nonesuch==1",))
    same = environments.install(tmp_path, "nonesuch", ("nonesuch==1",))
    environments.install(tmp_path, "nonesuch", ("nonesuch==1",), again=True)
    environments.install(tmp_path, "nonesuch", ("nonesuch==2",))

    assert one.problem == same.problem == "ERROR: No matching distribution found for nonesuch==1"
    assert tried == [("nonesuch==1",), ("nonesuch==1",), ("nonesuch==2",)]


def test_ratios_are_medians_of_the_rounds() -> None:
    peers = [Run(1.0, 0, 2048), Run(4.0, 0, 2048), Run(9.0, 0, 4096)]
    ours = [Run(2.0, 0, 1024), Run(2.0, 0, 1024), Run(3.0, 0, 1024)]

    found = timing(peers, ours)

    assert (found.seconds, found.mib, found.rounds) == (4.0, 2.0, 3)
    assert (found.time_ratio, found.memory_ratio) == (2.0, 2.0)


def test_a_page_shows_right_and_wrong_for_all() -> None:
    good = {s.key: Asked({q: Number(s.right(q)[0]) for q in QUANTITIES}) for s in SUBJECTS}
    ours = Row("sizer", "1", "config", ours=True, asked=good, mib=40, distributions=4)
    ours.timing = timing([Run(2.0, 0, 2048)], [Run(2.0, 0, 2048)])
    quick = Row(
        "quick", "1", "config", asked={"gpt2": Asked({"total": Number(163037184)})}, mib=1, distributions=1
    )
    quick.timing = timing([Run(1.0, 0, 1024)], [Run(2.0, 0, 2048)])
    quick.asked["llama-3-8b"] = Asked(problem="KeyError")
    absent = Row("absent", "", "hub", problem="ERROR: no wheel")
    rows = [ours, quick, absent]

    grown = [("Layers", ["layers", "ms"], [["10", "1"]])]
    text = page(Results("a machine", 9, rows, grown, [("sympy", 28.4)]))

    assert wrong(rows) == []
    assert tally(rows).splitlines()[2:] == ["| sizer | 24 | 0 | 0 |", "| quick | 0 | 1 | 23 |"]
    assert reasons(rows) == ["- quick, of llama-3-8b: KeyError", "- absent: ERROR: no wheel"]
    assert better(rows)[0].startswith(
        "- **quick** is quicker (0.50 of the time), smaller in memory (0.50), smaller on disk (0.03): "
    )
    assert "| quick | ✗ 1.31 × | – |" in text
    assert "right in every cell" in text
    assert "mostly sympy (28 MiB)" in text
    assert "### Layers\n\n| layers | ms |\n" in text
    assert not set(text) & set("{}")
    ours.asked["gpt2"] = Asked({"total": Number(1)})
    assert wrong(rows) == ["sizer: total of gpt2 ✗ 0.00 ×"]
    assert "right in every cell" not in page(Results("a machine", 9, rows, []))


def test_a_table_is_markdown() -> None:
    assert table(["", "n"], [["a", "1"]]) == "|  | n |\n| --- | ---: |\n| a | 1 |\n"


def test_growth_is_told_beside_the_first_line() -> None:
    points = {10: growth.Point(0.001, 2048), 100: growth.Point(0.0123, 4096)}

    assert growth.table("t", "layers", points)[2] == [
        ["10", "1", "1.00", "2.0", "1.00"],
        ["100", "12.3", "12.30", "4.0", "2.00"],
    ]


def test_a_measured_process_is_charged_with_its_own_memory_alone() -> None:
    mine = bytearray(200_000_000)
    found = processes.run([sys.executable, "-I", "-S", "-c", "pass"])

    assert len(mine) / 1024 > 2 * found.memory_kib
    with pytest.raises(SystemExit, match="exit code 4"):
        processes.run([sys.executable, "-I", "-S", "-c", "raise SystemExit(4)"])


def test_processes_run_as_installed_from_what_python_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "once.py").write_text("")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)

    processes.compare({"it": [sys.executable, "-S", "-c", "import once"]}, "it", 1)

    assert list((tmp_path / "__pycache__").glob("once.*.pyc"))


IMPORTTIME = """import time: self [us] | cumulative | imported package
import time:       120 |        340 |   click.core
import time:        30 |         30 | click
124439808
import time:      1000 |       1000 | site
"""


def test_the_lines_of_importtime_are_summed_by_package() -> None:
    assert profile.packages(profile.imports(IMPORTTIME)) == {"site": 1000, "click": 150}


def test_messages_lose_what_belongs_to_one_machine() -> None:
    assert plainly("no /home/a/b/config.json | see http://127.0.0.1:80/x/y") == "no … / see the hub"


def test_every_peer_can_be_asked_about_some_model(tmp_path: Path) -> None:
    for subject in SUBJECTS:
        (tmp_path / subject.repo).mkdir(parents=True)
    place = Place(Environment(tmp_path / "env"), tmp_path, tmp_path)

    for one in (*roster.OURS, *roster.PEERS):
        commands = [one.ask(place, subject) for subject in SUBJECTS]
        assert any(commands), one.name
        assert all(command[0].startswith(str(tmp_path / "env")) for command in commands if command), one.name
