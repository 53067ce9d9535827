"""FLOPs of what is no matrix product: convolutions, scans, states that a token updates and reads.

All depend on how they are run: with padding or without, in chunks, as matrix products, or one token after
the other. The rules here are those of the recurrence itself, one token after the other; what is one
number for a whole head, as its decay, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sizer.core.dims import Dim
from sizer.core.poly import Poly, symbol
from sizer.measures.passes import Pass

Sizes = Mapping[str, Dim | None]


class Scan(NamedTuple):
    """A rule, an estimate: FLOPs of one token, how it reads, and where it comes from."""

    per_token: Callable[[Sizes, Pass], Dim]
    text: str
    source: str


def _per_state(times: int) -> Callable[[Sizes, Pass], Dim]:
    """So many FLOPs an element of a state of `width` by `d_state`."""
    return lambda sizes, run: times * sizes["width"] * sizes["d_state"]  # type: ignore[operator]


def _per_channel(times: int) -> Callable[[Sizes, Pass], Dim]:
    return lambda sizes, run: times * sizes["width"]  # type: ignore[operator]


def _conv(sizes: Sizes, run: Pass) -> Dim:
    return 2 * sizes["channels"] * sizes["kernel"]  # type: ignore[operator]


def _fourier(sizes: Sizes, run: Pass) -> Dim:
    """An FFT of n numbers takes 5·n·log₂ n; here over the tokens and over the width."""
    width: Dim = sizes["width"]
    return 5 * width * (log2(run.tokens, "lgT") + log2(width, "lgD"))


def _left_out(text: str, source: str) -> Scan:
    """Something that a pass runs, or skips, and that the count has not: the whole is an estimate."""
    return Scan(lambda sizes, run: 0, text, source)


def log2(size: Dim, letter: str) -> Dim:
    """The binary logarithm, rounded up; a letter of its own for a symbol.

    >>> log2(512, "lgT"), log2(513, "lgT")
    (9, 10)
    """
    if isinstance(size, Poly):
        return symbol(letter)
    return max(0, int(size) - 1).bit_length()


_LEFT_OUT = {
    "identity": _left_out(
        "a token visits `top_k` experts that compute; fewer where some return their input",
        "LongCat-Flash, arXiv:2509.01322, section 2.1",
    ),
    "entries": _left_out(
        "an entry stands for `rate` tokens, and that of the last, incomplete ones counts as a part of one",
        "transformers, modeling_deepseek_v4.py",
    ),
    "streams": _left_out(
        "the streams of predicted tokens pass the layers too, and are left out",
        "ProphetNet, arXiv:2001.04063",
    ),
    "prompt": _left_out(
        "tokens of a learned prompt stand before the others, and are left out",
        "transformers, modeling_cpmant.py",
    ),
    "relative": _left_out(
        "scores of queries and relative positions are left out", "Transformer-XL, arXiv:1901.02860, eq. 5"
    ),
    "no_gradient": _left_out(
        "runs of the low stack before the last have no backward pass; it is counted",
        "HRM, arXiv:2506.21734, section 2",
    ),
    "no_image": _left_out(
        "without an image a layer that reads one does not run; its MLP is counted",
        "transformers, modeling_mllama.py",
    ),
}

_STATE = "{} FLOPs an element of the state and token: decay, update, read"

SCANS: dict[str, Scan] = {
    "conv": Scan(
        _conv,
        "2·kernel a channel and token; run as a padded convolution, it computes its padding too",
        "torch's conv_flop_count",
    ),
    "scan": Scan(_per_state(9), _STATE.format(9), "VMamba's counter of the selective scan, arXiv:2401.10166"),
    "ssd": Scan(_per_state(6), _STATE.format(6), "the recurrence of Mamba-2, arXiv:2405.21060, eq. 1"),
    "delta_rule": Scan(_per_state(7), _STATE.format(7), "the recurrence of gated DeltaNet, arXiv:2412.06464"),
    "delta": Scan(_per_state(7), _STATE.format(7), "the recurrence of gated DeltaNet, arXiv:2412.06464"),
    "linear_attention": Scan(_per_state(5), _STATE.format(5), "lightning attention, arXiv:2401.04658"),
    "mlstm": Scan(_per_state(5), _STATE.format(5), "the matrix LSTM, arXiv:2405.04517, eq. 19 to 21"),
    "rg_lru": Scan(_per_channel(4), "4 FLOPs a channel and token", "RG-LRU, arXiv:2402.19427, eq. 4"),
    "wkv": Scan(_per_channel(11), "11 FLOPs a channel and token", "RWKV-4, arXiv:2305.13048, eq. 19 to 21"),
    "fourier": Scan(
        _fourier, "5·n·log₂ n over the tokens and over the width", "an FFT, as FNet runs it, arXiv:2105.03824"
    ),
    **_LEFT_OUT,
}
