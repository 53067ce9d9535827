"""`sizer compare`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.options import ModelType, output_options
from sizer.model import Model
from sizer.report import compare as report
from sizer.report.report import Report


@click.command("compare", cls=Command)
@click.argument("models", nargs=-1, type=ModelType(), metavar="MODEL MODEL…")
@click.option("--seq-len", type=int, default=8192, show_default=True, help="Tokens of a sequence.")
@click.option("--dtype", default="bf16", show_default=True, help="The type of weights and cache.")
@click.option("--all", "everything", is_flag=True, help="Also the quantities in which they are equal.")
@click.option("--explain", is_flag=True, help="The closed form of each model's count.")
@click.option("--plot", metavar="FILE", help="Draw their parameters by component (svg, png, pdf).")
@output_options
def command(
    models: tuple[Model, ...], seq_len: int, dtype: str, everything: bool, explain: bool, plot: str | None
) -> Report:
    """Models side by side: what differs first, then sizes with their ratio to the first model.

    \b
    sizer compare llama-2-7b llama-3-8b qwen3-8b
    sizer compare llama-3-8b llama-3-8b:n_layers=40,d_ff=12288
    sizer compare deepseek-v3 kimi-k2 --explain
    """
    return report.report(
        models, seq_len=seq_len, dtype=dtype, everything=everything, explain=explain, plot=plot
    )
