"""`sizer flops`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.cli.run_options import length_options, lengths
from sizer.model import Model
from sizer.report import flops as report
from sizer.report.report import Report


@click.command("flops", cls=Command)
@model_options
@length_options
@click.option(
    "--decoder-len", type=int, metavar="N", help="Tokens of the decoder's sequence; T unless given."
)
@click.option(
    "--attention",
    default="eager",
    show_default=True,
    metavar="KERNEL",
    help="eager, sdpa, efficient or flash: a backward pass of the last two costs more.",
)
@click.option(
    "--checkpointing",
    default="none",
    show_default=True,
    metavar="KIND",
    help="Run again: none, selective (attention), matmuls (all but them) or full (blocks).",
)
@click.option("--past", "past_len", type=int, default=0, metavar="N", help="Tokens in the cache before.")
@click.option("--chunk", type=int, metavar="N", help="Run the tokens in passes of N (chunked prefill).")
@click.option("--decode", type=int, metavar="N", help="Instead, N more tokens one at a time, after T.")
@click.option("--logits-to-keep", type=int, metavar="N", help="The head reads only the last N tokens.")
@click.option(
    "--latents",
    default="expanded",
    metavar="WAY",
    help="Latents in a cache: expanded anew, or absorbed as engines do.  [default: expanded]",
)
@click.option("--lora", metavar="r=8,target=q_proj+v_proj", help="Train these adapters alone.")
@click.option("--stream", "streams", multiple=True, metavar="NAME=N", help="Tokens of another stream.")
@click.option("--causal", is_flag=True, help="Beside it, without the pairs that a mask or a window hides.")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME",
    help="Beside it, a published rule: 6n, palm, chinchilla, megatron.",
)
@click.option("--explain", is_flag=True, help="Every product with its formula, and the rules used.")
@output_options
def command(model: Model, streams: tuple[str, ...], **options: Any) -> Report:
    """Count the FLOPs of a step, forward and backward; a multiply-add is 2.

    \b
    sizer flops gpt2-small --seq-len 1024 --rule 6n --rule palm
    sizer flops llama-3-8b --batch-size 8 --seq-len 8192 --attention flash --checkpointing full
    sizer flops llama-3-8b --seq-len 8192 --decode 100

    -q prints the forward pass.
    """
    return report.report(model, stream_lengths=lengths(streams), **options)
