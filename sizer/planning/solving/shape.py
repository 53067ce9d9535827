"""The shapes that a search may give a model: free sizes, sizes that follow from others, fixed ones.

A free size has a domain, rising numbers. A size that follows is a ratio of another: exactly (heads are
the width over the width of a head), or rounded up to a multiple (the hidden width of a gated MLP).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

from sizer.core.config import check_size, size_names
from sizer.core.dims import round_up
from sizer.errors import InvalidConfig, clip
from sizer.model import Model
from sizer.planning.solving.links import OTHER, RANGES, SPLIT, Link, aspect_of, whole
from sizer.planning.solving.targets import positive
from sizer.planning.sweeping.axes import axis_of
from sizer.sources.values import canonical, canonical_once

MAX_DOMAIN = 1_048_576


class Shape:
    """What is free, what follows, what is fixed, and the reasons; contradictions are errors."""

    def __init__(
        self,
        model: Model,
        free: Sequence[str],
        *,
        fixed: Mapping[str, Any] | None = None,
        multiple: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        d_head: int | None = None,
        kv_ratio: Any = None,
        ff_ratio: Any = None,
        sparsity: Any = None,
        pad_vocab: int | None = None,
        aspect: str | None = None,
        tp: int | None = None,
    ) -> None:
        self.model = model
        self.config = type(model.config)
        self.notes: list[str] = []
        self.links: dict[str, Link] = {}
        self.free = self._fields(free, "--for")
        if not self.free:
            raise InvalidConfig("nothing to solve for; name sizes, such as --for d_model,n_layers")
        self.fixed = self._fixed(fixed or {})
        self._given_multiples = self._numbers(multiple or {}, "--multiple")
        self.multiples = dict(self._given_multiples)
        self.where = {self._field(name, "--where"): text for name, text in (where or {}).items()}
        for name in self.free:
            if name in self.fixed:
                raise InvalidConfig(f"{name} is fixed with --set and asked for with --for; leave one out")
        for name in self.where:
            if name in self.fixed:
                raise InvalidConfig(f"{name} is fixed with --set and bounded with --where; leave one out")
        if tp is not None:
            self._split(whole("--tp", tp))
        if pad_vocab is not None:
            self._padded(whole("--pad-vocab", pad_vocab))
        self._heads(None if d_head is None else whole("--d-head", d_head))
        self._kv_heads(None if kv_ratio is None else positive("--kv-ratio", kv_ratio))
        if ff_ratio is not None:
            # Of a model that is experts throughout, the ratio is theirs.
            name = "d_ff_expert" if self.base("d_ff") is None and self.base("d_ff_expert") else "d_ff"
            self._follow(name, "d_model", positive("--ff-ratio", ff_ratio), "--ff-ratio", exact=False)
        if sparsity is not None:
            self._follow("n_experts", "top_k", positive("--sparsity", sparsity), "--sparsity")
        self.aspect = aspect_of(aspect)
        if self.aspect is not None and not {"d_model", "n_layers"} <= set(self._known()):
            raise InvalidConfig("--aspect is d_model over n_layers, and this model has not both")
        if self.aspect is not None and not (self.varies("d_model") or self.varies("n_layers")):
            raise InvalidConfig("--aspect bounds d_model over n_layers; free one of them with --for")
        self.free = [name for name in self.free if name not in self.links]
        if not self.free:
            raise InvalidConfig("every size follows from others; name one that is free with --for")
        self._check_fixed()

    # -- names and numbers ---------------------------------------------------------------------

    def _known(self) -> list[str]:
        return size_names(self.config)

    def _field(self, name: str, option: str) -> str:
        found = canonical(str(name).strip(), self.config)
        if found not in self._known():
            raise InvalidConfig(
                f"{option}: {clip(name)} is a switch and no size; sizes are {', '.join(self._known())}"
            )
        return found

    def _fields(self, names: Sequence[str], option: str) -> list[str]:
        return list(dict.fromkeys(self._field(name, option) for name in names))

    def _numbers(self, given: Mapping[str, Any], option: str) -> dict[str, int]:
        return {self._field(k, option): whole(f"{option} {clip(k)}", v) for k, v in given.items()}

    def _fixed(self, given: Mapping[str, Any]) -> dict[str, int]:
        found = canonical_once(given, self.config)
        for name, value in found.items():
            self._field(name, "--set")
            check_size(name, value, least=0 if name in self.config.may_be_zero else 1)
        return found

    def base(self, name: str) -> int | None:
        """The size that is fixed, or that the model has."""
        if name in self.fixed:
            return self.fixed[name]
        value = getattr(self.model.config, name, None)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def varies(self, name: str) -> bool:
        """Whether a size is free, or follows from one that is."""
        return name in self.free or (name in self.links and self.varies(self.links[name].source))

    # -- the rules -----------------------------------------------------------------------------

    def _split(self, tp: int) -> None:
        for name in SPLIT:
            if name in self._known() and self.base(name) is not None:
                self.multiples[name] = lcm(self.multiples.get(name, 1), tp)
        self.notes.append(f"tp = {tp} divides {', '.join(n for n in SPLIT if n in self.multiples)}")

    def _padded(self, pad: int) -> None:
        self._need("vocab_size", "--pad-vocab")
        if "vocab_size" in self.free:
            self.multiples["vocab_size"] = lcm(self.multiples.get("vocab_size", 1), pad)
            return
        before = self.base("vocab_size")
        assert before is not None
        self.fixed["vocab_size"] = int(round_up(before, pad))
        self.notes.append(
            f"vocab_size = {self.fixed['vocab_size']:,}: {before:,} padded to a multiple of {pad}"
        )

    def _heads(self, width: int | None) -> None:
        """Heads follow from the width of the model where they are as wide as it is together."""
        sizes: list[Any] = [
            getattr(self.model.config, name, None) for name in ("d_model", "n_heads", "d_head")
        ]
        if not all(isinstance(size, int) for size in sizes):
            # None at all, or in every layer another number of them.
            if width is not None:
                raise InvalidConfig(f"--d-head: {self.model.architecture} has no heads of a width of its own")
            return
        d_model, n_heads, d_head = sizes
        square = n_heads * d_head == d_model
        if width is None:
            if "n_heads" in self.free and square and not self._kv_known():
                self._follow("n_heads", "d_model", Fraction(1, d_head), f"heads as wide as before, {d_head}")
            return
        if "d_head" in self.free or self.fixed.get("d_head", width) != width:
            raise InvalidConfig(
                "--d-head fixes the width of a head, and --for or --set says something else; leave one out"
            )
        if self.model.given.get("d_head") is not None or not square:
            self.fixed["d_head"] = width
        if not square:
            self.notes.append(f"d_head = {width}; heads are not d_model / d_head in {self.model.name}")
        elif "n_heads" in self.fixed:
            if not self.varies("d_model"):
                self._square(width)
                return
            if "d_model" in self.where:
                raise InvalidConfig(
                    f"d_model is {self.fixed['n_heads']} heads of --d-head {width}; leave --where d_model out"
                )
            self.where["d_model"] = [self.fixed["n_heads"] * width]
        else:
            self._follow("n_heads", "d_model", Fraction(1, width), "--d-head")

    def _square(self, width: int) -> None:
        d_model, n_heads = self.base("d_model"), self.fixed["n_heads"]
        if d_model != n_heads * width:
            raise InvalidConfig(
                f"n_heads = {n_heads} of --d-head {width} are {n_heads * width} wide and d_model = {d_model}"
            )

    def _kv_known(self) -> bool:
        """Whether the number of KV heads stays where that of the query heads changes."""
        return "n_kv_heads" in self.fixed or "n_kv_heads" in self.free

    def _kv_heads(self, ratio: Fraction | None) -> None:
        if ratio is not None:
            if "n_kv_heads" in self.fixed:
                raise InvalidConfig("--kv-ratio derives n_kv_heads, and --set fixes it; leave one out")
            self._follow("n_kv_heads", "n_heads", 1 / ratio, "--kv-ratio")
            return
        if "n_kv_heads" not in self._known() or self._kv_known():
            return
        changes = self.varies("n_heads") or "n_heads" in self.fixed
        base = self.model.config
        if changes and getattr(base, "n_kv_heads", None) == getattr(base, "n_heads", 0):
            self._follow("n_kv_heads", "n_heads", Fraction(1), "as many as query heads, as before")

    def _follow(self, name: str, source: str, ratio: Fraction, why: str, *, exact: bool = True) -> None:
        self._need(name, why)
        self._need(source, why)
        if name in self.fixed:
            raise InvalidConfig(f"{why} derives {name}, and --set fixes it; leave one out")
        multiple = self.multiples.get(name, 1)
        soft = not exact and name not in self.multiples
        link = Link(name, source, ratio, why, RANGES[name][2] if soft else multiple, exact, soft)
        if not self.varies(source):
            known = self.base(source)
            value = None if known is None else link.value(known)
            if value is None:
                raise InvalidConfig(
                    f"{why}: {name} = {source} · {ratio} = {known} · {ratio} is no whole number"
                    + (f" that {multiple} divides" if multiple > 1 else "")
                )
            self.fixed[name] = value
            if name in self.free:
                self.free.remove(name)
                self.notes.append(f"{name} = {value} ({why})")
            return
        self.links[name] = link
        plain = ratio.denominator == 1 and soft
        rounded = f", rounded up to a multiple of {link.multiple}" if not exact and not plain else ""
        self.notes.append(f"{name} = {source} · {ratio}{rounded} ({why})")

    def _need(self, name: str, why: str) -> None:
        if name not in self._known() or self.base(name) is None:
            raise InvalidConfig(f"{why}: {self.model.architecture} has no {name}")

    def _check_fixed(self) -> None:
        for name, multiple in self.multiples.items():
            if name in self.links or name in self.free:
                continue
            value = self.base(name)
            if value is not None and value % multiple:
                raise InvalidConfig(
                    f"{name} = {value} is no multiple of {multiple}, which --multiple or --tp asks for; "
                    f"free it with --for, or set another"
                )

    # -- domains -------------------------------------------------------------------------------

    def domain(self, name: str, *, any_multiple: bool = False) -> Sequence[int]:
        """The values that a free size may take, rising; `any_multiple`: also those nobody would use."""
        step = self.step(name)
        low, high, usual = RANGES.get(name, OTHER)
        if name in self.where:
            values = axis_of(name, self.where[name]).values
            if len(values) > MAX_DOMAIN:
                raise InvalidConfig(f"--where {name}: {len(values):,} values; take larger steps")
            for value in values if not isinstance(values, range) else (values[0], values[-1]):
                check_size(name, value, least=0 if name in self.config.may_be_zero else 1)
            found: Sequence[int] = sorted({value for value in values if value % step == 0})
        else:
            if not any_multiple and name not in self._given_multiples:
                step = lcm(step, usual)
            if any_multiple and usual == 1 and name.endswith("_layers"):
                high = 4 * high
            # From below the usual where the multiple is smaller, up to the same end.
            first = min(low, step) if low else 0
            first = -(-first // step) * step
            found = range(first, high + 1, step)
        if not found:
            bounds = self.where.get(name, f"{low}:{high}")
            raise InvalidConfig(f"no {name} in {clip(bounds)} is a multiple of {step}{self._because(name)}")
        return found

    def step(self, name: str) -> int:
        """What a free size must be a multiple of, for its own sake and for what follows from it."""
        step = self.multiples.get(name, 1)
        for link, ratio, _ in self._following(name):
            direct = Link(link.field, name, ratio, "", self.multiples.get(link.field, 1))
            step = lcm(step, direct.step)
        return step

    def _following(self, name: str) -> list[tuple[Link, Fraction, int]]:
        """What follows exactly from a size, also by way of others, with its ratio to it."""
        found = []
        for link in self.links.values():
            if link.exact and link.source == name:
                found.append((link, link.ratio, 0))
                found += [
                    (one, ratio * link.ratio, depth + 1) for one, ratio, depth in self._following(link.field)
                ]
        return found

    def _because(self, name: str) -> str:
        reasons = [f"{name} by {self.multiples[name]}"] if name in self.multiples else []
        reasons += [
            f"{link.field} = {name} · {ratio}"
            + (f" by {self.multiples[link.field]}" if link.field in self.multiples else "")
            for link, ratio, _ in self._following(name)
        ]
        return f", as these ask for: {'; '.join(reasons)}" if reasons else ""
