"""A click command that starts a little faster than click's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from sizer.errors import SizerError

# click first looks a short option up among the long ones, and to tell the near misses it imports
# difflib; spelling out the two that scripts use saves that on every call.
_LONG = {"-q": "--quiet", "-v": "--verbose"}
# One-letter shorthands of sizes: `-D 1024` is `--set d_model=1024`. Spelt out here, they need no
# options of their own.
LETTERS = {
    "D": "d_model",
    "L": "n_layers",
    "H": "n_heads",
    "K": "n_kv_heads",
    "F": "d_ff",
    "V": "vocab_size",
    "C": "n_ctx",
    "E": "n_experts",
    "k": "top_k",
    "W": "window",
    "S": "d_state",
}


def spelt_out(args: list[str]) -> list[str]:
    """Arguments with their shorthands as long options.

    >>> spelt_out(["gpt2", "-L", "24", "-D1024", "-q"])
    ['gpt2', '--set', 'n_layers=24', '--set', 'd_model=1024', '--quiet']
    """
    spelt: list[str] = []
    rest = iter(args)
    for arg in rest:
        field = LETTERS.get(arg[1:2]) if arg[:1] == "-" else None
        if field is None:
            spelt.append(_LONG.get(arg, arg))
            continue
        value = arg[2:].removeprefix("=") or next(rest, "")
        if not value or (value[0] == "-" and not value[1:2].isdigit()):
            raise click.UsageError(f"-{arg[1]} sets {field} and needs a value, such as -{arg[1]} 16")
        spelt += ["--set", f"{field}={value}"]
    return spelt


# No count of anything that exists is over it, and every ratio of two below it is a float.
MOST = 10**30


def bounded(ctx: click.Context) -> None:
    """Refuse whole numbers among the options that are beyond any use."""
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > MOST:
                raise click.BadParameter("it is over 10^30, beyond anything to count", ctx, option)


def one_of_a_kind(given: Iterable[click.Parameter]) -> None:
    """Refuse two options that decide the same, of which click takes the last: `--json --csv`."""
    first: dict[str | None, click.Parameter] = {}
    for option in given:
        # A table in a format is a form of the answer as well.
        kind = "form" if option.name == "table_format" else option.name
        other = first.setdefault(kind, option)
        if other is not option:
            raise click.UsageError(f"{other.opts[0]} and {option.opts[0]} decide the same; give one of them")


def tell(text: str, *, answer: bool = False) -> None:
    """Print on standard error, or an answer on standard output, in the letters that the stream has.

    click's own `echo` takes an ASCII stream for a mistake and writes UTF-8 to it.
    """
    print(text, file=sys.stdout if answer else sys.stderr, flush=True)


def _show_help(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        tell(ctx.get_help(), answer=True)
        ctx.exit()


class _Quick:
    """click translates the help of `--help`, and looks for translations, even when nobody asks."""

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """`-h`, `--help`."""
        return click.Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            help="Show this message.",
            callback=_show_help,
        )


class Command(_Quick, click.Command):
    """A command of sizer."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, after spelling out the short options."""
        if any(option.name == "assignments" for option in self.params):
            args = spelt_out(args)
        args = [_LONG.get(arg, arg) for arg in args]
        rest = super().parse_args(ctx, [*args])
        one_of_a_kind(self.make_parser(ctx).parse_args(args)[2])
        bounded(ctx)
        return rest

    def invoke(self, ctx: click.Context) -> object:
        """As click; an error speaks of options as they are typed."""
        try:
            return super().invoke(ctx)
        except SizerError as error:
            from sizer.cli.spoken import spoken

            error.args = (spoken(str(error), self.params), *error.args[1:])
            raise


class Group(_Quick, click.Group):
    """A group of commands of sizer."""

    command_class = Command
