"""docs/reference/cli.md and docs/sizer.1: every command with every option, from click's own objects."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from sizer import __version__
from sizer.cli import COMMANDS, cli

EXIT_CODES = (
    ("0", "answered; of a question, yes"),
    ("1", "answered no"),
    ("2", "could not answer: usage, bad input, unknown name, missing file or extra"),
    ("3", "a bug in sizer"),
)
HEAD = """# Every command

`sizer COMMAND [MODEL] [OPTIONS]`.
MODEL is a preset, a path, `hub:org/name`, or `-` for a configuration on standard input.
Short forms of sizes are `-D -L -H -K -F -V -C -E -k -W -S`: `-D 1024` is `--set d_model=1024`.
This page is written by `tools/docs.py` from what `--help` shows; `man sizer` has the same.

| exit code | meaning |
| --- | --- |
"""


def walked() -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand under its full name."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for sub, inner in sorted(command.commands.items()):
                yield f"{name} {sub}", inner


def usage(name: str, command: click.Command) -> str:
    """`sizer count [MODEL] [OPTIONS]`."""
    words = [argument_word(p) for p in command.params if isinstance(p, click.Argument)]
    tail = "COMMAND" if isinstance(command, click.Group) else "[OPTIONS]"
    return " ".join(["sizer", name, *words, tail])


def argument_word(argument: click.Argument) -> str:
    """MODEL, [MODEL], MODEL..."""
    word = argument.metavar or (argument.name or "").upper()
    if not argument.required and not word.startswith("["):
        word = f"[{word}]"
    return word + ("..." if argument.nargs == -1 and "..." not in word else "")


def names(option: click.Option) -> str:
    """`-q, --quiet`, `--by component|layer`, `--depth N`."""
    text = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag or option.count:
        return text
    if option.metavar:
        return f"{text} {option.metavar}"
    if isinstance(option.type, click.Choice):
        return f"{text} {'|'.join(map(str, option.type.choices))}"
    return f"{text} {'PATH' if isinstance(option.type, click.Path) else option.type.name.split()[0].upper()}"


def remark(option: click.Option) -> str:
    """The help of an option, with its default where `--help` shows it."""
    text = option.help or ""
    shown = option.show_default and not callable(option.default) and option.default not in (None, False)
    return f"{text} Default: {option.default}." if shown else text


def told(command: click.Command) -> tuple[list[str], list[str]]:
    """The paragraphs of a command's help, and its example lines."""
    text, examples = [], []
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        if part.startswith("\b"):
            examples += part.removeprefix("\b").strip().splitlines()
        elif part.strip():
            text.append(" ".join(part.split()))
    return text, [line.strip() for line in examples]


def options_of(command: click.Command) -> list[click.Option]:
    """The options that a user sees."""
    return [p for p in command.params if isinstance(p, click.Option) and not p.hidden]


def page() -> str:
    """The reference of the command line."""
    lines = [HEAD.rstrip(), *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES)]
    for name, command in walked():
        text, examples = told(command)
        lines += ["", f"## {name}", "", f"`{usage(name, command)}`"]
        for paragraph in text:
            lines += ["", _escaped(paragraph)]
        if examples:
            lines += ["", "```sh", *examples, "```"]
        if options_of(command):
            lines += ["", "| option | |", "| --- | --- |"]
        for option in options_of(command):
            lines.append(f"| {_code(names(option))} | {_escaped(remark(option))} |")
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def man() -> str:
    """The same as a manual page, in the macros of man(7)."""
    lines = [f'.TH SIZER 1 "" "sizer {__version__}" "User Commands"']
    lines += [".SH NAME", "sizer \\- how big is it? Parameters of a model, and all that follows from them"]
    lines += [".SH SYNOPSIS", ".B sizer", ".I COMMAND", "[MODEL] [OPTIONS]", ".SH DESCRIPTION"]
    lines += [_roff("MODEL is a preset, a path, hub:org/name, or - for a configuration on standard input.")]
    lines += [".SH COMMANDS"]
    for name, command in walked():
        text, examples = told(command)
        lines += [f".SS {_roff(usage(name, command))}"]
        for paragraph in text:
            lines += [_roff(paragraph), ".PP"]
        if examples:
            lines += [".nf", *map(_roff, examples), ".fi"]
        for option in options_of(command):
            lines += [".TP", f".B {_roff(names(option))}", _roff(remark(option))]
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        lines += [".TP", f".B {code}", meaning]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
