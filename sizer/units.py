"""Numbers for people: counts in k M B T (10³), bytes in GB (10⁹) or GiB (2³⁰), shares in %."""

from __future__ import annotations

_COUNTS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k"))
_BYTES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_FLOPS = (
    (10**24, "Y"),
    (10**21, "Z"),
    (10**18, "E"),
    (10**15, "P"),
    (10**12, "T"),
    (10**9, "G"),
    (10**6, "M"),
    (10**3, "k"),
)
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


def flops(number: int) -> str:
    """FLOPs, a number of operations and not a rate.

    >>> flops(291_648_307_200)
    '292 GFLOPs'
    """
    text = _scaled(number, _FLOPS, " ")
    return f"{text}FLOPs" if text[-1].isalpha() else f"{text} FLOPs"


def in_unit(number: int, unit: str) -> str:
    """Bytes in one unit, whatever their size; exact as far as three decimals go.

    >>> in_unit(2**30, "MiB"), in_unit(2**30, "GB")
    ('1,024.000 MiB', '1.074 GB')
    """
    scales = {name: size for size, name in (*_BYTES, *_BINARY)}
    if unit not in scales:
        return f"{number:,} bytes"
    return f"{number / scales[unit]:,.3f} {unit}"


def both(number: int, unit: str = "auto") -> str:
    """Bytes in one unit, or with "auto" in decimal and binary ones side by side.

    >>> both(2**30), both(2**30, "MiB")
    ('1.07 GB, 1.00 GiB', '1,024.000 MiB')
    """
    return in_unit(number, unit) if unit != "auto" else f"{size(number)}, {size(number, binary=True)}"


def parse_bytes(text: str) -> int | None:
    """Bytes of a text such as `40GiB`, `24 GB` or `1000`; nothing where it is none.

    Of `79.65 GiB` a fraction of a byte is left over and dropped; `1.5` alone is no number of bytes.

    >>> parse_bytes("40GiB"), parse_bytes("1.5 GB"), parse_bytes("7 apples"), parse_bytes("1.5")
    (42949672960, 1500000000, None, None)
    """
    from fractions import Fraction

    text = text.strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(digits) :].strip().lower()
    scales = {name.lower(): size for size, name in (*_BYTES, *_BINARY)} | {"": 1, "b": 1, "bytes": 1}
    scales |= {"tib": 2**40}
    if unit not in scales or len(digits) > 40:
        return None
    try:
        number = Fraction(digits.replace(",", "").replace("_", "")) * scales[unit]
    except (ValueError, ZeroDivisionError):
        return None
    return None if scales[unit] == 1 and number.denominator != 1 else int(number)


def parse_count(text: str) -> int | None:
    """A whole number such as `7B`, `1.5T`, `1e22` or `124,439,808`; nothing where it is none.

    >>> parse_count("7B"), parse_count("124,439,808"), parse_count("5.76e23"), parse_count("many")
    (7000000000, 124439808, 576000000000000000000000, None)
    >>> parse_count("1.5K"), parse_count("1.5")
    (1500, None)
    """
    import re
    from fractions import Fraction

    scales = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
    plain = text.strip().replace(",", "").replace("_", "").lower()
    match = re.fullmatch(r"(-?[0-9]{1,400}(?:\.[0-9]{0,30})?)(?:e\+?([0-9]{1,3}))?([kmbgt]?)", plain)
    if match is None:
        return None
    number = Fraction(match[1]) * 10 ** int(match[2] or 0) * scales[match[3]]
    return int(number) if number.denominator == 1 else None


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
