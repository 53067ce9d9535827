"""Decoders as other tools build them: litgpt, Megatron-core, GPT-NeoX, nanoGPT, LLaMA's own code.

One builder; what a tool calls its modules is a table in `tool_names`. A tool's configuration file is
read in `sizer.sources.formats`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sizer.architectures.decoders.decoder import DecoderConfig, windowed_core
from sizer.architectures.decoders.tool_names import NAMES, ToolNames
from sizer.architectures.registry import Architecture
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gate_op, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Leaf, Module, Op, Param, State, heads_axis

MLP = "mlp"


@configuration
class ToolDecoderConfig(DecoderConfig):
    """Sizes and switches of a decoder, with the names of a tool.

    `tool`: whose names the modules have in memory. `published`: the table of names of the published
    checkpoint, where those differ.
    `positions`: learned positions, `n_ctx` rows. `rope_tables`: cosines and sines are kept in memory,
    once, or ("local") twice.
    `before_attn`, `before_mlp` and so on: whether the block has a norm there.
    `shared_norm`: one norm before attention and MLP, which run side by side.
    `moe_layers`: "dense" or "moe" for each layer; without it all layers have experts, if any has.
    `d_ff_shared`: hidden width of the experts that run for every token, together.
    `latent`: keys and values of all heads come from one latent of rank Rk, as in DeepSeek-V2.
    `norm` may be "scale" too: one number for the whole vector.
    """

    tool: str
    published: str | None = None
    positions: bool = False
    rope_tables: str | None = None
    norm_before_attn: bool = True
    norm_after_attn: bool = False
    norm_before_mlp: bool = True
    norm_after_mlp: bool = False
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_ff_expert: Dim | None = None
    d_ff_shared: Dim | None = None
    moe_layers: Pattern | None = None
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False
    latent: bool = False
    q_lora_rank: Dim | None = None
    kv_lora_rank: Dim = None
    d_nope: Dim = None
    d_rope: Dim = None
    d_value: Dim = None
    latent_norm: str | None = "rms"
    latent_bias: bool = False
    up_bias: bool = False

    letters = {
        **DecoderConfig.letters,
        "moe_layers": "L",
        "d_ff_shared": "Fs",
        "d_nope": "Dn",
        "d_rope": "Drp",
        "d_value": "Dv",
    }
    meanings = {
        **DecoderConfig.meanings,
        "d_ff_shared": "hidden width of the always-on experts together",
        "d_nope": "width of a query or key head without positions",
        "d_rope": "width of its rotary part, shared by the heads",
        "d_value": "width of a value head",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(d_ff_expert=self.d_ff, top_k=self.n_experts)
        if self.moe_layers is not None and isinstance(self.n_layers, int):
            self.moe_layers.check("moe_layers", self.n_layers, ("dense", "moe"))


def tool_decoder(c: ToolDecoderConfig) -> Module:
    """Tokens, blocks of attention and MLP, a last norm, and a head.

    Sources: litgpt `model.py`, Megatron-core `models/gpt`, GPT-NeoX `megatron/model`, nanoGPT `model.py`,
    LLaMA `model.py`, mistral-inference `transformer_layers.py`, LLMs-from-scratch `llama3.py`, `qwen3.py`.
    """
    names = NAMES[c.published if c.published is not None and c.layout == "checkpoint" else c.tool]
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    before_attn, after_attn, before_mlp, after_mlp = names.norms
    attention = latent_attention(c, names) if c.latent else self_attention(c, names)
    block = Module(
        names.block,
        (
            *norm_if(c.norm_before_attn, c, names, before_attn, embed),
            attention,
            *norm_if(c.norm_after_attn, c, names, after_attn, embed),
            *norm_if(c.norm_before_mlp, c, names, before_mlp, embed),
            *feed_forward(c, names),
            *norm_if(c.norm_after_mlp, c, names, after_mlp, embed),
        ),
        repeat=c.n_layers,
    )
    tied_to = f"{names.embedding}.weight" if c.tie_embeddings else None
    head = linear(names.head, vocab, embed, bias=c.head_bias, tied_to=tied_to, component="head")
    return Module(
        "",
        (
            embedding(names.embedding, vocab, embed),
            *_positions(c, names),
            block,
            norm_of(c, names, names.final_norm, embed),
            *((head,) if c.task == "causal" else ()),
            *_rope_tables(c),
        ),
    )


def _positions(c: ToolDecoderConfig, names: ToolNames) -> tuple[Module, ...]:
    if not c.positions:
        return ()
    rows, embed = Axis("context", c.n_ctx), Axis("embed", c.d_model)
    return (embedding(names.positions, rows, embed, component="position"),)


def _rope_tables(c: ToolDecoderConfig) -> Iterator[Leaf]:
    if c.rope_tables is None or c.layout == "checkpoint":
        return
    axes = (Axis("context", c.n_ctx), Axis("rotary", c.d_rotary))
    both = (*axes, Axis("kinds", 2)) if c.rope_tables == "local" else axes
    yield from (buffer(name, *both, persistent=False) for name in ("cos", "sin"))


def self_attention(c: ToolDecoderConfig, names: ToolNames) -> Module:
    """Queries for every head; keys and values for K of them."""
    embed = Axis("embed", c.d_model)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    widths = (heads, kv_heads, kv_heads) if len(names.qkv) > 1 else (heads + 2 * kv_heads,)
    return Module(
        names.attention,
        (
            *(linear(n, w, embed, bias=c.qkv_bias) for n, w in zip(names.qkv, widths, strict=True)),
            *_qk_norms(c, names, heads, kv_heads),
            *((Param(names.sinks, (Axis("heads", c.n_heads),)),) if c.sinks else ()),
            *windowed_core(c),
            linear(names.output, embed, heads, bias=c.o_bias),
        ),
        component="attention",
    )


def _qk_norms(c: ToolDecoderConfig, names: ToolNames, heads: Axis, kv_heads: Axis) -> tuple[Module, ...]:
    if c.qk_norm is None:
        return ()
    head = Axis("head", c.d_head)
    if c.qk_norm == "both":
        # GPT-NeoX: one norm, a weight for each head, over queries and keys alike.
        return (_norm(c.norm, names, names.qk_norms[0], Axis("heads", c.n_heads), head),)
    q, k = (head, head) if c.qk_norm == "head" else (heads, kv_heads)
    return norm_of(c, names, names.qk_norms[0], q), norm_of(c, names, names.qk_norms[1], k)


def latent_attention(c: ToolDecoderConfig, names: ToolNames) -> Module:
    """DeepSeek-V2's attention, with the tool's names for its projections."""
    n, embed = names.latent, Axis("embed", c.d_model)
    kv_rank, rope = Axis("kv_rank", c.kv_lora_rank), Axis("rope", c.d_rope)
    d_qk = c.d_nope + c.d_rope
    queries = heads_axis("heads", c.n_heads, d_qk)
    keys_values = heads_axis("heads", c.n_heads, c.d_nope + c.d_value)
    if c.q_lora_rank is None:
        to_queries: tuple[Module, ...] = (linear(n.q, queries, embed, bias=c.latent_bias),)
    else:
        q_rank = Axis("q_rank", c.q_lora_rank)
        to_queries = (
            linear(n.q_down, q_rank, embed, bias=c.latent_bias),
            *_latent_norm(c, names, n.q_norm, q_rank),
            linear(n.q_up, queries, q_rank, bias=c.up_bias),
        )
    sizes = {"heads": c.n_heads, "kv_heads": c.n_heads, "d_qk": d_qk, "d_v": c.d_value, "window": None}
    return Module(
        names.attention,
        (
            *to_queries,
            linear(n.kv_down, kv_rank + rope, embed, bias=c.latent_bias),
            *_latent_norm(c, names, n.kv_norm, kv_rank),
            linear(n.kv_up, keys_values, kv_rank, bias=c.up_bias),
            Op("core", "attention", sizes),
            State("latent", per_token=c.kv_lora_rank + c.d_rope),
            linear(names.output, embed, heads_axis("heads", c.n_heads, c.d_value), bias=c.o_bias),
        ),
        component="attention",
    )


def _latent_norm(c: ToolDecoderConfig, names: ToolNames, name: str, width: Axis) -> tuple[Module, ...]:
    return () if c.latent_norm is None else (_norm(c.latent_norm, names, name, width),)


def feed_forward(c: ToolDecoderConfig, names: ToolNames) -> Iterator[Module]:
    """The MLP of a block, its experts, or one or the other by layer."""
    dense, sparse = _layers(c)
    if dense is not None or c.n_experts is None:
        yield _mlp(c, names, names.mlp, Axis("ffn", c.d_ff), MLP)._replace(at=dense)
    if c.n_experts is not None:
        yield _experts(c, names)._replace(at=sparse)


def _layers(c: ToolDecoderConfig) -> tuple[Layers | None, Layers | None]:
    if c.moe_layers is None:
        return None, None
    return c.moe_layers.layers("dense"), c.moe_layers.layers("moe")


def _mlp(c: ToolDecoderConfig, names: ToolNames, name: str, ffn: Axis, component: str) -> Module:
    embed, bias = Axis("embed", c.d_model), c.mlp_bias
    if not c.gated:
        up, down = names.plain
        into: tuple[Module | Leaf, ...] = (
            linear(up, ffn, embed, bias=bias),
            Op("act", c.act, {"width": ffn.size}),
        )
    elif len(names.gated) == 2:
        gate_up, down = names.gated
        into = (linear(gate_up, 2 * ffn, embed, bias=bias), gate_op(c.act, ffn.size))
    else:
        gate, up, down = names.gated
        both = (linear(gate, ffn, embed, bias=bias), linear(up, ffn, embed, bias=bias))
        into = (*both, gate_op(c.act, ffn.size))
    return Module(name, (*into, linear(down, embed, ffn, bias=bias)), component=component)


def _experts(c: ToolDecoderConfig, names: ToolNames) -> Module:
    expert, embed = Axis("expert", c.n_experts), Axis("embed", c.d_model)
    router = linear(names.router, expert, embed, bias=c.router_bias, component="router")
    if c.expert_bias:
        balance = buffer(names.expert_bias, expert)
        router = router._replace(children=(*router.children, balance))
    within = names._replace(gated=names.expert_gated or names.gated)
    one = _mlp(c, within, names.experts, Axis("expert_ffn", c.d_ff_expert), "experts")
    shared: tuple[Module, ...] = ()
    if c.d_ff_shared is not None:
        always = _mlp(c, names, names.shared, Axis("ffn", c.d_ff_shared), "experts")
        gate = (Param("gate_weight", (Axis("one", 1), embed), "matmul"),) if c.shared_gate else ()
        shared = (always._replace(children=(*always.children, *gate)),)
    return Module(names.moe, (router, one._replace(repeat=c.n_experts, active=c.top_k), *shared))


def norm_of(c: ToolDecoderConfig, names: ToolNames, name: str, width: Axis) -> Module:
    """A norm of the configuration's kind, its tensors named as the tool does."""
    return _norm(c.norm, names, name, width)


def norm_if(
    wanted: bool, c: ToolDecoderConfig, names: ToolNames, name: str, width: Axis
) -> tuple[Module, ...]:
    """The norm of that name, where the block has it."""
    return (norm_of(c, names, name, width),) if wanted else ()


def _norm(kind: str, names: ToolNames, name: str, *width: Axis) -> Module:
    scale, shift = names.norm_tensors
    if kind == "scale":
        return Module(name, (Param("g", (Axis("one", 1),)),), kind="rms_norm", component="norm")
    weights = {"none": (), "layer": (scale, shift)}.get(kind, (scale,))
    computed = "rms_norm" if kind == "rms" else "layer_norm"
    return Module(name, tuple(Param(w, width) for w in weights), kind=computed, component="norm")


ARCHITECTURES = {"tool_decoder": Architecture(ToolDecoderConfig, tool_decoder)}
