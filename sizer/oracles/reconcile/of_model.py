"""The terms of a model: what people count, or leave out, beside what sizer counts."""

from __future__ import annotations

from collections.abc import Iterator

from sizer.core.dims import round_up
from sizer.core.tree import Buffer, Op, Param
from sizer.core.walk import Row
from sizer.oracles.reconcile.ledger import Ledger
from sizer.oracles.reconcile.term import Term

# Steps of names that stand for a part of a multimodal model beside its language model.
TOWERS = {
    "vision tower": "vision_tower visual vision_model vision_encoder vision_embed_tokens vision image_encoder "
    "vision_backbone",
    "audio tower": "audio_tower audio_encoder audio_model speech_encoder audio",
    "projector": "multi_modal_projector connector projector mlp1 aligner embed_vision embed_audio qformer",
}
_QUERY_KEY_VALUE = frozenset(
    "q_proj k_proj v_proj qkv_proj c_attn query_key_value query key value Wqkv qkv q k v attn_qkv".split()
)
_GATES = frozenset("gate_proj w1 wi_0 gate".split())
# Megatron pads to a multiple of 128 times the tensor-parallel ranks, nanoGPT and torchtune to 64.
PADDINGS = (64, 128, 256, 512, 1024, 2048)


def terms(ledger: Ledger) -> list[Term]:
    """All terms of the rows of a model, those of amount zero too."""
    return [
        *_tied(ledger),
        *_tied_in_memory(ledger),
        *_buffers(ledger),
        *_parts(ledger),
        *_biases(ledger),
        *_experts(ledger),
        *_misread(ledger),
        *_vocabulary(ledger),
    ]


def _steps(row: Row) -> list[str]:
    return row.name.split(".")


def _shown(row: Row) -> str:
    return row.name.replace("{}", "*")


def _tied(ledger: Ledger) -> Iterator[Term]:
    for i, row in enumerate(ledger.rows):
        leaf = row.leaf
        if not isinstance(leaf, Param) or leaf.tied_to is None:
            continue
        steps = _steps(row)
        if "{}" in steps and row.component == "other":
            part = "head" if "head" in steps else "embedding"
            yield ledger.plus(
                f"{part} stored again in the prediction layers",
                [i],
                f"the published files repeat the {part} of the model as {_shown(row)}",
                0,
            )
            continue
        part = "head" if row.component == "head" else "embedding"
        yield ledger.plus(
            f"tied {part} counted again",
            [i],
            f"{_shown(row)} shares the storage of {leaf.tied_to.replace('{}', '*')}; "
            "a sum over modules, or a file that stores both, has it twice",
            0 if part == "head" else 1,
        )
    shared = [i for i in ledger.own if any(frame.shared for frame in ledger.rows[i].frames)]
    again = sum(
        ledger.amounts[i] * (_uses(ledger.rows[i]) - 1) for i in shared if ledger.rows[i].copies == 1
    )
    yield Term(
        "shared layers counted at each use",
        again,
        f"{again:,}",
        "layers that share one set of tensors are counted once each",
    )


def _tied_in_memory(ledger: Ledger) -> Iterator[Term]:
    """What transformers 5 ties in memory, and the published files store apart (T5 1.1)."""
    tied = {
        row.name
        for row in ledger.model.rows("transformers")
        if isinstance(row.leaf, Param) and row.leaf.tied_to is not None
    }
    yield ledger.without(
        "head tied in memory",
        ledger.having(lambda row: row.name in tied),
        "transformers 5 ties it to the embedding, and the published files store it apart",
        -1,
    )


def _uses(row: Row) -> int:
    times = 1
    for frame in row.frames:
        if frame.shared:
            times *= frame.count
    return times


def _buffers(ledger: Ledger) -> Iterator[Term]:
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(ledger.rows):
        if isinstance(row.leaf, Buffer) and row.leaf.persistent and row.leaf.tied_to is None:
            groups.setdefault(".".join(_steps(row)[-2:]), []).append(i)
    for name, picks in groups.items():
        correction = "correction_bias" in name or "expert_bias" in name
        what = "router biases" if correction else f"{name} buffers"
        why = (
            "the biases that balance the routers are stored with the weights and learned by no gradient"
            if correction
            else "stored with the weights of published files and never learned"
        )
        yield ledger.plus(what, picks, why, 0)
    attention = sum(
        row.copies
        for row in ledger.rows
        if isinstance(row.leaf, Op) and row.leaf.kind == "attention" and "scores" not in row.name
    )
    inverse = [
        row
        for row in ledger.model.rows("transformers")
        if isinstance(row.leaf, Buffer) and row.name.endswith("rotary_emb.inv_freq")
    ]
    if len(inverse) == 1:
        width = inverse[0].numel
        why = "older checkpoints store the rotary frequencies, which follow from the configuration"
        own_bit = ledger.bit("rotary")
        yield Term(
            "rotary frequencies of every layer",
            attention * width,
            f"{attention}·{width}",
            why,
            own_bit,
        )
        yield Term("rotary frequencies, one set", width, f"{width}", why, own_bit, 2)


