"""Mistral Large 4: sparse latent attention without a latent of the queries, and routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.latent import latent_core, latent_model, rotary_part
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import DeepseekConfig, dense_and_sparse, kinds_of_mlp, mixture
from sizer.architectures.moe.deepseek_layers import indexers
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.core.config import configuration
from sizer.core.dims import divide
from sizer.core.layers import gated_mlp, layer_norm, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Module, Op, Param, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

STORED = (
    (r"\.self_attn\.", ".attention."),
    (r"\.attention\.q_proj\.", ".attention.wq."),
    (r"\.kv_a_proj_with_mqa\.", ".wkv_a_with_mqa."),
    (r"\.kv_a_layernorm\.", ".kv_a_norm."),
    (r"\.kv_b_proj\.", ".wkv_b."),
    (r"\.softmax_scaling\.(s|b)\w+", r".ssmax_scaling.\1"),
    (r"\.input_layernorm\.", ".attention_norm."),
    (r"\.post_attention_layernorm\.", ".ffn_norm."),
    (r"\.mlp\.(gate|experts|shared_experts)\.", r".\1."),
    (r"\.mlp\.", ".feed_forward."),
    (r"\.experts\.\{\}\.gate_proj\.", ".experts.{}.w1."),
    (r"\.experts\.\{\}\.down_proj\.", ".experts.{}.w2."),
    (r"\.experts\.\{\}\.up_proj\.", ".experts.{}.w3."),
)


@configuration
class MistralLarge4Config(DeepseekConfig):
    """Sizes and switches of a Mistral Large 4.

    `kv_layers`: for each layer "rope" or "nope", with rotary positions or without, and "_shared"
    behind it where the layer reads the latent of an earlier one.
    """

    kv_layers: Pattern
    router_bias: bool = False

    letters = {**DeepseekConfig.letters, "kv_layers": "L"}
    index_reads_latent = False


def mistral_large4(c: MistralLarge4Config) -> Module:
    """The text of Mistral Large 4, with the tensor names of `MistralLarge4TextModel`.

    Source: transformers `modeling_mistral_large4.py`.
    """
    embed = Axis("embed", c.d_model)
    dense, sparse = dense_and_sparse(c)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            _attention(c, embed),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act)._replace(at=dense),
            mixture(c, embed)._replace(at=sparse),
        ),
        repeat=c.n_layers,
    )
    half = Axis("rotary", divide(c.d_rotary, 2, names="d_rotary / 2"))
    alpha = Module("rotary_emb", (Param("alpha", (half,)),), component="position")
    tree = with_head(c, (*latent_model(c, embed, block), alpha))
    return stored_names(tree, STORED) if c.layout == "checkpoint" else tree


def _attention(c: MistralLarge4Config, embed: Axis) -> Module:
    core, _ = latent_core(c)
    return Module(
        "self_attn",
        (
            linear("q_proj", heads_axis("heads", c.n_heads, c.d_qk), embed),
            _scaling(Axis("heads", c.n_heads)),
            *_latent(c, embed, "rope"),
            *_latent(c, embed, "nope"),
            _indexer(c, embed),
            core,
            linear("o_proj", embed, heads_axis("heads", c.n_heads, c.d_value), bias=c.attention_bias),
        ),
        component="attention",
    )


def _latent(c: MistralLarge4Config, embed: Axis, kind: str) -> tuple[Module, ...]:
    """The latent of layers with or without positions; without, it has no rotary key beside it."""
    rank, turned = Axis("kv_rank", c.kv_lora_rank), kind == "rope"
    joined = rank + Axis("rope", c.d_rope) if turned else rank
    keys = c.d_nope if turned else c.d_qk
    assert keys is not None
    assert c.d_value is not None
    own = (
        linear("kv_a_proj_with_mqa", joined, embed, bias=c.attention_bias),
        rms_norm("kv_a_layernorm", rank),
        State("latent", per_token=joined.size),
    )
    up = linear("kv_b_proj", heads_axis("heads", c.n_heads, keys + c.d_value), rank)
    layers = c.kv_layers.layers
    return (
        Module("", own, at=layers(kind)),
        Module("", (up,), at=layers(kind, f"{kind}_shared")),
    )


def _indexer(c: MistralLarge4Config, embed: Axis) -> Module:
    """DeepSeek-V3.2's indexer, whose queries come from the residual stream."""
    index, heads = Axis("index", c.d_index), Axis("index_heads", c.n_index_heads)
    sizes = {"heads": c.n_index_heads, "kv_heads": 1, "d_qk": c.d_index, "d_v": 1, "window": None}
    at: Layers | None = None if c.indexers is None else c.indexers.layers("full")
    return Module(
        "indexer",
        (
            layer_norm("q_input_norm", embed),
            linear("wq_b", heads_axis("index_heads", c.n_index_heads, c.d_index), embed),
            _scaling(heads),
            linear("wk", index, embed),
            layer_norm("k_norm", index),
            linear("weights_proj", heads, embed),
            Op("scores", "attention", sizes),
            State("index", per_token=c.d_index),
        ),
        at=at,
    )


def _scaling(heads: Axis) -> Module:
    """Queries grow with the logarithm of their position, each head's by two numbers of its own."""
    return Module("softmax_scaling", (Param("scale", (heads,)), Param("bias", (heads,))))


ARCHITECTURES = {"mistral_large4": Architecture(MistralLarge4Config, mistral_large4)}


def _text(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    turned = hf.per_layer("no_rope_layers", n_layers)
    if turned is None:
        every = hf.get("no_rope_layer_interval", 4)
        turned = [(i + 1) % every != 0 for i in range(n_layers)]
    sources = hf.per_layer("kv_source_layers", n_layers) or range(n_layers)
    kinds = tuple(
        f"{'rope' if rope else 'nope'}{'' if source == i else '_shared'}"
        for i, (rope, source) in enumerate(zip(turned, sources, strict=True))
    )
    return Reading(
        "mistral_large4",
        hf.fill(
            MistralLarge4Config,
            **kinds_of_mlp(hf.per_layer("mlp_layer_types", n_layers), n_layers, hf["first_k_dense_replace"]),
            n_shared_experts=hf["n_shared_experts"] or None,
            d_rotary=rotary_part(hf),
            indexers=indexers(hf),
            kv_layers=Pattern(kinds),
            q_lora_rank=None,
            mlp_bias=False,
            router_bias=False,
        ),
    )


HF_READERS = {"mistral_large4_text": _text}
