"""`sizer formula`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.cli.run_options import length_options
from sizer.errors import UnknownName
from sizer.model import Model
from sizer.report import formula as report
from sizer.report.report import Report

# What there is a closed form of, and the report that writes it.
OF = ("params", "flops", "kv-cache", "activations", "memory")


@click.command("formula", cls=Command)
@model_options
@click.option("--of", "what", default="params", show_default=True, metavar="WHAT", help=f"{', '.join(OF)}.")
@click.option("--keep", metavar="D,L", default="", help="Letters to keep; the others become numbers.")
@click.option("--diff", metavar="D", help="The derivative in a letter, and the elasticity.")
@click.option("--ascii", "notation", flag_value="ascii", help="12*D**2 + 13*D, which sympy reads.")
@click.option("--latex", "notation", flag_value="latex", help="The total as LaTeX.")
@click.option("--mathml", "notation", flag_value="mathml", help="The total as MathML.")
@click.option("--python", "notation", flag_value="python", help="The total as a Python function.")
@length_options
@click.option("--attention", metavar="KERNEL", help="Of flops, activations, memory: eager, sdpa, flash.")
@click.option("--dtype", default="bf16", metavar="TYPE", help="Of kv-cache: bf16, fp8, q8_0, …")
@click.option(
    "--policy", default="architecture", metavar="NAME", help="Of kv-cache: architecture, full, static."
)
@click.option("--precision", default="bf16", help="Of activations and memory: fp32, bf16, autocast.")
@click.option("--checkpointing", default="none", help="Of activations and memory: none, full.")
@output_options
def command(model: Model, what: str, keep: str, diff: str | None, notation: str | None, **run: Any) -> Report:
    """Print the closed form of the count: of a block, of each component, of the whole.

    \b
    sizer formula gpt2-small
    sizer formula gpt2-small --set qkv_bias=false -q
    sizer formula llama-3-8b --keep D,L
    sizer formula llama-3-8b --of flops -q
    sizer formula gpt2-small --of activations --attention eager
    """
    if what not in OF:
        raise UnknownName("formula", what, OF, hint=f"--of {', '.join(OF)}")
    if what == "params":
        letters = [part.strip() for part in keep.split(",") if part.strip()]
        return report.report(model, keep=letters, diff=diff, notation=notation or "text")
    if keep or diff:
        raise click.UsageError(f"--keep and --diff belong to --of params, not to --of {what}")
    return _measured(model, what, notation or "text", **run)


def _measured(
    model: Model,
    what: str,
    notation: str,
    *,
    batch_size: int,
    seq_len: int,
    encoder_len: int | None,
    attention: str | None,
    dtype: str,
    policy: str,
    **step: Any,
) -> Report:
    """The closed form of what depends on a run: of a step, a forward pass, a cache."""
    sizes: dict[str, Any] = {"batch_size": batch_size, "seq_len": seq_len}
    if what in ("activations", "memory"):
        from sizer.measures.step.simulate import settings
        from sizer.report import measured_formula

        how = settings(**sizes, attention=attention or "sdpa", **step)
        return measured_formula.report(model, what, how, notation=notation)
    lengths: dict[str, Any] = {**sizes, "encoder_len": encoder_len}
    if what == "flops":
        from sizer.report import flops

        return flops.formula(model, attention=attention or "eager", notation=notation, **lengths)
    from sizer.report import kv_cache

    return kv_cache.formula(model, dtype=dtype, policy=policy, notation=notation, **lengths)
