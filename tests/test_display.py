"""What a notebook and a shell show: tables, and completions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from repository import ROOT

import sizer


class Cells(HTMLParser):
    """The cells of a table, and the tags that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag in ("td", "th", "pre"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def shown(thing: object) -> list[str]:
    page = Cells(thing._repr_html_())  # type: ignore[attr-defined]
    assert page.open == []
    return page.cells


@pytest.mark.parametrize("ask", ["count", "flops", "kv_cache", "memory", "size", "shards", "activations"])
def test_an_answer_at_the_prompt_is_its_figures_and_not_all_that_they_are_made_of(ask: str) -> None:
    """Whoever leaves out `.forward` at a prompt gets what fits one, and no list of tensors."""
    text = repr(getattr(sizer.load("gpt2-small"), ask)())

    assert len(text) < 1000
    assert "c_attn" not in text


def test_flops_at_the_prompt() -> None:
    # 24BLTD² + 4BLT²D + 2BTVD of 1,024 tokens, as nanoGPT's notebook has it.
    assert "forward=291648307200" in repr(sizer.load("gpt2-small").flops(seq_len=1024))


def test_completion_at_the_prompt_offers_what_there_is() -> None:
    assert {"load", "summary", "Model"} <= set(dir(sizer))


def test_a_count_in_a_notebook() -> None:
    cells = shown(sizer.load("gpt2-small").count())

    # 38,597,376 = 50,257 · 768
    assert cells[:6] == ["component", "params", "share", "embedding", "38,597,376", "31.0 %"]
    assert "total  124,439,808\nactive  124,439,808" in cells[-1]


def test_a_sweep_in_a_notebook() -> None:
    np = pytest.importorskip("numpy")

    assert "[124439808 418748928]" in shown(sizer.load("gpt2-small", d_model=np.array([768, 1536])))[-1]


def test_a_formula_in_a_notebook() -> None:
    cells = shown(sizer.load("gpt2-small").formula())

    assert cells[cells.index("transformer.h, each") + 1] == "12D² + 13D"
    assert "L = 12  blocks" in cells[-1]


def test_a_model_in_a_notebook_whose_name_is_markup() -> None:
    cells = shown(sizer.Model("<b>", "gpt2", sizer.load("gpt2-small").given))

    assert cells[0] == "<b>  (gpt2)\nparams = VD + CD + L(12D² + 13D) + 2D"


def test_a_report_in_a_notebook() -> None:
    from sizer.report import count

    cells = shown(count.report(sizer.load("gpt2-small")))

    assert cells[0] == "gpt2-small  (gpt2)"
    assert "8LD² + 5LD" in cells


def completed(words: str, at: int) -> list[str]:
    script = "from sizer.cli import entry; entry()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COMP_WORDS": words, "COMP_CWORD": str(at)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "_SIZER_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"^\w+,(.*)$", done.stdout, flags=re.M)


@pytest.mark.parametrize(
    ("words", "at", "some"),
    [
        ("sizer co", 1, ["count", "compare"]),
        ("sizer presets l", 2, ["list"]),
        ("sizer count gpt2-s", 2, ["gpt2-small"]),
        ("sizer compare gpt2-small gpt2-me", 3, ["gpt2-medium"]),
        ("sizer count --preset bert-b", 3, ["bert-base"]),
        ("sizer count gpt2-small --by m", 4, ["module"]),
        ("sizer count gpt2-small --qu", 3, ["--quiet"]),
        ("sizer fit gpt2-small --on h200-n", 4, ["h200-nvl-141gb"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_shell_completes(words: str, at: int, some: list[str]) -> None:
    found = completed(words, at)

    assert set(some) <= set(found)
    assert all(name.startswith(words.split()[at]) for name in found)
