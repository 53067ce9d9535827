"""Numbers for people: counts in k M B T (10³), bytes in GB (10⁹) or GiB (2³⁰), shares in %."""

from __future__ import annotations

_COUNTS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k"))
_BYTES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def count(number: int) -> str:
    """A count in three significant digits.

    >>> count(124_439_808), count(8_030_261_248), count(768)
    ('124M', '8.03B', '768')
    """
    return _scaled(number, _COUNTS, "")


def size(number: int, *, binary: bool = False) -> str:
    """Bytes in decimal or binary units, always named.

    >>> size(16_060_522_496), size(16_060_522_496, binary=True)
    ('16.1 GB', '15.0 GiB')
    """
    text = _scaled(number, _BINARY if binary else _BYTES, " ")
    return text if text[-1] == "B" else f"{text} B"


def share(part: int, whole: int) -> str:
    """A part of a whole in per cent, with one decimal.

    >>> share(38_597_376, 124_439_808)
    '31.0 %'
    """
    return f"{100 * part / whole:.1f} %" if whole else "–"


def bar(part: int, whole: int, width: int = 20) -> str:
    """A share as a bar of text.

    >>> bar(1, 2, width=4)
    '██'
    """
    eighths = int(8 * width * part / whole + 0.5) if whole else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest : rest + (rest > 0)]


def _scaled(number: int, scales: tuple[tuple[int, str], ...], gap: str) -> str:
    for unit, letter in scales:
        if number >= unit:
            value = number / unit
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f}{gap}{letter}"
    return str(number)
