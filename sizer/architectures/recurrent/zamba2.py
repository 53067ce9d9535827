"""Zamba2: Mamba-2 layers, and transformer blocks that many layers share."""

from __future__ import annotations

from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.mamba2 import mamba2_mixer
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, embedding, gate_op, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Module, heads_axis


@configuration
class Zamba2Config(Config):
    """Sizes and switches of a Zamba2.

    `layers`: "mamba", or "hybrid_0", "hybrid_1", … for a layer that runs a transformer block
    before its Mamba-2 mixer; all layers of one such kind share one block. Each use of a block adds
    a low-rank adapter of its own (`adapter_rank`) to the MLP and, with `attention_adapters`, to
    queries, keys and values.
    """

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    n_heads: Dim
    layers: Pattern
    n_ssm_heads: Dim
    d_state: Dim = 64
    n_groups: Dim = 1
    d_conv: Dim = 4
    d_inner: Dim | None = None
    d_ssm_head: Dim | None = None
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_ff: Dim | None = None
    adapter_rank: Dim = 128
    attention_adapters: bool = False
    bias: bool = False
    tie_embeddings: bool = True

    letters = {
        "n_ssm_heads": "Hs",
        "d_ssm_head": "Ds",
        "d_inner": "Di",
        "n_groups": "G",
        "d_conv": "Kc",
        "adapter_rank": "R",
    }
    meanings = {
        "n_ssm_heads": "heads of the mixer",
        "d_inner": "width of the mixer",
        "d_conv": "width of the convolution",
        "adapter_rank": "rank of the adapters",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model, n_kv_heads=self.n_heads, d_inner=2 * self.d_model)
        if self.d_head is None:
            self.derive(d_head=divide(2 * self.d_model, self.n_heads, names="2·d_model / n_heads"))
        if self.d_ssm_head is None:
            self.derive(d_ssm_head=divide(self.d_inner, self.n_ssm_heads, names="d_inner / n_ssm_heads"))


def zamba2(c: Zamba2Config) -> Module:
    """Zamba2 (arXiv:2411.15242), with the tensor names of `Zamba2ForCausalLM`.

    Source: transformers `modeling_zamba2.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    mixer = mamba2_mixer(
        "mamba",
        embed,
        heads_axis("ssm_heads", c.n_ssm_heads, c.d_ssm_head),
        n_heads=c.n_ssm_heads,
        n_groups=c.n_groups,
        d_state=c.d_state,
        d_conv=c.d_conv,
        bias=c.bias,
        conv_bias=True,
    )
    mamba_layer = (mixer, rms_norm("input_layernorm", embed))
    blocks = c.layers.kinds_like("hybrid")
    hybrid = c.layers.layers(*blocks)
    layer = Module(
        "layers",
        (
            Module("", mamba_layer, at=c.layers.layers("mamba")),
            linear("linear", embed, embed, component="mlp")._replace(at=hybrid),
            Module("mamba_decoder", mamba_layer, at=hybrid),
            *(
                _shared_block(c, embed, c.layers.layers(block), c.layers.layers(block, among=blocks))
                for block in blocks
            ),
        ),
        repeat=c.n_layers,
    )
    model = (embedding("embed_tokens", vocab, embed), layer, rms_norm("final_layernorm", embed))
    return with_head(c, model)


def _shared_block(c: Zamba2Config, embed: Axis, layers: Layers, uses: Layers) -> Module:
    """A transformer block over the layer's input and the embeddings, side by side (width 2D)."""
    double = Axis("embed", 2 * c.d_model)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    ffn = Axis("ffn", c.d_ff)
    rank = Axis("rank", c.adapter_rank)

    def adapter(name: str, out: Axis, inp: Axis) -> Module:
        pair = (linear("0", rank, inp), linear("1", out, rank))
        return Module(name, pair, repeat=uses, visits=1)

    attention_adapters = (
        tuple(adapter(f"linear_{x}_adapter_list", double, double) for x in "qkv")
        if c.attention_adapters
        else ()
    )
    attn = Module(
        "self_attn",
        (
            linear("q_proj", heads, double),
            linear("k_proj", kv_heads, double),
            linear("v_proj", kv_heads, double),
            *attention_adapters,
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head),
            linear("o_proj", embed, heads),
        ),
        component="attention",
    )
    mlp = Module(
        "feed_forward",
        (
            linear("gate_up_proj", 2 * ffn, embed, bias=c.bias),
            adapter("gate_up_proj_adapter_list", 2 * ffn, embed),
            gate_op("gelu", c.d_ff),
            linear("down_proj", embed, ffn, bias=c.bias),
        ),
        component="mlp",
    )
    return Module(
        "shared_transformer",
        (attn, mlp, rms_norm("input_layernorm", double), rms_norm("pre_ff_layernorm", embed)),
        at=layers,
        shared=True,
    )


ARCHITECTURES = {"zamba2": Architecture(Zamba2Config, zamba2)}
