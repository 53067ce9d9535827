"""Names of two sides brought together, and names of many layers written as one."""

from __future__ import annotations

from collections.abc import Iterable

from sizer.core.record import Record
from sizer.oracles.sides import Item, Side

# What a class, a wrapper or a training script puts before the names of the same tensors, step by step.
PREFIXES = frozenset(
    (
        *("model", "transformer", "language_model", "backbone", "encoder", "decoder"),
        *("module", "_orig_mod", "base_model", "state_dict"),
        *("bert", "roberta", "distilbert", "electra", "albert", "deberta", "gpt_neox", "rwkv"),
    )
)
# Wrappers that lie around each other, and prefixes that are taken off one after the other.
MOST_STEPS = 4
MOST_PREFIXES = 3


class Naming(Record):
    """Both sides under the names they share, how many those are, and how they were matched."""

    __slots__ = ("how", "left", "right", "shared")

    def __init__(self, left: list[Item], right: list[Item], shared: int, how: str) -> None:
        self.left = left
        self.right = right
        self.shared = shared
        self.how = how


def matched(left: Side, right: Side) -> Naming:
    """The layouts and prefixes under which two sides share the most names.

    A formula has the names of published files and those in memory, and may have prediction layers;
    a module that is equal to its formula is compared with files under that formula's published names.
    """
    best: Naming | None = None
    for ours, said in _readings(left, right):
        for theirs, also in _readings(right, left):
            found = _prefixed(ours, theirs)
            how = "; ".join(part for part in (said, also, found.how) if part)
            if best is None or found.shared > best.shared:
                best = Naming(found.left, found.right, found.shared, how)
    assert best is not None
    return best if best.how else best._replace(how="equal names")


def _readings(one: Side, other: Side) -> Iterable[tuple[list[Item], str]]:
    """The ways to list a side, the plain one first."""
    if one.model is None:
        yield one.items(), ""
        if one.checkpoint is not None and one.checkpoint.format == "gguf":
            items = [i._replace(name=_from_llama_cpp(i.name)) for i in one.items()]
            if len({i.name for i in items}) == len(items):
                yield items, "names of llama.cpp under those of LLaMA"
        return
    through = one.kind == "torch"
    if through:
        yield one.items(), ""
        if other.kind != "checkpoint" or not _is_its_formula(one):
            return
    plain = "checkpoint" if other.kind != "torch" else "transformers"
    layouts = ("checkpoint", "transformers") if other.kind == "checkpoint" else (plain,)
    for layout in layouts:
        for mtp in (False, True) if one.model.mtp_params and other.kind == "checkpoint" else (False,):
            said = []
            if through:
                said.append("the module is equal to its formula, whose published names are taken")
            elif layout != "checkpoint":
                said.append("names in memory, as transformers 5 has them")
            if mtp:
                said.append("with the layers for multi-token prediction")
            yield _listed(one, layout, mtp), "; ".join(said)


# llama.cpp's names of a decoder's parts, and LLaMA's in transformers: gguf-py `tensor_mapping.py`.
_LLAMA_CPP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}


def _from_llama_cpp(name: str) -> str:
    """A name of GGUF as transformers has it for a LLaMA; one that is not known stays.

    >>> _from_llama_cpp("blk.3.attn_q.weight"), _from_llama_cpp("output.weight")
    ('model.layers.3.self_attn.q_proj.weight', 'lm_head.weight')
    """
    steps = name.split(".")
    block = steps[0] == "blk" and len(steps) > 3
    part = steps[2] if block else steps[0]
    if part not in _LLAMA_CPP:
        return name
    before = f"model.layers.{steps[1]}." if block else ""
    return ".".join((f"{before}{_LLAMA_CPP[part]}", *steps[3 if block else 1 :]))


def _listed(one: Side, layout: str, mtp: bool) -> list[Item]:
    """The formula of a side, also of a module that stands for it."""
    return Side("formula", one.name, model=one.model).items(layout=layout, mtp=mtp)


def _is_its_formula(one: Side) -> bool:
    mine = {(i.name, i.shape) for i in _listed(one, "transformers", False) if i.kind == "param"}
    return mine == {(i.name, i.shape) for i in one.items() if i.kind == "param"}


def _prefixed(ours: list[Item], theirs: list[Item]) -> Naming:
    """The prefixes of either side whose removal makes the most names agree."""
    said: list[str] = []
    shared = _shared(ours, theirs)
    for _ in range(MOST_PREFIXES):
        best: tuple[int, str, int, list[Item]] | None = None
        for place, items, others in ((0, ours, theirs), (1, theirs, ours)):
            if shared == len(items):
                continue
            for prefix in _known_prefixes(items):
                changed = _stripped(items, prefix)
                if changed is None:
                    continue
                agree = _shared(changed, others)
                if agree > shared and (best is None or agree > best[0]):
                    best = agree, prefix, place, changed
        if best is None:
            break
        shared, prefix, place, changed = best
        if place == 0:
            ours = changed
        else:
            theirs = changed
        said.append(f"{prefix!r} taken off the names of {'AB'[place]}")
    return Naming(ours, theirs, shared, ", ".join(said))


def _known_prefixes(items: list[Item]) -> list[str]:
    """What stands before some names and is made of known steps alone, the shortest first."""
    found: set[str] = set()
    for item in items:
        prefix = ""
        for step in item.name.split(".", MOST_STEPS)[:MOST_STEPS]:
            if step not in PREFIXES:
                break
            prefix += f"{step}."
            found.add(prefix)
    return sorted(found, key=lambda prefix: (len(prefix), prefix))


def _shared(ours: list[Item], theirs: list[Item]) -> int:
    return len({i.name for i in ours} & {i.name for i in theirs})


def _stripped(items: list[Item], prefix: str) -> list[Item] | None:
    """Items without a prefix; nothing where two would have one name."""
    changed = [
        i._replace(
            name=i.name.removeprefix(prefix),
            tied_to=None if i.tied_to is None else i.tied_to.removeprefix(prefix),
        )
        for i in items
    ]
    return changed if len({i.name for i in changed}) == len(items) else None


def folded(names: Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Names that differ in their numbers alone, as one each, with the names it stands for.

    >>> folded(["h.0.bias", "h.1.bias", "h.3.bias", "wte.weight"])
    [('h.{0-1,3}.bias', ('h.0.bias', 'h.1.bias', 'h.3.bias')), ('wte.weight', ('wte.weight',))]
    """
    groups: dict[tuple[str, ...], list[tuple[tuple[int, ...], str]]] = {}
    for name in names:
        steps = name.split(".")
        numbers = tuple(int(step) for step in steps if _is_index(step))
        template = tuple("" if _is_index(step) else step for step in steps)
        groups.setdefault(template, []).append((numbers, name))
    return [_folded(template, found) for template, found in groups.items()]


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10


def _folded(
    template: tuple[str, ...], found: list[tuple[tuple[int, ...], str]]
) -> tuple[str, tuple[str, ...]]:
    members = tuple(name for _, name in found)
    if len(found) == 1:
        return members[0], members
    values = [sorted(set(column)) for column in zip(*(numbers for numbers, _ in found), strict=True)]
    ranges = iter(values)
    steps = [step or _ranges(next(ranges)) for step in template]
    return ".".join(steps), members


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "{" + ",".join(f"{a}-{b}" if a != b else str(a) for a, b in runs) + "}"
