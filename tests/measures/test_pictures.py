"""Pictures of memory and of shards, and the same as bars of text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sizer.report.bars import stacked

Run = Callable[..., tuple[int, str, str]]


def bars(out: str) -> dict[str, str]:
    """The bars below an answer by what stands before them."""
    lines = out.rpartition("\n\n")[2].splitlines()[1:-1]
    return {name: rest for name, _, rest in (line.strip().partition("  ") for line in lines)}


def test_a_bar_for_each_rank(sizer_cli: Run) -> None:
    # Halves of GPT-2 small: 62,220,288 and 62,219,520 of 2 + 2 + 8 bytes each, 712 MiB.
    code, out, err = sizer_cli("shard", "gpt2-small", "--framework", "fsdp2", "--dp", "2", "--plot", "-")
    found = bars(out)

    assert (code, err, list(found)) == (0, "", ["0", "1"])
    assert all(bar.endswith("712 MiB") for bar in found.values())
    # Weights and gradients as wide as each other, the moments of AdamW four times.
    shares = {fill: found["0"].count(fill) for fill in "█▓▒"}
    assert shares["█"] == pytest.approx(shares["▓"], abs=1)
    assert shares["▒"] == pytest.approx(4 * shares["█"], abs=4)
    assert out.splitlines()[-1] == "█ weights  ▓ gradients  ▒ optimizer state"


def test_what_serves_has_weights_alone(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("shard", "llama-3-8b", "--framework", "vllm", "--tp", "16", "--plot", "-")

    assert out.splitlines()[-1] == "█ weights  ▓ held by others too"
    assert len(bars(out)) == 16


def test_many_ranks_that_are_alike_are_one_bar(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("shard", "llama-3-8b", "--tp", "4", "--pp", "4", "--dp", "8", "--plot", "-")

    assert list(bars(out)) == ["0-31", "32-63", "64-95", "96-127"]


def test_the_bars_of_memory_end_at_its_peak(sizer_cli: Run) -> None:
    args = ("memory", "gpt2-small", "--seq-len", "512", "--batch-size", "2")
    code, out, err = sizer_cli(*args, "--plot", "-")
    _, document, _ = sizer_cli(*args, "--json")
    found = bars(out)

    assert (code, err) == (0, "")
    assert list(found) == ["64", "128", "256", "512", "1,024", "2,048", "4,096"]
    peak = json.loads(document)["peak_bytes"] / 2**30
    assert found["512"].split()[-2:] == [f"{peak:.2f}", "GiB"]
    assert max(map(len, out.splitlines())) <= 80


def test_bars_where_nothing_but_ascii_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    lines = stacked([("0", (2**30, 2**30))], ("a", "b"), above="n")

    assert (lines[1].count("#"), lines[1].count("="), lines[-1]) == (34, 33, "# a  = b")


@pytest.mark.parametrize("form", ["-q", "--json", "--csv"])
def test_other_forms_have_no_bars(sizer_cli: Run, form: str) -> None:
    args = ("shard", "gpt2-small", "--tp", "2", form)

    assert sizer_cli(*args, "--plot", "-") == sizer_cli(*args)


@pytest.mark.parametrize(
    "words",
    [("--pp", "4"), ("--framework", "fsdp2", "--dp", "48"), ("--tp", "4", "--dp", "32")],
    ids=" ".join,
)
def test_a_picture_of_ranks(sizer_cli: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "ranks.svg"
    plain = sizer_cli("shard", "gpt2-small", *words)
    drawn = sizer_cli("shard", "gpt2-small", *words, "--plot", str(path))

    assert drawn == plain
    assert path.read_text().startswith("<?xml")


BAD = [
    (("shard", "gpt2-small", "--plot", "ranks.bmp"), "ranks.bmp is no picture that can be drawn"),
    (("shard", "gpt2-small", "--tp", "2", "--traffic", "--plot", "-"), "leave --traffic out"),
    (
        ("memory", "gpt2-small", "--estimate", "korthikanti", "--plot", "-"),
        "leave --estimate and --ledger out",
    ),
    (("compare", "gpt2-small", "gpt2-medium", "--plot", "-"), "- is no picture that can be drawn"),
]


@pytest.mark.parametrize(("args", "fragment"), BAD, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_what_cannot_be_drawn(sizer_cli: Run, args: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli(*args)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fragment in err
