"""The fewest terms that make one number of another, or what comes nearest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, combinations

from sizer.core.record import Record
from sizer.oracles.reconcile.figure import Figure, Reading
from sizer.oracles.reconcile.term import Term, Variant

# Beyond five terms, chance finds a sum for any number.
MOST_TERMS = 5
# A rounded figure says so little that more terms would explain anything.
MOST_TERMS_OF_ROUNDED = 3
# Of the pool, taken for a rounded figure.
MOST_ADDED_TO_ROUNDED = 2
# Of an exact number that is read in another way than as it stands.
MOST_ADDED_TO_UNLIKELY = 1
MOST_SHOWN = 8
# Entries that a tokenizer has more or fewer than the table: LLaMA's fine-tunes add a few.
MOST_EXTRA_ROWS = 1024
COST_OF_ROWS = 3

Subset = tuple[Term, ...]


class Explanation(Record):
    """Terms that lead from our total to `value`; `reading` is how the figure is then read."""

    __slots__ = ("length", "reading", "start", "stored", "terms", "value")

    def __init__(self, variant: Variant, added: Subset, reading: Reading) -> None:
        self.start = variant.start
        self.terms = (*(term for term in variant.base if term.amount), *added)
        self.reading = reading
        self.stored = variant.stored
        self.length = variant.weight + len(added)
        self.value = self.start + sum(term.amount for term in self.terms)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Fewest terms first, then the likelier ones, then the nearest to the middle."""
        middle = (self.reading.low + self.reading.high) // 2
        likely = sum(term.cost for term in self.terms)
        return self.length + self.reading.penalty, likely, abs(self.value - middle)

    @property
    def residual(self) -> int:
        """What remains to the nearest number that the figure may stand for."""
        if self.value < self.reading.low:
            return self.reading.low - self.value
        return min(0, self.reading.high - self.value)


class Found(Record):
    """The explanations of one length, the likeliest first; and the nearest where there is none."""

    __slots__ = ("explanations", "nearest", "start")

    def __init__(self, start: int, explanations: list[Explanation], nearest: Explanation | None) -> None:
        self.start = start
        self.explanations = explanations
        self.nearest = nearest


def search(variants: Iterable[Variant], figure: Figure) -> Found:
    """All explanations with the fewest terms.

    Where the plain variant explains an exact number with a single term, no other variant is made.
    """
    source = iter(variants)
    plain = next(source)
    made = [plain]
    rounded = not figure.exact
    if not rounded:
        for size in (0, 1):
            found = list(_of_length([plain], figure, size))
            if found:
                return Found(plain.start, _ranked(found), None)
    made += source
    # Likely terms first: of a rounded figure, unlikely ones explain nearly anything.
    for dearest in (1, 3) if rounded else (9,):
        explanations = _shortest(made, figure, dearest)
        if explanations:
            return Found(plain.start, _ranked(explanations), None)
    nearest = _nearest(made, figure)
    if nearest is not None and not nearest.stored and abs(nearest.residual) * 20 > nearest.value:
        # So far off, no term means anything: our own total alone.
        own = Variant(plain.start, (), ())
        nearest = min(
            (Explanation(own, (), reading) for reading in figure.readings), key=lambda one: abs(one.residual)
        )
    return Found(plain.start, [], nearest)


def _shortest(variants: list[Variant], figure: Figure, dearest: int) -> list[Explanation]:
    most = MOST_TERMS if figure.exact else MOST_TERMS_OF_ROUNDED
    found: list[Explanation] = []
    for size in range(most + 1):
        found += (
            one
            for one in _of_length(variants, figure, size, dearest)
            if one.length + one.reading.penalty <= most
        )
        best = min((one.rank[0] for one in found), default=most + 1)
        # A reading that is less likely counts as a term, so a longer sum may still be as good.
        if best <= size:
            break
    return [one for one in found if one.rank[0] == best]


def _ranked(found: Iterable[Explanation]) -> list[Explanation]:
    """The likeliest first, those of the same amounts and names once."""
    seen: set[tuple[tuple[str, int], ...]] = set()
    kept = []
    for one in sorted(found, key=lambda one: one.rank):
        key = tuple(sorted((term.name, term.amount) for term in one.terms))
        if key not in seen:
            seen.add(key)
            kept.append(one)
    # Any difference is some number of rows of the vocabulary: only where nothing else explains it.
    firm = [one for one in kept if all(term.cost < COST_OF_ROWS for term in one.terms)]
    return (firm or kept)[:MOST_SHOWN]


