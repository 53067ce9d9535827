"""Configurations of the Byte Latent Transformer: one for each of its four stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.blt import BltConfig
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Reading
from sizer.core.dims import round_up
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _blt(hf: HFConfig) -> Reading:
    kinds = {
        "encoder": "local_encoder",
        "global": "global_transformer",
        "decoder": "local_decoder",
        "patcher": "patcher",
    }
    parts = {stack: hf.nested(f"{stack}_config", f"blt_{kind}") for stack, kind in kinds.items()}
    encoder, decoder, patcher = parts["encoder"], parts["decoder"], parts["patcher"]
    groups = hf["encoder_hash_byte_group_size"] or range(3, 9)
    if not isinstance(groups, list | tuple | range):
        raise InvalidConfig(f"encoder_hash_byte_group_size = {clip(repr(groups))} is not a list of sizes")
    given = hf.fill(
        BltConfig,
        **{key: value for stack, part in parts.items() for key, value in _sizes(stack, part).items()},
        encoder_vocab_size=encoder["vocab_size"],
        patcher_vocab_size=patcher["vocab_size"],
        encoder_cross_k=encoder["cross_attn_k"],
        decoder_cross_k=decoder["cross_attn_k"],
        d_patch=_patch_width(hf, encoder, parts["global"]),
        d_decoder_patch=decoder["hidden_size_global"],
        hash_vocab_size=hf["encoder_hash_byte_group_vocab"],
        n_hash_groups=len(groups),
        n_hash_functions=hf["encoder_hash_byte_group_nb_functions"],
        window=hf["local_attention_window_len"],
        encoder_cross_all=bool(encoder["cross_attn_all_layers"]),
        decoder_cross_all=bool(decoder["cross_attn_all_layers"]),
        patcher=bool(hf["patch_in_forward"]),
    )
    return Reading("blt", given)


def _sizes(stack: str, hf: HFConfig) -> dict[str, Any]:
    """The sizes of one stack; a head is as wide as whole numbers allow."""
    d_model, n_heads = whole(hf, "hidden_size"), whole(hf, "num_attention_heads")
    rotary = whole(hf, "head_dim") if hf.given("head_dim") else None
    sizes = {
        "d_model": d_model,
        "n_layers": hf["num_hidden_layers"],
        "n_heads": n_heads,
        "n_kv_heads": hf["num_key_value_heads"] or None,
        "d_head": d_model // n_heads if d_model % n_heads else None,
        "d_ff": hf["intermediate_size"] or int(8 * d_model / 3),
        "d_rotary": None if rotary is None else round_up(rotary, 2),
    }
    return {f"{stack}_{key}": value for key, value in sizes.items()}


def _patch_width(hf: HFConfig, encoder: HFConfig, model: HFConfig) -> Any:
    """Width of a patch from the encoder; `None` where the global model takes it as it is.

    It follows from the other sizes, whatever `encoder_cross_output_size` says.
    """
    width = whole(encoder, "hidden_size") * whole(hf, "cross_attn_k")
    return None if width == model["hidden_size"] else width


HF_READERS = {"blt": _blt}
