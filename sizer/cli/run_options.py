"""Options of the commands about a run: its lengths, and lists of names and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from sizer.errors import InvalidConfig, clip

# Nobody who writes a number without a unit means fewer bytes.
FEWEST = 100_000


def length_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--batch-size, --seq-len and --encoder-len."""
    options = (
        click.option("--batch-size", type=int, default=1, show_default=True, metavar="B", help="Sequences."),
        click.option(
            "--seq-len", type=int, default=1024, show_default=True, metavar="T", help="Tokens of each."
        ),
        click.option(
            "--encoder-len",
            type=int,
            metavar="N",
            help="Tokens of the encoder's sequence, where there is one; T unless given.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def byte_count(text: str | None, option: str) -> int | None:
    """The bytes of `40GiB` or `24GB`; a bare number is bytes too, unless it is plain that it is not."""
    if text is None:
        return None
    from sizer.units import parse_bytes

    number = parse_bytes(text)
    if number is None or number <= 0:
        raise InvalidConfig(
            f"{option} = {clip(text)} is no number of bytes; write 40GiB (2³⁰ each) or 40GB (10⁹ each)"
        )
    if text.strip().isdigit() and number < FEWEST:
        raise InvalidConfig(f"{option} = {text} has no unit; write {text}GiB, {text}GB, or {text}B for bytes")
    return number


# All that is computed with it in floating point stays finite.
MOST_NUMBER = 10**50


def number(text: str | None, option: str) -> int | None:
    """The number of `15T`, `300B` or `5.76e23`."""
    if text is None:
        return None
    from sizer.units import parse_count

    found = parse_count(text)
    if found is None or found <= 0:
        raise InvalidConfig(
            f"{option} = {clip(text)} is no whole number above zero; write 300B, 15T or 5.76e23"
        )
    if found > MOST_NUMBER:
        raise InvalidConfig(f"{option} = {clip(text)} is over 10^50, beyond anything to count")
    return found


def lengths(pairs: tuple[str, ...]) -> dict[str, int] | None:
    """`image=576` for each stream."""
    found: dict[str, int] = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        if not equals or not number.strip().isdecimal() or len(number) > 30:
            raise InvalidConfig(f"--stream {clip(pair)} is not NAME=TOKENS, such as image=576")
        found[name.strip()] = int(number)
    return found or None
