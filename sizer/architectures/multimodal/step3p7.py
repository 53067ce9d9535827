"""Step 3.7: a CLIP-like tower with rotary positions too, whose tokens two convolutions merge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import TowerNames, convolution
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes, vision_tower
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="layers",
    norms=("layernorm_before", "", "layernorm_after", ""),
    scales=("lambda_1", "lambda_2"),
)
TOWER = (
    (r"^embeddings\.patch_embedding\.", "conv1."),
    (r"^embeddings\.position_embedding\.weight", "positional_embedding"),
    (r"^pre_layernorm\.", "ln_pre."),
    (r"^downsampler", "vit_downsampler"),
    (r"^layers\.", "transformer.resblocks."),
    (r"\.lambda_(1|2)", r".ls_\1.gamma"),
    (r"\.self_attn\.", ".attn."),
    (r"\.in_proj\.", ".in_proj_"),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    (r"\.layernorm_before\.", ".ln_1."),
    (r"\.layernorm_after\.", ".ln_2."),
)
FILES = (
    (r"^model\.language_model\.", "model."),
    (r"^model\.vision_model\.", "vision_model."),
    (r"^model\.multi_modal_projector\.", "vit_large_projector."),
)
PLACES = PartNames(vision="vision_model")


def step3_vision(c: VisionConfig) -> Module:
    """The tower of Step 3.7, with the names of `Step3p7VisionModel`.

    Source: transformers `modeling_step3p7.py`.
    """
    stored = c.layout == "checkpoint"
    c = replace(c, module_names=NAMES._replace(qkv=("in_proj",))) if stored else c
    embed, kernel = Axis("embed", c.d_model), Axis("kernel", 3)
    merged = (
        convolution("downsampler1", 2 * embed, embed, kernel, kernel, component="other"),
        convolution("downsampler2", 4 * embed, 2 * embed, kernel, kernel, component="other"),
    )
    tree = Module("", (*vision_tower(c).children, *merged))
    return stored_names(tree, TOWER) if stored else tree


def step3p7(c: MultimodalConfig) -> Module:
    """Step 3.7 (StepFun 2026), with the names of `Step3p7ForConditionalGeneration`.

    Source: transformers `modeling_step3p7.py`.
    """
    embed, joined = Axis("embed", c.d_model), Axis("vision", c.d_joined)
    matrix = linear(c.places.bridge, embed, joined, bias=c.bridge_bias, component="other")
    return multimodal(c, matrix._replace(stream="encoder"))


ARCHITECTURES = {
    "step3_vision": Architecture(VisionConfig, step3_vision),
    "step3p7": Architecture(MultimodalConfig, step3p7),
}


def _width(hf: HFConfig) -> int:
    """The width of the tower, which the first files call otherwise than transformers."""
    return whole(hf, "width" if hf.given("width") else "hidden_size")


def _vision(hf: HFConfig) -> Reading:
    """An axis of the image rotates half of each head."""
    width, n_heads = _width(hf), hf.get("heads", hf["num_attention_heads"])
    half = width // n_heads // 2
    given = vision_sizes(
        hf,
        d_model=width,
        n_layers=hf.get("layers", hf["num_hidden_layers"]),
        n_heads=n_heads,
        d_ff=int(width * hf["mlp_ratio"]),
        n_patches=patches(hf),
        d_rotary=half + half % 2,
        patch_bias=False,
        pre_norm="pre_layernorm",
        post_norm="",
        module_names=NAMES,
    )
    return Reading("step3_vision", given)


def _step3p7(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    return reading(
        hf,
        "step3p7",
        vision=vision,
        d_joined=4 * _width(vision),
        bridge_bias=bool(hf["projector_bias"]),
        places=PLACES,
        stored=FILES,
    )


HF_READERS = {"step3p5_vision": _vision, "step3p7": _step3p7}
