"""`sizer explain`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import explain as report
from sizer.report.report import Report


@click.command("explain", cls=Command)
@model_options
@output_options
def command(model: Model) -> Report:
    """Derive the count the way a textbook does: tensors, products, subtotals, the sum.

    \b
    sizer explain gpt2-small
    """
    return report.report(model)
