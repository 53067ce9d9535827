"""Decoders whose layers differ in size: OpenELM, DeciLM and the Nemotrons found by a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward
from sizer.architectures.decoders.decoder_names import LLAMA, Names
from sizer.architectures.decoders.reading import activation, listed_layers, positive, whole
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide, round_up
from sizer.core.layers import embedding, linear, rms_norm
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_LLAMA = LLAMA._replace(rotary=())
_OPENELM = Names(
    model="transformer",
    embedding="token_embeddings",
    attention="attn",
    qkv=("qkv_proj",),
    output="out_proj",
    feed_forward="ffn",
    mlp=("proj_1", "proj_2"),
    rotary=(),
)
# A multiplier of a width is a small number; beyond this it is a mistake.
_MAX_MULTIPLIER = 10_000


@configuration
class PerLayerConfig(Config):
    """Sizes and switches of a decoder whose layers have widths of their own.

    `n_kv_heads`, `d_ff`: a size for each layer, none where it has no attention or no MLP.
    `n_heads`: query heads of every layer, or `queries_per_kv` of them for each KV head.
    `attentions`, `mlps`: "usual", "linear" (one D×D matrix stands for it) or "none", by layer.
    """

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    n_kv_heads: PerLayer
    d_ff: PerLayer
    attentions: Pattern
    mlps: Pattern
    n_heads: Dim | None = None
    queries_per_kv: Dim | None = None
    d_head: Dim | None = None
    tie_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    gated: bool = True
    act: str = "silu"
    qk_norm: str | None = None
    norms: tuple[str, str] = ("input_layernorm", "post_attention_layernorm")
    module_names: Names = _LLAMA

    letters = {"queries_per_kv": "Gq", "attentions": "La", "mlps": "Lm"}
    meanings = {"queries_per_kv": "query heads for each KV head"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")
        if isinstance(self.n_layers, int):
            for name in ("n_kv_heads", "d_ff", "attentions", "mlps"):
                given = getattr(self, name)
                listed = len(given.values if isinstance(given, PerLayer) else given.kinds)
                if listed != self.n_layers:
                    raise InvalidConfig(f"{name} lists {listed} layers and n_layers = {self.n_layers}")

    def layer(self, *, n_kv_heads: Dim = 1, d_ff: Dim = 1) -> DecoderConfig:
        """One layer, as the parts of the usual decoder know it."""
        return DecoderConfig(
            d_model=self.d_model,
            n_layers=1,
            n_heads=self.queries_per_kv * n_kv_heads if self.n_heads is None else self.n_heads,
            n_kv_heads=n_kv_heads,
            d_head=self.d_head,
            d_ff=d_ff,
            vocab_size=self.vocab_size,
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            mlp_bias=self.mlp_bias,
            gated=self.gated,
            act=self.act,
            qk_norm=self.qk_norm,
        )


def per_layer(c: PerLayerConfig) -> Module:
    """OpenELM (arXiv:2404.14619) and DeciLM, Llama-Nemotron (arXiv:2411.19146, 2505.00949).

    Source: apple/OpenELM-270M `modeling_openelm.py`, nvidia/Llama-3_3-Nemotron-Super-49B-v1
    `modeling_decilm.py`. A layer without attention or MLP has no norm for it either.
    """
    embed, names = Axis("embed", c.d_model), c.module_names
    before_attn, before_mlp = c.norms
    attns = (
        attention(c.layer(n_kv_heads=heads), names.attention, names=names)._replace(at=layers)
        for heads, layers in c.n_kv_heads.groups()
    )
    mlps = (
        feed_forward(c.layer(d_ff=width), names.feed_forward, names=names)._replace(at=layers)
        for width, layers in c.d_ff.groups()
    )
    block = Module(
        names.block,
        (
            *_norm(before_attn, c.attentions, embed),
            *attns,
            *_linear(f"{names.attention}.linear_attn", c.attentions, embed, c.attention_bias, "attention"),
            *_norm(before_mlp, c.mlps, embed),
            *mlps,
            *_linear(f"{names.feed_forward}.linear_mlp", c.mlps, embed, c.mlp_bias, "mlp"),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding(names.embedding, Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm(names.final_norm, embed),
    )
    return with_head(c, model, prefix=names.model, embedding=names.embedding, head=names.head)


def _norm(name: str, kinds: Pattern, embed: Axis) -> tuple[Module, ...]:
    if not kinds.has("usual", "linear"):
        return ()
    return (rms_norm(name, embed)._replace(at=kinds.layers("usual", "linear")),)


def _linear(name: str, kinds: Pattern, embed: Axis, bias: bool, component: str) -> tuple[Module, ...]:
    if not kinds.has("linear"):
        return ()
    matrix = linear(name, embed, embed, bias=bias, component=component)
    return (matrix._replace(at=kinds.layers("linear")),)


ARCHITECTURES = {"per_layer": Architecture(PerLayerConfig, per_layer)}


def _openelm(hf: HFConfig) -> Reading:
    """Widths grow from layer to layer by multipliers: two ends of a line, or one for each layer."""
    n_layers, d_model, d_head = (whole(hf, k) for k in ("num_transformer_layers", "model_dim", "head_dim"))
    groups = whole(hf, "num_gqa_groups")
    usual = Pattern(("usual",) * n_layers)
    queries = [
        _divisible(d_model * m, d_head * groups) // d_head
        for m in _multipliers(hf, "qkv_multipliers", n_layers)
    ]
    widths = [
        _divisible(d_model * m, whole(hf, "ffn_dim_divisor"))
        for m in _multipliers(hf, "ffn_multipliers", n_layers)
    ]
    return Reading(
        "per_layer",
        hf.fill(
            PerLayerConfig,
            d_model=d_model,
            n_layers=n_layers,
            n_heads=None,
            queries_per_kv=groups,
            n_kv_heads=PerLayer(tuple(heads // groups for heads in queries)),
            d_ff=PerLayer(tuple(widths)),
            attentions=usual,
            mlps=usual,
            gated=hf["ffn_with_glu"],
            qk_norm="head" if hf["normalize_qk_projections"] else None,
            tie_embeddings=hf["share_input_output_layers"],
            norms=("attn_norm", "ffn_norm"),
            module_names=_OPENELM,
        ),
    )


def _multipliers(hf: HFConfig, key: str, n_layers: int) -> list[float]:
    value = hf[key]
    listed = value if isinstance(value, list | tuple) else [value] * n_layers
    if not all(isinstance(m, int | float) and 0 < m < _MAX_MULTIPLIER for m in listed):
        raise InvalidConfig(f"{key} = {clip(repr(value))} is not a list of positive numbers")
    if len(listed) == n_layers:
        return list(listed)
    if len(listed) != 2:
        raise InvalidConfig(f"{key} lists {len(listed)} multipliers for {n_layers} layers")
    first, last = listed
    steps = [first + i * ((last - first) / (n_layers - 1)) for i in range(n_layers)]
    return [round(step * 100) / 100 for step in steps]


def _divisible(width: float, divisor: int) -> int:
    """The nearest multiple, of which more than a tenth is never cut off."""
    near = max(divisor, int(width + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * width else near


def _deci(hf: HFConfig) -> Reading:
    """DeciLM: the number of KV heads is chosen for each layer; later files list whole blocks."""
    if hf.get("block_configs") is not None:
        return _nemotron_nas(hf)
    n_layers = listed_layers(hf)
    listed = hf.get("num_key_value_heads_per_layer")
    heads = [hf["num_key_value_heads"]] * n_layers if listed is None else listed
    usual = Pattern(("usual",) * n_layers)
    return _reading(hf, tuple(heads), (whole(hf, "intermediate_size"),) * n_layers, usual, usual)


def _nemotron_nas(hf: HFConfig) -> Reading:
    """Nemotron-NAS: every layer's attention and MLP have an entry of their own in `block_configs`."""
    blocks = hf["block_configs"]
    parts = ("attention", "ffn")
    if not isinstance(blocks, list) or not all(
        isinstance(b, Mapping) and all(isinstance(b.get(p), Mapping) for p in parts) for b in blocks
    ):
        raise InvalidConfig("block_configs is not a list of blocks, each with its attention and ffn")
    n_heads, d_model = whole(hf, "num_attention_heads"), whole(hf, "hidden_size")

    def kv_heads(part: Mapping[str, Any]) -> int:
        if part.get("num_key_value_heads") is not None:
            return int(part["num_key_value_heads"])
        return int(
            divide(
                n_heads,
                positive("n_heads_in_group", part.get("n_heads_in_group")),
                names="n_heads / n_heads_in_group",
            )
        )

    def width(part: Mapping[str, Any]) -> int:
        if part.get("intermediate_size") is not None:
            return int(part["intermediate_size"])
        multiplier = round(positive("ffn_mult", part.get("ffn_mult")), 6)
        return int(round_up(int(2 * multiplier * d_model / 3), 256))

    heads, attentions = _listed([b["attention"] for b in blocks], kv_heads)
    widths, mlps = _listed([b["ffn"] for b in blocks], width)
    return _reading(hf, heads, widths, attentions, mlps)


def _listed(
    parts: list[Mapping[str, Any]], size: Callable[[Mapping[str, Any]], int]
) -> tuple[tuple[int | None, ...], Pattern]:
    """The size of each layer's part and what kind it is."""
    kinds = tuple(
        "none" if part.get("no_op") else "linear" if part.get("replace_with_linear") else "usual"
        for part in parts
    )
    sizes = tuple(size(part) if kind == "usual" else None for part, kind in zip(parts, kinds, strict=True))
    return sizes, Pattern(kinds)


def _reading(
    hf: HFConfig,
    heads: tuple[int | None, ...],
    widths: tuple[int | None, ...],
    attentions: Pattern,
    mlps: Pattern,
) -> Reading:
    return Reading(
        "per_layer",
        hf.fill(
            PerLayerConfig,
            n_kv_heads=PerLayer(heads),
            d_ff=PerLayer(widths),
            attentions=attentions,
            mlps=mlps,
            queries_per_kv=None,
            d_head=None,
            act=activation(hf),
            norms=("input_layernorm", "post_attention_layernorm"),
            module_names=_LLAMA,
        ),
    )


HF_READERS = {"deci": _deci, "nemotron-nas": _nemotron_nas, "openelm": _openelm}
