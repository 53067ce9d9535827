"""Moshi: a decoder of text over the sum of text and audio tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gate_op, linear, rms_norm
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MoshiConfig(Config):
    """Sizes of Moshi's main decoder; `d_ff` is what is left of the first matrix after gating."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    window: Dim | None = None
    # Whatever a file says of ties, the table has a row more than the head.
    tie_embeddings: bool = False

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")


def moshi(c: MoshiConfig) -> Module:
    """Moshi (Défossez et al. 2024), with the tensor names of `MoshiForCausalLM`.

    Source: transformers `modeling_moshi.py`. The table has a row for padding.
    """
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    heads, kv_heads = heads_axis("heads", c.n_heads, c.d_head), heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    attention = Module(
        "self_attn",
        (
            linear("q_proj.linear", heads, embed),
            linear("k_proj.linear", kv_heads, embed),
            linear("v_proj.linear", kv_heads, embed),
            *rotary_buffers(c.d_head, layout=c.layout),
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window),
            linear("o_proj.linear", embed, heads),
        ),
        component="attention",
    )
    mlp = Module(
        "mlp",
        (linear("fc1", 2 * ffn, embed), gate_op("silu", c.d_ff), linear("fc2", embed, ffn)),
        component="mlp",
    )
    block = Module(
        "layers",
        (rms_norm("input_layernorm", embed), attention, rms_norm("post_attention_layernorm", embed), mlp),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size + 1), embed),
        block,
        rms_norm("norm", embed),
    )
    return with_head(c, model)


ARCHITECTURES = {"moshi": Architecture(MoshiConfig, moshi)}


def _moshi(hf: HFConfig) -> Reading:
    if hf.task not in ("base", "causal"):
        raise InvalidConfig(
            f"{hf.cls} holds an audio codec and a depth decoder, which are not described; "
            "its main decoder is MoshiForCausalLM"
        )
    width = hf["ffn_dim"]
    if width % 2:
        raise InvalidConfig(f"ffn_dim = {width} is odd; a gated MLP halves it")
    return Reading("moshi", hf.fill(MoshiConfig, d_ff=width // 2, tie_embeddings=False))


HF_READERS = {"moshi": _moshi}
