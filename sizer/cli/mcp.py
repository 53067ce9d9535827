"""`sizer mcp`."""

from __future__ import annotations

import sys

import click

from sizer.cli.command import Command, tell
from sizer.errors import MissingExtra


@click.command("mcp", cls=Command)
def command() -> None:
    """Offer the answers to assistants, as tools of the Model Context Protocol.

    Speaks over standard input and output; the assistant starts it. It reads no file and opens no
    connection: a model is the name of a preset, or the contents of a config.json.

    \b
    sizer mcp
    """
    try:
        from sizer.service.mcp import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("mcp", "mcp_types"):
            raise MissingExtra("mcp", "sizer mcp") from None
        raise
    if sys.stdin.isatty():
        tell("sizer: mcp waits for an assistant to speak to it on standard input; Ctrl-C ends it")
    sys.exit(run())
