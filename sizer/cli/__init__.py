"""The command line: `sizer COMMAND MODEL [OPTIONS]`.

Exit codes: 0 answered (or yes), 1 answered no, 2 could not answer, 3 a bug in sizer.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import io
import os
import sys
from importlib import import_module

import click

from sizer import __version__
from sizer.cli.command import Group, tell
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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click; nothing at all is answered with the help, and is no answer to a question."""
        if not args and not ctx.resilient_parsing:
            tell(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

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
        if name.startswith("-"):
            raise click.NoSuchOption(name, ctx=ctx)
        if name not in COMMANDS:
            from sizer.cli.mistakes import no_command

            raise no_command(name, COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        tell(f"sizer {__version__}", answer=True)
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
    # A terminal that cannot show `²` or `─` gets its nearest letters, not an error.
    codecs.register_error("sizer", _nearest_letters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="sizer")
    try:
        code = cli.main(args=args, prog_name="sizer", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SizerError as error:
        return _fail(str(error))
    except click.UsageError as error:
        from sizer.cli.mistakes import usage

        return _fail(usage(error))
    except click.ClickException as error:
        return _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted")
    except OSError as error:
        told = error.strerror or str(error)
        return _fail(f"{told}: {clip(error.filename)}" if error.filename else told)
    except Exception as error:
        if os.environ.get("SIZER_DEBUG"):
            raise
        place = _place(error)
        _fail(
            f"a bug in sizer: {type(error).__name__}: {error} ({place}); "
            "set SIZER_DEBUG=1 for the traceback and please report it"
        )
        return 3


def _nearest_letters(error: UnicodeError) -> tuple[str, int]:
    from sizer.cli.plain import plain

    assert isinstance(error, UnicodeEncodeError)
    return plain(error.object[error.start : error.end]), error.end


def _fail(message: str) -> int:
    with contextlib.suppress(OSError):
        tell(f"sizer: {sentence(message)}")
    return 2


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


def entry() -> None:
    """The `sizer` command."""
    code = main()
    # All goes with the process; to look for garbage in it first takes a tenth of a short command.
    gc.freeze()
    sys.exit(code)
