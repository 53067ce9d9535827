"""`sizer kv-cache`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import ModelType, model_options, output_options
from sizer.cli.run_options import byte_count, length_options
from sizer.model import Model
from sizer.report import kv_cache as report
from sizer.report.report import Report


@click.command("kv-cache", cls=Command)
@model_options
@length_options
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="bf16, fp8, int8, q8_0, …")
@click.option("--key-dtype", metavar="TYPE", help="That of the keys.")
@click.option("--value-dtype", metavar="TYPE", help="That of the values.")
@click.option("--sliding-dtype", metavar="TYPE", help="That of layers with a window.")
@click.option("--state-dtype", metavar="TYPE", help="That of recurrent states.")
@click.option(
    "--policy",
    default="architecture",
    show_default=True,
    metavar="NAME",
    help="architecture, full, transformers, static, vllm or llama.cpp.",
)
@click.option("--max-len", type=int, metavar="N", help="Tokens that are reserved (static, llama.cpp).")
@click.option("--prefill", is_flag=True, help="Right after a prefill, not after a step (transformers).")
@click.option("--block-size", type=int, default=16, show_default=True, metavar="N", help="Tokens of a page.")
@click.option(
    "--max-batched-tokens",
    type=int,
    default=2048,
    show_default=True,
    metavar="N",
    help="Tokens vLLM runs at once.",
)
@click.option(
    "--state-pages",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Pages of a sequence's states (vllm); 2 with prefix caching.",
)
@click.option(
    "--ubatch", type=int, default=512, show_default=True, metavar="N", help="Tokens llama.cpp runs at once."
)
@click.option("--unified", is_flag=True, help="One cache for all sequences (llama.cpp).")
@click.option("--tp", type=int, default=1, show_default=True, metavar="N", help="Ranks that share the heads.")
@click.option("--budget", metavar="BYTES", help="40GiB: how many tokens and sequences fit.")
@click.option(
    "--draft", type=ModelType(), metavar="MODEL", help="A draft model; its cache is kept beside it."
)
@click.option("--unit", default="auto", show_default=True, metavar="UNIT", help="bytes, GB, GiB, MB, MiB, …")
@click.option("--explain", is_flag=True, help="The formula, its values and the policy's source.")
@output_options
def command(model: Model, budget: str | None, prefill: bool, **options: Any) -> Report:
    """Count the bytes that decoding keeps: keys and values, latents, states.

    \b
    sizer kv-cache llama-3-8b --batch-size 4 --seq-len 8192
    sizer kv-cache llama-3-8b --seq-len 20000 --policy vllm --budget 3.8125GiB
    """
    return report.report(
        model,
        budget=byte_count(budget, "--budget"),
        decoded=not prefill,
        **options,
    )
