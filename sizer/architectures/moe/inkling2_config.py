"""The sizes of an Inkling 2, and how a file gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.moe.inkling_config import InklingSizes, sizes_in_file
from sizer.architectures.registry import Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class Inkling2Config(InklingSizes):
    """Sizes and switches of an Inkling 2.

    `layers`: "full" or "sliding", which has sizes of its own (`sliding_…`); with "_first" for the
    layer that has nothing before it, and "_loop" for those that run `n_passes` times.
    `n_loop_layers` is the number of the latter; `gate_rank` the rank of their message gates.
    `n_vocab`: tokens of the head in memory; in a file its matrix is padded to `vocab_size`.
    """

    n_vocab: Dim
    n_passes: Dim | None = None
    n_loop_layers: Dim | None = None
    gate_rank: Dim | None = None

    letters = {
        **InklingSizes.letters,
        "n_vocab": "Vu",
        "n_passes": "N",
        "n_loop_layers": "Lp",
        "gate_rank": "R",
    }
    meanings = {
        **InklingSizes.meanings,
        "n_vocab": "tokens the head can predict",
        "n_passes": "how often the looped layers run",
        "n_loop_layers": "looped layers",
        "gate_rank": "rank of a message gate",
    }


def _inkling2_text(hf: HFConfig) -> Reading:
    return _read(hf, 0, 0)


def _inkling2_loop_text(hf: HFConfig) -> Reading:
    older = hf.get("loop_config") or {}
    first = older.get("core_start", hf["loop_layer_index_start"])
    end = older.get("core_end", hf["loop_layer_index_end"])
    return _read(
        hf,
        first,
        end,
        n_loop_layers=end - first or None,
        n_passes=older.get("num_passes", hf["loop_num_passes"]),
        gate_rank=older.get("gate_rank", hf["loop_gate_rank"]),
    )


def _read(hf: HFConfig, first: int, end: int, **given: int | None) -> Reading:
    n_layers = hf["num_hidden_layers"]
    types = hf.per_layer("layer_types", n_layers)
    if types is None:
        types = ["hybrid_sliding" if (i + 1) % 6 else "hybrid" for i in range(n_layers)]
    kinds = []
    for i, kind in enumerate(types[:n_layers]):
        place = "_first" if i == 0 else "_loop" if first <= i < end else ""
        kinds.append(("sliding" if kind == "hybrid_sliding" else "full") + place)
    return Reading(
        "inkling2",
        hf.fill(
            Inkling2Config,
            layers=Pattern(tuple(kinds)),
            **sizes_in_file(hf),
            d_ff_expert=hf["moe_intermediate_size"],
            n_vocab=hf["unpadded_vocab_size"],
            **given,
        ),
    )


HF_READERS = {"inkling2_loop_text": _inkling2_loop_text, "inkling2_text": _inkling2_text}
