"""`sizer shard`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import shard as report
from sizer.report.report import Report


@click.command("shard", cls=Command)
@model_options
@click.option(
    "--framework",
    default="megatron",
    show_default=True,
    metavar="NAME",
    help="megatron, fsdp2, dtensor, vllm or deepspeed.",
)
@click.option("--tp", type=int, default=1, metavar="N", help="Ranks that share each layer's tensors.")
@click.option("--pp", type=int, default=1, metavar="N", help="Stages of layers.")
@click.option(
    "--dp", type=int, metavar="N", help="Ranks with data of their own; FSDP and ZeRO split over them."
)
@click.option("--ep", type=int, default=1, metavar="N", help="Ranks that share the experts.")
@click.option("--etp", type=int, metavar="N", help="Ranks that share one expert (Megatron: tp).")
@click.option("--cp", type=int, default=1, metavar="N", help="Ranks that share each sequence (Megatron).")
@click.option(
    "--replicate", type=int, default=1, metavar="N", help="Groups that hold the same (FSDP2: HSDP)."
)
@click.option("--zero", type=int, default=0, metavar="0-3", help="Stage of ZeRO.")
@click.option(
    "--vocab-multiple",
    type=int,
    default=128,
    show_default=True,
    metavar="N",
    help="Megatron's --make-vocab-size-divisible-by.",
)
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="The type of the weights.")
@click.option(
    "--plot", metavar="FILE", help="Draw what every rank holds, stacked (svg, png, pdf; - for text)."
)
@click.option("--traffic", is_flag=True, help="What a rank sends in a training step, by collective.")
@click.option(
    "--sp",
    is_flag=True,
    help="Traffic: tokens are split between layers too (Megatron's --sequence-parallel).",
)
@click.option("--batch-size", type=int, default=1, show_default=True, help="Traffic: sequences at once.")
@click.option("--seq-len", type=int, default=1024, show_default=True, help="Traffic: tokens a sequence.")
@click.option("--micro-batches", type=int, default=1, show_default=True, help="Traffic: of one step.")
@click.option("--checkpointing", is_flag=True, help="Traffic: layers run again in the backward pass.")
@output_options
def command(model: Model, **options: Any) -> Report:
    """Count the parameters of every rank, and name the heaviest.

    \b
    sizer shard llama-3-8b --tp 8
    sizer shard llama-3-8b --framework fsdp2 --dp 8
    sizer shard llama-3-8b --tp 4 --pp 4
    sizer shard llama-3-8b --framework fsdp2 --dp 8 --plot ranks.svg
    sizer shard llama-3-8b --tp 4 --dp 8 --zero 1 --traffic --seq-len 8192

    -q prints the parameters of the heaviest rank.
    """
    return report.report(model, **options)