def _of_length(
    variants: Iterable[Variant], figure: Figure, size: int, dearest: int = 1
) -> Iterator[Explanation]:
    """The explanations of that many terms; of a rounded figure, of terms no dearer than `dearest`."""
    for variant in variants:
        if not figure.exact and any(term.cost > dearest + 1 for term in variant.base):
            continue
        added = size - variant.weight
        if added < 0 or (variant.bundle if figure.exact else variant.loose):
            continue
        for reading in figure.stored if variant.stored else figure.readings:
            low, high = reading.low - variant.total, reading.high - variant.total
            if reading.exact and reading.penalty and added > MOST_ADDED_TO_UNLIKELY:
                continue
            if reading.exact:
                subsets = _exact(variant, low, added)
            elif added <= (MOST_ADDED_TO_ROUNDED if dearest <= 1 else 1):
                subsets = _within([t for t in variant.pool if t.cost <= dearest], low, high, added)
            else:
                continue
            for subset in subsets:
                yield Explanation(variant, subset, reading)


def _exact(variant: Variant, amount: int, size: int) -> Iterator[Subset]:
    yield from subsets_of(variant.pool, amount, size)
    each, rows, touches = variant.per_row
    if each and size in (1, 2):
        for others in _free(variant.pool, size - 1):
            rest = amount - sum(term.amount for term in others)
            if rest and rest % each == 0 and abs(rest // each) <= MOST_EXTRA_ROWS and rest // each > -rows:
                # Any number is some term and some rows, so the term has to be what people meet every day.
                if any(term.cost > 0 or term.touches & touches for term in others):
                    continue
                yield (*others, _of_rows(rows + rest // each, rows, each))


def _of_rows(rows: int, known: int, each: int) -> Term:
    more = rows - known
    why = (
        "tokens that were added to the vocabulary"
        if more > 0
        else "the tokens that there are, without padding"
    )
    sign = "" if more > 0 else "−"
    name = f"vocabulary of {rows:,} entries, not {known:,}"
    return Term(name, more * each, f"{sign}{abs(more):,}·{each:,}", why, 0, COST_OF_ROWS)


def subsets_of(pool: list[Term], amount: int, size: int) -> Iterator[Subset]:
    """The subsets of that size whose sum is the amount, met in the middle.

    The smaller half of each is looked up by its sum; no subset comes twice, and no two terms of one
    touch the same.
    """
    if size == 0:
        if amount == 0:
            yield ()
        return
    half = size // 2
    sums: dict[int, list[Subset]] = {}
    for subset in _free(pool, half):
        sums.setdefault(sum(term.amount for term in subset), []).append(subset)
    order = {id(term): i for i, term in enumerate(pool)}
    for subset in _free(pool, size - half):
        for other in sums.get(amount - sum(term.amount for term in subset), ()):
            # The looked-up half stands before the other, so that each subset is found once.
            if half and order[id(other[-1])] >= order[id(subset[0])]:
                continue
            if not _touch([*other, *subset]):
                yield (*other, *subset)


def _free(pool: list[Term], size: int) -> Iterator[Subset]:
    """The subsets of that size of which no two terms touch the same."""
    if size == 1:
        for term in pool:
            yield (term,)
        return
    for subset in combinations(pool, size):
        if not _touch(subset):
            yield subset


def _touch(terms: Iterable[Term]) -> bool:
    touched = 0
    for term in terms:
        if touched & term.touches:
            return True
        touched |= term.touches
    return False


def _within(pool: list[Term], low: int, high: int, size: int) -> Iterator[Subset]:
    for subset in _free(pool, size):
        if low <= sum(term.amount for term in subset) <= high:
            yield subset


def _nearest(variants: Iterable[Variant], figure: Figure) -> Explanation | None:
    """What comes closest with at most two likely terms beside the base."""
    best: tuple[int, int, int] | None = None
    nearest = None
    for variant in variants:
        # Files of a format of their own explain their own size, and are near to anything.
        if (variant.stored and variant.base) or (variant.loose and not figure.exact):
            continue
        likely = [term for term in variant.pool if term.cost <= 1]
        # Of one amount the fewest terms: two that cancel out are none.
        shortest: dict[int, Subset] = {}
        for subset in chain.from_iterable(_free(likely, size) for size in (0, 1, 2)):
            shortest.setdefault(sum(term.amount for term in subset), subset)
        sums = sorted(shortest.items())
        amounts = [amount for amount, _ in sums]
        for reading in figure.stored if variant.stored else figure.readings:
            # Packed weights are no explanation of a number near the whole.
            if variant.total * 4 < variant.start * 3 < reading.low * 4 and not variant.stored:
                continue
            at = bisect_left(amounts, reading.low - variant.total)
            for _, subset in sums[max(0, at - 1) : at + 1]:
                one = Explanation(variant, subset, reading)
                rank = (abs(one.residual), reading.penalty, one.length)
                if best is None or rank < best:
                    best, nearest = rank, one
    return nearest
