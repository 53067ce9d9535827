"""A pickle as data: its opcodes are read, and nothing it names is ever imported or called.

A pickle is a small program. What it would build is written down here instead: a `Global` for a name
it would import, a `Call` for what it would call, with its arguments and its state. Opcodes:
`pickletools` of the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from
from typing import Any

from sizer.errors import BadInput, clip

# A state dict of 25,000 tensors takes so many.
MAX_OPCODES = 1_000_000
# The longest whole number, in bytes.
MAX_LONG = 64


class Global:
    """A name that a pickle would import."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @property
    def path(self) -> str:
        """`module.name`."""
        return f"{self.module}.{self.name}"


class Call:
    """What a pickle would call: the callee, the arguments, the state set and the items added later."""

    __slots__ = ("args", "callee", "items", "state")

    def __init__(self, callee: Any, args: Any) -> None:
        self.callee = callee
        self.args = args
        self.state: Any = None
        self.items: list[tuple[Any, Any]] = []


class Dict:
    """A dictionary, as pairs: keys may be anything, so they are not hashed."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[tuple[Any, Any]] = []


class Persistent:
    """A reference to what is kept outside of the pickle: a storage."""

    __slots__ = ("id",)

    def __init__(self, id: Any) -> None:
        self.id = id


class CutOff(Exception):
    """A pickle that ends before its last opcode."""


_MARK = object()


def parse(data: bytes, where: str, at: int = 0) -> tuple[Any, int]:
    """What the pickle at a place of some bytes would build, and the place after it.

    >>> parse(b"cos\\nsystem\\n(S'echo'\\ntR.", "x.pt")[0].callee.path
    'os.system'
    """
    machine = _Machine(data, at)
    handlers = _HANDLERS
    try:
        for _ in range(MAX_OPCODES):
            code = data[machine.at]
            machine.at += 1
            if code == 46:  # STOP
                return machine.stack.pop(), machine.at
            handlers[code](machine)
    except KeyError:
        raise BadInput(f"{clip(where)} is not a pickle: unknown opcode at byte {machine.at - 1:,}") from None
    except (CutOff, IndexError):
        if machine.at >= len(data):
            raise CutOff(where) from None
        raise BadInput(
            f"{clip(where)} is not a valid pickle: its stack runs out at byte {machine.at:,}"
        ) from None
    except (ValueError, TypeError, AttributeError):
        raise BadInput(f"{clip(where)} is not a valid pickle at byte {machine.at:,}") from None
    raise BadInput(f"{clip(where)} is a pickle of over {MAX_OPCODES:,} opcodes, more than sizer reads")


class _Machine:
    __slots__ = ("at", "data", "memo", "stack")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def number(self, length: int) -> int:
        end = self.at + length
        if end > len(self.data):
            self.at = len(self.data)
            raise CutOff
        value = int.from_bytes(self.data[self.at : end], "little")
        self.at = end
        return value

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            self.at = len(self.data)
            raise CutOff
        found = self.data[self.at : end]
        self.at = end
        return found

    def line(self) -> bytes:
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
        stack = self.stack
        for i in range(len(stack) - 1, -1, -1):
            if stack[i] is _MARK:
                items = stack[i + 1 :]
                del stack[i:]
                return items
        raise ValueError


def _text(m: _Machine, length: int) -> None:
    m.stack.append(m.take(length).decode("utf-8", "replace"))


def _blob(m: _Machine, length: int) -> None:
    m.take(length)
    m.stack.append(b"")


def _int_line(m: _Machine) -> None:
    line = m.line().rstrip(b"L")
    if len(line) > 40:
        raise ValueError
    m.stack.append({b"00": False, b"01": True}.get(line) if line in (b"00", b"01") else int(line))


def _long(m: _Machine, length: int) -> None:
    if length > MAX_LONG:
        raise ValueError
    m.stack.append(int.from_bytes(m.take(length), "little", signed=True))


def _signed(m: _Machine) -> None:
    value = m.number(4)
    m.stack.append(value - (1 << 32) if value >= 1 << 31 else value)


def _float(m: _Machine) -> None:
    m.stack.append(unpack_from(">d", m.take(8))[0])


def _global(m: _Machine) -> None:
    module, name = m.line().decode(), m.line().decode()
    m.stack.append(Global(module, name))


def _stack_global(m: _Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise ValueError
    m.stack.append(Global(module, name))


def _reduce(m: _Machine) -> None:
    args, callee = m.stack.pop(), m.stack.pop()
    m.stack.append(Call(callee, args))


def _newobj_ex(m: _Machine) -> None:
    _, args, callee = m.stack.pop(), m.stack.pop(), m.stack.pop()
    m.stack.append(Call(callee, args))


def _inst(m: _Machine) -> None:
    _global(m)
    callee = m.stack.pop()
    m.stack.append(Call(callee, tuple(m.since_mark())))


def _obj(m: _Machine) -> None:
    callee, *args = m.since_mark()
    m.stack.append(Call(callee, tuple(args)))


def _build(m: _Machine) -> None:
    state = m.stack.pop()
    if isinstance(m.stack[-1], Call):
        m.stack[-1].state = state


def _dict(m: _Machine) -> None:
    found = Dict()
    m_items = m.since_mark()
    found.items = list(zip(m_items[::2], m_items[1::2], strict=True))
    m.stack.append(found)


def _setitem(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    m.stack[-1].items.append((key, value))


def _setitems(m: _Machine) -> None:
    pairs = m.since_mark()
    m.stack[-1].items.extend(zip(pairs[::2], pairs[1::2], strict=True))


def _append(m: _Machine) -> None:
    value = m.stack.pop()
    _extend(m.stack[-1], [value])


def _appends(m: _Machine) -> None:
    values = m.since_mark()
    _extend(m.stack[-1], values)


def _extend(target: Any, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    else:
        target.items.extend((None, value) for value in values)


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def handler(m: _Machine) -> None:
        if len(m.stack) < count:
            raise ValueError
        items = tuple(m.stack[-count:])
        del m.stack[-count:]
        m.stack.append(items)

    return handler


def _push(value: Any) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(value)


def _put(m: _Machine, index: int) -> None:
    m.memo[index] = m.stack[-1]


def _get(m: _Machine, index: int) -> None:
    if index not in m.memo:
        raise ValueError
    m.stack.append(m.memo[index])


# The commonest opcodes, without the calls of the others.


def _int1(m: _Machine) -> None:
    m.stack.append(m.data[m.at])
    m.at += 1


def _put1(m: _Machine) -> None:
    m.memo[m.data[m.at]] = m.stack[-1]
    m.at += 1


def _get1(m: _Machine) -> None:
    index = m.data[m.at]
    m.at += 1
    if index not in m.memo:
        raise ValueError
    m.stack.append(m.memo[index])


def _persid(m: _Machine) -> None:
    m.stack.append(Persistent(m.stack.pop()))


_HANDLERS: dict[int, Callable[[_Machine], None]] = {
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
