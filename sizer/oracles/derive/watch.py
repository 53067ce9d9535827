"""While a module is built: texts that say what they were compared with, and builtins that keep formulas."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from sizer.oracles.derive.expressions import extreme
from sizer.oracles.derive.trace import Number, Record, Whole, formula


class Word(str):
    """A text argument that remembers what it was compared with."""

    __slots__ = ("name", "record")
    name: str
    record: Record

    @classmethod
    def make(cls, value: str, name: str, record: Record) -> Word:
        """The text, under the name of its argument."""
        word = cls(value)
        word.name, word.record = name, record
        return word

    def __eq__(self, other: object) -> bool:
        if type(other) is str:
            self.record.texts.setdefault(self.name, {})[other] = None
        return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __deepcopy__(self, memo: Any) -> Word:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


class _IntType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, builtins.int)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, builtins.int)


class _Int(int, metaclass=_IntType):
    """`int`, which keeps the formula of what it is called with."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Number):
            return args[0].__trunc__()  # type: ignore[attr-defined]
        return builtins.int(*args, **kwargs)


def _chosen(rule: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        found = rule(*args, **kwargs)
        sides = args if len(args) > 1 else args[0] if args and isinstance(args[0], list | tuple) else ()
        traced = [side for side in sides if isinstance(side, Whole)]
        formulas = [formula(side) for side in sides]
        if kwargs or not traced or any(f is None for f in formulas) or not isinstance(found, int):
            return found
        known = {f for f in formulas if f is not None}
        poly = extreme(rule, known) if len(known) > 1 else next(iter(known))
        return traced[0].record.whole(int(found), poly)

    return choose


def _range(*args: Any) -> range:
    for arg in args:
        if isinstance(arg, Whole):
            arg.record.counts[arg.poly] = None
    return range(*args)


_REPLACED: dict[str, Any] = {"int": _Int, "max": _chosen(max), "min": _chosen(min), "range": _range}


@contextmanager
def watching(wanted: Callable[[str], bool]) -> Iterator[None]:
    """Within this, `int`, `max`, `min` and `range` of the modules that are wanted keep formulas."""
    changed: list[ModuleType] = []
    try:
        for name, module in list(sys.modules.items()):
            if type(module) is ModuleType and wanted(name):
                names = vars(module)
                if not any(word in names for word in _REPLACED):
                    names.update(_REPLACED)
                    changed.append(module)
        yield
    finally:
        for module in changed:
            for word in _REPLACED:
                vars(module).pop(word, None)
