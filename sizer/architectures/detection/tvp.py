"""TVP: a ResNet over frames with learned borders, and a BERT that finds a moment of a video in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.detection.backbones import backbone_of, last_width
from sizer.architectures.encoders.heads import pooled
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import ONE
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

THREE = Axis("kernel", 3)
# Learned tokens before those of the text.
N_PROMPTS = 10


@configuration
class TvpConfig(Config):
    """The backbone, and the sizes of the text, of the frames and of their borders.

    `n_frames`: frames of a video; `image_side`, `border`, `inner_side`: pixels along a frame, across
    its border, and along what the border leaves of it.
    """

    backbone: Part
    d_backbone: Dim
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_token_types: Dim
    n_rows: Dim
    n_columns: Dim
    n_frames: Dim
    image_side: Dim
    border: Dim
    inner_side: Dim
    d_head: Dim | None = None
    act: str = "gelu"
    task: str = "base"

    letters = {
        "backbone": "bb",
        "d_backbone": "Cb",
        "n_token_types": "Nt",
        "n_rows": "Nh",
        "n_columns": "Nw",
        "n_frames": "Nf",
        "image_side": "S",
        "border": "Sb",
        "inner_side": "Si",
    }
    meanings = {
        "d_backbone": "channels that the backbone gives",
        "n_token_types": "types of tokens",
        "n_rows": "rows of a frame with a position",
        "n_columns": "columns of a frame with a position",
        "n_frames": "frames of a video",
        "image_side": "side of a frame",
        "border": "width of a frame's border",
        "inner_side": "side of what a border leaves",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def tvp(c: TvpConfig) -> Module:
    """TVP (arXiv:2303.04995), with the names of `TvpForVideoGrounding`.

    Source: transformers `modeling_tvp.py`.
    """
    embed = Axis("embed", c.d_model)
    seen = (
        c.backbone.module("backbone", layout=c.layout, stream="encoder"),
        convolution("grid_encoder_conv", embed, Axis("channels", c.d_backbone), THREE, THREE, bias=False),
    )
    prompt = Param("text_prompt", (ONE, Axis("prompts", N_PROMPTS), embed), component="embedding")
    model = (
        prompt,
        Module("vision_model", seen),
        Module("embeddings", _tables(c, embed)),
        Module("visual_embeddings", _visual_tables(c, embed)),
        Module("encoder.layer", _layer(c, embed), repeat=c.n_layers),
        pooled("pooler.dense", embed, embed),
        Module("visual_prompter", _borders(c), component="embedding"),
    )
    if c.task == "base":
        return Module("", model)
    layers = (
        linear("layer_0", 2 * embed, embed, bias=True),
        linear("layer_1", Axis("ends", 2), 2 * embed, bias=True),
    )
    return Module("", (Module("model", model), Module("video_grounding_head", layers, component="head")))


def _tables(c: TvpConfig, embed: Axis) -> Children:
    return (
        embedding("word_embeddings", Axis("vocab", c.vocab_size), embed),
        embedding("position_embeddings", Axis("context", c.n_ctx), embed, component="position"),
        embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),
        layer_norm("layer_norm", embed),
    )


def _visual_tables(c: TvpConfig, embed: Axis) -> Children:
    rows = {"": c.n_ctx, "row_": c.n_rows, "col_": c.n_columns}
    return (
        *(
            embedding(f"{name}position_embeddings", Axis("context", size), embed, component="position")
            for name, size in rows.items()
        ),
        embedding("token_type_embeddings", ONE, embed),
        layer_norm("layer_norm", embed),
    )


def _layer(c: TvpConfig, embed: Axis) -> Children:
    heads, ffn = heads_axis("heads", c.n_heads, c.d_head), Axis("ffn", c.d_ff)
    attention = (
        *(linear(name, heads, embed, bias=True) for name in ("query", "key", "value")),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear("dense", embed, heads, bias=True),
        layer_norm("layer_norm", embed),
    )
    return (
        Module("attention", attention, component="attention"),
        linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
        Op("act", c.act, {"width": ffn.size}, component="mlp"),
        linear("output.dense", embed, ffn, bias=True, component="mlp"),
        layer_norm("output.layer_norm", embed),
    )


def _borders(c: TvpConfig) -> Children:
    """Pixels around each frame, which take the place of those that were there."""
    border, side, inner = Axis("border", c.border), Axis("side", c.image_side), Axis("inner", c.inner_side)
    sides = {"up": (border, side), "down": (border, side), "left": (inner, border), "right": (inner, border)}
    return tuple(
        Param(f"pad_{name}", (ONE, Axis("frames", c.n_frames), Axis("colours", 3), *axes))
        for name, axes in sides.items()
    )


ARCHITECTURES = {"tvp": Architecture(TvpConfig, tvp)}


def _tvp(hf: HFConfig) -> Reading:
    if not hf.cls.endswith(("Model", "ForVideoGrounding")):
        raise UnknownName("class", hf.cls, ("TvpModel", "TvpForVideoGrounding"), hint="of a tvp")
    kind = hf["visual_prompter_type"]
    if kind != "framepad":
        raise InvalidConfig(f"visual_prompter_type = {clip(repr(kind))} is not described; framepad is")
    backbone = backbone_of(hf, "resnet")
    side, border = whole(hf, "max_img_size"), whole(hf, "visual_prompt_size")
    given = hf.fill(
        TvpConfig,
        task="base" if hf.cls.endswith("Model") else "video_grounding",
        n_labels=2,
        backbone=bare(backbone),
        d_backbone=last_width(backbone),
        n_token_types=hf["type_vocab_size"],
        n_rows=hf["max_grid_row_position_embeddings"],
        n_columns=hf["max_grid_col_position_embeddings"],
        n_frames=hf["num_frames"],
        image_side=side,
        border=border,
        inner_side=side - 2 * border,
        act=hf["hidden_act"],
    )
    return Reading("tvp", given)


HF_READERS = {"tvp": _tvp}
