"""SegGPT: a ViT that is shown an image with its segments, and paints those of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.detection.vitdet import THREE, grid, layers_of, relative_positions
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.clip import ONE, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="layers",
    attention="attention",
    qkv=("qkv",),
    output="proj",
    mlp=("mlp", "lin1", "lin2"),
    norms=("layernorm_before", "", "layernorm_after", ""),
)
TOKENS = (
    "mask_token",
    "segment_token_input",
    "segment_token_prompt",
    "type_token_semantic",
    "type_token_instance",
)


@configuration
class SegGptConfig(TowerConfig):
    """Sizes and switches of a SegGPT.

    `n_rows`, `n_columns`: patches along either side, where each block has learned relative positions.
    `n_read`: blocks whose outputs the decoder reads; it is `d_decoder` wide.
    """

    patch_size: Dim
    n_channels: Dim
    n_positions: Dim
    d_decoder: Dim
    n_read: Dim
    n_rows: Dim | None = None
    n_columns: Dim | None = None

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_channels": "Nc",
        "n_positions": "Np",
        "d_decoder": "D_dec",
        "n_read": "Nr",
        "n_rows": "Nh",
        "n_columns": "Nw",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "n_positions": "rows of the table of positions",
        "d_decoder": "channels of a pixel in the decoder",
        "n_read": "blocks whose outputs the decoder reads",
        "n_rows": "patches along the height",
        "n_columns": "patches along the width",
    }


def seggpt(c: SegGptConfig) -> Module:
    """SegGPT (arXiv:2304.03284), with the names of `SegGptForImageSegmentation`.

    Source: transformers `modeling_seggpt.py`.
    """
    embed = Axis("embed", c.d_model)
    relative: Children = ()
    if c.n_rows is not None:
        relative = relative_positions(c.n_rows, c.n_columns, Axis("head", c.d_head))
    encoder = (blocks(c, in_attention=relative), layer_norm("layernorm", embed))
    model = (Module("embeddings", _embeddings(c, embed)), Module("encoder", encoder))
    if c.task == "base":
        return Module("", model)
    return Module("", (Module("model", model), Module("decoder", _decoder(c, embed), component="head")))


def _embeddings(c: SegGptConfig, embed: Axis) -> Children:
    patch, rows = Axis("patch", c.patch_size), Axis("patches", c.n_positions)
    return (
        *(Param(name, (ONE, ONE, ONE, embed), component="embedding") for name in TOKENS),
        convolution("patch_embeddings.projection", embed, Axis("channels", c.n_channels), patch, patch),
        Param("position_embeddings", (ONE, rows, embed), component="position"),
    )


def _decoder(c: SegGptConfig, embed: Axis) -> Children:
    """The outputs of some blocks side by side become pixels, and pixels colours."""
    pixel, read = Axis("decoder", c.d_decoder), Axis("read", c.n_read * c.d_model)
    patch = Axis("pixels", c.patch_size * c.patch_size * c.d_decoder)
    head = (
        convolution("conv", pixel, pixel, THREE, THREE, component="head"),
        layer_norm("layernorm", pixel),
        Op("act", c.act, {"width": pixel.size}),
        convolution("head", Axis("colours", 3), pixel, ONE, ONE, component="head"),
    )
    return (linear("decoder_embed", patch, read, bias=True), Module("decoder_pred", head))


ARCHITECTURES = {"seggpt": Architecture(SegGptConfig, seggpt)}


def _seggpt(hf: HFConfig) -> Reading:
    if not hf.cls.endswith(("Model", "ForImageSegmentation")):
        raise UnknownName("class", hf.cls, ("SegGptModel", "SegGptForImageSegmentation"), hint="of a seggpt")
    read = layers_of(hf, "intermediate_hidden_state_indices")
    if not read:
        raise InvalidConfig("intermediate_hidden_state_indices = [] leaves the decoder nothing to read")
    relative = bool(hf["use_relative_position_embeddings"])
    rows, columns = grid(hf) if relative else (None, None)
    given = vision_sizes(
        hf,
        task="base" if hf.cls.endswith("Model") else "segmentation",
        d_ff=4 * whole(hf, "hidden_size") if hf["mlp_dim"] is None else hf["mlp_dim"],
        patch_size=whole(hf, "patch_size"),
        n_positions=(whole(hf, "pretrain_image_size") // whole(hf, "patch_size")) ** 2 + 1,
        d_decoder=hf["decoder_hidden_size"],
        n_read=len(read),
        n_rows=rows,
        n_columns=columns,
        bias="qkvo" if hf["qkv_bias"] else "o",
        module_names=NAMES,
    )
    return Reading("seggpt", given)


HF_READERS = {"seggpt": _seggpt}
