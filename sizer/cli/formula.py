"""`sizer formula`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import formula as report
from sizer.report.report import Report


@click.command("formula", cls=Command)
@model_options
@click.option("--keep", metavar="D,L", default="", help="Letters to keep; the others become numbers.")
@click.option("--diff", metavar="D", help="The derivative in a letter, and the elasticity.")
@click.option("--ascii", "notation", flag_value="ascii", help="12*D**2 + 13*D, which sympy reads.")
@click.option("--latex", "notation", flag_value="latex", help="The total as LaTeX.")
@click.option("--mathml", "notation", flag_value="mathml", help="The total as MathML.")
@click.option("--python", "notation", flag_value="python", help="The total as a Python function.")
@output_options
def command(model: Model, keep: str, diff: str | None, notation: str | None) -> Report:
    """Print the closed form of the count: of a block, of each component, of the whole.

    \b
    sizer formula gpt2-small
    sizer formula gpt2-small --set qkv_bias=false -q
    sizer formula llama-3-8b --keep D,L
    """
    letters = [part.strip() for part in keep.split(",") if part.strip()]
    return report.report(model, keep=letters, diff=diff, notation=notation or "text")
