"""The terms of a model: what people count, or leave out, beside what sizer counts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from sizer.core.dims import Dim
from sizer.core.tree import Buffer, Op, Param
from sizer.core.walk import Row
from sizer.oracles.reconcile.ledger import Ledger
from sizer.oracles.reconcile.misread import misread, vocabulary
from sizer.oracles.reconcile.term import Term

# Steps of names that stand for a part of a multimodal model beside its language model.
TOWERS = {
    "vision tower": frozenset(
        (
            *("vision_tower", "visual", "vision_model", "vision_encoder", "vision_embed_tokens", "vision"),
            *("image_encoder", "vision_backbone"),
        )
    ),
    "audio tower": frozenset(("audio_tower", "audio_encoder", "audio_model", "speech_encoder", "audio")),
    "projector": frozenset(
        (
            *(
                "multi_modal_projector",
                "mm_projector",
                "connector",
                "projector",
                "mlp1",
                "aligner",
                "embed_vision",
            ),
            *("embed_audio", "qformer"),
        )
    ),
}
_QUERY_KEY_VALUE = frozenset(
    (
        *("q_proj", "k_proj", "v_proj", "qkv_proj", "query", "key", "value", "q", "k", "v"),
        *("c_attn", "query_key_value", "Wqkv", "qkv", "attn_qkv"),
    )
)

MOST_BUFFERS = 8


def terms(ledger: Ledger) -> list[Term]:
    """All terms of the rows of a model, those of amount zero too."""
    return [
        *_tied(ledger),
        *_tied_in_memory(ledger),
        *_buffers(ledger),
        *_parts(ledger),
        *_biases(ledger),
        *_experts(ledger),
        *misread(ledger),
        *vocabulary(ledger),
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
                f"copy of the {part} in the prediction layers",
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
    again = sum(ledger.amounts[i] * (_uses(ledger.rows[i]) - 1) for i in shared)
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


def _uses(row: Row) -> Dim:
    return prod(frame.count for frame in row.frames if frame.shared)


def _buffers(ledger: Ledger) -> Iterator[Term]:
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(ledger.rows):
        if isinstance(row.leaf, Buffer) and row.leaf.persistent and row.leaf.tied_to is None:
            groups.setdefault(".".join(_steps(row)[-2:]), []).append(i)
    if len(groups) > MOST_BUFFERS:
        # I-BERT has scales of each of its parts; a term each would explain anything.
        every = [i for picks in groups.values() for i in picks]
        groups = {f"all {len(every):,}": every}
    for name, picks in groups.items():
        correction = "correction_bias" in name or "expert_bias" in name
        what = "router biases" if correction else f"{name} buffers"
        why = (
            "the biases that balance the routers are stored with the weights and learned by no gradient"
            if correction
            else "stored with the weights of published files and never learned"
        )
        found = ledger.plus(what, picks, why, 0)
        yield found
        if name == "attn.bias":
            yield _with_scalars(found, sum(ledger.rows[i].copies for i in picks))
    yield from _positions(ledger)
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


def _with_scalars(masks: Term, layers: int) -> Term:
    """The masks of GPT-2 with what stood for minus infinity beside each, as transformers 4 began."""
    return Term(
        "attn.bias and attn.masked_bias buffers",
        masks.amount + layers,
        lambda: f"{masks.formula} + {layers}",
        "state dicts of early versions of transformers 4 hold both in every layer, and neither is learned",
        masks.touches,
    )


def _positions(ledger: Ledger) -> Iterator[Term]:
    """The numbers of the places, from zero, which transformers before 4.31 stored."""
    found = [
        row
        for row in ledger.model.rows("transformers")
        if isinstance(row.leaf, Buffer) and row.name.endswith("position_ids") and not row.leaf.persistent
    ]
    elements = sum(row.numel * row.copies for row in found)
    yield Term(
        "position_ids buffers",
        elements,
        f"{elements:,}",
        "files of transformers before 4.31 store the numbers of the places, which nobody learns",
    )


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
    for name, known in TOWERS.items():
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
