"""ImageGPT: a GPT-2 over the colours of an image, pixel by pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class ImageGPTConfig(Config):
    """Sizes of an ImageGPT: `vocab_size` colours, one more for the start, and `n_ctx` pixels."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    cross_attention: bool = False
    act: str = "quick_gelu"
    task: str = "base"

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)
        self.derive_quotient("d_head", "d_model", "n_heads")


def imagegpt(c: ImageGPTConfig) -> Module:
    """ImageGPT (Chen et al. 2020), with the names of `ImageGPTModel`: norms have no bias.

    Source: transformers `modeling_imagegpt.py`.
    """
    embed = Axis("embed", c.d_model)
    model = (
        embedding("wte", Axis("vocab", c.vocab_size), embed),
        embedding("wpe", Axis("context", c.n_ctx), embed, component="position"),
        Module("h", _block(c, embed), repeat=c.n_layers),
        layer_norm("ln_f", embed, bias=False),
    )
    if c.task == "base":
        return Module("", model)
    score = linear("score", Axis("labels", c.n_labels), embed, component="head")
    return Module("", (Module("transformer", model), score))


def _block(c: ImageGPTConfig, embed: Axis) -> Children:
    ffn = Axis("ffn", c.d_ff)
    crossing: Children = ()
    if c.cross_attention:
        crossing = (layer_norm("ln_cross_attn", embed, bias=False), _attention(c, embed, cross=True))
    return (
        layer_norm("ln_1", embed, bias=False),
        _attention(c, embed, cross=False),
        *crossing,
        layer_norm("ln_2", embed, bias=False),
        mlp("mlp", ffn, embed, act=c.act, names=("c_fc", "c_proj"), transposed=True),
    )


def _attention(c: ImageGPTConfig, embed: Axis, *, cross: bool) -> Module:
    """Over the pixels before one, or over an encoder's output; either has a mask in memory."""
    heads, context = heads_axis("heads", c.n_heads, c.d_head), Axis("context", c.n_ctx)
    mask = (buffer("bias", ONE, ONE, context, context, persistent=False),)
    projections = [linear("c_attn", (2 if cross else 3) * heads, embed, bias=True, transposed=True)]
    if cross:
        projections.append(linear("q_attn", heads, embed, bias=True, transposed=True))
    parts = (
        *(mask if c.layout == "transformers" else ()),
        *projections,
        *attention_core(c.n_heads, c.n_heads, c.d_head, cross=cross),
        linear("c_proj", embed, heads, bias=True, transposed=True),
    )
    return Module("crossattention" if cross else "attn", parts, component="attention")


ARCHITECTURES = {"imagegpt": Architecture(ImageGPTConfig, imagegpt)}


def _imagegpt(hf: HFConfig) -> Reading:
    given = hf.fill(
        ImageGPTConfig,
        task=task_of_vision(hf),
        n_labels=hf.n_labels,
        cross_attention=bool(hf["add_cross_attention"]),
        act=hf["activation_function"],
    )
    return Reading("imagegpt", given)


HF_READERS = {"imagegpt": _imagegpt}
