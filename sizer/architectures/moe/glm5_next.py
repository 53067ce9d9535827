"""GLM-5.3-Flash: Kimi delta attention and sparse latent attention, over several residual streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.latent import latent_attention, latent_model
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import dense_and_sparse, kinds_of_mlp, mixture
from sizer.architectures.moe.deepseek_layers import indexers
from sizer.architectures.moe.deepseek_v4_config import share_of_a_token
from sizer.architectures.moe.hyper_connections import hyper_connection
from sizer.architectures.moe.kimi_linear import KimiLinearConfig, delta_attention
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import gated_mlp, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, State

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class Glm5NextConfig(KimiLinearConfig):
    """Sizes and switches of a GLM-5.3-Flash.

    `n_streams`: residual streams. `n_pool`: tokens that the indexer scores and selects together, so
    that its scores over T/m keys of Di are those over T of Di/m, `d_scored`.
    """

    n_streams: Dim
    n_pool: Dim
    d_scored: Dim | None = None
    d_rope: Dim = 0
    flat_decay: bool = True
    checkpoint_names: str = ""

    letters = {**KimiLinearConfig.letters, "n_streams": "M", "n_pool": "Tp"}
    meanings = {
        **KimiLinearConfig.meanings,
        "n_streams": "residual streams",
        "n_pool": "tokens that the indexer selects together",
    }
    may_be_zero = frozenset(("d_rope",))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_index is not None:
            self.derive(d_scored=share_of_a_token(self.d_index, self.n_pool))


def glm5_next(c: Glm5NextConfig) -> Module:
    """GLM-5.3-Flash (Z.ai 2026), with the tensor names of `Glm5NextTextModel`.

    Source: transformers `modeling_glm5_next.py`.
    """
    embed = Axis("embed", c.d_model)
    dense, sparse = dense_and_sparse(c)
    block = Module(
        "layers",
        (
            _streams(c, "attn"),
            rms_norm("input_layernorm", embed),
            delta_attention(c, embed)._replace(at=c.layers.layers("linear")),
            latent_attention(c, embed, (_pooling(c, embed),))._replace(at=c.layers.layers("full")),
            _streams(c, "ffn"),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act)._replace(at=dense),
            mixture(c, embed)._replace(at=sparse),
        ),
        repeat=c.n_layers,
    )
    # No layer has rotary positions, so the frequencies are left out.
    return with_head(c, latent_model(c, embed, block)[:3])


def _streams(c: Glm5NextConfig, part: str) -> Module:
    """What is read from the streams, what is written to each, and how they mix: M, M and M² weights."""
    prefix = f"hc_{part}_" if c.layout == "checkpoint" else f"{part}_hc."
    names = (f"{prefix}fn", f"{prefix}base", f"{prefix}scale")
    mixes = c.n_streams * (2 + c.n_streams)
    return hyper_connection(names, mixes, Axis("streams", c.n_streams * c.d_model), 3, c.n_streams)


def _pooling(c: Glm5NextConfig, embed: Axis) -> Module:
    """How the indexer weighs the keys of a pool; their gates and one mark a token are cached as well."""
    assert c.indexers is not None
    assert c.d_index is not None
    index = Axis("index", c.d_index)
    parts = (
        Param("index_kpool_compress_ape", (Axis("pool", c.n_pool), index)),
        Param("index_kpool_compress_gate", (index, embed), "matmul"),
        State("index", per_token=c.d_index + 1),
    )
    return Module("indexer", parts, at=c.indexers.layers("full"))


ARCHITECTURES = {"glm5_next": Architecture(Glm5NextConfig, glm5_next)}


def _text(hf: HFConfig) -> Reading:
    """The sizes of delta attention, which a file may have together under `linear_attn_config`."""
    n_layers, nested = hf["num_hidden_layers"], hf.get("linear_attn_config") or {}
    types = hf.per_layer("layer_types", n_layers)
    kinds = tuple(
        "linear" if (types[i] == "linear_attention" if types else i % 4 != 3) else "full"
        for i in range(n_layers)
    )
    selecting = zip(kinds, indexers(hf).kinds, strict=True)
    return Reading(
        "glm5_next",
        hf.fill(
            Glm5NextConfig,
            **kinds_of_mlp(hf.per_layer("mlp_layer_types", n_layers), n_layers, 3),
            layers=Pattern(kinds),
            indexers=Pattern(tuple(one if kind == "full" else kind for kind, one in selecting)),
            n_streams=hf["hc_mult"],
            n_pool=hf["index_kpool"],
            n_shared_experts=hf["n_shared_experts"] or None,
            n_linear_heads=nested.get("num_heads", hf["linear_num_heads"]),
            d_linear_head=nested.get("head_dim", hf["linear_head_dim"]),
            d_conv=nested.get("short_conv_kernel_size", hf["linear_conv_kernel_dim"]),
            mlp_bias=False,
        ),
    )


HF_READERS = {"glm5_next_text": _text}
