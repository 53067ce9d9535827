"""What the library says about a value, in the words of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

# A name with its value, where that is no term of a product or of a sum.
_VALUE = r"(?<![·+] )(?<![-\w]){name} = (?=\S)(?!\S+ [·+])"


def spoken(text: str, params: Iterable[click.Parameter]) -> str:
    """The text with options as they are typed.

    >>> options = [click.Option(["--max-gpus"]), click.Option(["--gpus"]), click.Option(["--tp"])]
    >>> spoken("gpus = 8 and max_gpus = 9 contradict", options)
    '--gpus 8 and --max-gpus 9 contradict'
    >>> spoken("gpus = 8 is no multiple of tp · pp = 3; max_gpus is more", options)
    '--gpus 8 is no multiple of tp · pp = 3; --max-gpus is more'
    """
    for param in params:
        typed = max(param.opts, key=len)
        if not isinstance(param, click.Option) or param.name is None or not typed.startswith("--"):
            continue
        name = re.escape(param.name)
        text = re.sub(_VALUE.format(name=name), f"{typed} ", text)
        if "_" in param.name:
            text = re.sub(rf"(?<![-\w]){name}\b", typed, text)
        text = text.replace(f"{typed} = ", f"{typed} ")
    return text
