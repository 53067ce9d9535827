"""`sizer flops`: what a step computes, by component, with its formula and the published rules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from sizer import units
from sizer.core.poly import as_poly, symbol
from sizer.core.walk import walk
from sizer.errors import Rounded
from sizer.measures.context import warnings, without_encoder
from sizer.measures.count import COMPONENTS
from sizer.measures.flops import Flops, flops_of, kernel_of
from sizer.measures.latents import WAYS
from sizer.measures.passes import Pass
from sizer.measures.streams import encoder_length
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes
from sizer.report.report import Report, Table, View

if TYPE_CHECKING:
    from sizer.measures.closed_forms import ClosedForms
    from sizer.measures.compute_rules import Estimate

WIDEST_FORMULA = 60
SEQ_LEN = 1024


def report(
    model: Model,
    *,
    batch_size: int = 1,
    seq_len: int = SEQ_LEN,
    attention: str = "eager",
    checkpointing: str = "none",
    causal: bool = False,
    rules: Sequence[str] = (),
    explain: bool = False,
    **options: Any,
) -> Report:
    """FLOPs of a step: forward, backward, both; by component; an alternative count beside it."""
    found = model.flops(batch_size, seq_len, attention, checkpointing, **options)
    alternatives = _alternatives(model, found, batch_size, seq_len, rules, options)
    if causal:
        least = model.flops(batch_size, seq_len, attention, checkpointing, causal=True, **options)
        alternatives.insert(0, _causal(found, least))
    tokens = (options.get("past_len") or 0) + (options.get("decoder_len") or seq_len)
    said = [] if found.own_input else warnings(model, tokens + (options.get("decode") or 0))
    if found.own_input and seq_len != SEQ_LEN:
        said.append(f"seq_len = {seq_len} changes nothing: the configuration says how large an input is")
    said += without_encoder(model, options.get("encoder_len"))
    if found.latents == "expanded":
        said.append(f"{WAYS['expanded']}; --latents absorbed counts as engines do")
    # The formula of a step from nothing: of one with a cache only the numbers are shown.
    encoder_len = options.get("encoder_len")
    if encoder_len is None and options.get("decoder_len"):
        encoder_len = encoder_length(model.rows(), seq_len)
    plain = not any(options.get(name) for name in ("past_len", "chunk", "decode", "logits_to_keep", "lora"))

    @cache
    def forms() -> ClosedForms | None:
        if not plain or options.get("stream_lengths"):
            return None
        from sizer.measures.closed_forms import flops_forms

        tokens = options.get("decoder_len") or seq_len
        with suppress(Rounded):
            return flops_forms(
                model,
                batch_size=batch_size,
                seq_len=tokens,
                encoder_len=encoder_len,
                attention=attention,
            )
        return None

    label = "exact" if found.exact else "estimate"

    def view() -> View:
        if explain:
            return _explained(model, found, forms(), encoder_given=encoder_len is not None)
        return View(
            table=_table(found, forms()),
            above=[
                f"{model.name}  ({model.architecture}), {label}: "
                f"{_inputs(model, found, batch_size, seq_len)}, {kernel_of(attention)} attention"
            ],
            below=[*_below(found), *(_line(other) for other in alternatives)],
            notes=notes(model, found.assumptions),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "forward": found.forward,
            "backward": found.backward,
            "training": found.training,
            "recompute": found.recompute,
            "tokens": found.tokens,
            "per_token": {"forward": found.forward / found.tokens, "training": found.training / found.tokens},
            "label": label,
            "estimated": found.estimated,
            "batch_size": batch_size,
            "seq_len": None if found.own_input else seq_len,
            "attention": kernel_of(attention),
            "checkpointing": checkpointing,
            "components": _records(found, forms()),
            "kinds": found.kinds,
            **_formula(forms()),
            "rules": [other._asdict() for other in alternatives],
            "warnings": said,
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": model.sources,
        }

    return Report(str(found.forward), document, view, talk=[f"warning: {text}" for text in said])


def formula(
    model: Model,
    *,
    batch_size: int,
    seq_len: int,
    attention: str,
    notation: str,
    encoder_len: int | None = None,
) -> Report:
    """`sizer formula --of flops`."""
    from sizer.measures.closed_forms import flops_forms
    from sizer.report import closed_form

    found = flops_forms(
        model, batch_size=batch_size, seq_len=seq_len, attention=attention, encoder_len=encoder_len
    )
    return closed_form.report(model, found, unit="FLOPs", notation=notation)


def _inputs(model: Model, found: Flops, batch_size: int, seq_len: int) -> str:
    """What runs: so many sequences of so many tokens, or inputs of the configuration's own size."""
    if not found.own_input:
        return f"{batch_size:,} × {seq_len:,} tokens"
    image = getattr(model.config, "image", None)
    size = "" if image is None else f" of {image.rows:,} × {image.columns:,} pixels"
    many = "" if batch_size == 1 else "s"
    return f"{batch_size:,} input{many}{size}, {found.tokens // batch_size:,} places{' each' if many else ''}"


