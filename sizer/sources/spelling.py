"""Keys by what their names say: which stand for sizes, and what an unknown one may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sizer.core.dims import MAX_LAYERS, MAX_SIZE
from sizer.errors import InvalidConfig, shown
from sizer.sources.values import ALIASES, canonical_name

# Words from all tools that mean a size; a file that uses one in vain has meant its own word for it.
_SWITCHES = ("tie_embeddings", "qkv_bias")
_SIZES = {word for name, aliases in ALIASES.items() if name not in _SWITCHES for word in (name, *aliases)}
# Longer keys are nobody's spelling of a size.
MAX_KEY = 60

_ENDINGS = (
    "_size",
    "_dim",
    "_rank",
    "_heads",
    "_head",
    "_layers",
    "_layer",
    "_experts",
    "_groups",
    "_positions",
    "_embeddings",
    "_width",
    "_kernel",
)


def is_size(key: str, default: object) -> bool:
    """Whether the value of a key must be a whole number, by its name and what it is by default.

    >>> is_size("hidden_size", 4096), is_size("tie_word_embeddings", True), is_size("rope_theta", 10000)
    (True, False, False)
    """
    if isinstance(default, bool) or not (default is None or isinstance(default, int)):
        return False
    return key in _SIZES or (default is not None and key.endswith(_ENDINGS))


def checked(key: str, value: Any, default: object, name: str) -> Any:
    """A value of the file `name`; one that cannot be the size its key names is an error.

    Lists pass: some model types have a size for each layer.
    """
    if value is None or isinstance(value, list | tuple | Mapping):
        if isinstance(value, Mapping) and is_size(key, default):
            raise InvalidConfig(f"{name}: {key} = {shown(value)} is not a whole number")
        return value
    if not is_size(key, default):
        return value
    if isinstance(value, float) and value.is_integer() and value <= MAX_SIZE:
        value = int(value)  # a program that computed 1200 may have written 1200.0
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidConfig(f"{name}: {key} = {shown(value)} is not a whole number")
    if value < 0 and not (isinstance(default, int) and default < 0):
        raise InvalidConfig(f"{name}: {key} = {shown(value)} is negative")
    most = MAX_LAYERS if key.endswith("layers") or key in ALIASES["n_layers"] else MAX_SIZE
    if value > most:
        raise InvalidConfig(f"{name}: {key} is beyond {most:,}, the most that is accepted")
    return value


def meant(key: str, missing: Iterable[str]) -> str | None:
    """The missing key that an unknown one stands for, where that is plain.

    >>> meant("hiden_size", ["hidden_size", "vocab_size"])
    'hidden_size'
    >>> meant("n_layers", ["num_hidden_layers"])
    'num_hidden_layers'
    >>> meant("rope_theta", ["hidden_size"])
    """
    if len(key) > MAX_KEY:
        return None
    plain = _plain(key)
    size = canonical_name(key) if key in _SIZES else None
    for known in missing:
        if _plain(known) == plain or (size is not None and canonical_name(known) == size):
            return known
    return slipped(key, missing)


def slipped(key: str, missing: Iterable[str]) -> str | None:
    """The missing key that is written so but for a letter."""
    if len(key) > MAX_KEY:
        return None
    plain = _plain(key)

    def likeness(known: str) -> float:
        from difflib import SequenceMatcher

        return SequenceMatcher(None, plain, _plain(known)).ratio()

    near = (known for known in missing if _slip(plain, _plain(known)))
    return max(near, key=likeness, default=None)


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _slip(written: str, known: str) -> bool:
    """Whether one letter was added, lost, changed, or two neighbours swapped.

    >>> _slip("hidensize", "hiddensize"), _slip("hiddenszie", "hiddensize"), _slip("nhead", "nheads")
    (True, True, True)
    """
    if abs(len(written) - len(known)) > 1 or min(len(written), len(known)) < 4:
        return False
    start = 0
    while start < min(len(written), len(known)) and written[start] == known[start]:
        start += 1
    a, b = written[start:], known[start:]
    if len(a) == len(b):
        return a[1:] == b[1:] or (a[2:] == b[2:] and a[:2] == b[1::-1])
    return a[1:] == b if len(a) > len(b) else a == b[1:]
