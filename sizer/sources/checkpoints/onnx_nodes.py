"""The nodes of an ONNX graph that say how an initializer is packed.

  MatMulNBits            com.microsoft: B [N, ⌈K/block⌉, block·bits/8], scales, zero points, g_idx
  GatherBlockQuantized   com.microsoft: a table, indices, scales, zero points
  DequantizeLinear, QuantizeLinear   ONNX: what is (de)quantized, a scale, a zero point

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from sizer.core.record import Record
from sizer.sources.checkpoints.window import Window

# op -> the places of its weights, scales, zero points and group indices among the inputs; -1 for none.
PLACES = {
    b"MatMulNBits": (1, 2, 3, 4),
    b"GatherBlockQuantized": (0, 2, 3, -1),
    b"DequantizeLinear": (0, 1, 2, -1),
    b"QuantizeLinear": (-1, 1, 2, -1),
}
_INPUT, _OP, _ATTRIBUTE = 1, 4, 5
_NAME, _INTEGER = 1, 3
_VARINT, _BYTES = 0, 2
_MOST_INPUTS = 16


class Packing(Record):
    """What a node says of its inputs: names, empty where there are none; `numbers` are its attributes."""

    __slots__ = ("indices", "numbers", "op", "scales", "weights", "zeros")

    def __init__(self, op: str, inputs: list[str], numbers: dict[str, int]) -> None:
        self.op = op
        self.numbers = numbers
        self.weights, self.scales, self.zeros, self.indices = (
            inputs[place] if 0 <= place < len(inputs) else "" for place in PLACES[op.encode()]
        )


def packing(node: bytes, path: str) -> Packing | None:
    """What a node says; `None` for the many that pack nothing."""
    if not any(op in node for op in PLACES):
        return None
    inputs: list[str] = []
    numbers: dict[str, int] = {}
    op = b""
    for field, value in _fields(node, path):
        if field == _INPUT and isinstance(value, bytes) and len(inputs) < _MOST_INPUTS:
            inputs.append(value.decode("utf-8", "replace"))
        elif field == _OP and isinstance(value, bytes):
            op = value
        elif field == _ATTRIBUTE and isinstance(value, bytes):
            found = dict(_fields(value, path))
            name, number = found.get(_NAME), found.get(_INTEGER)
            if isinstance(name, bytes) and isinstance(number, int):
                numbers[name.decode("utf-8", "replace")] = number
    return Packing(op.decode(), inputs, numbers) if op in PLACES else None


def _fields(message: bytes, path: str) -> Iterator[tuple[int, bytes | int]]:
    """Number and value of each field of a small message."""
    window = Window(BytesIO(message), len(message), path)
    while window.left:
        tag = window.varint()
        if tag & 7 == _VARINT:
            yield tag >> 3, window.varint()
        elif tag & 7 == _BYTES:
            yield tag >> 3, window.take(window.varint())
        else:
            window.skip(8 if tag & 7 == 1 else 4)
