"""The opcodes of a pickle: what each does to a stack. See `pickletools` of the standard library."""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from
from typing import Any

from sizer.sources.checkpoints.pickles import Call, CutOff, Dict, Global, Persistent

# The longest whole number, in bytes.
MAX_LONG = 64
_MARK = object()


class Machine:
    """The bytes of a pickle, a place in them, its stack and its memo."""

    __slots__ = ("at", "data", "memo", "stack")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def number(self, length: int) -> int:
        """The next bytes as a whole number."""
        end = self.at + length
        if end > len(self.data):
            self.at = len(self.data)
            raise CutOff
        value = int.from_bytes(self.data[self.at : end], "little")
        self.at = end
        return value

    def take(self, length: int) -> bytes:
        """The next bytes."""
        end = self.at + length
        if end > len(self.data):
            self.at = len(self.data)
            raise CutOff
        found = self.data[self.at : end]
        self.at = end
        return found

    def line(self) -> bytes:
        """The bytes up to the end of the line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            self.at = len(self.data)
            raise CutOff
        found = self.data[self.at : end]
        self.at = end + 1
        if len(found) > 10_000:
            raise ValueError
        return found

    def since_mark(self) -> list[Any]:
        """What lies on the stack above the last mark, taken off with it."""
        stack = self.stack
        for i in range(len(stack) - 1, -1, -1):
            if stack[i] is _MARK:
                items = stack[i + 1 :]
                del stack[i:]
                return items
        raise ValueError


def _text(m: Machine, length: int) -> None:
    m.stack.append(m.take(length).decode("utf-8", "replace"))


def _blob(m: Machine, length: int) -> None:
    m.take(length)
    m.stack.append(b"")


def _int_line(m: Machine) -> None:
    line = m.line().rstrip(b"L")
    if len(line) > 40:
        raise ValueError
    m.stack.append({b"00": False, b"01": True}.get(line) if line in (b"00", b"01") else int(line))


def _long(m: Machine, length: int) -> None:
    if length > MAX_LONG:
        raise ValueError
    m.stack.append(int.from_bytes(m.take(length), "little", signed=True))


def _signed(m: Machine) -> None:
    value = m.number(4)
    m.stack.append(value - (1 << 32) if value >= 1 << 31 else value)


def _float(m: Machine) -> None:
    m.stack.append(unpack_from(">d", m.take(8))[0])


def _global(m: Machine) -> None:
    module, name = m.line().decode(), m.line().decode()
    m.stack.append(Global(module, name))


def _stack_global(m: Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise ValueError
    m.stack.append(Global(module, name))


def _reduce(m: Machine) -> None:
    args, callee = m.stack.pop(), m.stack.pop()
    m.stack.append(Call(callee, args))


def _newobj_ex(m: Machine) -> None:
    _, args, callee = m.stack.pop(), m.stack.pop(), m.stack.pop()
    m.stack.append(Call(callee, args))


def _inst(m: Machine) -> None:
    _global(m)
    callee = m.stack.pop()
    m.stack.append(Call(callee, tuple(m.since_mark())))


def _obj(m: Machine) -> None:
    callee, *args = m.since_mark()
    m.stack.append(Call(callee, tuple(args)))


def _build(m: Machine) -> None:
    state = m.stack.pop()
    m.stack[-1].state = state


def _dict(m: Machine) -> None:
    found = Dict()
    m_items = m.since_mark()
    found.items = list(zip(m_items[::2], m_items[1::2], strict=True))
    m.stack.append(found)


def _setitem(m: Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    m.stack[-1].items.append((key, value))


def _setitems(m: Machine) -> None:
    pairs = m.since_mark()
    m.stack[-1].items.extend(zip(pairs[::2], pairs[1::2], strict=True))


def _append(m: Machine) -> None:
    value = m.stack.pop()
    _extend(m.stack[-1], [value])


def _appends(m: Machine) -> None:
    values = m.since_mark()
    _extend(m.stack[-1], values)


def _extend(target: Any, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    else:
        target.items.extend((None, value) for value in values)


def _tuple_of(count: int) -> Callable[[Machine], None]:
    def handler(m: Machine) -> None:
        if len(m.stack) < count:
            raise ValueError
        items = tuple(m.stack[-count:])
        del m.stack[-count:]
        m.stack.append(items)

    return handler


def _push(value: Any) -> Callable[[Machine], None]:
    return lambda m: m.stack.append(value)


def _put(m: Machine, index: int) -> None:
    m.memo[index] = m.stack[-1]


def _get(m: Machine, index: int) -> None:
    if index not in m.memo:
        raise ValueError
    m.stack.append(m.memo[index])


# The commonest opcodes, without the calls of the others.


def _int1(m: Machine) -> None:
    m.stack.append(m.data[m.at])
    m.at += 1


def _put1(m: Machine) -> None:
    m.memo[m.data[m.at]] = m.stack[-1]
    m.at += 1


def _get1(m: Machine) -> None:
    index = m.data[m.at]
    m.at += 1
    if index not in m.memo:
        raise ValueError
    m.stack.append(m.memo[index])


def _persid(m: Machine) -> None:
    m.stack.append(Persistent(m.stack.pop()))


HANDLERS: dict[int, Callable[[Machine], None]] = {
    ord(code): handler
    for code, handler in {
        "\x80": lambda m: m.take(1),
        "\x95": lambda m: m.take(8),
        "(": _push(_MARK),
        ")": _push(()),
        "]": lambda m: m.stack.append([]),
        "}": lambda m: m.stack.append(Dict()),
        "\x8f": lambda m: m.stack.append([]),
        "N": _push(None),
        "\x88": _push(True),
        "\x89": _push(False),
        "J": _signed,
        "K": _int1,
        "M": lambda m: m.stack.append(m.number(2)),
        "\x8a": lambda m: _long(m, m.number(1)),
        "\x8b": lambda m: _long(m, m.number(4)),
        "I": _int_line,
        "L": _int_line,
        "F": lambda m: m.stack.append(float(m.line())),
        "G": _float,
        "X": lambda m: _text(m, m.number(4)),
        "\x8c": lambda m: _text(m, m.number(1)),
        "\x8d": lambda m: _text(m, m.number(8)),
        "V": lambda m: m.stack.append(m.line().decode("utf-8", "replace")),
        "S": lambda m: m.stack.append(m.line()[1:-1].decode("utf-8", "replace")),
        "T": lambda m: _text(m, m.number(4)),
        "U": lambda m: _text(m, m.number(1)),
        "B": lambda m: _blob(m, m.number(4)),
        "C": lambda m: _blob(m, m.number(1)),
        "\x8e": lambda m: _blob(m, m.number(8)),
        "\x96": lambda m: _blob(m, m.number(8)),
        "t": lambda m: m.stack.append(tuple(m.since_mark())),
        "\x85": _tuple_of(1),
        "\x86": _tuple_of(2),
        "\x87": _tuple_of(3),
        "l": lambda m: m.stack.append(m.since_mark()),
        "d": _dict,
        "a": _append,
        "e": _appends,
        "s": _setitem,
        "u": _setitems,
        "\x90": _appends,
        "\x91": lambda m: m.stack.append(m.since_mark()),
        "0": lambda m: m.stack.pop(),
        "1": lambda m: m.since_mark(),
        "2": lambda m: m.stack.append(m.stack[-1]),
        "p": lambda m: _put(m, int(m.line()[:20])),
        "q": _put1,
        "r": lambda m: _put(m, m.number(4)),
        "\x94": lambda m: _put(m, len(m.memo)),
        "g": lambda m: _get(m, int(m.line()[:20])),
        "h": _get1,
        "j": lambda m: _get(m, m.number(4)),
        "c": _global,
        "\x93": _stack_global,
        "R": _reduce,
        "\x81": _reduce,
        "\x92": _newobj_ex,
        "b": _build,
        "i": _inst,
        "o": _obj,
        "P": lambda m: m.stack.append(Persistent(m.line().decode("utf-8", "replace"))),
        "Q": _persid,
    }.items()
}
