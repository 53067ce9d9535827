"""`sizer presets`."""

from __future__ import annotations

import click

from sizer.cli.command import Command, Group
from sizer.cli.complete import models
from sizer.cli.options import output_options
from sizer.report import presets as report
from sizer.report.report import Report
from sizer.sources.presets import KINDS


@click.group("presets", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List and show the models that are known by name.

    \b
    sizer presets list --family gpt2
    sizer presets show llama-3-8b
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@command.command("list", cls=Command)
@click.option("--family", metavar="NAME", help="A family, or an architecture.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="What the model is; twice for both.",
)
@click.option("--search", metavar="WORD", help="A word in the name.")
@click.option("--min", "least", metavar="N", type=click.IntRange(min=0), default=0, help="Fewest parameters.")
@click.option("--max", "most", metavar="N", type=click.IntRange(min=0), help="Most parameters.")
@output_options
def list_(
    family: str | None, kinds: tuple[str, ...], search: str | None, least: int, most: int | None
) -> Report:
    """List the presets.

    \b
    sizer presets list --family qwen3 --kind moe
    sizer presets list --kind encoder --max 150000000
    """
    return report.listing(family=family, kinds=kinds, search=search, least=least, most=most)


@command.command("show", cls=Command)
@click.argument("name", shell_complete=models)
@click.option("--hf", is_flag=True, help="Write the config.json that transformers reads to the same model.")
@output_options
def show(name: str, hf: bool) -> Report:
    """Show one preset; with -q, as a TOML file to start from.

    \b
    sizer presets show qwen3-8b --hf > config.json
    """
    from sizer.sources.presets import preset

    return report.as_config_json(preset(name)) if hf else report.shown(preset(name))
