"""The closed forms of FLOPs and of a cache: the same folds over letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizer.core.dims import quotients
from sizer.core.poly import Poly, as_poly, symbol
from sizer.core.record import Record
from sizer.core.walk import Row, walk
from sizer.errors import InvalidConfig, Rounded
from sizer.measures.cache_kinds import kept
from sizer.measures.cache_layers import Setup, window_letter
from sizer.measures.flops import flops_of, kernel_of
from sizer.measures.formula import Letter, legend
from sizer.measures.kv_cache import cache_of
from sizer.measures.passes import Pass, check_positive
from sizer.measures.products import as_products
from sizer.measures.scans import log2
from sizer.measures.streams import encoder_length

if TYPE_CHECKING:
    from sizer.model import Model

# Cache policies whose rule is a formula; pages and cells are rounded, and no polynomial rounds.
POLICIES = ("architecture", "full", "static")


class ClosedForms(Record):
    """Formulas of one measure: `forms` by name, the first of them the answer, and their letters."""

    __slots__ = ("assumptions", "exact", "forms", "letters", "parts")

    def __init__(
        self,
        forms: Mapping[str, Poly],
        parts: Mapping[str, Poly],
        letters: Mapping[str, Letter],
        assumptions: list[str],
        exact: bool,
    ) -> None:
        self.forms = forms
        self.parts = parts
        self.letters = letters
        self.assumptions = assumptions
        self.exact = exact

    @property
    def values(self) -> dict[str, int]:
        """The number of each letter."""
        return {code: entry.value for code, entry in self.letters.items()}

    def value(self, name: str) -> int:
        """A formula with the numbers in it."""
        poly = self.forms[name] if name in self.forms else self.parts[name]
        return int(poly.value(self.values))


def flops_forms(
    model: Model,
    *,
    batch_size: int = 1,
    seq_len: int = 1024,
    encoder_len: int | None = None,
    attention: str = "eager",
) -> ClosedForms:
    """FLOPs of a step as formulas of the sizes, of B sequences and of T tokens.

    >>> import sizer
    >>> str(flops_forms(sizer.load("gpt2-small")).forms["forward"])
    '4LT²BD + 24LTBD² + 2VTBD'
    """
    check_positive(batch_size=batch_size, seq_len=seq_len, encoder_len=encoder_len)
    kernel = kernel_of(attention)
    products = as_products(model.rows(), kernel)
    run = Pass(symbol("B"), symbol("T"), encoder=symbol("Te"), encoder_given=encoder_len is not None)
    found = flops_of(_exact_rows(model), run, kernel=kernel, products=products)
    forms = {name: as_poly(getattr(found, name)) for name in ("forward", "backward", "training")}
    parts = {name: as_poly(value) for name, value in found.components.items()}
    width = getattr(model.config, "d_model", 1)
    known = {
        "B": Letter("batch_size", batch_size, "sequences"),
        "T": Letter("seq_len", seq_len, "tokens a sequence"),
        "Te": Letter("encoder_len", encoder_len or seq_len, "tokens of the encoder's sequence"),
        "lgT": Letter("log2(seq_len)", log2(seq_len, ""), "binary logarithm of T, rounded up"),
        "lgD": Letter("log2(d_model)", log2(width, "") if isinstance(width, int) else 0, "of D, rounded up"),
    }
    return ClosedForms(forms, parts, _letters(model, forms, parts, known), found.assumptions, found.exact)


def _exact_rows(model: Model) -> list[Row]:
    """The rows over letters; refuses a model whose numbers are rounded where letters are divided."""
    with quotients() as taken:
        rows = walk(model.with_values().symbolic_tree())
    numbers = model.symbolic[1]
    for one in taken:
        dividend, divisor = (as_poly(size).value(numbers) for size in (one.dividend, one.divisor))
        if dividend % divisor:
            raise Rounded(
                f"{one.names}: {dividend} by {divisor} is rounded, which a formula does not; only the number "
                "is known"
            )
    return rows


def cache_forms(
    model: Model,
    *,
    batch_size: int = 1,
    seq_len: int = 1024,
    encoder_len: int | None = None,
    dtype: str = "bf16",
    policy: str = "architecture",
    max_len: int | None = None,
) -> ClosedForms:
    """Bytes of a cache as formulas; `Tw` is min(T, W), the tokens that a layer with a window keeps.

    >>> import sizer
    >>> str(cache_forms(sizer.load("llama-3-8b")).forms["bytes"])
    '4LTBDK/H'
    """
    check_positive(batch_size=batch_size, seq_len=seq_len, encoder_len=encoder_len, max_len=max_len)
    if policy not in POLICIES:
        raise InvalidConfig(
            f"policy = {policy} rounds to pages or cells and has no closed form; use {', '.join(POLICIES)}"
        )
    tokens = seq_len if max_len is None else max_len
    setup = Setup(symbol("B"), symbol("T"), symbol("Te"), dtype)
    kinds = kept(walk(model.symbolic_tree()), encoder_given=encoder_len is not None)
    found = cache_of(kinds, setup, policy)
    forms = {name: as_poly(getattr(found, name)) for name in ("bytes", "bytes_per_token", "constant_bytes")}
    parts: dict[str, Poly] = {}
    for one in found.layers:
        parts[one.kept.word] = parts.get(one.kept.word, as_poly(0)) + one.bytes * symbol("B")
    numbers = model.symbolic[1]
    known: dict[str, Letter] = {
        "B": Letter("batch_size", batch_size, "sequences"),
        "T": Letter("seq_len", tokens, "tokens a sequence"),
        "Te": Letter(
            "encoder_len",
            encoder_len or encoder_length(model.rows(), seq_len),
            "tokens of the encoder's sequence",
        ),
    }
    for kind in kinds:
        if kind.window is not None:
            width = int(as_poly(kind.window).value(numbers))
            known[window_letter(kind.window)] = Letter(
                "min(seq_len, window)", min(tokens, width), f"tokens that a window of {kind.window} keeps"
            )
    return ClosedForms(forms, parts, _letters(model, forms, parts, known), found.assumptions, found.exact)


def _letters(
    model: Model, forms: Mapping[str, Poly], parts: Mapping[str, Poly], known: Mapping[str, Letter]
) -> dict[str, Letter]:
    wanted = frozenset[str]().union(*(poly.letters for poly in (*forms.values(), *parts.values())))
    entries: dict[str, Any] = {code: entry for code, entry in known.items() if code in wanted}
    return {**entries, **legend(model, wanted - set(entries))}
