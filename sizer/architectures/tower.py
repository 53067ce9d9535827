"""The blocks of an encoder over patches or frames: what towers of every kind have in common."""

from __future__ import annotations

from typing import NamedTuple

from sizer.architectures.decoders.decoder import fused_gated_mlp, rotary_buffers
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, gated_mlp, layer_norm, linear, mlp, rms_norm
from sizer.core.tree import Axis, Leaf, Module, Op, Param, Places, heads_axis

Children = tuple[Module | Leaf, ...]


class TowerNames(NamedTuple):
    """What a tower calls the modules of its blocks.

    `qkv`: three projections, or one that computes all three at once. `mlp`: that of the module
    ("" for none) and of its matrices, three where it is gated, two where gate and up are one.
    `norms`: before and after attention, before and after the MLP; "" for none.
    `scales`: learned factors on the outputs of attention and MLP, where there are any.
    """

    block: str = "encoder.layers"
    attention: str = "self_attn"
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    output: str = "out_proj"
    qk_norms: tuple[str, str] = ("q_norm", "k_norm")
    mlp: tuple[str, ...] = ("mlp", "fc1", "fc2")
    norms: tuple[str, str, str, str] = ("layer_norm1", "", "layer_norm2", "")
    scales: tuple[str, ...] = ()
    rotary: str = "rotary_emb"


CLIP = TowerNames()
WHISPER = TowerNames(
    block="layers",
    mlp=("", "fc1", "fc2"),
    norms=("self_attn_layer_norm", "", "final_layer_norm", ""),
)
LLAMA_LIKE = TowerNames(
    block="layers",
    output="o_proj",
    norms=("input_layernorm", "", "post_attention_layernorm", ""),
)


@configuration
class TowerConfig(Config):
    """Sizes and switches of a tower.

    `bias`: which projections of attention have one ("qkvo" for all). `norm`: "layer" or "rms".
    `full_values`: each query head has values of its own, whatever the number of key heads.
    `qk_norm`: over each "head", or over the "full" width; "full_rms" is an RMSNorm in any tower.
    `d_rotary`: width of the rotary part of a head, where positions are rotary and the frequencies
    a buffer of the tower.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_rotary: Dim | None = None
    window: Dim | None = None
    bias: str = "qkvo"
    mlp_bias: bool = True
    down_bias: bool = True
    gated: bool = False
    full_values: bool = False
    norm: str = "layer"
    qk_norm: str | None = None
    act: str = "gelu"
    task: str = "base"
    module_names: TowerNames = CLIP

    letters = {"d_rotary": "Dr"}
    meanings = {"d_rotary": "width of the rotary part of a head"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")


def blocks(
    c: TowerConfig,
    *extra: Module | Leaf,
    repeat: Dim | None = None,
    name: str = "",
    in_attention: Children = (),
    mlps: Children | None = None,
) -> Module:
    """The blocks of a tower; `extra` is what a family adds to each, `in_attention` to its attention.

    `mlps` stand in place of the MLP, where layers differ in theirs.
    """
    embed, names = Axis("embed", c.d_model), c.module_names
    before_attn, after_attn, before_mlp, after_mlp = (norms_named(c, norm, embed) for norm in names.norms)
    first, second = ((Param(scale, (embed,)),) for scale in names.scales) if names.scales else ((), ())
    return Module(
        name or names.block,
        (
            *before_attn,
            attention(c, *in_attention),
            *after_attn,
            *first,
            *before_mlp,
            *((feed_forward(c),) if mlps is None else mlps),
            *after_mlp,
            *second,
            *extra,
        ),
        repeat=c.n_layers if repeat is None else repeat,
    )


def attention(c: TowerConfig, *extra: Module | Leaf) -> Module:
    """Attention over the whole sequence, or the last W frames of it."""
    embed, names = Axis("embed", c.d_model), c.module_names
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    values = heads if c.full_values else kv_heads
    widths = (heads, kv_heads, values) if len(names.qkv) > 1 else (heads + kv_heads + values,)
    split = zip(names.qkv, widths, "qkv", strict=False)
    return Module(
        names.attention,
        (
            *(linear(name, width, embed, bias=letter in c.bias) for name, width, letter in split),
            *_qk_norms(c, heads, kv_heads),
            *extra,
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window, cached=False),
            linear(names.output, embed, heads, bias="o" in c.bias),
        ),
        component="attention",
    )


def _qk_norms(c: TowerConfig, heads: Axis, kv_heads: Axis) -> tuple[Module, ...]:
    if c.qk_norm is None:
        return ()
    q_name, k_name = c.module_names.qk_norms
    one_head = Axis("head", c.d_head)
    q, k = (one_head, one_head) if c.qk_norm == "head" else (heads, kv_heads)
    if c.qk_norm == "full_rms":
        return rms_norm(q_name, q), rms_norm(k_name, k)
    return norm(c, q_name, q), norm(c, k_name, k)


def feed_forward(c: TowerConfig) -> Module:
    """The MLP of a block, under the name of its module."""
    ffn, embed = Axis("ffn", c.d_ff), Axis("embed", c.d_model)
    name, *names = c.module_names.mlp
    if not c.gated:
        up, down = names
        return mlp(name, ffn, embed, bias=c.mlp_bias, act=c.act, names=(up, down))
    if len(names) == 2:
        return fused_gated_mlp(name, ffn, embed, bias=c.mlp_bias, act=c.act, names=tuple(names))
    gate, up, down = names
    built = gated_mlp(name, ffn, embed, bias=c.mlp_bias, act=c.act, names=(gate, up, down))
    if c.down_bias == c.mlp_bias:
        return built
    *before, _ = built.children
    return built._replace(children=(*before, linear(down, embed, ffn, bias=c.down_bias)))


def norm(c: TowerConfig, name: str, width: Axis) -> Module:
    """A norm of the tower's kind."""
    if c.norm == "rms":
        return rms_norm(name, width)
    return layer_norm(name, width, bias=c.norm == "layer")


def norms_named(c: TowerConfig, name: str, width: Axis) -> tuple[Module, ...]:
    """The norm of that name, or nothing where there is none."""
    return (norm(c, name, width),) if name else ()


def rotary(c: TowerConfig) -> tuple[Module, ...]:
    """The frequencies of rotary positions, where the tower keeps them."""
    if c.d_rotary is None:
        return ()
    return rotary_buffers(c.d_rotary, layout=c.layout, name=c.module_names.rotary)


def convolution(
    name: str,
    out: Axis,
    inp: Axis,
    *kernel: Axis,
    bias: bool = True,
    act: str = "",
    component: str = "embedding",
    places: Places | None = None,
) -> Module:
    """A convolution, which multiplies as a matrix of all inputs under its kernel."""
    leaves: tuple[Leaf, ...] = (Param("weight", (out, inp, *kernel), "matmul"),)
    if bias:
        leaves = (*leaves, Param("bias", (out,)))
    if act:
        leaves = (*leaves, Op("act", act, {"width": out.size}))
    return Module(name, leaves, component=component, kind="conv", places=places)


def batch_norm(name: str, width: Axis) -> Module:
    """BatchNorm: a weight and a bias, and the statistics of the batches seen."""
    leaves = (
        Param("weight", (width,)),
        Param("bias", (width,)),
        buffer("running_mean", width, component="norm"),
        buffer("running_var", width, component="norm"),
        buffer("num_batches_tracked", component="norm"),
    )
    return Module(name, leaves, kind="batch_norm", component="norm")
