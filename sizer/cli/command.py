"""A click command that starts a little faster than click's own."""

from __future__ import annotations

import click

# click first looks a short option up among the long ones, and to tell the near misses it imports
# difflib; spelling out the two that scripts use saves that on every call.
_LONG = {"-q": "--quiet", "-v": "--verbose"}


def _show_help(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(ctx.get_help(), color=ctx.color)
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
        return super().parse_args(ctx, [_LONG.get(arg, arg) for arg in args])


class Group(_Quick, click.Group):
    """A group of commands of sizer."""

    command_class = Command
