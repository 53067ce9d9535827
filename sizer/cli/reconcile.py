"""`sizer reconcile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sizer.cli.command import Command
from sizer.cli.options import output_options, source_options
from sizer.model import Model
from sizer.report import reconcile as report
from sizer.report.report import Report

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint


@click.command("reconcile", cls=Command)
@source_options
@click.argument("number", required=False)
@click.option("--dtype", metavar="TYPE", help="Of a number of bytes: bf16, fp32, fp8, int4, ….")
@output_options
def command(model: Model | Checkpoint, number: str | None, dtype: str | None) -> Report:
    """Name what turns our number into somebody else's NUMBER, exactly.

    NUMBER is a count (163037184, 163,037,184, 671B) or bytes (13.5GB, 12.55GiB, "269 bytes").
    Tied heads, buffers, router biases, prediction layers, scales, packed words, padding, other
    classes and active parameters are tried, the fewest terms first. Exit 1 where nothing fits.

    \b
    sizer reconcile gpt2-small 163037184
    sizer reconcile deepseek-v3 684,531,386,000
    sizer reconcile llama-3-8b 1.99B
    sizer reconcile llama-3-8b 16.06GB --dtype bf16
    sizer reconcile model.safetensors 1985941504
    """
    if number is None:
        raise click.UsageError("name a model and a number: sizer reconcile gpt2-small 163037184")
    return report.report(model, number, dtype=dtype)
