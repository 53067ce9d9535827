"""A pickle as data: its opcodes are read, and nothing it names is ever imported or called.

A pickle is a small program. What it would build is written down here instead: a `Global` for a name
it would import, a `Call` for what it would call, with its arguments and its state. `opcodes.py` says
what each opcode does.
"""

from __future__ import annotations

from typing import Any

from sizer.errors import BadInput, clip

# A state dict of 25,000 tensors takes so many.
MAX_OPCODES = 1_000_000


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


def parse(data: bytes, where: str, at: int = 0) -> tuple[Any, int]:
    """What the pickle at a place of some bytes would build, and the place after it.

    >>> parse(b"cos\\nsystem\\n(S'echo'\\ntR.", "x.pt")[0].callee.path
    'os.system'
    """
    from sizer.sources.checkpoints.opcodes import HANDLERS, Machine

    machine = Machine(data, at)
    handlers = HANDLERS
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
