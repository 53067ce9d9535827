"""Answers for a terminal or a file whose encoding has no `²` and no `─`."""

from __future__ import annotations

import re

_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_PLAIN = {
    **dict.fromkeys("─−–", "-"),
    **dict.fromkeys("█▉▊▋▌", "#"),
    **dict.fromkeys("▍▎▏", ""),
    "·": "*",
    "×": "x",
    "…": "...",
    "Σ": "sum ",
    "∂": "d",
    "₂": "2",
    "◂": "<",
    "→": "->",
    "≤": "<=",
    "≈": "~",
    "∝": "~",
    "⌈": "ceil(",
    "⌉": ")",
    "⌊": "floor(",
    "⌋": ")",
}


def plain(text: str) -> str:
    """The same in ASCII; what has no counterpart is written as an escape.

    >>> plain("12D² + 13D, 10²² · 3 ≤ x")
    '12D^2 + 13D, 10^22 * 3 <= x'
    """
    if text.isascii():
        return text
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda power: "^" + power[0].translate(_POWERS), text)
    text = "".join(_PLAIN.get(letter, letter) for letter in text)
    return text.encode("ascii", "backslashreplace").decode()


def plain_table(text: str) -> str:
    """As `plain`, and the columns stay where they are: the gap behind a longer word is shorter.

    >>> print(plain_table("4LD²  12"), plain_table("4LDF  12"), sep=chr(10))
    4LD^2 12
    4LDF  12
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    words = []
    owed = 0
    for word in re.split("( {2,})", line):
        if word.startswith("  "):
            gap = max(1, len(word) - owed)
            owed -= len(word) - gap
            words.append(" " * gap)
        else:
            words.append(plain(word))
            owed += len(words[-1]) - len(word)
    return "".join(words)


def can_show(text: str, encoding: str | None) -> bool:
    """Whether an encoding has every letter of a text."""
    try:
        text.encode(encoding or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
