"""The families of `classic`: how the configurations of each read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.classic import ClassicConfig, classic
from sizer.architectures.decoders.classic_names import STYLES
from sizer.architectures.decoders.reading import positive, rotary_width, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.core.dims import MAX_LAYERS
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ARCHITECTURES = {
    name: Architecture(ClassicConfig, partial(classic, style=style)) for name, style in STYLES.items()
}


def _reading(name: str, hf: HFConfig, **given: Any) -> Reading:
    return Reading(name, hf.fill(ClassicConfig, **given))


def _width(hf: HFConfig) -> dict[str, Any]:
    """The width, which old BLOOM and Falcon files give as `n_embed`; transformers lets that win."""
    n_embed = hf.in_file("n_embed")
    return {} if n_embed is None else {"d_model": n_embed}


def _older_share(hf: HFConfig, default: float) -> float:
    """The rotary share of a head, under the name it had before `rope_parameters`."""
    return positive("rotary_pct", hf["rotary_pct"]) if hf.given("rotary_pct") else default


def _gpt_neox(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    rotary = rotary_width(hf, default=_older_share(hf, 0.25))
    parallel = bool(hf["use_parallel_residual"])
    given = {"qkv_bias": bias, "o_bias": bias, "d_rotary": rotary, "parallel": parallel}
    return _reading("gpt_neox", hf, act=hf["hidden_act"], **given)


def _gpt_neox_japanese(hf: HFConfig) -> Reading:
    return _reading(
        "gpt_neox_japanese",
        hf,
        d_ff=int(
            whole(hf, "hidden_size")
            * positive("intermediate_multiple_size", hf["intermediate_multiple_size"])
        ),
        d_rotary=rotary_width(hf, default=_older_share(hf, 1.0)),
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        act=hf["hidden_act"],
    )


def _bloom(hf: HFConfig) -> Reading:
    return _reading("bloom", hf, d_ff=None, n_kv_heads=None, d_head=None, **_width(hf))


def _falcon(hf: HFConfig) -> Reading:
    # The first Falcon-40B files say `n_head_kv`, and nothing else, of their new block.
    new_block = hf["new_decoder_architecture"]
    if hf.given("n_head_kv") and not hf.given("new_decoder_architecture"):
        new_block = True
    if new_block:
        kv: dict[str, Any] = {}
    else:
        kv = {"n_kv_heads": 1 if hf["multi_query"] else None}
    norms: tuple[str, str] | None = None
    if hf["parallel_attn"]:
        n_norms = hf["num_ln_in_parallel_attn"]
        two = n_norms == 2 or (n_norms is None and new_block)
        norms = ("ln_attn", "ln_mlp") if two else ("input_layernorm", "")
    bias = bool(hf["bias"])
    switches = {"qkv_bias": bias, "o_bias": bias, "mlp_bias": bias, "norms": norms, "act": hf["activation"]}
    switches |= {"parallel": bool(hf["parallel_attn"]), "repeats_kv": bool(new_block)}
    return _reading("falcon", hf, d_head=None, d_rotary=rotary_width(hf), **kv, **switches, **_width(hf))


def _mpt(hf: HFConfig) -> Reading:
    # transformers builds no biases, learned positions or other widths, whatever the file says of them.
    plain = {"d_ff": None, "d_head": None, "n_kv_heads": None, "norm": "layer_no_bias"}
    return _reading("mpt", hf, **plain, qkv_bias=False, o_bias=False, mlp_bias=False)


def _gptj(hf: HFConfig) -> Reading:
    return _gptj_like("gptj", hf)


def _codegen(hf: HFConfig) -> Reading:
    return _gptj_like("codegen", hf)


def _gptj_like(name: str, hf: HFConfig) -> Reading:
    rotary = whole(hf, "rotary_dim" if hf["rotary_dim"] else "n_embd")
    return _reading(
        name,
        hf,
        n_ctx=hf["n_positions"],
        d_head=None,
        d_rotary=rotary + rotary % 2,
        qkv_bias=False,
        o_bias=False,
        act=hf["activation_function"],
    )


def _gpt_neo(hf: HFConfig) -> Reading:
    kinds = tuple("window" if kind == "local" else "full" for kind in _gpt_neo_layers(hf))
    return _reading(
        "gpt_neo",
        hf,
        d_head=None,
        window_layers=Pattern(kinds),
        window=hf["window_size"],
        qkv_bias=False,
        act=hf["activation_function"],
    )


def _gpt_neo_layers(hf: HFConfig) -> list[str]:
    """The kind of each layer: listed, or in groups with how often each comes."""
    n_layers = whole(hf, "num_layers")
    if hf.given("attention_layers"):
        listed = hf["attention_layers"]
        if isinstance(listed, list | tuple):
            return [str(kind) for kind in listed[:n_layers]]
        raise InvalidConfig(f"attention_layers = {clip(repr(listed))} is not a list, one kind a layer")
    groups = hf["attention_types"] or [[["global", "local"], 12]]
    try:
        if sum(len(kinds) * times for kinds, times in groups) > MAX_LAYERS:
            raise InvalidConfig(f"attention_types lists more than {MAX_LAYERS:,} layers")
        layers = [str(kind) for kinds, times in groups for _ in range(times) for kind in kinds]
    except (TypeError, ValueError):
        raise InvalidConfig(
            f"attention_types = {clip(repr(groups))} is not of the form [[[kind, …], times], …]"
        ) from None
    if len(layers) != n_layers:
        raise InvalidConfig(f"attention_types makes {len(layers)} layers and num_layers = {n_layers}")
    return layers


def _ctrl(hf: HFConfig) -> Reading:
    return _reading("ctrl", hf, n_ctx=hf["n_positions"], d_ff=hf["dff"], d_head=None, act="relu")


def _opt(hf: HFConfig) -> Reading:
    bias = hf["enable_bias"]
    d_embed = hf["word_embed_proj_dim"]
    return _reading(
        "opt",
        hf,
        d_head=None,
        d_embed=None if d_embed == hf["hidden_size"] else d_embed,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
        norm="layer" if hf["layer_norm_elementwise_affine"] else "none",
        final_norm=hf["do_layer_norm_before"] and not hf["_remove_final_layer_norm"],
        act=hf["activation_function"],
    )


def _xglm(hf: HFConfig) -> Reading:
    return _reading(
        "xglm",
        hf,
        n_heads=hf["attention_heads"],
        d_head=None,
        cross_attention=hf["add_cross_attention"],
        act=hf["activation_function"],
    )


def _biogpt(hf: HFConfig) -> Reading:
    return _reading("biogpt", hf, d_head=None, act=hf["hidden_act"])


HF_READERS = {
    "gpt_neox": _gpt_neox,
    "gpt_neox_japanese": _gpt_neox_japanese,
    "bloom": _bloom,
    "falcon": _falcon,
    "mpt": _mpt,
    "gptj": _gptj,
    "codegen": _codegen,
    "gpt_neo": _gpt_neo,
    "ctrl": _ctrl,
    "opt": _opt,
    "xglm": _xglm,
    "biogpt": _biogpt,
}
