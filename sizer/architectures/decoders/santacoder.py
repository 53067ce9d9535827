"""SantaCoder by its own code: a GPT-2 whose heads share one key and one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.gpt2 import GPT2Config
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def santacoder(c: GPT2Config) -> Module:
    """SantaCoder (arXiv:2301.03988), with the tensor names of `GPT2LMHeadCustomModel`.

    Source: bigcode/santacoder `modeling_gpt2_mq.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    heads, kv_head = heads_axis("heads", c.n_heads, c.d_head), heads_axis("kv_heads", 1, c.d_head)
    attn = Module(
        "attn",
        (
            linear("q_attn", heads, embed, bias=True, transposed=True),
            linear("kv_attn", 2 * kv_head, embed, bias=True, transposed=True),
            *attention_core(c.n_heads, 1, c.d_head),
            linear("c_proj", embed, heads, bias=True, transposed=True),
        ),
        component="attention",
    )
    block = Module(
        "h",
        (
            layer_norm("ln_1", embed),
            attn,
            layer_norm("ln_2", embed),
            mlp("mlp", Axis("ffn", c.d_ff), embed, act="gelu_new", names=("c_fc", "c_proj"), transposed=True),
        ),
        repeat=c.n_layers,
    )
    transformer = (
        embedding("wte", vocab, embed),
        embedding("wpe", Axis("context", c.n_ctx), embed, component="position"),
        block,
        layer_norm("ln_f", embed),
    )
    return with_head(c, transformer, prefix="transformer", embedding="wte")


ARCHITECTURES = {"santacoder": Architecture(GPT2Config, santacoder)}


def _santacoder(hf: HFConfig) -> Reading:
    kind = hf["attention_head_type"]
    if kind != "multiquery":
        raise InvalidConfig(
            f"attention_head_type = {clip(repr(kind))}: only 'multiquery' is known; "
            "for 'multihead' read the file as a GPT-2, with --class GPT2LMHeadModel and no auto_map"
        )
    given = hf.fill(
        GPT2Config, n_ctx=hf["n_positions"], d_head=None, bias=True, qkv_bias=True, causal_masks=False
    )
    return Reading("santacoder", given)


HF_READERS = {"santacoder": _santacoder}
