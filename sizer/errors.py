"""What can go wrong, each named after the mistake.

Every message names the subject, the value, the rule and the next step, in one or two sentences.
The command line prints it and exits with 2; nothing here ever ends in a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class SizerError(Exception):
    """The base of all errors a user can cause."""


class UnknownName(SizerError):
    """A name that nothing is known under; carries the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.kind, self.name = kind, name
        self.nearest = nearest(name, known)
        guess = f"; did you mean {_either(self.nearest)}?" if self.nearest else ""
        super().__init__(f"no {kind} named {clip(name)!r}{guess}{hint and f' ({hint})'}")


class InvalidConfig(SizerError):
    """A configuration that describes no model: a bad value, or values that contradict."""


class NotDescribed(InvalidConfig):
    """A quantity that an architecture says too little for."""


class Rounded(InvalidConfig):
    """A number that is rounded where a formula divides."""


class UnknownKey(InvalidConfig):
    """A configuration key that the architecture does not have."""


class BadInput(SizerError):
    """A file or a text that cannot be read as what it should be."""


class ClosedPipe(SizerError):
    """Whoever read our output stopped reading."""

    def __init__(self) -> None:
        super().__init__("the reader of the output closed the pipe")


class MissingExtra(SizerError):
    """An optional dependency that is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the '{extra}' extra: python -m pip install 'model-sizer[{extra}]' "
            f"(from a checkout: python -m pip install '.[{extra}]')"
        )


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to one that is not: those with all its words, then those spelt alike.

    >>> nearest("llama3", ["llama-30b", "llama-3-8b"]), nearest("gtp2", ["gpt2", "bert"])
    (['llama-3-8b', 'llama-30b'], ['gpt2'])
    """
    import difflib

    names = {known_name.lower(): known_name for known_name in known}
    asked = name[:200].lower()
    words = _words(asked)
    places = {match: _place(words, _words(match)) for match in names}
    longer = sorted((match for match in names if places[match] >= 0), key=lambda match: places[match])
    alike = difflib.get_close_matches(asked, names, n=most, cutoff=0.6)
    return [names[match] for match in dict.fromkeys((*longer, *alike))][:most]


def _words(name: str) -> list[str]:
    """The words and numbers of a name: `llama3`, `llama-3` and `llama_3` have the same."""
    return re.findall("[^\\W\\d_]+|[0-9]+", name)


def _place(words: list[str], longer: list[str]) -> int:
    """Where some words stand in a row among others, or -1."""
    n = len(words)
    return next((i for i in range(len(longer) - n + 1) if longer[i : i + n] == words), -1) if n else -1


def clip(text: object, most: int = 80) -> str:
    """Text from outside, short enough for one line of an error; a long path keeps its file's name.

    >>> clip("a/long/path/to/model.safetensors", most=24)
    'a/l…to/model.safetensors'
    """
    line = printable(_bounded(str(text)))
    if len(line) <= most:
        return line
    tail = min(40, most - 4)
    return f"{line[: most - tail - 1]}…{line[-tail:]}"


def sentence(text: str) -> str:
    """A message as it is shown: one line of bounded length, whatever it repeats of what was given."""
    return clip(text, most=1400)


def _bounded(text: str, most: int = 1000) -> str:
    """The two ends of a text that may be many megabytes long."""
    return text if len(text) <= 2 * most else text[:most] + text[-most:]


def printable(text: str) -> str:
    """Text from outside with its control characters spelt out, so that it stays one line.

    >>> printable("a\\nb\\x1b[2J")
    'a\\\\nb\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(value: object) -> str:
    """A value from outside as Python writes it, clipped; however large or deep it is."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a whole number of over 40 digits"
    try:
        return clip(repr(value))
    except (RecursionError, ValueError):
        return f"a {type(value).__name__}"


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