def _alternatives(
    model: Model, found: Flops, batch: int, tokens: int, rules: Sequence[str], options: dict[str, Any]
) -> list[Estimate]:
    if not rules:
        return []
    from sizer.measures.compute_rules import estimate

    encoder = options.get("encoder_len") or encoder_length(model.rows(), tokens)
    run = Pass(batch, options.get("decoder_len") or tokens, encoder=encoder)
    return [estimate(rule, found, run, model) for rule in rules]


def _causal(found: Flops, least: Flops) -> Estimate:
    from sizer.measures.compute_rules import Estimate

    return Estimate(
        "causal",
        least.training,
        least.training / found.training,
        "only the pairs of tokens that a causal mask and a window leave",
        "PaLM's MFU and most published ones count all pairs",
    )


def _line(other: Estimate) -> str:
    return (
        f"{other.rule:<18} {other.training:>26,}  training, {other.ratio:.4f} × the count  ({other.formula})"
    )


def _below(found: Flops) -> list[str]:
    rows = [("forward", found.forward), ("backward", found.backward), ("training", found.training)]
    lines = [f"{name:<18} {number:>26,}  ({units.flops(number)})" for name, number in rows]
    if found.recompute:
        lines.insert(
            2, f"{'  of it recomputed':<18} {found.recompute:>26,}  ({units.flops(found.recompute)})"
        )
    if not found.own_input:
        a_token = found.forward / found.tokens
        lines.append(f"{'forward a token':<18} {a_token:>26,.0f}  of {found.tokens:,} tokens")
    if found.estimated:
        lines.append(f"{'of it an estimate':<18} {found.estimated:>26,}  forward")
    return lines


def _names(found: Flops) -> list[str]:
    return [name for name in (*COMPONENTS, *found.components) if name in found.components]


def _records(found: Flops, forms: ClosedForms | None) -> list[dict[str, Any]]:
    estimates = {part.row.component for part in found.parts if not part.exact}
    return [
        {
            "component": name,
            "forward": found.components[name],
            "backward": found.backward_components[name],
            "share": found.components[name] / found.forward if found.forward else 0,
            "label": "estimate" if name in estimates else "exact",
            **({} if forms is None else {"formula": forms.parts[name].text(ascii_only=True)}),
        }
        for name in dict.fromkeys(_names(found))
    ]


def _table(found: Flops, forms: ClosedForms | None) -> Table:
    records = _records(found, forms)
    formulas = {} if forms is None else {name: poly.text() for name, poly in forms.parts.items()}
    # A formula wider than a line of text is left to `--explain` and `sizer formula --of flops`.
    shown = any(formulas.values()) and max(map(len, formulas.values())) <= WIDEST_FORMULA

    def row(name: str, amount: int, bar: str) -> tuple[str, ...]:
        cells = (f"{amount:,}", units.share(amount, found.forward), bar)
        return (name, formulas.get(name, ""), *cells) if shown else (name, *cells)

    rows = [
        row(entry["component"], entry["forward"], units.bar(entry["forward"], found.forward))
        for entry in records
    ]
    rows.append(row("total", found.forward, ""))
    headers = (
        ("component", "formula", "forward", "share", "") if shown else ("component", "forward", "share", "")
    )
    first = len(headers) - 3
    return Table(headers, rows, numbers=(first, first + 1), records=records)


def _formula(forms: ClosedForms | None) -> dict[str, Any]:
    if forms is None:
        return {}
    texts = {name: poly.text(ascii_only=True) for name, poly in forms.forms.items()}
    return {"formula": texts, "values": forms.values}


def _explained(model: Model, found: Flops, forms: ClosedForms | None, *, encoder_given: bool) -> View:
    """Every product and every attention: its formula over letters, its number, and the rules."""
    texts = [""] * len(found.parts) if forms is None else _formulas(model, encoder_given)
    lines = [
        (part.row.name.replace("{}", "*"), part.kind, text, f"{part.forward:,}", f"{part.backward:,}")
        for part, text in zip(found.parts, texts, strict=True)
        if part.forward
    ]
    legend = [] if forms is None else ["", *legend_lines(forms.letters)]
    return View(
        table=Table(("what", "kind", "formula", "forward", "backward"), lines, numbers=(3, 4)),
        above=[f"How {model.name} comes to {found.forward:,} FLOPs forward"],
        below=[*_below(found), *legend, "", *(f"- {text}" for text in found.assumptions)],
        notes=notes(model),
    )


def _formulas(model: Model, encoder_given: bool) -> list[str]:
    """The formula of each part, in the order of the parts."""
    run = Pass(symbol("B"), symbol("T"), encoder=symbol("Te"), encoder_given=encoder_given)
    parts = flops_of(walk(model.symbolic_tree()), run).parts
    return [as_poly(part.forward).text() for part in parts]
