"""Inkling: attention with learned relative positions, short convolutions, routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import fused_gated_mlp
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import dense_and_sparse, kinds_of_mlp, router
from sizer.architectures.moe.inkling_config import InklingSizes, sizes_in_file
from sizer.architectures.recurrent.parts import short_conv
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import (
    attention_core,
    embedding,
    gate_op,
    gated_mlp,
    linear,
    rms_norm,
    routed_experts,
)
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class InklingConfig(InklingSizes):
    """Sizes and switches of an Inkling.

    `mlp_layers`: "dense" or "sparse" for each layer, where the dense ones do not simply lead.
    `fused`: in files, gate and value of the always-on MLPs are one tensor, as where the whole model is.
    """

    n_dense_layers: Dim = 0
    mlp_layers: Pattern | None = None
    d_ff: Dim
    n_shared_experts: Dim
    tie_embeddings: bool = False
    fused: bool = False

    letters = {**InklingSizes.letters, "mlp_layers": "L"}


def inkling(c: InklingConfig) -> Module:
    """Inkling, with the tensor names of `InklingForCausalLM`.

    Source: transformers `modeling_inkling.py`.
    """
    embed = Axis("embed", c.d_model)
    dense, sparse = dense_and_sparse(c)
    mlp = _dense(c, embed)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            _attention(c, embed, "full"),
            _attention(c, embed, "sliding"),
            convolution("attn_sconv.conv1d", embed, c.d_conv),
            rms_norm("post_attention_layernorm", embed),
            mlp._replace(children=(*mlp.children, _scale()), at=dense),
            _experts(c, embed, sparse),
            convolution("mlp_sconv.conv1d", embed, c.d_conv),
        ),
        repeat=c.n_layers,
    )
    table = embedding("embed_tokens", Axis("vocab", c.vocab_size), embed)
    normed = table._replace(children=(*table.children, rms_norm("embed_norm", embed)))
    return with_head(c, (normed, block, rms_norm("norm", embed)))


def _fused(c: InklingConfig) -> bool:
    return c.fused and c.layout == "checkpoint"


def _dense(c: InklingConfig, embed: Axis) -> Module:
    ffn = Axis("ffn", c.d_ff)
    if _fused(c):
        return fused_gated_mlp("mlp", ffn, embed, bias=False, act=c.act, names=("w13_dn", "w2_md"))
    return gated_mlp("mlp", ffn, embed, act=c.act)


def convolution(name: str, channels: Axis, width: Dim) -> Module:
    """A causal convolution of a few tokens over each channel, in fp32."""
    return short_conv(name, channels, width, bias=False, component="mixer", dtype="fp32")


def _attention(c: InklingConfig, embed: Axis, kind: str) -> Module:
    full = kind == "full"
    n_heads, n_kv_heads = (c.n_heads, c.n_kv_heads) if full else (c.sliding_heads, c.sliding_kv_heads)
    d_head = c.d_head if full else c.sliding_d_head
    window, extent = (None, c.relative_extent) if full else (c.window, c.window)
    heads, kv_heads = heads_axis("heads", n_heads, d_head), heads_axis("kv_heads", n_kv_heads, d_head)
    relative = Axis("relative", c.d_relative)
    distances = Param("proj", (relative, Axis("distance", extent)), "matmul", component="position")
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed),
            linear("k_proj", kv_heads, embed),
            linear("v_proj", kv_heads, embed),
            linear("r_proj", heads_axis("heads", n_heads, c.d_relative), embed),
            convolution("k_sconv.conv1d", kv_heads, c.d_conv),
            convolution("v_sconv.conv1d", kv_heads, c.d_conv),
            rms_norm("q_norm", Axis("head", d_head)),
            rms_norm("k_norm", Axis("head", d_head)),
            Module("rel_logits_proj", (distances,)),
            *attention_core(n_heads, n_kv_heads, d_head, window=window),
            linear("o_proj", embed, heads),
        ),
        component="attention",
        at=c.layers.layers(kind),
    )


def _experts(c: InklingConfig, embed: Axis, sparse: Layers) -> Module:
    """Routed and shared experts, all of them weighted by the router, each kind in one tensor."""
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    always = Axis("shared", c.n_shared_experts)
    gate = router("gate", experts, embed)
    _, balance = gate.children
    scores = Param("weight", (Axis("expert", c.n_experts + c.n_shared_experts), embed), "matmul")
    names: tuple[tuple[str, Axis], ...] = (("gate_proj", ffn), ("up_proj", ffn), ("down_proj", ffn))
    if _fused(c):
        names = (("shared_w13_weight", 2 * ffn), ("shared_w2_weight", ffn))
    *first, (last, _) = names
    shared = Module(
        "shared_experts",
        (
            *(Param(name, (always, width, embed), "matmul") for name, width in first),
            gate_op(c.act, c.n_shared_experts * c.d_ff_expert),
            Param(last, (always, embed, ffn), "matmul"),
        ),
        component="experts",
    )
    routed = routed_experts("experts", experts, c.top_k, ffn, embed, layout="transformers", act=c.act)
    return Module("mlp", (gate._replace(children=(scores, _scale(), balance)), routed, shared), at=sparse)


def _scale() -> Param:
    return Param("global_scale", (Axis("one", 1),))


ARCHITECTURES = {"inkling": Architecture(InklingConfig, inkling)}


def _inkling_text(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    types = hf.per_layer("layer_types", n_layers)
    if types is None:
        local = hf["local_layer_ids"]
        near = set(local) if local is not None else {i for i in range(n_layers) if (i + 1) % 6}
        types = ["hybrid_sliding" if i in near else "hybrid" for i in range(n_layers)]
    kinds = tuple("sliding" if kind == "hybrid_sliding" else "full" for kind in types[:n_layers])
    d_ff, d_ff_expert = hf["intermediate_size"], hf["moe_intermediate_size"]
    if hf.given("dense_intermediate_size"):
        # In the older spelling the plain key is the experts' width.
        d_ff, d_ff_expert = hf["dense_intermediate_size"], hf["intermediate_size"]
    n_dense = hf.get("dense_mlp_idx", 0)
    return Reading(
        "inkling",
        hf.fill(
            InklingConfig,
            **kinds_of_mlp(hf.per_layer("mlp_layer_types", n_layers), n_layers, n_dense),
            layers=Pattern(kinds),
            **sizes_in_file(hf),
            d_ff=d_ff,
            d_ff_expert=d_ff_expert,
            # The class declares no tie, whatever a file says.
            tie_embeddings=False,
        ),
    )


HF_READERS = {"inkling_text": _inkling_text}
