"""`sizer hardware`."""

from __future__ import annotations

import click

from sizer.cli.command import Command, Group
from sizer.cli.complete import accelerators
from sizer.cli.options import output_options
from sizer.cli.run_options import byte_count
from sizer.report import hardware as report
from sizer.report.report import Report


@click.group("hardware", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List and show the accelerators that are known by name.

    \b
    sizer hardware list --vendor amd
    sizer hardware show h100-sxm
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@command.command("list", cls=Command)
@click.option("--vendor", metavar="NAME", help="nvidia, amd, google, intel or apple.")
@click.option("--search", metavar="WORD", help="A word in the name.")
@click.option("--min-memory", metavar="BYTES", help="Usable memory of at least 40GiB, 80GB, ….")
@click.option("--hardware-file", metavar="FILE", help="A TOML file with accelerators of your own.")
@click.option("--explain", is_flag=True, help="The sources of each, and what other tables say.")
@output_options
def list_(
    vendor: str | None,
    search: str | None,
    min_memory: str | None,
    hardware_file: str | None,
    explain: bool,
) -> Report:
    """List the accelerators.

    \b
    sizer hardware list --search h100
    sizer hardware list --vendor nvidia --min-memory 100GiB
    """
    least = byte_count(min_memory, "--min-memory") or 0
    chosen = {"vendor": vendor, "search": search, "hardware_file": hardware_file}
    return report.listing(**chosen, least_memory=least, explain=explain)


@command.command("show", cls=Command)
@click.argument("name", shell_complete=accelerators)
@click.option("--hardware-file", metavar="FILE", help="A TOML file with accelerators of your own.")
@click.option("--explain", is_flag=True, help="Each value exactly, its source, and what other tables say.")
@output_options
def show(name: str, hardware_file: str | None, explain: bool) -> Report:
    """Show one accelerator with its sources; with -q its usable bytes.

    \b
    sizer hardware show h100-sxm --explain
    """
    return report.shown(name, hardware_file=hardware_file, explain=explain)
