"""`sizer train`."""

from __future__ import annotations

import click

from sizer.cli.command import Command
from sizer.cli.complete import accelerators
from sizer.cli.options import model_options, output_options
from sizer.cli.run_options import number
from sizer.model import Model
from sizer.report import train as report
from sizer.report.report import Report


@click.command("train", cls=Command)
@model_options
@click.option(
    "--on",
    "accelerator",
    required=True,
    metavar="NAME",
    shell_complete=accelerators,
    help="The accelerator (sizer hardware list).",
)
@click.option("--tokens", metavar="N", help="Tokens of the run: 15T, 300B.")
@click.option("--days", type=float, metavar="N", help="Days of the run.")
@click.option("--gpus", type=int, metavar="N", help="Accelerators.")
@click.option("--mfu", type=float, metavar="X", help="Share of the peak that is used: 0.4.")
@click.option("--gpu-hours", metavar="N", help="Instead of days: accelerators · hours.")
@click.option("--achieved", metavar="N", help="Instead of --mfu: FLOP/s of one accelerator, 140e12.")
@click.option("--peak", metavar="N", help="FLOP/s of one accelerator, in place of the table's.")
@click.option("--dtype", default="bf16", show_default=True, metavar="NAME", help="Whose peak: bf16, fp8, ….")
@click.option(
    "--rule", default="6n", show_default=True, metavar="NAME", help="6n, 8n, palm, megatron, …, exact."
)
@click.option("--seq-len", type=int, default=2048, show_default=True, help="Tokens a sequence.")
@click.option(
    "--checkpointing",
    default="none",
    show_default=True,
    metavar="KIND",
    help="selective or full: the utilisation of the hardware too.",
)
@click.option("--price", type=float, metavar="X", help="Money for an hour of one accelerator.")
@click.option("--watts", type=float, metavar="X", help="Power of one accelerator, else its rated power.")
@click.option(
    "--pue", type=float, default=1.0, show_default=True, help="Energy of the site over that of the chips."
)
@click.option("--hardware-file", metavar="FILE", help="A TOML file with accelerators of your own.")
@click.option("--explain", is_flag=True, help="The formulas with their values.")
@output_options
def command(
    model: Model,
    tokens: str | None,
    gpu_hours: str | None,
    achieved: str | None,
    peak: str | None,
    **options: object,
) -> Report:
    """A training run: give all but one of tokens, days, gpus and mfu.

    \b
    sizer train llama-3.1-405b --tokens 15.6T --on h100-sxm --gpus 16384 --mfu 0.4
    sizer train llama-2-70b --tokens 2T --on a100-80gb --gpu-hours 1720320
    sizer train gpt3-175b --tokens 300B --on a100-80gb --gpus 1024 --achieved 140e12 --rule 8n

    -q prints the figure that was left out.
    """
    return report.report(
        model,
        tokens=number(tokens, "--tokens"),
        gpu_hours=number(gpu_hours, "--gpu-hours"),
        achieved=number(achieved, "--achieved"),
        peak=number(peak, "--peak"),
        **options,  # type: ignore[arg-type]
    )
