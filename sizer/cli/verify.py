"""`sizer verify`."""

from __future__ import annotations

import sys
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
@click.option("--all", "everything", is_flag=True, help="Verify every preset, with a progress bar.")
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
@click.option("--dtype", default="bf16", metavar="TYPE", help="Of kv-cache: bf16, fp16 or fp32.")
@click.option("--policy", default="transformers", metavar="NAME", help="Of kv-cache: transformers, static.")
@click.option("--framework", default="fsdp2", metavar="NAME", help="Of shards: fsdp2 or dtensor.")
@click.option("--ranks", type=int, default=8, metavar="N", help="Of shards: how many.")
@output_options
def command(model: Model | None, everything: bool, level: str, what: str, **run: Any) -> Report:
    """Compare a model with the real torch module: names, shapes, totals, ties.

    The module is built on the meta device; nothing is downloaded. Exit 1 where anything differs.
    With --what, it is run instead: torch's FLOP counter, transformers' caches, a fake process group.

    \b
    sizer verify gpt2-small
    sizer verify --all --level total
    sizer verify gpt2-small --what flops --seq-len 64
    sizer verify gpt2-small --what peak
    """
    from sizer.report import verify

    if what not in WHAT:
        raise UnknownName("measure", what, WHAT, hint=f"--what {', '.join(WHAT)}")
    if what != "params":
        if model is None:
            raise click.UsageError(f"--all verifies params; name one model for --what {what}")
        if what in ("activations", "peak"):
            from sizer.report import verify_memory

            return verify_memory.report(model, what)
        from sizer.report.verify_runs import report

        return report(model, what, **run)
    if not everything:
        assert model is not None
        return verify.report(model, level=level)
    from sizer.loading import from_preset
    from sizer.sources.presets import presets

    outcomes = []
    with click.progressbar(
        presets(), label="verifying", file=sys.stderr, item_show_func=lambda p: p and p.name
    ) as bar:
        for preset in bar:
            outcomes.append(verify.outcome(from_preset(preset.name), level=level))
    return verify.report_all(outcomes, level=level)
