"""`sizer roofline`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import roofline as report
from sizer.report.report import Report


@click.command("roofline", cls=Command)
@model_options
@click.option("--on", required=True, metavar="NAME", help="The accelerator (sizer hardware list).")
@click.option("--gpus", type=int, default=1, show_default=True, metavar="N", help="They share every tensor.")
@click.option("--batch-size", type=int, default=1, show_default=True, metavar="B", help="Sequences.")
@click.option("--seq-len", type=int, default=4096, show_default=True, metavar="T", help="Tokens of each.")
@click.option(
    "--dtype", "--quant", "dtype", default="bf16", show_default=True, metavar="TYPE", help="Weights."
)
@click.option("--kv-dtype", metavar="TYPE", help="The cache, 16 bits unless given.")
@click.option("--inter-token", type=float, metavar="MS", help="Milliseconds that a token may take.")
@click.option("--hardware-file", metavar="FILE", help="A TOML file with accelerators of your own.")
@click.option("--explain", is_flag=True, help="The formulas with their values.")
@output_options
def command(model: Model, **options: Any) -> Report:
    """The least time of a prefill and of a step of decoding, and the users that a target leaves.

    \b
    sizer roofline llama-3-8b --on h100 --batch-size 32
    sizer roofline llama-3-70b --on h100 --gpus 4 --dtype fp8 --inter-token 30

    -q prints the tokens a second of decoding.
    """
    return report.report(model, **options)
