"""Any words on the command line are answered, or refused in words: never a traceback, never exit 3."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from typing import Any

import click
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sizer.cli import COMMANDS, cli, main

# They wait for requests, or build modules of torch, or read all files of a folder.
LEFT_OUT = {"serve", "mcp", "verify", "check", "sweep"}
WORDS = [
    *("0", "1", "-1", "8", "1e400", "3.5", "99999999999999999999", "7B", "80GiB", "x", "", "é", "a=b", "²"),
    *("gpt2-small", "llama-3-8b", "mixtral-8x7b", "h100-80gb", "n_layers=0", "n_layers=2", "d_model=2:3"),
    *("bf16", "fp32", "adamw", "megatron", "train", "json", "nf4", "-", "--", "{}", "tp=2", "null", "1:2"),
]


def options_of(name: str) -> list[click.Option]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return [
        option
        for option in command.params
        if isinstance(option, click.Option) and not {"hub", "output", "out"} & set(option.name.split("_"))
    ]


@st.composite
def lines(draw: Any) -> list[str]:
    name = draw(st.sampled_from(sorted(set(COMMANDS) - LEFT_OUT)))
    found = [name, *draw(st.lists(st.sampled_from(WORDS), max_size=2))]
    options = options_of(name)
    for option in draw(st.lists(st.sampled_from(options), max_size=4)) if options else ():
        found.append(draw(st.sampled_from([*option.opts, *option.secondary_opts])))
        if not option.is_flag and not option.count:
            choices = getattr(option.type, "choices", ())
            found.append(draw(st.sampled_from([*WORDS, *map(str, choices)])))
    return found


@settings(max_examples=80, phases=(Phase.explicit, Phase.generate))
@given(lines())
def test_every_line_is_answered_or_refused(args: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as empty, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
        os.chdir(empty)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(args)
        finally:
            os.chdir(before)

    assert code in (0, 1, 2), err.getvalue()
    assert code == 0 or out.getvalue() or err.getvalue()
    assert "Traceback" not in err.getvalue()
