"""Options of `sizer fit` and `sizer plan`: the accelerators, the job, and how it is spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from sizer.cli.complete import accelerators
from sizer.cli.run_options import byte_count
from sizer.planning.job import ENGINES, MODES, PRECISIONS
from sizer.planning.layout import CHECKPOINTING, OFFLOADS


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is run, and on what; values that are not given are not passed on."""
    options = (
        click.option(
            "--on",
            required=True,
            metavar="NAME",
            shell_complete=accelerators,
            help="The accelerator (sizer hardware list).",
        ),
        click.option("--hardware-file", metavar="FILE", help="A TOML file with accelerators of your own."),
        click.option("--mode", metavar="NAME", help=f"{' or '.join(MODES)}; infer unless given."),
        click.option("--batch-size", type=int, metavar="B", help="Sequences, over all ranks."),
        click.option("--micro-batch", type=int, metavar="N", help="Training: those of a rank at once."),
        click.option("--seq-len", type=int, metavar="T", help="Tokens of each; 4,096 unless given."),
        click.option(
            "--dtype", "--quant", "dtype", metavar="TYPE", help="Weights: bf16, fp8, int4, nf4, q4_k_m, …"
        ),
        click.option("--kv-dtype", metavar="TYPE", help="The cache, 16 bits unless given."),
        click.option("--engine", metavar="NAME", help=f"Serving: {', '.join(ENGINES)}."),
        click.option(
            "--gpu-memory-utilization",
            "utilization",
            type=float,
            metavar="SHARE",
            help="The share an engine takes; vLLM 0.9.",
        ),
        click.option(
            "--max-batched-tokens", "batched_tokens", type=int, metavar="N", help="Tokens of a pass."
        ),
        click.option("--precision", metavar="NAME", help=f"Training: {', '.join(PRECISIONS)}."),
        click.option("--optimizer", metavar="NAME", help="Training: adamw, adamw-8bit, lion, …"),
        click.option("--attention", metavar="NAME", help="The kernel: eager, sdpa, flash."),
        click.option("--overhead", metavar="BYTES", help="What the runtime takes, where you know better."),
        click.option("--tp", type=int, metavar="N", help="Tensor-parallel ranks."),
        click.option("--pp", type=int, metavar="N", help="Stages of a pipeline."),
        click.option("--vpp", type=int, metavar="N", help="Chunks of a stage: an interleaved pipeline."),
        click.option("--dp", type=int, metavar="N", help="Data-parallel ranks, or replicas."),
        click.option("--cp", type=int, metavar="N", help="Context-parallel ranks."),
        click.option("--ep", type=int, metavar="N", help="Ranks that share the experts."),
        click.option("--zero", type=int, metavar="STAGE", help="ZeRO: 0, 1, 2 or 3."),
        click.option("--checkpointing", metavar="NAME", help=f"Training: {' or '.join(CHECKPOINTING)}."),
        click.option("--offload", metavar="NAME", help=f"Training, to the host: {', '.join(OFFLOADS)}."),
        click.option(
            "--host-memory", metavar="BYTES", help="Training: the host's, for each GPU; plan may use it."
        ),
        click.option("--unit", default="auto", show_default=True, help="auto, B, GB or GiB."),
        click.option("--explain", is_flag=True, help="What was assumed, and how the answer comes about."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, bytes as a number."""
    for name in ("overhead", "host_memory"):
        options[name] = byte_count(options[name], f"--{name.replace('_', '-')}")
    return {name: value for name, value in options.items() if value is not None}
