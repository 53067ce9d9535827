"""DeepSeek-V3: latent attention, leading dense blocks, then routed and shared experts."""

from __future__ import annotations

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gated_mlp, linear, rms_norm, routed_experts
from sizer.core.tree import Axis, Layers, Module, Op, State, heads_axis


@configuration
class DeepseekConfig(Config):
    """Sizes and switches of a DeepSeek-V3.

    `d_nope`, `d_rope`: the parts of a query or key head without and with rotary positions.
    """

    d_model: Dim
    n_layers: Dim
    n_dense_layers: Dim
    n_heads: Dim
    kv_lora_rank: Dim
    d_nope: Dim
    d_rope: Dim
    d_value: Dim
    d_ff: Dim
    d_ff_expert: Dim
    n_experts: Dim
    top_k: Dim
    vocab_size: Dim
    n_shared_experts: Dim | None = None
    q_lora_rank: Dim | None = None
    tie_embeddings: bool = False
    attention_bias: bool = False

    letters = {"d_nope": "Dn", "d_rope": "Dr", "d_value": "Dv"}
    meanings = {
        "d_nope": "width of a query or key head without positions",
        "d_rope": "width of its rotary part, shared by the heads",
        "d_value": "width of a value head",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def deepseek(c: DeepseekConfig) -> Module:
    """DeepSeek-V3 (arXiv:2412.19437), with the tensor names of `DeepseekV3ForCausalLM`.

    Source: transformers `modeling_deepseek_v3.py`. The bias that balances the router is a buffer:
    it is stored, and no gradient changes it.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    dense, sparse = _layers(c)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            latent_attention(c, embed),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed)._replace(at=dense),
            _experts(c, embed)._replace(at=sparse),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", vocab, embed),
        block,
        rms_norm("norm", embed),
        *rotary_buffers(c.d_rope, layout=c.layout),
    )
    return with_head(c, model)


def latent_attention(c: DeepseekConfig, embed: Axis) -> Module:
    """Multi-head latent attention: keys and values of all heads from one latent of rank Rk."""
    kv_rank, rope = Axis("kv_rank", c.kv_lora_rank), Axis("rope", c.d_rope)
    d_qk = c.d_nope + c.d_rope
    queries = heads_axis("heads", c.n_heads, d_qk)
    keys_values = heads_axis("heads", c.n_heads, c.d_nope + c.d_value)
    values = heads_axis("heads", c.n_heads, c.d_value)
    if c.q_lora_rank is None:
        q_proj: tuple[Module, ...] = (linear("q_proj", queries, embed),)
    else:
        q_rank = Axis("q_rank", c.q_lora_rank)
        q_proj = (
            linear("q_a_proj", q_rank, embed, bias=c.attention_bias),
            rms_norm("q_a_layernorm", q_rank),
            linear("q_b_proj", queries, q_rank),
        )
    sizes = {"heads": c.n_heads, "kv_heads": c.n_heads, "d_qk": d_qk, "d_v": c.d_value, "window": None}
    return Module(
        "self_attn",
        (
            *q_proj,
            linear("kv_a_proj_with_mqa", kv_rank + rope, embed, bias=c.attention_bias),
            rms_norm("kv_a_layernorm", kv_rank),
            linear("kv_b_proj", keys_values, kv_rank),
            Op("core", "attention", sizes),
            State("latent", per_token=c.kv_lora_rank + c.d_rope),
            linear("o_proj", embed, values, bias=c.attention_bias),
        ),
        component="attention",
    )


def _layers(c: DeepseekConfig) -> tuple[Layers, Layers]:
    if isinstance(c.n_layers, int) and isinstance(c.n_dense_layers, int):
        n_dense = min(c.n_dense_layers, c.n_layers)
        dense, sparse = range(n_dense), range(n_dense, c.n_layers)
        return Layers(len(dense), dense), Layers(len(sparse), sparse)
    return Layers(c.n_dense_layers), Layers(c.n_layers - c.n_dense_layers)


def _experts(c: DeepseekConfig, embed: Axis) -> Module:
    experts = Axis("expert", c.n_experts)
    shared: tuple[Module, ...] = ()
    if c.n_shared_experts is not None:
        width = Axis("ffn", c.n_shared_experts * c.d_ff_expert)
        shared = (gated_mlp("shared_experts", width, embed, component="experts"),)
    router = Module(
        "gate",
        (*linear("", experts, embed).children, buffer("e_score_correction_bias", experts)),
        component="router",
        kind="linear",
    )
    routed = routed_experts(
        "experts", experts, c.top_k, Axis("expert_ffn", c.d_ff_expert), embed, layout=c.layout
    )
    return Module("mlp", (router, routed, *shared))


ARCHITECTURES = {"deepseek_v3": Architecture(DeepseekConfig, deepseek)}
