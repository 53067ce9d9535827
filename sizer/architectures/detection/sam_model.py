"""SAM: the tower over an image, and a small decoder that cuts out what a prompt points at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import few, whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, embedding, layer_norm, linear
from sizer.core.tree import Axis, Buffer, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
TWO = Axis("kernel", 2)


@configuration
class SamConfig(Config):
    """The tower, and the sizes of the prompts and of the decoder.

    `n_features`: random directions that tell a place. `n_points`: kinds of points. `n_masks`: masks
    that are drawn. `d_inner`, `d_final`: widths of the attention between prompts and image, in the
    blocks and after them. `d_quarter`, `d_eighth`, `d_mask_quarter`: widths on the way to a mask, and of
    a mask that is given. `n_between`: matrices between the two of an MLP.
    """

    vision: Part
    d_model: Dim
    n_features: Dim
    n_points: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    d_inner: Dim
    d_final: Dim
    n_masks: Dim
    d_iou: Dim
    d_mask: Dim
    d_head: Dim | None = None
    d_inner_head: Dim | None = None
    d_final_head: Dim | None = None
    d_quarter: Dim | None = None
    d_eighth: Dim | None = None
    d_mask_quarter: Dim | None = None
    n_between: Dim | None = None
    iou_depth: int = 3
    tie_embeddings: bool = True
    act: str = "relu"
    task: str = "base"

    letters = {
        "vision": "img",
        "n_features": "Nf",
        "n_points": "Np",
        "d_inner": "Di",
        "d_final": "Dfi",
        "n_masks": "Nm",
        "d_iou": "Du",
        "d_mask": "Cm",
        "d_inner_head": "Dih",
        "d_final_head": "Dfh",
        "d_quarter": "Dq",
        "d_eighth": "De",
        "d_mask_quarter": "Cq",
        "n_between": "Nb",
    }
    meanings = {
        "n_features": "directions that tell a place",
        "n_points": "kinds of points",
        "d_inner": "width of the attention between prompts and image",
        "d_final": "width of the last of it",
        "n_masks": "masks that are drawn",
        "d_iou": "hidden width of what rates them",
        "d_mask": "channels of a mask that is given",
        "d_inner_head": "width of one of its heads",
        "d_final_head": "width of a head of the last of it",
        "d_quarter": "a quarter of the width",
        "d_eighth": "an eighth of the width",
        "d_mask_quarter": "a quarter of the mask's channels",
        "n_between": "matrices between the two of an MLP",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        quotients = {
            "d_head": (self.d_model, self.n_heads, "d_model / n_heads"),
            "d_inner_head": (self.d_inner, self.n_heads, "d_inner / n_heads"),
            "d_final_head": (self.d_final, self.n_heads, "d_final / n_heads"),
            "d_quarter": (self.d_model, 4, "d_model / 4"),
            "d_eighth": (self.d_model, 8, "d_model / 8"),
            "d_mask_quarter": (self.d_mask, 4, "d_mask / 4"),
        }
        for name, (over, under, names) in quotients.items():
            self.derive(**{name: divide(over, under, names=names)})


def sam(c: SamConfig) -> Module:
    """SAM (arXiv:2304.02643), with the names of `SamModel`. Source: transformers `modeling_sam.py`."""
    directions = (Axis("axes", 2), Axis("features", c.n_features))
    name = "positional_embedding"
    shared = Param(name, directions, tied_to=f"shared_image_embedding.{name}" if c.tie_embeddings else None)
    return Module(
        "",
        (
            Module("shared_image_embedding", (Param(name, directions, component="position"),)),
            c.vision.module("vision_encoder", layout=c.layout, stream="encoder"),
            Module("prompt_encoder", prompts_of(c, shared)),
            Module("mask_decoder", decoder_of(c)),
        ),
    )


def prompts_of(c: SamConfig, shared: Param | Buffer) -> Children:
    """What makes tokens of points, boxes and a mask."""
    embed, narrow, wide = Axis("embed", c.d_model), Axis("narrow", c.d_mask_quarter), Axis("mask", c.d_mask)
    mask = (
        convolution("conv1", narrow, ONE, TWO, TWO),
        layer_norm("layer_norm1", narrow),
        convolution("conv2", wide, narrow, TWO, TWO),
        layer_norm("layer_norm2", wide),
        convolution("conv3", embed, wide, ONE, ONE),
    )
    return (
        Module("shared_embedding", (shared,), component="position"),
        Module("mask_embed", mask),
        embedding("no_mask_embed", ONE, embed),
        embedding("point_embed", ONE, embed)._replace(repeat=c.n_points),
        embedding("not_a_point_embed", ONE, embed),
    )


def decoder_of(c: SamConfig) -> Children:
    """What draws masks."""
    embed, quarter = Axis("embed", c.d_model), Axis("quarter", c.d_quarter)
    eighth = Axis("eighth", c.d_eighth)
    masks = Axis("masks", c.n_masks)
    return (
        embedding("iou_token", ONE, embed),
        embedding("mask_tokens", masks, embed),
        Module("transformer", _two_way(c, embed)),
        # Transposed convolutions: their inputs come first.
        upscale("upscale_conv1", embed, quarter),
        layer_norm("upscale_layer_norm", quarter),
        upscale("upscale_conv2", quarter, eighth),
        steps("output_hypernetworks_mlps", embed, embed, eighth, 3)._replace(repeat=c.n_masks),
        steps("iou_prediction_head", embed, Axis("iou", c.d_iou), masks, c.iou_depth),
    )


def upscale(name: str, inp: Axis, out: Axis) -> Module:
    """A transposed convolution, which doubles the sides."""
    leaves = (Param("weight", (inp, out, TWO, TWO), "matmul"), Param("bias", (out,)))
    return Module(name, leaves, component="mixer", kind="conv")


def steps(name: str, embed: Axis, hidden: Axis, out: Axis, depth: int) -> Module:
    """As many matrices, with activations between them."""
    layers = tuple(linear(f"layers.{i}", hidden, hidden, bias=True) for i in range(depth - 2))
    first, last = linear("proj_in", hidden, embed, bias=True), linear("proj_out", out, hidden, bias=True)
    return Module(name, (first, *layers, last), component="head")


def _two_way(c: SamConfig, embed: Axis) -> Children:
    ffn = Axis("ffn", c.d_ff)
    between: Children = ()
    if c.n_between is not None:
        between = (linear("layers", ffn, ffn, bias=True)._replace(repeat=c.n_between),)
    mlp = (
        linear("lin1", ffn, embed, bias=True),
        Op("act", c.act, {"width": ffn.size}),
        *between,
        linear("lin2", embed, ffn, bias=True),
    )
    block = (
        _attention("self_attn", embed, c.n_heads, c.d_head),
        layer_norm("layer_norm1", embed),
        _attention("cross_attn_token_to_image", embed, c.n_heads, c.d_inner_head),
        layer_norm("layer_norm2", embed),
        Module("mlp", mlp, component="mlp"),
        layer_norm("layer_norm3", embed),
        _attention("cross_attn_image_to_token", embed, c.n_heads, c.d_inner_head),
        layer_norm("layer_norm4", embed),
    )
    return (
        Module("layers", block, repeat=c.n_layers),
        _attention("final_attn_token_to_image", embed, c.n_heads, c.d_final_head),
        layer_norm("layer_norm_final_attn", embed),
    )


def _attention(name: str, embed: Axis, n: Dim, d_head: Dim) -> Module:
    heads = heads_axis("heads", n, d_head)
    parts = (
        *(linear(f"{letter}_proj", heads, embed, bias=True) for letter in "qkv"),
        *attention_core(n, n, d_head, cached=False),
        linear("out_proj", embed, heads, bias=True),
    )
    return Module(name, parts, component="attention")


ARCHITECTURES = {"sam": Architecture(SamConfig, sam)}


def decoder_fields(hf: HFConfig) -> dict[str, Any]:
    """The fields of the prompts and of what draws masks."""
    prompts, decoder = hf.nested("prompt_encoder_config"), hf.nested("mask_decoder_config")
    width, depth = whole(decoder, "hidden_size"), whole(decoder, "iou_head_depth")
    if prompts["hidden_size"] != width:
        raise InvalidConfig(f"prompt_encoder_config is {prompts['hidden_size']} wide and the decoder {width}")
    if not 2 <= depth <= 64:
        raise InvalidConfig(f"iou_head_depth = {depth} is not between 2 and 64")
    return {
        "d_model": width,
        "n_points": few(prompts, "num_point_embeddings"),
        "n_layers": decoder["num_hidden_layers"],
        "n_heads": decoder["num_attention_heads"],
        "d_ff": decoder["mlp_dim"],
        "d_final": width // whole(decoder, "attention_downsample_rate"),
        "n_masks": few(decoder, "num_multimask_outputs") + 1,
        "d_iou": decoder["iou_head_hidden_dim"],
        "d_mask": prompts["mask_input_channels"],
        "iou_depth": depth,
        "act": decoder["hidden_act"],
    }


def read_sam(hf: HFConfig) -> Reading:
    """The fields of a SAM."""
    vision, fields = hf.nested("vision_config"), decoder_fields(hf)
    given = {
        **fields,
        # As a model of its own the tower has a module around it; here it has none.
        "vision": Part("sam_vision", bare(vision).given),
        "tie_embeddings": bool(hf["tie_word_embeddings"]),
        "n_features": vision["num_pos_feats"],
        # The blocks halve it whatever the file says, which holds for the last attention alone.
        "d_inner": fields["d_model"] // 2,
    }
    return Reading("sam", given)


HF_READERS = {"sam": read_sam}
