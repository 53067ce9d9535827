"""`sizer size`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.model import Model
from sizer.report import size as report
from sizer.report.report import Report


@click.command("size", cls=Command)
@model_options
@click.option(
    "--quant", default="none", show_default=True, metavar="NAME", help="The format, of those above."
)
@click.option("--container", metavar="NAME", help="safetensors or gguf, that of the format unless given.")
@click.option("--group-size", type=int, metavar="N", help="Weights that share a scale; -1 for a whole row.")
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="Of what is not packed.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="A module that stays as it is.")
@click.option("--quantize", multiple=True, metavar="PATTERN", help="A module to pack against the default.")
@click.option(
    "--max-shard-size", default="50GB", show_default=True, metavar="BYTES", help="Of a safetensors file."
)
@click.option(
    "--metadata-bytes", type=int, default=0, metavar="N", help="Of a GGUF file's keys, tokenizer included."
)
@click.option("--pure", is_flag=True, help="GGUF: one type throughout, no mix.")
@click.option("--imatrix", is_flag=True, help="GGUF: quantized with an importance matrix.")
@click.option("--tensors", is_flag=True, help="List what is stored; with --json, one object a line.")
@click.option("--unit", default="auto", show_default=True, metavar="UNIT", help="bytes, GB, GiB, MB, MiB, …")
@output_options
def command(model: Model, **options: Any) -> Report:
    """Predict the bytes of a checkpoint before it exists, tensor by tensor.

    \b
    sizer size llama-3-8b --quant nf4
    sizer size llama-3-8b --quant q4_k_m
    sizer size deepseek-v3 --quant fp8-block --max-shard-size 5GB

    \b
    none bf16 fp16 fp32
    gptq-int4-g128 (2 3 4 8 bits) awq-int4-g128
    nf4 nf4-dq fp4 fp4-dq bnb-int8 nf4-torchao
    fp8-block fp8 fp8-dynamic mxfp4 mxfp8 nvfp4 nvfp4a16
    w4a16 w8a16 w4a16-asym w8a8 (compressed-tensors)
    mlx-q4 mlx-q8 (-g32 -g64 -g128) hqq-int4-g64
    q4_0 q5_1 q8_0 q2_k q3_k_m q4_k_m q5_k_m q6_k iq4_xs … (llama-quantize)
    """
    return report.report(model, **options)
