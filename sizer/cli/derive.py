"""`sizer derive`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import output_options
from sizer.report.report import Report


@click.command("derive", cls=Command)
@click.argument("target", metavar="TARGET")
@click.option(
    "--config", metavar="JSON|FILE", help="Values of its arguments; the others keep their defaults."
)
@click.option(
    "--config-class", metavar="MODULE:NAME", help="The class of its one argument, if nothing says it."
)
@click.option("--timeout", type=float, default=120.0, show_default=True, metavar="SECONDS", help="At most.")
@click.option(
    "--checks", type=int, default=20, show_default=True, metavar="N", help="Fresh points to check at."
)
@click.option("--seed", type=int, default=20, show_default=True, metavar="N", help="Of the random points.")
@click.option("--tensors", is_flag=True, help="List the tensors with their shapes.")
@click.option("--write", metavar="FILE.py", help="Write an architecture file of sizer.")
@output_options
def command(target: str, **options: Any) -> Report:
    """The closed form of a module that sizer does not know, from the module itself.

    TARGET is package.module:Class, which is imported from here or from Python's path, or
    transformers:Class. The module is built on the meta device at many sizes of its arguments; what
    fits all of them is checked at fresh ones.

    \b
    sizer derive transformers:Qwen3ForCausalLM
    sizer derive my_models:Net --config '{"width": 64}' --tensors
    sizer derive transformers:BertModel --write bert.py
    """
    from sizer.report import derive as report

    return report.report(target, **options)
