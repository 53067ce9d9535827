"""`sizer solve`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.complete import models
from sizer.cli.options import output_options
from sizer.errors import InvalidConfig, clip
from sizer.report import solve as report
from sizer.report.report import Report


@click.command("solve", cls=Command)
@click.argument("target", metavar="ARCH", shell_complete=models)
@click.option("--for", "free", metavar="SIZES", required=True, help="What to find: d_model,n_layers,…")
@click.option("--params", metavar="N", help="Parameters in all: 7B, 1.3e9, 124439808.")
@click.option("--active", metavar="N", help="Parameters that a token visits.")
@click.option("--memory", metavar="BYTES", help="At most as many bytes of weights: 80GiB.")
@click.option("--kv-per-token", metavar="BYTES", help="Bytes of the cache for one token: 128KiB.")
@click.option("--flops", metavar="N", help="FLOPs of training, 6 · active · tokens: 1e22.")
@click.option("--tokens", metavar="N", help="Tokens of training, for --flops: 2T.")
@click.option("--tokens-per-param", metavar="R", help="Tokens a parameter, for --flops: 20.")
@click.option("--dtype", default="bf16", show_default=True, help="Of the weights, and of the cache.")
@click.option("--kv-dtype", help="Of the cache.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Fix a size or a switch.")
@click.option("--class", "cls", metavar="NAME", help="The class to build.")
@click.option("--multiple", metavar="SIZE=N", multiple=True, help="d_model=128: only multiples of 128.")
@click.option("--where", metavar="SIZE=VALUES", multiple=True, help="n_layers=12:96, n_experts=8,16,64.")
@click.option("--d-head", type=int, metavar="N", help="Heads of this width: n_heads = d_model / N.")
@click.option("--kv-ratio", metavar="R", help="Query heads a KV head: n_kv_heads = n_heads / R.")
@click.option("--ff-ratio", metavar="R", help="d_ff = R · d_model: 4, 3.5 or 8/3, up to a multiple.")
@click.option("--sparsity", metavar="R", help="n_experts = R · top_k.")
@click.option("--pad-vocab", type=int, metavar="N", help="Round the vocabulary up to a multiple of N.")
@click.option("--aspect", metavar="A:B", help="d_model / n_layers from A to B: 64:160.")
@click.option("--tp", type=int, metavar="N", help="Ranks that heads, KV heads and d_ff divide by.")
@click.option("--tied/--untied", default=None, help="Whether the head shares the embedding.")
@click.option("--tolerance", default="1%", show_default=True, help="The most that an answer may be off.")
@click.option("--top", type=int, default=10, show_default=True, metavar="N", help="Answers to show.")
@click.option("--explain", is_flag=True, help="The polynomial that is solved.")
@output_options
def command(
    target: Any,
    free: str,
    assignments: tuple[str, ...],
    multiple: tuple[str, ...],
    where: tuple[str, ...],
    **options: Any,
) -> Report:
    """Find the sizes that have a number of parameters; ARCH gives all other fields.

    ARCH is a preset, a file, or the name of a model type such as llama.

    \b
    sizer solve llama-3-8b --params 7B --for d_model,n_layers --d-head 128 --ff-ratio 3.5
    sizer solve gpt2-small --params 1557611200 --for d_model,n_layers --d-head 64
    sizer solve mixtral-8x7b --params 47B --active 13B --for d_model,n_experts --d-head 128
    """
    from sizer.sources.values import parse_assignment

    fixed: dict[str, Any] = {}
    for key, value in map(parse_assignment, assignments):
        if key in fixed:
            raise InvalidConfig(f"{clip(key)} is set twice")
        fixed[key] = value
    return report.report(
        target,
        free,
        fixed=fixed,
        multiple=dict(map(parse_assignment, multiple)),
        where=dict(_pair(text) for text in where),
        **options,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not equals:
        raise InvalidConfig(f"--where {clip(text)} is not SIZE=VALUES, such as n_layers=12:96")
    return name, values
