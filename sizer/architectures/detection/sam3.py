"""SAM 3: finds all that a phrase names. A tower, a text, and a DETR with prompts, which cuts out masks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import few, positive
from sizer.architectures.detection.vitdet import THREE
from sizer.architectures.multimodal.contrastive import projected_text
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import ONE
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

BOX = Axis("box", 4)
# Labels of a box that is given: a thing to find, or one to leave out.
LABELS = Axis("labels", 2)
PARTS = ("geometry_encoder_config", "detr_encoder_config", "detr_decoder_config", "mask_decoder_config")


@configuration
class Sam3Config(Config):
    """The towers, and sizes of what reads boxes ("geometry"), of encoder, decoder and what draws masks.

    `n_queries`: things that an image may have. `roi_side`: places of a box that are read along a side.
    `n_stages`: convolutions on the way to a mask.
    """

    vision: Part
    text: Part
    d_text: Dim
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    n_encoder_layers: Dim
    n_encoder_heads: Dim
    d_ff_encoder: Dim
    n_geometry_layers: Dim
    n_geometry_heads: Dim
    d_ff_geometry: Dim
    n_mask_heads: Dim
    n_queries: Dim
    roi_side: Dim
    n_stages: Dim
    d_head: Dim | None = None
    d_encoder_head: Dim | None = None
    d_geometry_head: Dim | None = None
    d_mask_head: Dim | None = None
    act: str = "relu"
    encoder_act: str = "relu"
    geometry_act: str = "relu"
    task: str = "base"

    letters = {
        "vision": "img",
        "text": "txt",
        "d_text": "D_txt",
        "n_encoder_layers": "L_enc",
        "n_encoder_heads": "H_enc",
        "d_ff_encoder": "F_enc",
        "n_geometry_layers": "L_geo",
        "n_geometry_heads": "H_geo",
        "d_ff_geometry": "F_geo",
        "n_mask_heads": "H_msk",
        "n_queries": "Nq",
        "roi_side": "Sr",
        "n_stages": "Ns",
        "d_encoder_head": "Dh_enc",
        "d_geometry_head": "Dh_geo",
        "d_mask_head": "Dh_msk",
    }
    meanings = {
        "d_text": "width of the text",
        "n_encoder_layers": "blocks of the encoder",
        "n_encoder_heads": "heads of the encoder",
        "d_ff_encoder": "hidden width of the encoder's MLP",
        "n_geometry_layers": "blocks over the boxes that are given",
        "n_geometry_heads": "heads of these blocks",
        "d_ff_geometry": "hidden width of their MLP",
        "n_mask_heads": "heads of what draws masks",
        "n_queries": "things that are looked for",
        "roi_side": "places along a side of a box",
        "n_stages": "convolutions on the way to a mask",
        "d_encoder_head": "width of a head of the encoder",
        "d_geometry_head": "width of a head over boxes",
        "d_mask_head": "width of a head of what draws masks",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        heads = {"": "n_heads", "encoder_": "n_encoder_heads"}
        heads |= {"geometry_": "n_geometry_heads", "mask_": "n_mask_heads"}
        for part, under in heads.items():
            self.derive_quotient(f"d_{part}head", "d_model", under)


def sam3(c: Sam3Config) -> Module:
    """SAM 3 (arXiv:2511.16719), with the names of `Sam3Model`. Source: transformers `modeling_sam3.py`."""
    embed = Axis("embed", c.d_model)
    heads, width = (c.n_encoder_heads, c.d_encoder_head), c.d_ff_encoder
    read = _layers(c.n_encoder_layers, embed, heads, width, c.encoder_act)
    return Module(
        "",
        (
            c.vision.module("vision_encoder", layout=c.layout, stream="encoder"),
            c.text.module("text_encoder", layout=c.layout),
            linear("text_projection", embed, Axis("text", c.d_text), bias=True, component="other"),
            Module("geometry_encoder", _geometry(c, embed)),
            Module("detr_encoder", (read,), stream="encoder"),
            Module("detr_decoder", _decoder(c, embed)),
            Module("mask_decoder", _masks(c, embed)),
            Module("dot_product_scoring", _scores(c, embed), component="head"),
        ),
    )


def attention(name: str, embed: Axis, n: Dim, d_head: Dim, *, cross: bool = False) -> Module:
    """Attention with biases, whose keys are the encoder's tokens if `cross`."""
    heads, stream = heads_axis("heads", n, d_head), "encoder" if cross else ""
    parts: Children = (
        linear("q_proj", heads, embed, bias=True),
        linear("k_proj", heads, embed, bias=True)._replace(stream=stream),
        linear("v_proj", heads, embed, bias=True)._replace(stream=stream),
        *attention_core(n, n, d_head, cached=False, cross=cross),
        linear("o_proj", embed, heads, bias=True),
    )
    return Module(name, parts, component="attention")


