"""GLM's vision towers: blocks like a LLaMA's, a convolution that merges squares of patches, an MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.qwen_vision import QWEN2_5, tower_sizes
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, blocks, convolution, norm
from sizer.architectures.vision.clip import patches
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, gate_op, layer_norm, linear
from sizer.core.tree import EACH, Axis, Module, Op, Places

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class GlmVisionConfig(TowerConfig):
    """Sizes and switches of a GLM tower.

    `n_positions`: rows of a learned table of positions, resampled to the image, with a norm before
    it. `merge`: patches along each side of a square that becomes one token of width `d_out`.
    """

    patch_size: Dim
    n_frames: Dim
    d_out: Dim
    d_merger: Dim
    n_channels: Dim = 3
    n_positions: Dim | None = None
    merge: Dim = 2

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_frames": "Nf",
        "n_channels": "Nc",
        "n_positions": "Np",
        "merge": "Mg",
        "d_out": "Do",
        "d_merger": "Fm",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_frames": "frames of a patch",
        "n_channels": "colour channels",
        "n_positions": "rows of the table of positions",
        "merge": "patches along a side that become one token",
        "d_out": "width that the text is given",
        "d_merger": "hidden width of the merger's MLP",
    }


def glm_vision(c: GlmVisionConfig) -> Module:
    """The tower of GLM-4.1V (arXiv:2507.01006), with the names of `Glm4vVisionModel`.

    Source: transformers `modeling_glm4v.py`, `modeling_glm_ocr.py`.
    """
    embed, out = Axis("embed", c.d_model), Axis("out", c.d_out)
    side, square = Axis("patch", c.patch_size), Axis("square", c.merge)
    kernel = (Axis("frames", c.n_frames), side, side)
    # A token of the text is made of a square of patches.
    patches = Places(each=c.merge * c.merge)
    positions: tuple[Module, ...] = ()
    if c.n_positions is not None:
        rows = Axis("positions", c.n_positions)
        positions = (
            norm(c, "post_conv_layernorm", embed),
            embedding("embeddings.position_embedding", rows, embed, component="position"),
        )
    return Module(
        "",
        (
            convolution("patch_embed.proj", embed, Axis("channels", c.n_channels), *kernel, places=patches),
            *positions,
            *rotary_buffers(c.d_rotary, layout=c.layout, name=c.module_names.rotary),
            blocks(c)._replace(places=patches),
            norm(c, "post_layernorm", embed),
            convolution("downsample", out, embed, square, square, component="other", places=EACH),
            _merger(c, out),
        ),
    )


def _merger(c: GlmVisionConfig, out: Axis) -> Module:
    hidden = Axis("merger", c.d_merger)
    return Module(
        "merger",
        (
            linear("proj", out, out),
            layer_norm("post_projection_norm", out),
            Op("act", "gelu", {"width": out.size}),
            linear("gate_proj", hidden, out),
            linear("up_proj", hidden, out),
            gate_op(c.act, hidden.size),
            linear("down_proj", out, hidden),
        ),
        component="other",
    )


ARCHITECTURES = {"glm_vision": Architecture(GlmVisionConfig, glm_vision)}


def _tower(hf: HFConfig, **given: Any) -> Reading:
    names = {"norm": "rms", "gated": True, "module_names": QWEN2_5}
    return Reading("glm_vision", tower_sizes(hf, d_out=hf["out_hidden_size"], **names, **given))


def _glm4v(hf: HFConfig) -> Reading:
    """The MLP of a block is as wide as the text; that of the merger as wide as the file says."""
    return _tower(
        hf,
        d_ff=hf["out_hidden_size"],
        d_merger=hf["intermediate_size"],
        bias="qkv" if hf["attention_bias"] else "",
        mlp_bias=False,
        down_bias=False,
        n_positions=patches(hf),
    )


def _glm_ocr(hf: HFConfig, d_merger: int | None = None) -> Reading:
    """One switch for all biases; the merger's width follows from the channels of the image."""
    bias = bool(hf["attention_bias"])
    return _tower(
        hf,
        d_ff=hf["intermediate_size"],
        d_merger=d_merger or whole(hf, "out_hidden_size") * whole(hf, "in_channels"),
        bias="qkvo" if bias else "",
        mlp_bias=bias,
        down_bias=bias,
        qk_norm="head",
    )


def _glm5_next(hf: HFConfig) -> Reading:
    return _glm_ocr(hf, d_merger=hf["projection_intermediate_size"])


HF_READERS = {
    "glm4v_vision": _glm4v,
    "glm4v_moe_vision": _glm4v,
    "glm5_next_vision": _glm5_next,
    "glm_ocr_vision": _glm_ocr,
}