def _parts(ledger: Ledger) -> Iterator[Term]:
    def component(name: str) -> list[int]:
        return ledger.having(lambda row: row.component == name)

    embedding, position = component("embedding"), component("position")
    yield ledger.without(
        "token embedding left out", embedding, "looked up, not multiplied; some counts leave it out", 0
    )
    if embedding and position:
        yield ledger.without(
            "all embeddings left out",
            [*embedding, *position],
            "the non-embedding parameters of the scaling-law papers (Kaplan et al. 2020)",
            0,
        )
    yield ledger.without(
        "positions left out", position, "nanoGPT's get_num_params leaves the learned positions out", 0
    )
    yield ledger.without(
        "token types left out",
        ledger.having(lambda row: "token_type" in row.name),
        "the table of sentence A and B is left out",
        2,
    )
    yield ledger.without(
        "head left out",
        [i for i in component("head") if "pooler" not in ledger.rows[i].name],
        "the base model without its head, or a head taken for the embedding though it is its own",
        0,
    )
    yield ledger.without(
        "pooler left out",
        ledger.having(lambda row: "pooler" in row.name),
        "classes for tokens, and files of llama.cpp, have no pooler",
        0,
    )
    yield ledger.without("norms left out", component("norm"), "weights and biases of the norms")
    yield ledger.without(
        "frozen parameters left out",
        ledger.having(lambda row: not row.leaf.trainable),  # type: ignore[union-attr]
        "only what a gradient changes is counted",
    )
    for name, words in TOWERS.items():
        known = frozenset(words.split())
        yield ledger.without(
            f"{name} left out",
            ledger.having(lambda row, known=known: not known.isdisjoint(_steps(row))),  # type: ignore[misc]
            "the language model alone",
            0,
        )


def _biases(ledger: Ledger) -> Iterator[Term]:
    biases = ledger.having(lambda row: row.name.endswith("bias") and "correction" not in row.name)
    of_norms = [i for i in biases if ledger.rows[i].component == "norm"]
    of_matrices = [i for i in biases if ledger.rows[i].component != "norm"]
    projections = [i for i in of_matrices if not _QUERY_KEY_VALUE.isdisjoint(_steps(ledger.rows[i]))]
    if of_norms and of_matrices:
        yield ledger.without("all biases left out", biases, "biases of matrices and of norms")
    yield ledger.without(
        "biases of matrices left out", of_matrices, "a formula of matrices and norm weights has no biases"
    )
    yield ledger.without("biases of norms left out", of_norms, "norms with a weight alone", 2)
    if len(projections) < len(of_matrices):
        yield ledger.without(
            "query, key and value biases left out", projections, "a build with qkv_bias = false"
        )


def _experts(ledger: Ledger) -> Iterator[Term]:
    yield ledger.without(
        "routers left out",
        ledger.having(lambda row: row.component == "router"),
        "Megatron's formula has no routers",
    )
    experts = ledger.having(lambda row: row.component == "experts")
    shared = [i for i in experts if "shared" in ledger.rows[i].name]
    yield ledger.without("shared experts left out", shared, "the experts that every token visits", 2)
    yield ledger.without(
        "routed experts left out", [i for i in experts if i not in shared], "what every token visits", 2
    )


def _misread(ledger: Ledger) -> Iterator[Term]:
    """Formulas of other architectures: attention without groups, an MLP of two matrices."""
    rows, model = ledger.rows, ledger.model
    matrices = ledger.having(
        lambda row: row.component in ("mlp", "experts") and row.leaf.use == "matmul"  # type: ignore[union-attr]
    )
    gates = [i for i in matrices if _GATES & set(_steps(rows[i])[-2:])]
    if gates:
        yield ledger.without(
            "gate matrices left out", gates, "an MLP of two matrices instead of three", cost=3
        )
        for factor, name, why in (
            (1, "MLP of twice the width", "a width that stands for gate and value together is halved"),
            (2, "MLP of 3/2 the width", "the width of an MLP without a gate, of which 2/3 are built"),
        ):
            amount = sum(ledger.amounts[i] for i in matrices)
            if amount % factor == 0:
                bits = ledger.mask(matrices) | ledger.bit("width")
                yield Term(name, amount // factor, f"{amount:,} / {factor}", why, bits, 4)
    heads, kv_heads = getattr(model.config, "n_heads", None), getattr(model.config, "n_kv_heads", None)
    if isinstance(heads, int) and isinstance(kv_heads, int) and 0 < kv_heads < heads:
        picks, extra = [], 0
        for i in ledger.own:
            for axis in rows[i].leaf.axes:  # type: ignore[union-attr]
                width = sum(part.size for part in axis.parts or (axis,) if part.name == "kv_heads")
                if width and axis.size:
                    picks.append(i)
                    extra += ledger.amounts[i] // axis.size * (width * heads // kv_heads - width)
                    break
        yield Term(
            "keys and values for every query head",
            extra,
            lambda: f"{extra:,}",
            f"grouped attention has {kv_heads} key/value heads, and {heads} are taken",
            ledger.mask(picks) | ledger.bit("width"),
            3,
        )


def _vocabulary(ledger: Ledger) -> Iterator[Term]:
    tables, each, size = ledger.vocabulary()
    padded: set[int] = set()
    for multiple in PADDINGS:
        rows = round_up(size, multiple)
        if not tables or rows == size or rows in padded:
            continue
        padded.add(rows)
        more = rows - size
        yield Term(
            f"vocabulary padded to {rows:,}",
            more * each,
            f"{more:,}·{each:,}",
            f"{size:,} rows rounded up to a multiple of {multiple}, as training frameworks do",
            ledger.mask(tables) | ledger.bit("vocabulary"),
            2,
        )
    extra = []
    for i in ledger.own:
        axes = ledger.rows[i].leaf.axes  # type: ignore[union-attr]
        whole = ledger.rows[i].copies
        for axis in axes:
            whole = whole * (axis.size if axis.padded is None else axis.padded)
        extra.append(whole - ledger.amounts[i] if not ledger.active else 0)
    yield Term(
        "rows of padding that are stored",
        sum(extra),
        f"{sum(extra):,}",
        "the tensors have rows that mean nothing, and the count leaves them out",
    )
