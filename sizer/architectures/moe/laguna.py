"""Laguna: gated attention whose number of heads differs by layer, then routed and shared experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import norm
from sizer.architectures.moe.moe_decoder import MoEConfig, moe_decoder
from sizer.architectures.moe.reading import layer_kinds, layered_rotary, moe_reading, sparse_layers
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, gate_op, linear
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.tree import Axis, Layers, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class LagunaConfig(MoEConfig):
    """Sizes and switches of a Laguna.

    `heads`: query heads of each layer. `cores`: "full_0", "window_0", "full_1", …, the reach of a
    layer's attention with the place of its number of heads among those that occur.
    `gate_per_head`: one gate for a head rather than one for each of its elements. `gate_act`: of what kind.
    """

    heads: PerLayer
    cores: Pattern
    gate_per_head: bool = True
    gate_act: str = "softplus"

    letters = {**MoEConfig.letters, "heads": "H", "cores": "L"}


def laguna(c: LagunaConfig) -> Module:
    """Laguna (Poolside 2026), with the tensor names of `LagunaForCausalLM`.

    Source: transformers `modeling_laguna.py`.
    """
    return moe_decoder(c, _attention(c))


def _attention(c: LagunaConfig) -> Module:
    embed, head = Axis("embed", c.d_model), Axis("head", c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    groups = tuple(c.heads.groups())
    return Module(
        "self_attn",
        (
            *(_queries(c, embed, n_heads, layers) for n_heads, layers in groups),
            linear("k_proj", kv_heads, embed, bias=c.qkv_bias),
            linear("v_proj", kv_heads, embed, bias=c.qkv_bias),
            norm(c, "q_norm", head),
            norm(c, "k_norm", head),
            *(core for i, (n_heads, _) in enumerate(groups) for core in _cores(c, i, n_heads)),
            *(_output(c, embed, n_heads, layers) for n_heads, layers in groups),
        ),
        component="attention",
    )


def _queries(c: LagunaConfig, embed: Axis, n_heads: Dim, layers: Layers) -> Module:
    heads = heads_axis("heads", n_heads, c.d_head)
    return linear("q_proj", heads, embed, bias=c.qkv_bias)._replace(at=layers)


def _cores(c: LagunaConfig, group: int, n_heads: Dim) -> tuple[Module, ...]:
    """Scores and mixing of the layers with that many heads, over all tokens or the last W."""
    return tuple(
        Module("", attention_core(n_heads, c.n_kv_heads, c.d_head, window=window), at=c.cores.layers(kind))
        for kind, window in ((f"full_{group}", None), (f"window_{group}", c.window))
        if c.cores.has(kind)
    )


def _output(c: LagunaConfig, embed: Axis, n_heads: Dim, layers: Layers) -> Module:
    heads = heads_axis("heads", n_heads, c.d_head)
    gates = Axis("heads", n_heads) if c.gate_per_head else heads
    gate = linear("g_proj", gates, embed)
    return Module(
        "", (gate, gate_op(c.gate_act, heads.size), linear("o_proj", embed, heads, bias=c.o_bias)), at=layers
    )


ARCHITECTURES = {"laguna": Architecture(LagunaConfig, laguna)}


def _laguna(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    kinds = layer_kinds(hf, "layer_types", lambda _: "full_attention")
    listed = hf["num_attention_heads_per_layer"] or [hf["num_attention_heads"]] * n_layers
    return _read(
        hf,
        kinds,
        list(listed)[:n_layers],
        naming="laguna",
        correction="frozen",
        gate_per_head=hf["gating"] is True or hf["gating"] == "per-head",
        mlp_layers=sparse_layers(hf, lambda i: i > 0),
        d_ff_shared=hf["shared_expert_intermediate_size"],
        **layered_rotary(hf, kinds, {"full_attention": 0.5, "sliding_attention": 1.0}),
    )


def _step3p5(hf: HFConfig) -> Reading:
    """The text of Step 3.7: windowed layers may have more heads, which the first files say apart."""
    kinds = layer_kinds(hf, "layer_types", lambda _: "full_attention")
    n_heads, windowed = hf["num_attention_heads"], hf["num_sliding_attention_heads"]
    if windowed is None:
        windowed = (hf.get("attention_other_setting") or {}).get("num_attention_heads", n_heads)
    listed = hf.get("moe_layers_enum")
    sparse = {int(i) for i in listed.split(",")} if isinstance(listed, str) else set(listed or ())
    turned = hf.get("partial_rotary_factors") or [1.0] * len(kinds)
    return _read(
        hf,
        kinds,
        [windowed if kind == "sliding_attention" else n_heads for kind in kinds],
        naming="step3p5",
        correction="buffer",
        gate_act="sigmoid",
        mlp_layers=sparse_layers(hf, lambda i: i in sparse if listed is not None else i >= 3),
        d_ff_shared=hf["share_expert_dim"],
        **layered_rotary(hf, kinds, {kind: turned[kinds.index(kind)] for kind in kinds}),
    )


def _read(hf: HFConfig, kinds: list[str], heads: list[int], **given: Any) -> Reading:
    bias = hf["attention_bias"]
    groups = {n: i for i, n in enumerate(dict.fromkeys(heads))}
    reach = ("window" if kind == "sliding_attention" else "full" for kind in kinds)
    cores = tuple(f"{kind}_{groups[n]}" for kind, n in zip(reach, heads, strict=True))
    return moe_reading(
        hf,
        "laguna",
        LagunaConfig,
        n_heads=heads[0],
        heads=PerLayer(tuple(heads)),
        cores=Pattern(cores),
        qkv_bias=bias,
        o_bias=bias,
        **given,
    )


HF_READERS = {"laguna": _laguna, "step3p5": _step3p5}
