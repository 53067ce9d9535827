"""MoE decoders whose code is in their repositories: Grok-1, Arctic and MiniCPM-MoE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import DecoderConfig, attention, norm
from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense, listed_layers, whole
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, gated_mlp, linear, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_PLAIN = LLAMA._replace(rotary=())
# Gate, up and down of an expert.
_W = ("w1", "w3", "w2")


@configuration
class OwnMoEConfig(DecoderConfig):
    """Sizes and switches of a decoder of experts, `d_ff` wide each.

    `mlps`: "moe" or "dense" for each layer. `residual_mlp`: an MLP of D×D matrices runs beside the
    attention and experts of a layer, over the layer's input.
    """

    n_experts: Dim
    top_k: Dim
    mlps: Pattern
    residual_mlp: bool = False

    letters = {**DecoderConfig.letters, "mlps": "L"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.n_layers, int):
            self.mlps.check("mlps", self.n_layers, ("moe", "dense"))


def arctic(c: OwnMoEConfig) -> Module:
    """Arctic (Snowflake 2024), with the tensor names of `ArcticForCausalLM`.

    Source: Snowflake/snowflake-arctic-instruct `modeling_arctic.py`.
    """
    embed, moe = Axis("embed", c.d_model), c.mlps.layers("moe")
    residual: tuple[Module, ...] = ()
    if c.residual_mlp:
        beside = gated_mlp("residual_mlp", Axis("ffn", c.d_model), embed, names=_W)
        residual = (norm(c, "residual_layernorm", embed)._replace(at=moe), beside._replace(at=moe))
    dense_mlp = gated_mlp("mlp", Axis("ffn", c.d_ff), embed, names=_W)
    block = Module(
        "layers",
        (
            norm(c, "input_layernorm", embed),
            attention(c, names=_PLAIN),
            *residual,
            norm(c, "post_attention_layernorm", embed),
            Module(
                "block_sparse_moe",
                (
                    *_experts(c, embed, ("gate", "experts"), at="moe"),
                    *_at(c, "dense", dense_mlp),
                ),
            ),
        ),
        repeat=c.n_layers,
    )
    return _decoder(c, embed, block)


def minicpm_moe(c: OwnMoEConfig) -> Module:
    """MiniCPM-MoE (arXiv:2404.06395), with the tensor names of openbmb/MiniCPM-MoE-8x2B."""
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            norm(c, "input_layernorm", embed),
            attention(c, names=_PLAIN),
            norm(c, "post_attention_layernorm", embed),
            Module("mlp", _experts(c, embed, ("gate", "experts"), at="moe")),
        ),
        repeat=c.n_layers,
    )
    return _decoder(c, embed, block)


def grok(c: OwnMoEConfig) -> Module:
    """Grok-1 (xAI 2024), with the tensor names of its port to transformers.

    Source: keyfan/grok-1-hf and hpcai-tech/grok-1, `modeling_grok1.py`. A norm's weight is its
    `scale`, and stands before and after attention and experts.
    """
    embed = Axis("embed", c.d_model)
    routed = _experts(c, embed, ("gate", "experts"), at="moe", names=("linear", "linear_v", "linear_1"))
    block = Module(
        "layers",
        (
            _scale("pre_attn_norm", embed),
            attention(c, "attn", names=_PLAIN),
            _scale("post_attn_norm", embed),
            _scale("pre_moe_norm", embed),
            Module("moe_block", routed),
            _scale("post_moe_norm", embed),
        ),
        repeat=c.n_layers,
    )
    return _decoder(c, embed, block, final=_scale("norm", embed))


def _decoder(c: OwnMoEConfig, embed: Axis, block: Module, final: Module | None = None) -> Module:
    table = embedding("embed_tokens", Axis("vocab", c.vocab_size), embed)
    return with_head(c, (table, block, final or norm(c, "norm", embed)))


def _experts(
    c: OwnMoEConfig,
    embed: Axis,
    parts: tuple[str, str],
    *,
    at: str,
    names: tuple[str, str, str] = _W,
) -> tuple[Module, ...]:
    """The router and the experts, each with matrices of its own in memory too."""
    gate, experts = parts
    experts_axis, ffn = Axis("expert", c.n_experts), Axis("ffn", c.d_ff)
    router = linear(gate, experts_axis, embed, component="router")
    routed = routed_experts(
        experts, experts_axis, c.top_k, ffn, embed, layout="checkpoint", names=names, act=c.act
    )
    return _at(c, at, Module("", (router, routed)))


def _at(c: OwnMoEConfig, kind: str, module: Module) -> tuple[Module, ...]:
    return (module._replace(at=c.mlps.layers(kind)),) if c.mlps.has(kind) else ()


def _scale(name: str, width: Axis) -> Module:
    return Module(name, (Param("scale", (width,)),), kind="rms_norm", component="norm")


ARCHITECTURES = {
    "arctic": Architecture(OwnMoEConfig, arctic),
    "grok": Architecture(OwnMoEConfig, grok),
    "minicpm_moe": Architecture(OwnMoEConfig, minicpm_moe),
}


def _moe(hf: HFConfig, architecture: str, kinds: tuple[str, ...] | None = None, **given: Any) -> Reading:
    every = kinds or ("moe",) * listed_layers(hf)
    return dense(
        hf, architecture, OwnMoEConfig, module_names=_PLAIN, mlps=Pattern(every), d_head=None, **given
    )


def _arctic(hf: HFConfig) -> Reading:
    every = whole(hf, "moe_layer_frequency")
    kinds = tuple("dense" if (i + 1) % every else "moe" for i in range(listed_layers(hf)))
    bias = bool(hf["attention_bias"])
    return _moe(hf, "arctic", kinds, qkv_bias=bias, o_bias=bias, residual_mlp=hf["parallel_attn_mlp_res"])


def _grok(hf: HFConfig) -> Reading:
    return _moe(hf, "grok", act="gelu")


def _minicpm(hf: HFConfig) -> Reading:
    """MiniCPM (arXiv:2404.06395): a LLaMA with scaled residuals and a tied head, or one of experts."""
    bias = bool(hf["attention_bias"])
    if not hf["num_experts"]:
        return dense(hf, module_names=_PLAIN, d_head=None, qkv_bias=bias, o_bias=bias)
    if hf.get("first_k_dense_replace"):
        raise InvalidConfig("first_k_dense_replace: a MiniCPM with leading dense layers is not known")
    return _moe(hf, "minicpm_moe", qkv_bias=bias, o_bias=bias)


HF_READERS = {"arctic": _arctic, "grok-1": _grok, "minicpm": _minicpm}
