"""`sizer plan`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.cli.planning_options import given, job_options
from sizer.model import Model
from sizer.planning.plan import OBJECTIVES
from sizer.report import plan as report
from sizer.report.report import Report


@click.command("plan", cls=Command)
@model_options
@click.option("--gpus", type=int, metavar="N", help="Exactly so many.")
@click.option("--max-gpus", type=int, metavar="N", help="At most so many.")
@click.option("--for", "objective", metavar="NAME", help=f"{', '.join(OBJECTIVES)}; gpus unless given.")
@click.option("--overlap", type=float, metavar="SHARE", help="Of the traffic, behind computing: 0 to 1.")
@job_options
@output_options
def command(model: Model, **options: Any) -> Report:
    """Find the best layout of a model over accelerators.

    \b
    sizer plan llama-3-70b --on h100 --max-gpus 8 --engine vllm --dtype bf16,fp8
    sizer plan llama-3.1-405b --on h100 --gpus 1024 --mode train --batch-size 1024 --seq-len 8192
    sizer plan llama-3-8b --on h100 --gpus 8 --engine vllm --for concurrency
    """
    return report.report(model, **given(options))
