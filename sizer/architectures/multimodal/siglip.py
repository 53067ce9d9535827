"""SigLIP's vision tower: a ViT whose patches are pooled by one more attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class SiglipVisionConfig(Config):
    """Sizes and switches of a SigLIP vision tower. `pooling_head`: the attention that pools."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    n_patches: Dim
    patch_size: Dim
    n_channels: Dim = 3
    d_head: Dim | None = None
    pooling_head: bool = True
    act: str = "gelu_pytorch_tanh"
    task: str = "base"

    letters = {"n_patches": "Np", "patch_size": "p", "n_channels": "Nc"}
    meanings = {
        "n_patches": "patches of an image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.d_head is None:
            self.derive(d_head=divide(self.d_model, self.n_heads, names="d_model / n_heads"))


def siglip_vision(c: SiglipVisionConfig) -> Module:
    """SigLIP (Zhai et al. 2023), with the tensor names of `SiglipVisionModel`.

    Source: transformers `modeling_siglip.py`.
    """
    embed, ffn, side = Axis("embed", c.d_model), Axis("ffn", c.d_ff), Axis("patch", c.patch_size)
    heads, patches = heads_axis("heads", c.n_heads, c.d_head), Axis("patches", c.n_patches)
    kernel = Param("weight", (embed, Axis("channels", c.n_channels), side, side), "matmul")
    ids = (
        (buffer("position_ids", Axis("one", 1), patches, persistent=False),)
        if c.layout == "transformers"
        else ()
    )
    embeddings = Module(
        "embeddings",
        (
            Module("patch_embedding", (kernel, Param("bias", (embed,))), component="embedding"),
            embedding("position_embedding", patches, embed, component="position"),
            *ids,
        ),
    )
    attention = Module(
        "self_attn",
        (
            *(linear(f"{name}_proj", heads, embed, bias=True) for name in "kvq"),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            linear("out_proj", embed, heads, bias=True),
        ),
        component="attention",
    )
    block = Module(
        "encoder.layers",
        (
            layer_norm("layer_norm1", embed),
            attention,
            layer_norm("layer_norm2", embed),
            mlp("mlp", ffn, embed, act=c.act, names=("fc1", "fc2")),
        ),
        repeat=c.n_layers,
    )
    head = (_pooling_head(c, embed, heads, ffn),) if c.pooling_head else ()
    return Module("", (embeddings, block, layer_norm("post_layernorm", embed), *head), stream="image")


def _pooling_head(c: SiglipVisionConfig, embed: Axis, heads: Axis, ffn: Axis) -> Module:
    """One learned query attends to all patches; queries, keys and values are one matrix."""
    one = Axis("one", 1)
    attention = Module(
        "attention",
        (
            Param("in_proj_weight", (3 * heads, embed)),
            Param("in_proj_bias", (3 * heads,)),
            linear("out_proj", embed, heads, bias=True),
        ),
        component="attention",
    )
    return Module(
        "head",
        (
            Param("probe", (one, one, embed)),
            attention,
            layer_norm("layernorm", embed),
            mlp("mlp", ffn, embed, act=c.act, names=("fc1", "fc2")),
        ),
        component="head",
    )


ARCHITECTURES = {"siglip_vision": Architecture(SiglipVisionConfig, siglip_vision)}


def _siglip_vision(hf: HFConfig) -> Reading:
    given = hf.fill(
        SiglipVisionConfig,
        task="base",
        n_patches=(hf["image_size"] // hf["patch_size"]) ** 2,
        n_channels=hf["num_channels"],
        pooling_head=hf["vision_use_head"],
        act=hf["hidden_act"],
    )
    return Reading("siglip_vision", given)


HF_READERS = {"siglip_vision_model": _siglip_vision}
