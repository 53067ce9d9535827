"""`sizer formula`."""

from __future__ import annotations

from typing import Any

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
@click.option("--of", "measure", default="params", metavar="NAME", help="params, activations or memory.")
@click.option("--batch-size", type=int, default=1, help="Of activations and memory: sequences.")
@click.option("--seq-len", type=int, default=1024, help="Of activations and memory: tokens a sequence.")
@click.option("--precision", default="bf16", help="Of activations and memory: fp32, bf16, autocast.")
@click.option("--attention", default="sdpa", help="Of activations and memory: eager, sdpa, flash.")
@click.option("--checkpointing", default="none", help="Of activations and memory: none, full.")
@output_options
def command(
    model: Model, keep: str, diff: str | None, notation: str | None, measure: str, **step: Any
) -> Report:
    """Print the closed form of the count: of a block, of each component, of the whole.

    \b
    sizer formula gpt2-small
    sizer formula gpt2-small --set qkv_bias=false -q
    sizer formula llama-3-8b --keep D,L
    sizer formula gpt2-small --of activations --attention eager
    """
    if measure != "params":
        from sizer.measures.step.simulate import settings
        from sizer.report import measured_formula

        return measured_formula.report(model, measure, settings(**step), notation=notation or "text")
    letters = [part.strip() for part in keep.split(",") if part.strip()]
    return report.report(model, keep=letters, diff=diff, notation=notation or "text")
