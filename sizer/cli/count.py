"""`sizer count`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import count as report
from sizer.report.report import Report


@click.command("count", cls=Command)
@model_options
@click.option(
    "--by",
    type=click.Choice(report.GROUPINGS),
    default="component",
    show_default=True,
    help="What a row of the table is.",
)
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="With --by module: levels to show.")
@click.option("--lora", metavar="r=8,target=q_proj+v_proj", help="The parameters that adapters would train.")
@output_options
def command(model: Model, by: str, depth: int | None, lora: str | None) -> Report:
    """Count the parameters of a model, each tied tensor once.

    \b
    sizer count gpt2-small
    sizer count config.json --by module --depth 2
    sizer count llama-3-8b --set n_layers=16 -q
    sizer count llama-7b --lora r=8,target=q_proj+v_proj
    """
    if lora is not None:
        from sizer.report import lora as adapters

        return adapters.report(model, lora)
    return report.report(model, by=by, depth=depth)
