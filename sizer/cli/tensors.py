"""`sizer tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sizer import dtypes
from sizer.cli.command import Command
from sizer.cli.options import output_options, source_options
from sizer.model import Model
from sizer.report import tensors as report
from sizer.report.report import Report

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint


@click.command("tensors", cls=Command)
@source_options
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
def command(model: Model | Checkpoint, expand: bool, layout: str, dtype: str) -> Report:
    """List the tensors of a model: name, shape, component, tie.

    Of a checkpoint, its weights as they are unpacked, then the scales and other helpers beside them.

    \b
    sizer tensors gpt2-small
    sizer tensors llama-3-8b --expand --json | head
    """
    dtypes.bits(dtype)
    if not isinstance(model, Model):
        from sizer.report import checkpoint_tensors

        return checkpoint_tensors.report(model, expand=expand)
    return report.report(model, layout=layout, expand=expand, dtype=dtype)
