"""What the readers of MoE configurations share: which layers are what, and their rotary widths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import head_width, rope_parameters, rotary_width
from sizer.architectures.moe.moe_decoder import MoEConfig
from sizer.architectures.registry import Reading
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

SLIDING = ("sliding_attention", "chunked_attention")


def moe_reading(
    hf: HFConfig, architecture: str = "moe", config: type[MoEConfig] = MoEConfig, **given: Any
) -> Reading:
    """The fields of a MoE decoder."""
    given.setdefault("d_rotary", rotary_width(hf))
    # Only a family whose published layout is known passes them on.
    given.setdefault("mtp_layers", None)
    found = hf.fill(config, **given)
    if "d_head" not in found and found["d_model"] % found["n_heads"]:
        # transformers rounds down where the width does not divide; only then it has no closed form.
        found["d_head"] = head_width(hf)
    if found.get("n_experts") == 0:
        found["n_experts"] = None
    return Reading(architecture, found)


def layer_kinds(hf: HFConfig, key: str, rule: Callable[[int], str]) -> list[str]:
    """A list of the file, one word for each layer, or what the rule of its model type gives.

    Without a field for it the class goes by the rule, whatever the file says.
    """
    n_layers = hf["num_hidden_layers"]
    given = list(hf[key] or ()) if hf.reads(key) and key in hf else []
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


def rope_of(hf: HFConfig, kind: str) -> Mapping[str, Any] | None:
    """The rotary settings of one kind of layer, where they are by kind; `None` for no positions."""
    whole = rope_parameters(hf)
    found = whole.get(kind, whole)
    return found if found is None or isinstance(found, Mapping) else whole


def layered_rotary(
    hf: HFConfig, kinds: Sequence[str], defaults: Mapping[str, float | None], *, partial: bool = True
) -> dict[str, Any]:
    """Rotary widths by the kind of layer; a kind without rotary positions has no frequencies."""
    given = hf.given("rope_parameters") and hf["rope_parameters"] is not None
    widths = {}
    for kind in sorted(set(kinds)):
        fraction = 1.0 if given else defaults[kind]
        if fraction is not None and rope_of(hf, kind) is not None:
            widths[kind] = rotary_width(hf, default=fraction if partial else None, rope=rope_of(hf, kind))
    whole_window = "sliding_attention" in widths and widths["sliding_attention"] is None
    return {
        "rotary_types": tuple(widths),
        "d_rotary": widths.get("full_attention"),
        # In windowed layers no width of its own means the width of the others, so the head's is said.
        "d_rotary_window": head_width(hf) if whole_window else widths.get("sliding_attention"),
    }
