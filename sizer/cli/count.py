"""`sizer count`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from sizer.cli.command import Command
from sizer.cli.options import output_options, source_options
from sizer.model import Model
from sizer.report import count as report
from sizer.report.report import Report

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint
    from sizer.report.built import Built


@click.command("count", cls=Command)
@source_options
@click.option(
    "--by",
    type=click.Choice(report.GROUPINGS),
    default="component",
    show_default=True,
    help="What a row of the table is.",
)
@click.option(
    "--with",
    "builder",
    type=click.Choice(["torch"]),
    help="Count a config.json on the module that transformers builds, where sizer has no formula.",
)
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="With --by module: levels to show.")
@click.option("--lora", metavar="r=8,target=q_proj+v_proj", help="The parameters that adapters would train.")
@output_options
def command(
    model: Model | Checkpoint | Built, by: str, builder: str | None, depth: int | None, lora: str | None
) -> Report:
    """Count the parameters of a model, each tied tensor once.

    MODEL may be a file of weights (safetensors, GGUF, PyTorch), an index of such files, or a folder
    with either: then the weights that its tensors stand for are counted, from the headers alone. A
    folder with a config.json is counted by its configuration; name the file in it, or the index, to
    count the weights. One of several numbered files stands for them all.
    Exit 1, and a word on standard error, where a file is missing, cut off, or contradicts another.

    \b
    sizer count gpt2-small
    sizer count config.json --by module --depth 2
    sizer count llama-3-8b --set n_layers=16 -q
    sizer count llama-7b --lora r=8,target=q_proj+v_proj
    sizer count model.safetensors
    sizer count llama-3-8b.Q4_K_M.gguf --json
    """
    if isinstance(model, Model):
        if lora is not None:
            from sizer.report import lora as adapters

            return adapters.report(model, lora)
        return report.report(model, by=by, depth=depth)
    if lora is not None:
        raise click.UsageError("--lora needs a model; a file of weights does not say what is a matrix")
    if builder:
        from sizer.report import built

        return built.report(cast("Built", model), depth=depth)
    from sizer.report import checkpoint

    return checkpoint.report(cast("Checkpoint", model), by=by, depth=depth)
