"""What the readers of MoE configurations share: which layers are what, and rotary widths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizer.architectures.moe.moe_decoder import MoEConfig
from sizer.architectures.registry import Reading
from sizer.core.dims import round_up
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

SLIDING = ("sliding_attention", "chunked_attention")


def moe_reading(
    hf: HFConfig, architecture: str = "moe", config: type[MoEConfig] = MoEConfig, **given: Any
) -> Reading:
    """The fields of a MoE decoder; no token visits more experts than there are."""
    given.setdefault("d_rotary", rotary_width(hf))
    # Only a family whose published layout is known passes them on.
    given.setdefault("mtp_layers", None)
    found = hf.fill(config, **given)
    if "d_head" not in found and found["d_model"] % found["n_heads"]:
        # transformers rounds down where the width does not divide; only then it has no closed form.
        found["d_head"] = head_width(hf)
    if found["d_rotary"] == head_width(hf):
        found["d_rotary"] = None  # the whole head, whatever its width is set to later
    if found.get("n_experts") == 0:
        found["n_experts"] = None
    if isinstance(found.get("n_experts"), int) and isinstance(found.get("top_k"), int):
        found["top_k"] = min(found["top_k"], found["n_experts"])
    return Reading(architecture, found)


def head_width(hf: HFConfig) -> int:
    """The width of a head, given or derived, rounded down as transformers does."""
    if "head_dim" in hf and hf["head_dim"] is not None:
        return int(hf["head_dim"])
    return int(hf["hidden_size"]) // int(hf["num_attention_heads"])


def layer_kinds(hf: HFConfig, key: str, rule: Callable[[int], str]) -> list[str]:
    """A list of the file, one word for each layer, or what the rule of its model type gives."""
    n_layers = hf["num_hidden_layers"]
    given = list(hf[key] or ()) if key in hf else []
    return given[:n_layers] or [rule(i) for i in range(n_layers)]


def windows(hf: HFConfig, sliding: Callable[[int], bool], key: str = "sliding_window") -> dict[str, Any]:
    """The window, and the layers that have it."""
    kinds = layer_kinds(hf, "layer_types", lambda i: SLIDING[0] if sliding(i) else "full_attention")
    window = hf[key]
    marks = tuple("window" if kind in SLIDING else "full" for kind in kinds)
    if not window or "window" not in marks:
        return {"window": None}
    return {"window": window, "window_layers": Pattern(marks) if "full" in marks else None}


def sparse_layers(hf: HFConfig, rule: Callable[[int], bool]) -> Pattern | None:
    """Which layers have experts, by the file or by a rule; `None` where all have."""
    kinds = layer_kinds(hf, "mlp_layer_types", lambda i: "sparse" if rule(i) else "dense")
    return mlp_pattern([kind == "sparse" for kind in kinds])


def mlp_pattern(sparse: Sequence[bool]) -> Pattern | None:
    """The pattern of dense and sparse layers; `None` where all are sparse."""
    return None if all(sparse) else Pattern(tuple("sparse" if one else "dense" for one in sparse))


def rope_of(hf: HFConfig, kind: str = "") -> Mapping[str, Any] | None:
    """The rotary settings in the file, of one kind of layer where they are by kind."""
    for key in ("rope_scaling", "rope_parameters"):
        found = hf[key] if hf.given(key) else None
        if isinstance(found, Mapping) and found:
            by_kind = found.get(kind, found) if kind else found
            return by_kind if by_kind is None or isinstance(by_kind, Mapping) else found
    return {}


def rotary_width(hf: HFConfig, *, partial: bool = False, default: float = 1.0, kind: str = "") -> int:
    """How much of a head is rotated, rounded up to pairs.

    `partial`: the model type has partial rotary positions; the others read the fraction only where
    their frequencies are scaled.
    """
    rope = rope_of(hf, kind) or {}
    scaling = rope.get("rope_type", rope.get("type", "default"))
    fraction = rope.get("partial_rotary_factor")
    if fraction is None and hf.given("partial_rotary_factor"):
        fraction = hf["partial_rotary_factor"]
    if fraction is None:
        fraction = default
    if scaling == "proportional" or not (partial or scaling != "default"):
        fraction = 1.0
    return int(round_up(max(int(head_width(hf) * fraction), 1), 2))


def layered_rotary(
    hf: HFConfig, kinds: Sequence[str], defaults: Mapping[str, float | None], *, partial: bool = True
) -> dict[str, Any]:
    """Rotary widths by the kind of layer; a kind without rotary positions has no frequencies."""
    given = hf.given("rope_parameters") and hf["rope_parameters"] is not None
    widths = {}
    for kind in sorted(set(kinds)):
        fraction = 1.0 if given else defaults[kind]
        if fraction is not None and rope_of(hf, kind) is not None:
            widths[kind] = rotary_width(hf, partial=partial, default=fraction, kind=kind)
    return {
        "rotary_types": tuple(widths),
        "d_rotary": widths.get("full_attention"),
        "d_rotary_window": widths.get("sliding_attention"),
    }
