"""JetMoE: experts in the MLP and in attention, whose keys and values they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gate_op, linear, rms_norm, stacked
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class JetMoEConfig(Config):
    """Sizes of a JetMoE; each attention expert that a token visits has queries for all KV heads."""

    d_model: Dim
    n_layers: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff_expert: Dim
    n_experts: Dim
    top_k: Dim
    vocab_size: Dim
    n_ctx: Dim | None = None
    d_rotary: Dim | None = None
    act: str = "silu"
    tie_embeddings: bool = True

    letters = {"d_rotary": "Dr"}
    meanings = {"d_rotary": "width of the rotary part of a head"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_rotary=self.d_head)


def jetmoe(c: JetMoEConfig) -> Module:
    """JetMoE (arXiv:2404.07413), with the tensor names of `JetMoeForCausalLM`.

    Source: transformers `modeling_jetmoe.py`.
    """
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            _attention(c, embed),
            rms_norm("post_attention_layernorm", embed),
            _mlp(c, embed),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm("norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    return with_head(c, model)


def _attention(c: JetMoEConfig, embed: Axis) -> Module:
    """A mixture of attention heads: experts make the queries and the output."""
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    experts = Axis("expert", c.n_experts)
    mixture = Module(
        "experts",
        (
            Param("bias", (embed,)),
            linear("router.layer", experts, embed, component="router"),
            Module("input_linear", (stacked("weight", experts, c.top_k, kv_heads, embed),)),
            Module("output_linear", (stacked("weight", experts, c.top_k, embed, kv_heads),)),
        ),
    )
    return Module(
        "self_attention",
        (
            mixture,
            linear("kv_proj", 2 * kv_heads, embed),
            *attention_core(c.top_k * c.n_kv_heads, c.n_kv_heads, c.d_head),
        ),
        component="attention",
    )


def _mlp(c: JetMoEConfig, embed: Axis) -> Module:
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    return Module(
        "mlp",
        (
            Param("bias", (embed,)),
            linear("router.layer", experts, embed, component="router"),
            Module("input_linear", (stacked("weight", experts, c.top_k, 2 * ffn, embed),)),
            gate_op(c.act, c.top_k * c.d_ff_expert),
            Module("output_linear", (stacked("weight", experts, c.top_k, embed, ffn),)),
        ),
        component="experts",
    )


ARCHITECTURES = {"jetmoe": Architecture(JetMoEConfig, jetmoe)}


def _jetmoe(hf: HFConfig) -> Reading:
    # The number of heads always follows from the experts, whatever the file says it is.
    given = {"d_ff_expert": hf["intermediate_size"], "d_rotary": rotary_width(hf)}
    return Reading("jetmoe", hf.fill(JetMoEConfig, **given))


HF_READERS = {"jetmoe": _jetmoe}
