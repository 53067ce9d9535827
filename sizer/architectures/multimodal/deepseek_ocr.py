"""DeepSeek-OCR 2 and Unlimited-OCR: SAM reads a page, and a second encoder reads what SAM gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading
from sizer.architectures.moe.reading import moe_reading, sparse_layers
from sizer.architectures.multimodal.texts import qwen2_vl_text
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import CLIP, convolution
from sizer.architectures.vision.clip import patches, vision_sizes
from sizer.architectures.vision.sam import sam_reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Leaf, Module, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Learned queries of an image of 768 and of 1024 pixels a side.
QUERIES = {"query_768_resolution": 144, "query_1024_resolution": 256}

_SAM = (
    (r"(\.layers\.\{\})\.layer_norm(1|2)\.", r"\1.norm\2."),
    (r"sam_encoder\.layers\.", "sam_encoder.blocks."),
    (r"patch_embed\.projection\.", "patch_embed.proj."),
    (r"sam_encoder\.neck\.conv1\.", "sam_encoder.neck.0."),
    (r"sam_encoder\.neck\.layer_norm1\.", "sam_encoder.neck.1."),
    (r"sam_encoder\.neck\.conv2\.", "sam_encoder.neck.2."),
    (r"sam_encoder\.neck\.layer_norm2\.", "sam_encoder.neck.3."),
    (r"sam_encoder\.proj\.conv1\.", "sam_encoder.net_2."),
    (r"sam_encoder\.proj\.conv2\.", "sam_encoder.net_3."),
    (r"vision_tower\.sam_encoder\.", "sam_model."),
)
_TEXT = (
    (r"language_model\.(embed_tokens|layers|norm)\.", r"\1."),
    (r"multi_modal_projector\.", "projector.layers."),
    (r"view_separator", "view_seperator"),
)
DEEPSEEK = (
    *_SAM,
    (r"vision_tower\.vision_encoder\.", "qwen2_model.model.model."),
    (r"vision_tower\.query_(768|1024)_resolution\.", r"qwen2_model.query_\1."),
    *_TEXT,
)
UNLIMITED = (
    (r"vision_encoder\.encoder\.layers\.", "vision_model.transformer.layers."),
    (r"(vision_model\.transformer\.layers\.\{\}\.)layer_norm(1|2)", r"\1layer+norm\2"),
    *_SAM,
    (r"layer\+norm", "layer_norm"),
    (r"vision_tower\.vision_(model|encoder)\.", "vision_model."),
    *_TEXT,
)


@configuration
class OcrConfig(MultimodalConfig):
    """The parts: SAM, what shrinks its channels, and the second encoder.

    `queried`: the second encoder is a language model's, which answers learned queries; otherwise
    it is CLIP's, and the text reads it and SAM side by side.
    """

    sam: Part
    encoder: Part
    d_neck: Dim
    d_first: Dim
    d_second: Dim
    d_encoder: Dim
    queried: bool = False

    letters = {
        **MultimodalConfig.letters,
        "sam": "sam",
        "encoder": "enc",
        "d_neck": "D_nk",
        "d_first": "D_s1",
        "d_second": "D_s2",
        "d_encoder": "D_enc",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "d_neck": "channels that SAM gives",
        "d_first": "channels after the first convolution that follows",
        "d_second": "channels after the second",
        "d_encoder": "width of the second encoder",
    }


def deepseek_ocr(c: OcrConfig) -> Module:
    """DeepSeek-OCR 2, with the names of `DeepseekOcr2ForConditionalGeneration`.

    Source: transformers `modeling_deepseek_ocr2.py`, `modeling_unlimited_ocr.py`.
    """
    embed, width, three = Axis("embed", c.d_model), Axis("encoder", c.d_encoder), Axis("kernel", 3)
    neck, first, second = Axis("neck", c.d_neck), Axis("first", c.d_first), Axis("second", c.d_second)
    shrink = (
        convolution("conv1", first, neck, three, three, bias=False, component="other"),
        convolution("conv2", second, first, three, three, bias=False, component="other"),
    )
    sam = c.sam.module("sam_encoder", layout=c.layout)
    encoder = c.encoder
    if not c.queried and c.layout == "checkpoint":
        encoder = encoder._replace(given={**encoder.given, "module_names": CLIP._replace(qkv=("qkv_proj",))})
    queries = tuple(
        embedding(name, Axis("queries", rows), width) for name, rows in QUERIES.items() if c.queried
    )
    tower = Module(
        "vision_tower",
        (
            sam._replace(children=(*sam.children, Module("proj", shrink))),
            _without_input(encoder.module("vision_encoder", layout=c.layout)),
            *queries,
        ),
        stream="encoder",
    )
    joined = width if c.queried else second + width
    bridge = linear(c.places.bridge, embed, joined, bias=True, component="other")
    vectors: tuple[Leaf, ...] = (Param("view_separator", (embed,), component="embedding"),)
    if not c.queried:
        vectors = (*vectors, Param("image_newline", (embed,), component="embedding"))
    return multimodal(c, tower, bridge._replace(stream="encoder"), *vectors)


def _without_input(module: Module) -> Module:
    """An encoder that reads what another gives: no table of words, no convolution over pixels."""
    children = tuple(
        _without_input(child) if isinstance(child, Module) else child
        for child in module.children
        if child.name not in ("embed_tokens", "patch_embedding")
    )
    return module._replace(children=children)


ARCHITECTURES = {"deepseek_ocr": Architecture(OcrConfig, deepseek_ocr)}


def _read(hf: HFConfig, **given: Any) -> Reading:
    vision = hf.nested("vision_config")
    sam, encoder = vision.nested("sam_config"), vision.nested("encoder_config")
    channels = sam["downsample_channels"] or (512, 896)
    if not isinstance(channels, list | tuple) or len(channels) != 2:
        raise InvalidConfig(f"downsample_channels = {clip(repr(channels))} is not a list of two widths")
    return reading(
        hf,
        "deepseek_ocr",
        sam=bare(sam),
        encoder=bare(encoder),
        d_neck=sam["output_channels"],
        d_first=channels[0],
        d_second=channels[1],
        d_encoder=encoder["hidden_size"],
        **given,
    )


def _deepseek_ocr2(hf: HFConfig) -> Reading:
    return _read(hf, queried=True, stored=DEEPSEEK)


def _unlimited_ocr(hf: HFConfig) -> Reading:
    return _read(hf, stored=UNLIMITED)


def _clip_encoder(hf: HFConfig) -> Reading:
    given = vision_sizes(hf, n_patches=patches(hf), class_token=True, pre_norm="pre_layrnorm", post_norm="")
    return Reading("clip_vision", given)


def _text(hf: HFConfig) -> Reading:
    """DeepSeek's experts under plain attention; the first layer is dense."""
    bias = bool(hf["attention_bias"])
    more: dict[str, Any] = {} if hf["num_experts_per_tok"] else {"top_k": 1}
    return moe_reading(
        hf,
        naming="deepseek",
        mlp_layers=sparse_layers(hf, lambda i: i > 0),
        qkv_bias=bias,
        o_bias=bias,
        d_head=None,
        window=None,
        **more,
    )


HF_READERS = {
    "deepseek_ocr2": _deepseek_ocr2,
    "deepseek_ocr2_encoder": qwen2_vl_text,
    "deepseek_ocr2_sam_vision_model": sam_reading,
    "deepseek_ocr2_text": _text,
    "unlimited_ocr": _unlimited_ocr,
    "unlimited_ocr_sam_vision_model": sam_reading,
    "unlimited_ocr_text": _text,
    "unlimited_ocr_vision_encoder": _clip_encoder,
}
