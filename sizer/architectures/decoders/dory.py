"""Dory: a decoder without weights in its norms, whose middle layers run several times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, gated_mlp, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class DoryConfig(Config):
    """Sizes and switches of a Dory.

    `layers`: "once" or "loop" (the layers that run `n_loops` times), with "_full" or "_sliding".
    `last_loop_cached`: decoding keeps the keys and values of the last loop alone, not of each.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    layers: Pattern
    n_loops: Dim = 1
    window: Dim | None = None
    last_loop_cached: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_embeddings: bool = False
    act: str = "silu"

    letters = {"n_loops": "N"}
    meanings = {"n_loops": "how often the middle layers run"}

    def __post_init__(self) -> None:
        check_sizes(self)


def dory(c: DoryConfig) -> Module:
    """Dory, with the tensor names of `DoryForCausalLM`.

    Source: transformers `modeling_dory.py`. Norms divide by the length of a vector and have no
    weight; learned scales stand beside the projections (nGPT, arXiv:2410.01131).
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    parts = (
        _attention(c, embed),
        _feed_forward(c, embed),
        Param("lambda_1", (embed,)),
        Param("lambda_2", (embed,)),
    )
    looped = tuple(c.layers.kinds_like("loop"))
    once = tuple(c.layers.kinds_like("once"))
    block = Module(
        "layers",
        (
            Module("", parts, at=c.layers.layers(*once)),
            Module("", parts, at=c.layers.layers(*looped), uses=c.n_loops),
            *_cores(c),
        ),
        repeat=c.n_layers,
    )
    stored = c.layout == "checkpoint" and c.task != "base"
    prefix, table = ("backbone", "embeddings") if stored else ("model", "embed_tokens")
    model = (embedding(table, vocab, embed), block, *_rotary(c))
    if c.task == "base":
        return Module("", model)
    tied_to = f"{prefix}.{table}.weight" if c.tie_embeddings else None
    head = linear("lm_head", vocab, embed, tied_to=tied_to, component="head")
    head = head._replace(children=(*head.children, Param("logit_scale", (vocab,))))
    return Module("", (Module(prefix, model), head))


def _attention(c: DoryConfig, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed, bias=c.attention_bias),
            linear("k_proj", kv_heads, embed, bias=c.attention_bias),
            linear("v_proj", kv_heads, embed, bias=c.attention_bias),
            Param("sqk", (heads,)),
            linear("g_proj" if c.layout == "checkpoint" else "gate_proj", heads, embed),
            Param("s_gate", (heads,)),
            linear("o_proj", embed, heads, bias=c.attention_bias),
        ),
        component="attention",
    )


def _feed_forward(c: DoryConfig, embed: Axis) -> Module:
    ffn = Axis("ffn", c.d_ff)
    dense = gated_mlp("mlp", ffn, embed, bias=c.mlp_bias, act=c.act)
    return dense._replace(children=(Param("suv_gate", (ffn,)), Param("suv_up", (ffn,)), *dense.children))


def _cores(c: DoryConfig) -> tuple[Module, ...]:
    """Scores and mixing in each kind of layer; decoding keeps the keys and values of every loop,
    or of the last alone."""

    def core(kind: str) -> Module:
        window = c.window if kind.endswith("sliding") else None
        op, cache = attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=window)
        looped = c.n_loops if kind.startswith("loop") else None
        kept = Module("", (cache,), uses=None if c.last_loop_cached else looped)
        parts = (Module("", (op,), uses=looped), kept)
        return Module("self_attn", parts, component="attention", at=c.layers.layers(kind))

    return tuple(core(kind) for kind in dict.fromkeys(c.layers.kinds))


def _rotary(c: DoryConfig) -> tuple[Module, ...]:
    if c.layout == "checkpoint":
        return ()
    half = Axis("rotary", divide(c.d_head, 2, names="d_head / 2"))
    present = [kind for kind in ("full", "sliding") if c.layers.has(f"once_{kind}", f"loop_{kind}")]
    names = [f"{kind}_attention_{name}" for kind in present for name in ("inv_freq", "original_inv_freq")]
    return (Module("rotary_emb", tuple(buffer(name, half, persistent=False) for name in names)),)


ARCHITECTURES = {"dory": Architecture(DoryConfig, dory)}


def _dory(hf: HFConfig) -> Reading:
    n_layers, types = hf["num_hidden_layers"], hf["layer_types"]
    first, last = hf["n_input_layers"], hf["n_output_layers"]
    middle = hf["n_recurrent_layers"]
    if types is not None and "mlp" in types:
        # A file counts attention and MLP as a layer each.
        n_layers, first, last, types = n_layers // 2, first // 2, last // 2, types[::2]
        middle = None if middle is None else middle // 2
    if types is None:
        types = ["sliding_attention" if (i + 1) % 4 else "full_attention" for i in range(n_layers)]
    middle = n_layers - first - last if middle is None else middle
    kinds = [
        ("loop" if first <= i < first + middle else "once")
        + ("_sliding" if kind == "sliding_attention" else "_full")
        for i, kind in enumerate(types[:n_layers])
    ]
    return Reading(
        "dory",
        hf.fill(
            DoryConfig,
            n_layers=n_layers,
            layers=Pattern(tuple(kinds)),
            n_loops=hf["n_recurrent_loops"],
            last_loop_cached=hf["recurrent_kv_cache_mode"] == "last_loop",
        ),
    )


HF_READERS = {"dory": _dory}
