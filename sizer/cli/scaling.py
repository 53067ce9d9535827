"""`sizer scaling`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.options import ModelType, output_options
from sizer.cli.run_options import number
from sizer.model import Model
from sizer.report import scaling as report
from sizer.report.report import Report


@click.command("scaling", cls=Command)
@click.option("--flops", metavar="N", help="A budget: 5.76e23.")
@click.option("--params", metavar="N", help="A size: 8B.")
@click.option(
    "--model", type=ModelType(), metavar="MODEL", help="Instead of --params, a model whose size it is."
)
@click.option("--tokens", metavar="N", help="With a size: how far 15T tokens are from the best number.")
@click.option("--law", "laws", multiple=True, metavar="NAME", help="One law; all unless given.")
@click.option(
    "--plot", metavar="FILE", help="Draw loss over size for budgets around this one (svg, png, pdf)."
)
@click.option("--explain", is_flag=True, help="Each law with its formula and what is known of it.")
@output_options
def command(
    flops: str | None,
    params: str | None,
    model: Model | None,
    tokens: str | None,
    laws: tuple[str, ...],
    plot: str | None,
    explain: bool,
) -> Report:
    """The best size and tokens for a budget of compute, by published scaling laws.

    \b
    sizer scaling --flops 5.76e23
    sizer scaling --params 70B
    sizer scaling --model llama-3-8b --tokens 15T

    -q prints the best size, the budget, or how many times the best number of tokens.
    """
    return report.report(
        flops=number(flops, "--flops"),
        params=number(params, "--params"),
        model=model,
        tokens=number(tokens, "--tokens"),
        laws=laws,
        plot=plot,
        explain=explain,
    )
