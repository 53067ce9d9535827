"""The command line: `sizer COMMAND MODEL [OPTIONS]`.

Exit codes: 0 answered (or yes), 1 answered no, 2 could not answer, 3 a bug in sizer.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module

import click

from sizer import __version__
from sizer.cli.command import Group
from sizer.errors import SizerError, clip, sentence

# command -> (module, one line of help); a command is imported when it runs.
COMMANDS = {
    "count": "Count the parameters of a model.",
    "explain": "Derive the count the way a textbook does.",
    "formula": "Print the closed form of the count.",
    "derive": "Derive the closed form of a torch module.",
    "flops": "Count the FLOPs of a step.",
    "kv-cache": "Count the bytes that decoding keeps.",
    "shard": "Count the parameters of every rank.",
    "memory": "The memory of a training step, or of inference.",
    "fit": "Say whether a model fits on accelerators.",
    "plan": "Find the best layout of a model over accelerators.",
    "size": "Predict the bytes of a checkpoint, quantized or not.",
    "solve": "Find the sizes that have a total.",
    "sweep": "Measure a model over a grid of sizes.",
    "tensors": "List the tensors of a model.",
    "train": "The time, energy and cost of a training run.",
    "roofline": "The least time of serving, by compute and by bandwidth.",
    "compare": "Models side by side.",
    "scaling": "The best size for a budget, by published scaling laws.",
    "presets": "List and show the models that are known by name.",
    "hardware": "List and show the accelerators that are known by name.",
    "check": "Check the totals that a repository expects, for CI.",
    "verify": "Compare the count with the real torch module.",
    "diff": "Compare two models, files of weights or modules, tensor by tensor.",
    "reconcile": "Name what turns our number into somebody else's.",
    "serve": "Answer the same over HTTP.",
    "mcp": "Answer the same to assistants.",
}


class Commands(Group):
    """A group that imports only the command that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"sizer.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, with the nearest command for a name it does not know."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from sizer.errors import UnknownName

            raise UnknownName("command", name, COMMANDS, hint="sizer --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"sizer {__version__}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"max_content_width": 100},
    epilog="MODEL is a preset, a path, hub:org/name, or - for a config on standard input.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    help="Show the version.",
    callback=_show_version,
)
def cli() -> None:
    """How big is it? Parameters of a model, exactly, and all that follows from them."""


def main(args: list[str] | None = None) -> int:
    """Run the command line and answer its exit code."""
    # A terminal that cannot show `²` or `─` gets `?`, not an error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = cli.main(args=args, prog_name="sizer", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SizerError as error:
        return _fail(str(error))
    except click.UsageError as error:
        hint = f" ({error.ctx.command_path} --help)" if error.ctx else ""
        return _fail(error.format_message() + hint)
    except click.ClickException as error:
        return _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted")
    except OSError as error:
        return _fail(f"{error.strerror}: {clip(error.filename)}" if error.filename else str(error))
    except Exception as error:
        if os.environ.get("SIZER_DEBUG"):
            raise
        place = _place(error)
        _fail(
            f"a bug in sizer: {type(error).__name__}: {error} ({place}); "
            "set SIZER_DEBUG=1 for the traceback and please report it"
        )
        return 3


def _fail(message: str) -> int:
    with contextlib.suppress(OSError):
        click.echo(f"sizer: {sentence(message)}", err=True)
    return 2


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    if trace is None:
        return "unknown place"
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


def entry() -> None:
    """The `sizer` command."""
    sys.exit(main())
