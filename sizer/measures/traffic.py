"""What the ranks of a model send each other in one training step, by kind of collective.

A ring of n ranks sends (n−1)/n of the bytes of an all-gather or a reduce-scatter through each of them,
and twice that for an all-reduce (Patarasuk and Yuan 2009); an all-to-all keeps a part in n at home.
Bytes are those that one rank of the fullest stage sends; it receives as many.
"""

from __future__ import annotations

from sizer.core.record import Record
from sizer.errors import InvalidConfig

MEGATRON = "Megatron-LM, Shoeybi et al. 2019, arXiv:1909.08053, section 3"
SEQUENCE = "Korthikanti et al. 2022, arXiv:2205.05198, section 4.2"
ZERO = "ZeRO, Rajbhandari et al. 2019, arXiv:1910.02054, section 7"
PIPELINE = "Narayanan et al. 2021, arXiv:2104.04473, section 3.2"
RING = "ring attention, Liu et al. 2023, arXiv:2310.01889, section 3"
EXPERTS = "GShard, Lepikhin et al. 2020, arXiv:2006.16668, section 3.2"


class Transfer(Record):
    """One kind of traffic: between which ranks, by which collective, how often, of how many bytes.

    `n_bytes`: the whole of what one call works on. `sent`: what one rank sends in all calls of a step.
    """

    __slots__ = ("collective", "formula", "group", "n_bytes", "ranks", "sent", "source", "times")

    def __init__(
        self, group: str, collective: str, ranks: int, times: int, n_bytes: int, formula: str, source: str
    ) -> None:
        self.group = group
        self.collective = collective
        self.ranks = ranks
        self.times = times
        self.n_bytes = n_bytes
        self.sent = sent(collective, n_bytes * times, ranks)
        self.formula = formula
        self.source = source


def sent(collective: str, n_bytes: int, ranks: int) -> int:
    """Bytes that one of so many ranks sends for a collective over `n_bytes`, rounded up.

    >>> sent("all-reduce", 1000, 4), sent("all-gather", 1000, 4), sent("send", 1000, 4)
    (1500, 750, 1000)
    """
    if collective == "send":
        return n_bytes if ranks > 1 else 0
    if collective == "ring":
        return n_bytes * (ranks - 1)
    shares = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
    return -(-shares[collective] * n_bytes * (ranks - 1) // ranks)


def traffic(
    *,
    layers: int,
    between: int,
    micro_batches: int = 1,
    weights: int = 0,
    gradients: int = 0,
    tp: int = 1,
    sp: bool = False,
    pp: int = 1,
    chunks: int = 1,
    cp: int = 1,
    dp: int = 1,
    replicate: int = 1,
    ep: int = 1,
    zero: int = 0,
    again: bool = False,
    moe_layers: int = 0,
    top_k: int = 1,
    keys_values: int = 0,
) -> list[Transfer]:
    """The traffic of a rank whose stage has so many layers.

    `between`: bytes of one micro-batch between two layers, tokens of this rank times the width.
    `chunks`: those of a stage of an interleaved pipeline, each of which sends what it has done.
    `weights`, `gradients`: bytes of what this rank's layers learn, whole. `dp`: ranks with other data,
    over which ZeRO splits; `replicate`: groups of such ranks that hold the same. `again`: layers run
    again in the backward pass. `keys_values`: bytes of one micro-batch's keys and values here.

    >>> [(t.collective, t.times, t.sent) for t in traffic(layers=2, between=100, tp=2)]
    [('all-reduce', 8, 800)]
    """
    if sp and tp == 1:
        raise InvalidConfig("sp without tp: sequence parallelism splits tokens over tensor-parallel ranks")
    found: list[Transfer] = []
    passes = 3 if again else 2
    if tp > 1:
        calls = 2 * passes * layers * micro_batches
        formula = f"2 · {passes} passes · {layers} layers · {micro_batches} micro-batches of B·T·D"
        if sp:
            for name in ("all-gather", "reduce-scatter"):
                found.append(Transfer("tp", name, tp, calls, between, formula, SEQUENCE))
        else:
            found.append(Transfer("tp", "all-reduce", tp, calls, between, formula, MEGATRON))
    if pp > 1:
        part = -(-between // tp)
        each = f"{micro_batches} micro-batches" + (f" · {chunks} chunks" if chunks > 1 else "")
        formula = f"a micro-batch forward and its gradient backward, {each} of B·T·D/tp"
        found.append(Transfer("pp", "send", pp, 2 * micro_batches * chunks, part, formula, PIPELINE))
    if cp > 1:
        formula = f"keys and values forward, they and their gradients backward, {micro_batches} micro-batches"
        found.append(Transfer("cp", "ring", cp, 3 * micro_batches, keys_values, formula, RING))
    if ep > 1 and moe_layers:
        calls = 2 * passes * moe_layers * micro_batches
        formula = f"2 · {passes} passes · {moe_layers} layers · {micro_batches} micro-batches of k·B·T·D/tp"
        found.append(Transfer("ep", "all-to-all", ep, calls, -(-between * top_k // tp), formula, EXPERTS))
    found += _data(weights, gradients, dp * cp, zero, micro_batches)
    if replicate > 1:
        shared = -(-gradients // (dp * cp)) if zero >= 2 else gradients
        formula = "the gradients of a rank's part, once a step"
        found.append(
            Transfer("replicas", "all-reduce", replicate, 1, shared, formula, "torch HSDP, fully_shard")
        )
    return found


def _data(weights: int, gradients: int, ranks: int, zero: int, micro_batches: int) -> list[Transfer]:
    """Gradients, and the weights that are not kept whole."""
    if ranks == 1:
        return []
    if not zero:
        return [Transfer("dp", "all-reduce", ranks, 1, gradients, "all gradients, once a step", ZERO)]
    gather = 2 * micro_batches if zero == 3 else 1
    why = "before forward and before backward, each micro-batch" if zero == 3 else "new weights, once a step"
    return [
        Transfer("dp", "reduce-scatter", ranks, 1, gradients, "all gradients, once a step", ZERO),
        Transfer("dp", "all-gather", ranks, gather, weights, why, ZERO),
    ]
