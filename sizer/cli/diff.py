"""`sizer diff`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.complete import models
from sizer.cli.options import output_options
from sizer.oracles.compare import LEVELS
from sizer.report import diff as report
from sizer.report.report import Report


@click.command("diff", cls=Command)
@click.argument("a", shell_complete=models)
@click.argument("b", shell_complete=models)
@click.option(
    "--level", type=click.Choice(LEVELS), default="names", show_default=True, help="How closely to compare."
)
@output_options
def command(a: str, b: str, level: str) -> Report:
    """Compare two models, files of weights or torch modules, tensor by tensor.

    A and B are each what `sizer count` takes: a preset, a config, a file of weights, an index, a
    folder. A prefix says how to read it: formula:MODEL, checkpoint:PATH, or torch:MODEL for the
    module that transformers builds. Names are matched through known prefixes, and layers folded.
    Exit 1 where anything differs, or where a file is missing.

    \b
    sizer diff config.json model.safetensors
    sizer diff formula:folder checkpoint:folder
    sizer diff gpt2-small torch:gpt2-small
    sizer diff llama-3-8b llama-3.2-1b --level component
    """
    return report.report(a, b, level=level)
