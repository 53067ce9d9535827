"""`sizer verify`."""

from __future__ import annotations

import sys

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.oracles.compare import LEVELS
from sizer.report.report import Report


@click.command("verify", cls=Command)
@click.option("--all", "everything", is_flag=True, help="Verify every preset, with a progress bar.")
@model_options
@click.option(
    "--level", type=click.Choice(LEVELS), default="names", show_default=True, help="How closely to compare."
)
@click.option("--what", default="tensors", metavar="NAME", help="tensors, activations or peak.")
@output_options
def command(model: Model | None, everything: bool, level: str, what: str) -> Report:
    """Compare a model with the real torch module: names, shapes, totals, ties.

    The module is built on the meta device; nothing is downloaded. Exit 1 where anything differs.

    \b
    sizer verify gpt2-small
    sizer verify --all --level total
    sizer verify gpt2-small --what peak
    """
    from sizer.report import verify

    if what != "tensors":
        from sizer.report import verify_memory

        if model is None:
            raise click.UsageError("--what needs a model")
        return verify_memory.report(model, what)
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