def _layers(repeat: Dim, embed: Axis, heads: tuple[Dim, Dim], width: Dim, act: str) -> Module:
    """Blocks that read one another and the prompt."""
    parts = (
        layer_norm("layer_norm1", embed),
        attention("self_attn", embed, *heads),
        layer_norm("layer_norm2", embed),
        attention("cross_attn", embed, *heads, cross=True),
        layer_norm("layer_norm3", embed),
        mlp("mlp", Axis("ffn", width), embed, act=act, names=("fc1", "fc2")),
    )
    return Module("layers", parts, repeat=repeat)


def _geometry(c: Sam3Config, embed: Axis) -> Children:
    """What a user drew: boxes by their sides, by what is in them and by where they are."""
    side, heads = Axis("kernel", c.roi_side), (c.n_geometry_heads, c.d_geometry_head)
    return (
        embedding("label_embed", LABELS, embed),
        embedding("cls_embed", ONE, embed),
        linear("boxes_direct_project", embed, BOX, bias=True, component="embedding"),
        convolution("boxes_pool_project", embed, embed, side, side),
        # Width and height stand beside the position.
        linear("boxes_pos_enc_project", embed, embed + Axis("size", 2), bias=True, component="embedding"),
        layer_norm("vision_layer_norm", embed),
        linear("final_proj", embed, embed, bias=True, component="embedding"),
        layer_norm("prompt_layer_norm", embed),
        _layers(c.n_geometry_layers, embed, heads, c.d_ff_geometry, c.geometry_act),
        layer_norm("output_layer_norm", embed),
    )


def _decoder(c: Sam3Config, embed: Axis) -> Children:
    queries, heads, places = Axis("queries", c.n_queries), Axis("heads", c.n_heads), Axis("ends", 2)
    block: list[Module] = []
    for name in ("self_attn", "text_cross_attn", "vision_cross_attn"):
        cross = name != "self_attn"
        block.append(attention(name, embed, c.n_heads, c.d_head, cross=cross))
        block.append(layer_norm(f"{name}_layer_norm", embed))
    block.append(mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act, names=("fc1", "fc2")))
    return (
        Module("layers", (*block, layer_norm("mlp_layer_norm", embed)), repeat=c.n_layers),
        layer_norm("output_layer_norm", embed),
        steps("box_head", embed, embed, embed, BOX),
        embedding("query_embed", queries, embed, component="position"),
        embedding("reference_points", queries, BOX, component="position"),
        embedding("presence_token", ONE, embed),
        steps("presence_head", embed, embed, embed, ONE),
        layer_norm("presence_layer_norm", embed),
        steps("ref_point_head", 2 * embed, embed, embed),
        *(steps(f"box_rpb_embed_{x}", places, embed, heads) for x in "xy"),
    )


def steps(name: str, *widths: Axis) -> Module:
    """Matrices from each width to the next."""
    pairs = enumerate(pairwise(widths), 1)
    layers = tuple(linear(f"layer{i}", out, inp, bias=True) for i, (inp, out) in pairs)
    return Module(name, layers, component="head")


