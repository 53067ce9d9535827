"""`sizer tensors`."""

from __future__ import annotations

import click

from sizer import dtypes
from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import tensors as report
from sizer.report.report import Report


@click.command("tensors", cls=Command)
@model_options
@click.option("--expand", is_flag=True, help="Write out every layer; with --json, one object a line.")
@click.option(
    "--layout",
    type=click.Choice(["checkpoint", "transformers"]),
    default="checkpoint",
    show_default=True,
    help="Names and shapes of the published file, or of the module in memory.",
)
@click.option("--dtype", default="fp32", show_default=True, help="The type the tensors are kept in.")
@output_options
def command(model: Model, expand: bool, layout: str, dtype: str) -> Report:
    """List the tensors of a model: name, shape, component, tie.

    \b
    sizer tensors gpt2-small
    sizer tensors llama-3-8b --expand --json | head
    """
    dtypes.bits(dtype)
    return report.report(model, layout=layout, expand=expand, dtype=dtype)
