"""`sizer verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.errors import UnknownName
from sizer.model import Model
from sizer.oracles.compare import LEVELS
from sizer.report.report import Report

WHAT = ("params", "flops", "kv-cache", "shards", "activations", "peak")


@click.command("verify", cls=Command)
@click.option("--all", "everything", is_flag=True, help="Verify every preset and every text model type.")
@click.option("--only", metavar="SET", help="Of --all: presets or types.")
@click.option("--jobs", type=int, default=1, metavar="N", help="Of --all: processes.  [default: 1]")
@click.option("--resume", metavar="FILE", help="Of --all: keep outcomes in a file, and begin where it ends.")
@click.option("--save", metavar="FILE", help="Write the answer to a file too: .json, .md, or .xml for JUnit.")
@click.option("--checkpoint", metavar="PATH", help="Compare with the header of a checkpoint as well.")
@click.option("--module", metavar="PKG.MOD:FACTORY", help="Compare with a module of your own, imported.")
@model_options
@click.option(
    "--level", type=click.Choice(LEVELS), default="names", show_default=True, help="How closely to compare."
)
@click.option("--what", default="params", show_default=True, metavar="WHAT", help=f"{', '.join(WHAT)}.")
@click.option("--batch-size", type=int, default=1, metavar="B", help="Of a run: sequences.")
@click.option("--seq-len", type=int, default=16, show_default=True, metavar="T", help="Of a run: tokens.")
@click.option("--encoder-len", type=int, metavar="N", help="Of a run: tokens of the encoder's sequence.")
@click.option("--attention", default="eager", metavar="KERNEL", help="Of flops: eager, sdpa, flash.")
@click.option("--checkpointing", is_flag=True, help="Of flops: blocks are computed anew.")
@click.option("--past", "past_len", type=int, metavar="N", help="Of flops: tokens in the cache before.")
@click.option("--chunk", type=int, metavar="N", help="Of flops: passes of N tokens.")
@click.option("--decode", type=int, metavar="N", help="Of flops: N more tokens one at a time, after T.")
@click.option("--logits-to-keep", type=int, metavar="N", help="Of flops: the head reads the last N tokens.")
@click.option("--dtype", metavar="TYPE", help="That every parameter must have; of kv-cache, the cache's.")
@click.option("--policy", default="transformers", metavar="NAME", help="Of kv-cache: transformers, static.")
@click.option("--framework", default="fsdp2", metavar="NAME", help="Of shards: fsdp2 or dtensor.")
@click.option("--ranks", type=int, default=8, metavar="N", help="Of shards: how many.")
@output_options
def command(
    model: Model | None,
    everything: bool,
    only: str | None,
    jobs: int,
    resume: str | None,
    save: str | None,
    checkpoint: str | None,
    module: str | None,
    level: str,
    what: str,
    dtype: str | None,
    **run: Any,
) -> Report:
    """Compare a model with the real torch module: names, shapes, totals, ties, types of numbers.

    The module is built on the meta device; nothing is downloaded. Exit 1 where anything differs.
    With --checkpoint, the header of its files is compared too. With --module, a function of your own
    code is imported and makes the module; nothing else ever leads to an import.
    With --what, it is run instead: torch's FLOP counter, transformers' caches, a fake process group.

    \b
    sizer verify gpt2-small
    sizer verify config.json --checkpoint model.safetensors
    sizer verify gpt2-small --module mypkg.model:build
    sizer verify --all --jobs 2 --resume verified.jsonl --save report.md
    sizer verify gpt2-small --what flops --seq-len 64
    """
    if what not in WHAT:
        raise UnknownName("measure", what, WHAT, hint=f"--what {', '.join(WHAT)}")
    if model is None:
        if what != "params" or checkpoint or module:
            raise click.UsageError(f"--all verifies params; name one model for {_single(what, checkpoint)}")
        return _all(only or "everything", level, jobs, resume, save)
    if everything or only or resume or jobs != 1:
        raise click.UsageError("--all names no model; --only, --resume and --jobs go with it")
    if what != "params":
        if checkpoint or module or save:
            raise click.UsageError(f"--checkpoint, --module and --save do not go with --what {what}")
        return _run(model, what, dtype or "bf16", run)
    from sizer.report import verify

    return verify.report(model, level=level, checkpoint=checkpoint, module=module, dtype=dtype, save=save)


def _all(which: str, level: str, jobs: int, resume: str | None, save: str | None) -> Report:
    from sizer.report import verify_all

    return verify_all.report(which=which, level=level, jobs=jobs, resume=resume, save=save, watched=_watched)


def _run(model: Model, what: str, dtype: str, run: dict[str, Any]) -> Report:
    """Run the module, and compare what is measured with what sizer counts."""
    if what in ("activations", "peak"):
        from sizer.report import verify_memory

        return verify_memory.report(model, what)
    from sizer.report.verify_runs import report

    return report(model, what, dtype=dtype, **run)


def _single(what: str, checkpoint: str | None) -> str:
    return f"--what {what}" if what != "params" else "--checkpoint" if checkpoint else "--module"


def _watched(outcomes: Iterable[Any], n: int) -> Iterator[Any]:
    """The outcomes, with a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield from outcomes
        return
    with click.progressbar(
        outcomes, length=n, label="verifying", file=sys.stderr, item_show_func=lambda o: o and o.name
    ) as bar:
        yield from bar
