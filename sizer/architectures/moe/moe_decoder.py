"""The decoder of routed experts: Mixtral, and those that differ from it by a switch.

Attention, norms and dense layers are those of `decoders/decoder.py`; here is what a token's
experts add: a router, experts of which it visits a few, and some that it always visits.
"""

from __future__ import annotations

from sizer.architectures.decoders.decoder import (
    DecoderConfig,
    attention,
    fused_gated_mlp,
    norm,
    norms_named,
    rotary_buffers,
)
from sizer.architectures.heads import with_head, with_parts
from sizer.architectures.moe.names import NAMES, MoENames
from sizer.architectures.mtp import beside_the_layers, next_layers
from sizer.architectures.registry import Architecture
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import (
    buffer,
    embedding,
    gate_op,
    gated_mlp,
    linear,
    residual,
    routed_experts,
    stacked,
)
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Leaf, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig


@configuration
class MoEConfig(DecoderConfig):
    """Sizes and switches of a decoder with routed experts.

    `mlp_layers`: "dense" or "sparse" for each layer; without it every layer is sparse.
    `d_ff_shared`: width of the experts that all tokens visit; by default that of
    `n_shared_experts` routed ones. `shared_gate`: a sigmoid gate on them.
    `naming`: a row of `sizer.architectures.moe.names.NAMES`.
    `correction`: the bias that balances the router: "buffer", or "frozen" for a parameter without
    a gradient, or "frozen_row" for one of shape [1, E].
    `transposed_experts`: experts are stored `[E, in, out]`.
    `sinks`: a learned score for each head that no token receives.
    `output_gate`: the name of a projection that gates what attention returns.
    `rotary_types`: the kinds of layers that have rotary frequencies of their own.
    `n_rotary`: further sets of frequencies, one for each base.
    `qa_prefix`: what a question-answering model calls its decoder.
    `routing`: how the router weighs experts, by the traits of an `Op` (`sizer.core.tree`).
    `mtp_layers`: layers for multi-token prediction, in the count where `count_mtp` says so; `dense_mtp`:
    they have no experts, and ERNIE's names.
    """

    d_ff: Dim | None = None
    n_experts: Dim = None
    top_k: Dim = None
    d_ff_expert: Dim = None
    n_shared_experts: Dim | None = None
    d_ff_shared: Dim | None = None
    d_rotary_window: Dim | None = None
    n_rotary: Dim | None = None
    mlp_layers: Pattern | None = None
    naming: str = "mixtral"
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    correction: str | None = None
    transposed_experts: bool = False
    sinks: bool = False
    output_gate: str | None = None
    output_gate_bias: bool = False
    head_bias: bool = False
    qa_prefix: str = "model"
    rotary_types: tuple[str, ...] | None = None
    mtp_layers: Dim | None = None
    count_mtp: bool = False
    dense_mtp: bool = False
    routing: tuple[str, ...] = ("normalized",)

    letters = {
        **DecoderConfig.letters,
        "mlp_layers": "L",
        "d_ff_shared": "Fs",
        "d_rotary_window": "Dw",
        "n_rotary": "Nr",
    }
    meanings = {
        **DecoderConfig.meanings,
        "d_ff_shared": "hidden width of the always-on experts",
        "d_rotary_window": "width of the rotary part of a head in windowed layers",
        "n_rotary": "sets of rotary frequencies",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mlp_layers is None or self.mlp_layers.has("sparse"):
            self._need("n_experts", "top_k", "d_ff_expert")
        if self.mlp_layers is not None and self.mlp_layers.has("dense"):
            self._need("d_ff")
        if self.n_shared_experts is not None:
            self.derive(d_ff_shared=self.n_shared_experts * self.d_ff_expert)
        self.derive(d_rotary_window=self.d_rotary)

    def _need(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is None:
                raise InvalidConfig(f"{name} is missing; a decoder with routed experts needs it")

    @property
    def names(self) -> MoENames:
        """The names of this layout."""
        in_memory, stored = NAMES[self.naming]
        return stored if self.layout == "checkpoint" else in_memory


def moe_decoder(c: MoEConfig, attend: Module | None = None, experts: Module | None = None) -> Module:
    """Mixtral (arXiv:2401.04088), with the tensor names of `MixtralForCausalLM`.

    Source: transformers `modeling_mixtral.py`. `attend` replaces the usual attention, and
    `experts` what stands in the layers that have experts.
    """
    names, embed = c.names, Axis("embed", c.d_model)
    norms = (norms_named(c, name, embed) for name in names.norms or c.norms)
    before_attn, after_attn, before_mlp, after_mlp = norms
    attends = residual(*before_attn, moe_attention(c) if attend is None else attend, *after_attn)
    block = Module(
        "layers",
        (attends, residual(*before_mlp, *feed_forwards(c, embed, experts), *after_mlp)),
        repeat=c.n_layers,
        flow="block",
    )
    model = (
        embedding(names.embedding, Axis("vocab", c.vocab_size), embed),
        block,
        norm(c, "norm", embed),
        *rotaries(c),
    )
    tree = with_head(c, model, embedding=names.embedding, bias=c.head_bias, qa_prefix=c.qa_prefix)
    if c.mtp_layers is None or not c.count_mtp:
        return tree
    if c.dense_mtp:
        mlp = dense_mlp(c, embed, at=Layers(1))
        return with_parts(tree, c, *beside_the_layers(c, (attends, residual(*before_mlp, mlp, *after_mlp))))
    further = (attends, residual(*before_mlp, sparse_mlp(c, embed), *after_mlp))
    return with_parts(tree, c, *next_layers(c, further))


def moe_attention(c: MoEConfig) -> Module:
    """The decoder's attention, with sinks and a gate on its output where there are any."""
    usual = attention(c)
    *inner, out = usual.children
    return usual._replace(children=(*inner, *sinks(c), *output_gate(c), out))


def sinks(c: MoEConfig) -> tuple[Leaf, ...]:
    """A learned score for each head, which takes its share of the softmax."""
    return (Param(c.names.sinks, (Axis("heads", c.n_heads),)),) if c.sinks else ()


def output_gate(c: MoEConfig) -> tuple[Module | Leaf, ...]:
    """A sigmoid gate on every element that attention returns."""
    if c.output_gate is None:
        return ()
    heads = heads_axis("heads", c.n_heads, c.d_head)
    bias = (Param("gate_bias", (Axis("heads", c.n_heads),)),) if c.output_gate_bias else ()
    gate = linear(c.output_gate, heads, Axis("embed", c.d_model))
    return (gate, *bias, gate_op("sigmoid", heads.size))


def feed_forwards(c: MoEConfig, embed: Axis, experts: Module | None = None) -> tuple[Module, ...]:
    """The dense MLP of some layers and the experts of the others."""
    if c.mlp_layers is None:
        return (experts or sparse_mlp(c, embed),)
    found: tuple[Module, ...] = ()
    if c.mlp_layers.has("dense"):
        found = (dense_mlp(c, embed, at=c.mlp_layers.layers("dense")),)
    if c.mlp_layers.has("sparse"):
        mixture = experts or sparse_mlp(c, embed)
        found = (*found, mixture._replace(at=c.mlp_layers.layers("sparse")))
    return found


def dense_mlp(c: MoEConfig, embed: Axis, *, at: Layers) -> Module:
    """The MLP of a layer without experts."""
    names = c.names
    mlp = always_on(names.dense, names.dense_parts, Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act)
    return mlp._replace(at=at, component="mlp")


def sparse_mlp(c: MoEConfig, embed: Axis) -> Module:
    """A router, the experts it chooses from, and those that every token visits."""
    names, experts = c.names, Axis("expert", c.n_experts)
    router = linear(names.router, experts, embed, bias=c.router_bias, component="router")
    choice = Op("choice", "choice", {"top_k": c.top_k}, traits=c.routing)
    router = router._replace(children=(*router.children, choice))
    shared = shared_experts(c, embed)
    if c.shared_gate:
        gate = linear(names.shared_gate, Axis("one", 1), embed, component="router")
        shared = (*shared, gate)
    parts = (router, *correction(c, experts), experts_of(c, experts, embed), *shared)
    plain = c.correction is None and names.stacked is None and not (c.shared_gate or c.expert_bias)
    return Module("", parts, flow="experts" if plain else "")


def shared_experts(c: MoEConfig, embed: Axis) -> tuple[Module, ...]:
    """The experts that every token visits, as one MLP, where there are any."""
    if c.d_ff_shared is None:
        return ()
    names, ffn = c.names, Axis("ffn", c.d_ff_shared)
    return (always_on(names.shared, names.shared_parts, ffn, embed, bias=c.mlp_bias, act=c.act),)


def correction(c: MoEConfig, experts: Axis) -> tuple[Leaf, ...]:
    """The bias that evens out the load of the experts; no gradient changes it."""
    name = c.names.correction
    if c.correction is None:
        return ()
    if c.correction == "buffer":
        return (buffer(name, experts, component="router"),)
    axes = (Axis("one", 1), experts) if c.correction == "frozen_row" else (experts,)
    return (Param(name, axes, trainable=False, component="router"),)


def experts_of(c: MoEConfig, experts: Axis, embed: Axis) -> Module:
    """The routed experts: one by one, or all those of a layer in two tensors."""
    names, ffn = c.names, Axis("expert_ffn", c.d_ff_expert)
    if names.stacked is None:
        # The fused experts of transformers 5 have no biases, even where those of the checkpoint do.
        bias = c.expert_bias and c.layout == "checkpoint"
        return routed_experts(
            names.experts,
            experts,
            c.top_k,
            ffn,
            embed,
            layout=c.layout,
            names=names.expert,
            act=c.act,
            bias=bias,
        )
    *first, down = names.stacked
    width = ffn if len(first) == 2 else 2 * ffn
    gates = [leaf for name in first for leaf in stacked_matrix(c, experts, name, width, embed)]
    act = gate_op(c.act, c.top_k * c.d_ff_expert)
    last = stacked_matrix(c, experts, down, embed, ffn)
    return Module("", (*gates, act, *last), component="experts")


def stacked_matrix(c: MoEConfig, experts: Axis, name: str, out: Axis, inp: Axis) -> tuple[Param, ...]:
    """One matrix of every expert in one tensor, `[E, out, in]` or `[E, in, out]`, with its biases."""
    first, second = (inp, out) if c.transposed_experts else (out, inp)
    weight = stacked(name, experts, c.top_k, first, second)
    if not c.expert_bias:
        return (weight,)
    return (weight, Param(f"{name}_bias", (experts, out), active=c.top_k * out.size))


def always_on(
    name: str, parts: tuple[str, ...], ffn: Axis, embed: Axis, *, bias: bool = False, act: str = "silu"
) -> Module:
    """A gated MLP that every token visits: of three matrices, or of two with gate and value fused."""
    if len(parts) == 3:
        gate, up, down = parts
        return gated_mlp(name, ffn, embed, bias=bias, act=act, names=(gate, up, down), component="experts")
    fused = fused_gated_mlp(name, ffn, embed, bias=bias, act=act, names=parts)
    return fused._replace(component="experts")


def rotaries(c: MoEConfig) -> tuple[Module, ...]:
    """The inverse frequencies beside the model: one set, one for each kind of layer, or more."""
    if c.layout == "checkpoint":
        return ()
    if c.rotary_types is not None:
        widths = dict.fromkeys(c.rotary_types, c.d_rotary) | {"sliding_attention": c.d_rotary_window}
        sets = (rotary_buffers(widths[kind], layout=c.layout)[0] for kind in c.rotary_types)
        leaves = (
            leaf._replace(name=f"{kind}_{leaf.name}")
            for kind, one in zip(c.rotary_types, sets, strict=True)
            for leaf in one.children
        )
        return (Module("rotary_emb", tuple(leaves)),)
    usual = rotary_buffers(c.d_rotary, layout=c.layout)
    if c.n_rotary is None:
        return usual
    return (*usual, usual[0]._replace(name="rotary_embs", repeat=c.n_rotary))


ARCHITECTURES = {"moe": Architecture(MoEConfig, moe_decoder)}
