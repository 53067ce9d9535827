"""`sizer kv-cache`: what decoding keeps, by kind of layer, and what a budget holds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sizer import units
from sizer.errors import UnknownName
from sizer.measures.cache_kinds import kept
from sizer.measures.cache_layers import Layers, Setup
from sizer.measures.cache_policies import POLICIES
from sizer.measures.context import warnings, without_encoder
from sizer.measures.kv_cache import KVCache
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes
from sizer.report.report import Report, Table, View

if TYPE_CHECKING:
    from sizer.measures.cache_budget import Fit
    from sizer.measures.closed_forms import ClosedForms

UNITS = ("auto", "bytes", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")


def report(
    model: Model,
    *,
    batch_size: int = 1,
    seq_len: int = 1024,
    dtype: str = "bf16",
    policy: str = "architecture",
    budget: int | None = None,
    unit: str = "auto",
    explain: bool = False,
    draft: Model | None = None,
    **options: Any,
) -> Report:
    """Bytes of a cache by kind of layer; with a budget, the tokens and sequences that fit."""
    if unit not in UNITS:
        raise UnknownName("unit", unit, UNITS, hint=f"known are {', '.join(UNITS)}")
    given = {name: value for name, value in options.items() if value is not None}
    found = model.kv_cache(batch_size, seq_len, dtype, policy, **given)
    drafts = None if draft is None else draft.kv_cache(batch_size, seq_len, dtype, policy, **given)
    room = None
    if budget is not None:
        from sizer.measures.cache_budget import fit

        setup = _setup(batch_size, seq_len, dtype, given)
        room = fit(kept(model.rows(), encoder_given="encoder_len" in given), setup, policy, budget)
    said = [*warnings(model, seq_len), *without_encoder(model, options.get("encoder_len"))]
    total = found.bytes + (0 if drafts is None else drafts.bytes)
    label = "exact" if found.exact else "estimate"

    @cache
    def forms() -> ClosedForms | None:
        return _forms(model, batch_size, seq_len, dtype, policy, given)

    def view() -> View:
        lines = [] if found.layers else [f"nothing is kept: a {model.architecture} does not decode", ""]
        lines += [*_below(found, unit), *_fit_lines(room, seq_len, unit)]
        if draft is not None and drafts is not None:
            lines += [
                f"{'draft model':<18} {drafts.bytes:>22,}  ({units.both(drafts.bytes, unit)})  {draft.name}",
                f"{'both':<18} {total:>22,}  ({units.both(total, unit)})",
            ]
        if explain:
            lines += ["", *_explained(found, forms())]
        return View(
            table=_table(found),
            above=[
                f"{model.name}  ({model.architecture}), {label}: "
                f"{batch_size:,} × {seq_len:,} tokens, {dtype}, policy {policy}"
            ],
            below=lines,
            notes=notes(model, found.assumptions),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "bytes": found.bytes,
            "bytes_per_token": found.bytes_per_token,
            "constant_bytes": found.constant_bytes,
            "used_bytes": found.used_bytes,
            "stored_bytes": found.stored_bytes,
            "bookkeeping_bytes": found.bookkeeping_bytes,
            "label": label,
            "policy": policy,
            "policy_source": POLICIES[policy].source,
            "batch_size": batch_size,
            "seq_len": seq_len,
            "dtype": dtype,
            "layers": [_record(one) for one in found.layers],
            **({} if room is None else {"budget": _budget(room)}),
            **({} if drafts is None else {"draft_bytes": drafts.bytes, "total_bytes": total}),
            **_formula(forms()),
            "warnings": said,
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": model.sources,
        }

    return Report(str(total), document, view, talk=[f"warning: {text}" for text in said])


def formula(
    model: Model,
    *,
    batch_size: int,
    seq_len: int,
    dtype: str,
    policy: str,
    notation: str,
    encoder_len: int | None = None,
) -> Report:
    """`sizer formula --of kv-cache`."""
    from sizer.measures.closed_forms import cache_forms
    from sizer.report import closed_form

    found = cache_forms(
        model, batch_size=batch_size, seq_len=seq_len, dtype=dtype, policy=policy, encoder_len=encoder_len
    )
    return closed_form.report(model, found, unit="bytes", notation=notation)


def _setup(batch: int, tokens: int, dtype: str, given: dict[str, Any]) -> Setup:
    return Setup(
        batch,
        tokens,
        given.get("encoder_len", tokens),
        dtype,
        given.get("key_dtype"),
        given.get("value_dtype"),
        given.get("sliding_dtype"),
        given.get("state_dtype"),
        None,
        given.get("decoded", True),
        given.get("block_size", 16),
        given.get("max_batched_tokens", 2048),
        given.get("ubatch", 512),
        given.get("unified", False),
        given.get("tp", 1),
        given.get("state_pages", 1),
    )


def _forms(
    model: Model, batch: int, tokens: int, dtype: str, policy: str, given: dict[str, Any]
) -> ClosedForms | None:
    """The formula, where neither pages nor parts of a rank are in it."""
    from sizer.measures.closed_forms import POLICIES as WITH_FORMULA
    from sizer.measures.closed_forms import cache_forms

    others = set(given) - {"encoder_len", "max_len", "decoded", "unified"}
    if policy not in WITH_FORMULA or any(given[name] not in (1, 16, 512, 2048) for name in others):
        return None
    return cache_forms(
        model,
        batch_size=batch,
        seq_len=tokens,
        encoder_len=given.get("encoder_len"),
        dtype=dtype,
        policy=policy,
        max_len=given.get("max_len"),
    )


def _formula(forms: ClosedForms | None) -> dict[str, Any]:
    if forms is None:
        return {}
    return {"formula": forms.forms["bytes"].text(ascii_only=True), "values": forms.values}


def _below(found: KVCache, unit: str) -> list[str]:
    rows = [("bytes", found.bytes)]
    if found.used_bytes != found.bytes:
        rows.append(("  of it used", found.used_bytes))
    if found.stored_bytes != found.bytes:
        rows.append(("stored", found.stored_bytes))
    rows += [("a token", found.bytes_per_token), ("constant", found.constant_bytes)]
    return [f"{name:<18} {number:>22,}  ({units.both(number, unit)})" for name, number in rows]


def _fit_lines(room: Fit | None, seq_len: int, unit: str) -> list[str]:
    if room is None:
        return []
    lines = [f"{'budget':<18} {room.budget:>22,}  ({units.both(room.budget, unit)})"]
    if room.sequences is None:
        return [*lines, "nothing is kept, so any number of sequences fits"]
    tokens = "any length" if room.tokens is None else f"{room.tokens:,}"
    lines.append(f"{'tokens that fit':<18} {tokens:>22}  of each sequence of the batch")
    lines.append(
        f"{'sequences that fit':<18} {room.sequences:>22,}  of {seq_len:,} tokens ({room.concurrency:.2f} ×)"
    )
    if room.blocks is not None:
        lines.append(
            f"{'blocks':<18} {room.blocks:>22,}  of {room.block_bytes:,} bytes, "
            f"{room.pool_tokens:,} tokens in all"
        )
    return lines


def _budget(room: Fit) -> dict[str, Any]:
    return {
        "bytes": room.budget,
        "tokens": room.tokens,
        "sequences": room.sequences,
        "concurrency": room.concurrency,
        "blocks": room.blocks,
        "block_bytes": room.block_bytes,
        "pool_tokens": room.pool_tokens,
    }


def _record(one: Layers) -> dict[str, Any]:
    return {
        "kind": one.kept.word,
        "layers": one.kept.layers,
        "window": one.kept.window,
        "tokens": one.tokens,
        "reserved_tokens": one.reserved,
        "bytes_per_token": one.a_token,
        "constant_bytes": one.constant,
        "bytes": one.bytes,
        "stored_bytes": one.stored,
        "bookkeeping_bytes": one.bookkeeping,
    }


def _table(found: KVCache) -> Table:
    records = [_record(one) for one in found.layers]
    rows = [
        (
            entry["kind"],
            f"{entry['layers']:,}",
            f"{entry['tokens']:,}" if entry["bytes_per_token"] else "–",
            f"{entry['bytes_per_token']:,}",
            f"{entry['constant_bytes']:,}",
            f"{entry['stored_bytes' if found.bytes != found.used_bytes else 'bytes']:,}",
        )
        for entry in records
    ]
    headers = ("kind", "layers", "tokens", "bytes a token", "constant", "bytes a sequence")
    return Table(headers, rows, numbers=(1, 2, 3, 4, 5), records=records)


def _explained(found: KVCache, forms: ClosedForms | None) -> list[str]:
    lines = [f"- {text}" for text in found.assumptions]
    if forms is not None:
        lines += [
            "",
            f"bytes = {forms.forms['bytes'].text()}",
            f"      = {forms.value('bytes'):,}",
            *legend_lines(forms.letters),
        ]
    return lines
