"""Bytes of weights in the formats that engines serve: whole types, and a few bits with scales.

Matrices inside the blocks are narrowed; embeddings, the head and vectors stay in 16 bits, as in
published checkpoints (GPTQ, AWQ, bitsandbytes, compressed-tensors).
"""

from __future__ import annotations

from sizer.core.record import Record
from sizer.dtypes import BITS, bits
from sizer.errors import SizerError, UnknownName

# Elements of the other tensors are kept in this many bits where matrices are narrower.
REST_BITS = 16
# A scale of 16 bits and a zero point of `bits` for each group of this many elements (GPTQ, AWQ).
GROUP = 128
# A scale of 32 bits for each output of a matrix (LLM.int8, W8A8).
CHANNEL_SCALE_BYTES = 4


class Format(Record):
    """A format of weights: bits of a matrix's element, and what comes with a channel or a group.

    `packed`: one of those that `sizer size` knows, whose bytes are asked of the model.
    """

    __slots__ = ("bits", "channel_bytes", "exact", "group_bits", "name", "packed", "source")

    def __init__(
        self,
        name: str,
        bits: int,
        source: str,
        channel_bytes: int = 0,
        group_bits: int = 0,
        exact: bool = True,
        packed: bool = False,
    ) -> None:
        self.name = name
        self.bits = bits
        self.source = source
        self.channel_bytes = channel_bytes
        self.group_bits = group_bits
        self.exact = exact
        self.packed = packed

    def n_bytes(self, linear: int, others: int, channels: int) -> int:
        """Bytes of so many elements of matrices, of other tensors, and outputs of those matrices.

        >>> format_named("int4").n_bytes(1024, 10, 8)
        552
        """
        if self.bits >= REST_BITS:
            return -(-(linear + others) * self.bits // 8)
        groups = -(-linear // GROUP) if self.group_bits else 0
        narrow = linear * self.bits + groups * self.group_bits
        return -(-narrow // 8) + channels * self.channel_bytes + others * REST_BITS // 8


def format_named(name: str) -> Format:
    """The format of that name: a type of numbers, whole where it has 16 bits or more.

    >>> format_named("bf16").bits, format_named("int8").channel_bytes
    (16, 4)
    """
    try:
        width = bits(name)
    except SizerError:
        return _packed(name)
    plain = name.lower().removeprefix("torch.")
    if width >= REST_BITS:
        return Format(plain, width, "every tensor in this type")
    if width == 8:
        return Format(plain, 8, "8 bits and a 32-bit scale for each output", CHANNEL_SCALE_BYTES, exact=False)
    return Format(
        plain,
        width,
        f"{width} bits, a 16-bit scale and a {width}-bit zero point for each {GROUP} elements",
        group_bits=16 + width,
        exact=False,
    )


def _packed(name: str) -> Format:
    """A format of a checkpoint, as `sizer size --quant` knows it."""
    from sizer.measures.size.formats import known, parse
    from sizer.measures.size.size import gguf_name

    mix = gguf_name(name)
    if mix is not None:
        # The first digit of a mix is the bits of most of its weights: q4_k_m, iq3_xxs.
        width = int(next((letter for letter in mix if letter.isdigit()), "4"))
        return Format(mix, width, "the bytes that `sizer size` predicts", exact=False, packed=True)
    try:
        found = parse(name)
    except UnknownName:
        hint = f"known are {', '.join(BITS)} and the formats of `sizer size`"
        raise UnknownName("weight format", name, [*BITS, *known()], hint=hint) from None
    return Format(found.name, found.bits, "the bytes that `sizer size` predicts", exact=False, packed=True)


# From the widest to the narrowest that a change may propose.
NARROWER = ("bf16", "fp8", "int4")
