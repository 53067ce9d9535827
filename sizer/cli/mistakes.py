"""What to say to a command line that does not parse: the subject, and what to write instead."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import click

from sizer.errors import SizerError, UnknownName, clip, nearest

# Words that other programs take for commands.
_ELSEWHERE = {"help": "write sizer --help, or sizer count --help", "version": "write sizer --version"}


def no_command(name: str, commands: Iterable[str]) -> SizerError:
    """That there is no such command; where the word names a model, how to ask for one."""
    if name in _ELSEWHERE:
        return UnknownName("command", name, (), hint=_ELSEWHERE[name])
    model = _model(name) if not nearest(name, commands) else ""
    if model:
        return UnknownName("command", name, (), hint=f"a model follows one: sizer count {clip(model)}")
    return UnknownName("command", name, commands, hint="sizer --help")


def _model(name: str) -> str:
    """The model that a word names, or may mean."""
    from sizer.sources.hub.target import is_hub
    from sizer.sources.presets import presets

    if os.path.exists(name) or is_hub(name):
        return name
    known = [known_name for entry in presets() for known_name in (entry.name, *entry.aliases)]
    return name if name in known else next(iter(nearest(name, known, 1)), "")


def usage(error: click.UsageError) -> str:
    """A message of click's, with the next step."""
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        # Older versions of click write no full stop.
        message += _size_option(error, "" if message.endswith((".", "?")) else ".")
    elif isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        message = f"{message.rstrip('.')}: {error.param.help or 'it is required'}"
    elif "unexpected extra argument" in message:
        message += _extra(message, error.ctx)
    return f"{message} ({error.ctx.command_path} --help)" if error.ctx else message


def _size_option(error: click.NoSuchOption, stop: str) -> str:
    """Of an option that is the name of a size: how one is set."""
    from sizer.cli.command import LETTERS
    from sizer.sources.values import ALIASES, canonical_name

    name = error.option_name.lstrip("-")
    field = LETTERS.get(name.upper(), "") if len(name) == 1 else canonical_name(name.replace("-", "_"))
    if field not in ALIASES or not _has(error.ctx, "assignments"):
        return ""
    return f"{stop} A size is set with --set {field}=…"


def _extra(message: str, ctx: click.Context | None) -> str:
    """Of a word too many: the option or the command that takes it."""
    word = "".join(re.findall(r"\((\S+)\)$", message))
    if _has(ctx, "search"):
        return f"; a word to look for is --search {clip(word) or 'WORD'}"
    return "; one model at a time (sizer compare takes several)" if _has(ctx, "assignments") else ""


def _has(ctx: click.Context | None, option: str) -> bool:
    return ctx is not None and any(param.name == option for param in ctx.command.params)
