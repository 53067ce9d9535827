"""The largest number for which something is left."""

from __future__ import annotations

from collections.abc import Callable


def largest_left(left: Callable[[int], int], most: int, *, above: int = 0) -> int:
    """The largest number that leaves something, 0 where none does; what is larger never leaves more.

    Memory grows nearly in proportion, so the next number to ask is where a straight line says that
    nothing is left, and the middle where that gets nowhere.

    >>> largest_left(lambda n: 37 - n, 1000), largest_left(lambda n: -1, 9), largest_left(lambda n: 1, 9)
    (37, 0, 9)
    """
    low, high = above, max(above, 1)
    there, beyond = left(low) if low else 0, left(high)
    while beyond >= 0:
        if high == most:
            return most
        low, there = high, beyond
        high = min(8 * high, most)
        beyond = left(high)
    halve = False
    while high - low > 1:
        slope = (there - beyond) / (high - low)
        guess = low + int(there / slope) if low and not halve else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        width, now = high - low, left(guess)
        if now >= 0:
            low, there = guess, now
            # The line ends a little early or late: look close by.
            if high - low > 2 and left(low + 1) < 0:
                return low
        else:
            high, beyond = guess, now
            if high - low > 2 and left(high - 1) >= 0:
                return high - 1
        halve = high - low > width // 2
    return low
