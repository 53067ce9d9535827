"""Zamba2: Mamba-2 layers, and transformer blocks that many layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.mamba2 import mamba2_mixer
from sizer.architectures.recurrent.parts import check_layers, in_layers, layer_pattern
from sizer.architectures.recurrent.zamba import wide_attention
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import embedding, gate_op, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The layers of Zamba2-2.7B, which a file that lists none has.
DEFAULT_LAYERS = {6, 12, 18, 24, 30, 36, 42, 47, 51}


@configuration
class Zamba2Config(Config):
    """Sizes and switches of a Zamba2.

    `layers`: "mamba", or "hybrid_0", "hybrid_1", … for a layer that runs a transformer block
    before its Mamba-2 mixer; all layers of one such kind share one block. Each use of a block adds
    a low-rank adapter of its own (`adapter_rank`) to the MLP and, with `attention_adapters`, to
    queries, keys and values. `adapters`: the block of each use, where the uses that a file lists are
    not those of its layers. `shared`: the blocks are shared, rather than one a layer.
    `rotary`: whether there are rotary positions.
    """

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    n_heads: Dim
    layers: Pattern
    adapters: Pattern | None = None
    n_ssm_heads: Dim
    d_state: Dim = 64
    n_groups: Dim = 1
    d_conv: Dim = 4
    d_inner: Dim | None = None
    d_attn: Dim | None = None
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_ff: Dim | None = None
    adapter_rank: Dim = 128
    attention_adapters: bool = False
    bias: bool = False
    rotary: bool = False
    d_rotary: Dim | None = None
    act: str = "gelu"
    tie_embeddings: bool = True
    shared: bool = True

    letters = {
        "adapters": "La",
        "n_ssm_heads": "Hs",
        "d_attn": "Da",
        "d_rotary": "Dr",
        "d_inner": "Di",
        "n_groups": "G",
        "d_conv": "Kc",
        "adapter_rank": "R",
    }
    meanings = {
        "n_ssm_heads": "heads of the mixer",
        "d_inner": "width of the mixer",
        "d_attn": "width of the input of a transformer block",
        "d_rotary": "width of the rotary part of a head",
        "d_conv": "width of the convolution",
        "adapter_rank": "rank of the adapters",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(
            d_ff=4 * self.d_model,
            n_kv_heads=self.n_heads,
            d_inner=2 * self.d_model,
            d_attn=2 * self.d_model,
        )
        if self.d_head is None:
            self.derive(d_head=divide(2 * self.d_model, self.n_heads, names="2·d_model / n_heads"))
        self.derive(d_rotary=self.d_head)
        check_layers(self.n_layers, self.layers)


def zamba2(c: Zamba2Config) -> Module:
    """Zamba2 (arXiv:2411.15242), with the tensor names of `Zamba2ForCausalLM`.

    Source: transformers `modeling_zamba2.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    mixer = mamba2_mixer(
        "mamba",
        embed,
        Axis("ssm_heads", c.d_inner),
        n_heads=c.n_ssm_heads,
        n_groups=c.n_groups,
        d_state=c.d_state,
        d_conv=c.d_conv,
        bias=c.bias,
        conv_bias=True,
    )
    mamba_layer = (mixer, rms_norm("input_layernorm", embed))
    blocks = c.layers.kinds_like("hybrid")
    layer = Module(
        "layers",
        (
            *in_layers(c.layers, Module("", mamba_layer), "mamba"),
            *in_layers(c.layers, linear("linear", embed, embed, component="mlp"), *blocks),
            *in_layers(c.layers, Module("mamba_decoder", mamba_layer), *blocks),
            *(_shared_block(c, embed, block, blocks) for block in blocks),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", vocab, embed),
        layer,
        rms_norm("final_layernorm", embed),
        *(rotary_buffers(c.d_rotary, layout=c.layout) if c.rotary else ()),
    )
    return with_head(c, model)


def _shared_block(c: Zamba2Config, embed: Axis, block: str, blocks: tuple[str, ...]) -> Module:
    """A transformer block over the layer's input and the embeddings, side by side (width 2D)."""
    uses = c.layers.layers(block, among=blocks) if c.adapters is None else c.adapters.layers(block)
    double = Axis("embed", c.d_attn)
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
    mlp = Module(
        "feed_forward",
        (
            linear("gate_up_proj", 2 * ffn, embed, bias=c.bias),
            adapter("gate_up_proj_adapter_list", 2 * ffn, embed),
            gate_op(c.act, c.d_ff),
            linear("down_proj", embed, ffn, bias=c.bias),
        ),
        component="mlp",
    )
    return Module(
        "shared_transformer",
        (
            wide_attention(c, embed, attention_adapters),
            mlp,
            rms_norm("input_layernorm", double),
            rms_norm("pre_ff_layernorm", embed),
        ),
        at=c.layers.layers(block),
        shared=c.shared,
    )


ARCHITECTURES = {"zamba2": Architecture(Zamba2Config, zamba2)}


def _zamba2(hf: HFConfig) -> Reading:
    n_layers, n_blocks = hf["num_hidden_layers"], hf["num_mem_blocks"]
    kinds = hf["layers_block_type"] or [
        "hybrid" if i in DEFAULT_LAYERS else "linear_attention" for i in range(54)
    ]
    words = layer_pattern(hf, kinds, "linear", "hybrid").kinds
    hybrids = [i for i, kind in enumerate(words) if kind == "hybrid"]
    # The blocks take turns.
    turns = {layer: f"hybrid_{turn % n_blocks}" for turn, layer in enumerate(hybrids)}
    listed = hf.in_file("hybrid_layer_ids", hybrids)
    d_head = hf.in_file("attention_head_dim")
    given = hf.fill(
        Zamba2Config,
        layers=Pattern(tuple(turns.get(i, "mamba") for i in range(len(words)))),
        adapters=_turns(len(listed), n_blocks) if len(listed) != len(hybrids) else None,
        n_kv_heads=hf["num_key_value_heads"],
        d_head=d_head,
        d_attn=hf.in_file("attention_hidden_size"),
        d_rotary=rotary_width(hf, d_head or 2 * hf["hidden_size"] // hf["num_attention_heads"]),
        n_ssm_heads=hf["n_mamba_heads"],
        d_inner=int(hf["mamba_expand"] * hf["hidden_size"]),
        n_groups=hf["mamba_ngroups"],
        d_conv=hf["mamba_d_conv"],
        # transformers 5 ties either everything that can be tied or nothing.
        shared=hf["tie_word_embeddings"],
        d_ff=hf["intermediate_size"] or None,
        attention_adapters=hf["use_shared_attention_adapter"],
        bias=hf["add_bias_linear"],
        rotary=hf["use_mem_rope"],
        act=hf["hidden_act"],
        n_layers=n_layers,
    )
    return Reading("zamba2", given)


def _turns(uses: int, n_blocks: int) -> Pattern:
    return Pattern(tuple(f"hybrid_{use % n_blocks}" for use in range(uses)))


HF_READERS = {"zamba2": _zamba2}