def _masks(c: Sam3Config, embed: Axis) -> Children:
    finer = (
        convolution("conv_layers", embed, embed, THREE, THREE, component="head")._replace(repeat=c.n_stages),
        layer_norm("norms", embed)._replace(kind="group_norm", repeat=c.n_stages),
    )
    embedder = tuple(linear(f"layers.{i}", embed, embed, bias=True, component="head") for i in range(3))
    return (
        Module("pixel_decoder", finer),
        Module("mask_embedder", embedder),
        convolution("instance_projection", embed, embed, ONE, ONE, component="head"),
        convolution("semantic_projection", ONE, embed, ONE, ONE, component="head"),
        attention("prompt_cross_attn", embed, c.n_mask_heads, c.d_mask_head, cross=True),
        layer_norm("prompt_cross_attn_norm", embed),
    )


def _scores(c: Sam3Config, embed: Axis) -> Children:
    """How well what was found fits the text."""
    return (
        steps("text_mlp", embed, Axis("ffn", c.d_ff), embed),
        layer_norm("text_mlp_out_norm", embed),
        linear("text_proj", embed, embed, bias=True),
        linear("query_proj", embed, embed, bias=True),
    )


ARCHITECTURES = {"sam3": Architecture(Sam3Config, sam3)}


def text_tower(hf: HFConfig) -> Part:
    """The text of a CLIP with its projection, which stands unused in the whole."""
    text = hf.nested("text_config")
    if text.model_type != "clip_text_model":
        raise InvalidConfig(f"text_config: {clip(text.model_type)} is not described; a clip_text_model is")
    found = projected_text(text)
    return Part(found.architecture, found.given)


def sam3_reading(hf: HFConfig, text: Part) -> Reading:
    """The fields of a SAM 3 around that text."""
    if not hf.cls.endswith("Model"):
        raise UnknownName("class", hf.cls, ("Sam3Model",), hint=f"of a {hf.model_type}")
    geometry, encoder, decoder, mask = (hf.nested(key) for key in PARTS)
    width = decoder["hidden_size"]
    for part, key in ((geometry, PARTS[0]), (encoder, PARTS[1]), (mask, PARTS[3])):
        if part["hidden_size"] != width:
            widths = (clip(repr(other["hidden_size"])) for other in (part, decoder))
            raise InvalidConfig("{} is {} wide and detr_decoder_config {}".format(key, *widths))
    if positive("hidden_size", width) % 8:
        raise InvalidConfig(f"hidden_size = {width} of mask_decoder_config does not part into 8 groups")
    vision = hf.nested("vision_config")
    if vision.model_type != "sam3_vision_model":
        raise InvalidConfig(
            f"vision_config: {clip(vision.model_type)} is not described; a sam3_vision_model is"
        )
    fields = {
        "vision": bare(vision),
        "text": text,
        "d_text": hf.nested("text_config")["hidden_size"],
        "d_model": width,
        "n_mask_heads": mask["num_attention_heads"],
        "n_queries": decoder["num_queries"],
        "roi_side": geometry["roi_size"],
        "n_stages": few(mask, "num_upsampling_stages"),
    }
    for name, part in (("", decoder), ("encoder", encoder), ("geometry", geometry)):
        fields[f"n_{name}_layers".replace("__", "_")] = part["num_layers"]
        fields[f"n_{name}_heads".replace("__", "_")] = part["num_attention_heads"]
        fields[f"d_ff_{name}".rstrip("_")] = part["intermediate_size"]
        fields[f"{name}_act".lstrip("_")] = part["hidden_act"]
    return Reading("sam3", fields)


def _sam3(hf: HFConfig) -> Reading:
    return sam3_reading(hf, text_tower(hf))


HF_READERS = {"sam3": _sam3}
