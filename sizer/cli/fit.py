"""`sizer fit`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.cli.planning_options import given, job_options
from sizer.model import Model
from sizer.report import fit as report
from sizer.report.report import Report


@click.command("fit", cls=Command)
@model_options
@click.option("--gpus", type=int, metavar="N", help="All ranks; the degrees multiply to them.")
@click.option("--gpu-layers", type=int, metavar="N", help="llama.cpp: layers on the accelerator.")
@job_options
@output_options
def command(model: Model, **options: Any) -> Report:
    """Say whether a model fits, what each rank holds, and what would make it fit.

    \b
    sizer fit llama-3-8b --on rtx-4090 --seq-len 8192
    sizer fit llama-3-70b --on h100 --gpus 4 --engine vllm --batch-size 64
    sizer fit llama-3-8b --on h100 --gpus 8 --mode train --zero 3 --checkpointing full
    """
    return report.report(model, **given(options))
