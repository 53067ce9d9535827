"""MiniMax-M3's text decoder: layers whose attention reads only the blocks that an indexer picks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import attention, norm
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.moe.moe_decoder import MoEConfig, moe_decoder
from sizer.architectures.moe.reading import layer_kinds, mlp_pattern, moe_reading
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MiniMaxM3Config(MoEConfig):
    """Sizes and switches of a MiniMax-M3 text decoder.

    `index_layers`: "full" or "indexed" for each layer. An indexer has `n_index_heads` queries and
    one key of `d_index` each; it picks `top_k_blocks` blocks of `block_size` tokens.
    """

    index_layers: Pattern | None = None
    n_index_heads: Dim = 4
    d_index: Dim = 128
    block_size: Dim = 128
    top_k_blocks: Dim = 16

    letters = {
        **MoEConfig.letters,
        "index_layers": "L",
        "n_index_heads": "Hi",
        "d_index": "Di",
        "block_size": "Bs",
        "top_k_blocks": "Kb",
    }
    meanings = {
        **MoEConfig.meanings,
        "n_index_heads": "query heads of the indexer",
        "d_index": "width of an indexer's head",
        "block_size": "tokens of a block of keys",
        "top_k_blocks": "blocks that a token attends to",
    }


def minimax_m3(c: MiniMaxM3Config) -> Module:
    """MiniMax-M3's text decoder, with the tensor names of `MiniMaxM3VLForCausalLM`.

    Source: transformers `modeling_minimax_m3_vl.py`.
    """
    return moe_decoder(c, _attention(c))


def _attention(c: MiniMaxM3Config) -> Module:
    usual = attention(c)
    if c.index_layers is None:
        return usual
    full, indexed = c.index_layers.layers("full"), c.index_layers.layers("indexed")
    *projections, _, out = usual.children
    all_tokens = attention_core(c.n_heads, c.n_kv_heads, c.d_head)
    picked = attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.top_k_blocks * c.block_size)
    return usual._replace(
        children=(
            *projections,
            Module("", all_tokens, at=full),
            _indexer(c)._replace(at=indexed),
            # Only some blocks are read, but the keys and values of all tokens are kept.
            Module("", (picked[0], all_tokens[1]), at=indexed),
            out,
        )
    )


def _indexer(c: MiniMaxM3Config) -> Module:
    """Scores of the blocks of earlier tokens, from narrow queries and one key for all heads."""
    embed, key = Axis("embed", c.d_model), Axis("index", c.d_index)
    # In the files of the model that sees, these stand in attention itself.
    name, before = (
        ("", "index_") if c.naming == "minimax_m3_vl" and c.layout == "checkpoint" else ("indexer", "")
    )
    sizes = {"heads": c.n_index_heads, "kv_heads": 1, "d_qk": c.d_index, "d_v": 0, "window": None}
    return Module(
        name,
        (
            linear(f"{before}q_proj", heads_axis("index_heads", c.n_index_heads, c.d_index), embed),
            linear(f"{before}k_proj", key, embed),
            norm(c, f"{before}q_norm", key),
            norm(c, f"{before}k_norm", key),
            Op("scores", "attention", sizes),
            State("index_keys", per_token=c.d_index),
        ),
    )


ARCHITECTURES = {"minimax_m3_text": Architecture(MiniMaxM3Config, minimax_m3)}

# What older files call the sizes of the indexer, inside `sparse_attention_config`.
_OLDER = {
    "n_index_heads": ("index_n_heads", "sparse_num_index_heads"),
    "d_index": ("index_head_dim", "sparse_index_dim"),
    "block_size": ("index_block_size", "sparse_block_size"),
    "top_k_blocks": ("index_topk_blocks", "sparse_topk_blocks"),
}


def minimax_m3_fields(hf: HFConfig) -> dict[str, Any]:
    """What a file says of the text decoder beyond the sizes that all decoders have."""
    older = hf.in_file("sparse_attention_config") or {}
    indexer = {name: older.get(old, hf[new]) for name, (new, old) in _OLDER.items()}
    marks = older.get("sparse_attention_freq") or []
    kinds = layer_kinds(
        hf, "layer_types", lambda i: "minimax_m3_sparse" if i < len(marks) and marks[i] else "full_attention"
    )
    experts = hf.in_file("moe_layer_freq")
    mlps = layer_kinds(
        hf, "mlp_layer_types", lambda i: "sparse" if experts is None or experts[i] else "dense"
    )
    indexed = [kind == "minimax_m3_sparse" for kind in kinds]
    return {
        **indexer,
        "naming": "minimax_m3",
        "correction": "buffer",
        "d_ff": hf["dense_intermediate_size"],
        "d_ff_expert": hf["intermediate_size"],
        "d_ff_shared": hf["shared_intermediate_size"],
        "mlp_layers": mlp_pattern([kind == "sparse" for kind in mlps]),
        "index_layers": Pattern(tuple("indexed" if one else "full" for one in indexed))
        if any(indexed)
        else None,
        "qk_norm": "head",
        "d_rotary": rotary_width(hf, default=1.0),
    }


def _minimax_m3_vl_text(hf: HFConfig) -> Reading:
    return moe_reading(hf, "minimax_m3_text", MiniMaxM3Config, **minimax_m3_fields(hf))


HF_READERS = {"minimax_m3_vl_text": _minimax_m3_vl_text}
