"""One module of each kind, for what only adds up.

A scheme looks at the tensors of one module and at the configuration. So of modules whose names differ
only in numbers and that hold the same tensors one stands for all, unless a scheme asks for what is
of one tensor alone, such as its data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from sizer.sources.checkpoints.columns import Columns, Kind, patterns
from sizer.sources.checkpoints.stored import Contents, StoredTensor

# More kinds of tensors than a model has.
_MOST = 4_096
# The last step of a tensor's name, and its kind.
Token = tuple[bytes, Kind]


class OwnValues(Exception):
    """That a scheme needs what a tensor has alone, so that no other stands for it."""


class Sample(Contents):
    """One module of each kind: its tensors, and how many modules it stands for."""

    def __init__(self, contents: Contents, stored: list[StoredTensor], copies: dict[str, int]) -> None:
        super().__init__(contents.path, contents.format, stored, files=contents.files)
        self.copies = copies


def sample(contents: Contents) -> Sample | None:
    """The modules of a checkpoint, one of each kind; `None` where there are too many kinds."""
    groups = _groups(contents.columns)
    if groups is None:
        return None
    # The modules of one pattern: the last step and the kind of a tensor, and the names of those.
    by_pattern: dict[bytes, list[tuple[Token, list[bytes]]]] = defaultdict(list)
    for (pattern, kind), names in groups.items():
        module, _, last = pattern.rpartition(b".")
        for step, own in _by_last_step(names, last).items():
            by_pattern[module].append(((step, kind), own))
    if sum(map(len, by_pattern.values())) > _MOST:
        return None
    found: list[StoredTensor] = []
    copies: dict[str, int] = {}
    for module, tokens in by_pattern.items():
        for one, number, held in _alike(tokens, len(module)):
            copies[one.decode()] = number
            found += _tensors(one.decode(), held)
    return Sample(contents, found, copies)


def _groups(columns: list[Columns]) -> dict[tuple[bytes, Kind], list[bytes]] | None:
    """The names of the tensors of each pattern and kind; `None` where too many are unlike."""
    found: dict[tuple[bytes, Kind], list[bytes]] = defaultdict(list)
    same: dict[tuple[str, tuple[int, ...]], Kind] = {}
    for one in columns:
        first = {kind: same.setdefault((kind.dtype, kind.shape), kind) for kind in set(one.kinds)}
        keys = zip(patterns(one.lines), map(first.__getitem__, one.kinds), strict=True)
        for key, name in zip(keys, one.names, strict=True):
            found[key].append(name)
        if len(found) > _MOST or any(len(found[key]) > _MOST for key in found if key[0][-1:] == b"0"):
            return None
    return found


def _by_last_step(names: list[bytes], last: bytes) -> dict[bytes, list[bytes]]:
    """Names by their last step: of numbers there each is a tensor of its own in the same module."""
    if not last.isdigit():
        return {last: names}
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for name in names:
        found[name[len(name) - len(last) :]].append(name)
    return found


def _alike(tokens: list[tuple[Token, list[bytes]]], end: int) -> Iterator[tuple[bytes, int, list[Token]]]:
    """One of the modules that hold the same tensors, how many they are, and what they hold.

    All are of one pattern: the names of modules end at one place.
    """
    first = tokens[0][1]
    if len(tokens) == 1:
        yield first[0][:end], len(first), [tokens[0][0]]
        return
    modules, *others = [[name[:end] for name in names] for _, names in tokens]
    # Nearly always all of a pattern do, in the same order but for those that lie in two files.
    if all(other == modules or sorted(other) == sorted(modules) for other in others):
        yield modules[0], len(modules), [token for token, _ in tokens]
        return
    held: dict[bytes, int] = {}
    for i, having in enumerate((modules, *others)):
        for module in having:
            held[module] = held.get(module, 0) | 1 << i
    one_of = dict(zip(reversed(held.values()), reversed(held), strict=True))
    for bits, number in Counter(held.values()).items():
        yield one_of[bits], number, [token for i, (token, _) in enumerate(tokens) if bits >> i & 1]


def _tensors(module: str, held: list[Token]) -> Iterator[StoredTensor]:
    for last, kind in held:
        yield kind.tensor(f"{module}.{last.decode()}" if module else last.decode(), "")
