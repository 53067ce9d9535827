"""TIPSv2: a ViT with a token for the image and one for its description, and a tower over words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import count_of, listed_layers, positive, whole
from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import CLIP, TowerConfig, TowerNames, blocks
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.vit_types import DINO, SWIGLU, read_vit
from sizer.core.config import Config, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
VISION_FILES = DINO._replace(
    block="blocks",
    attention="attn",
    qkv=("qkv",),
    output="proj",
    mlp=("mlp", "c_fc", "c_proj"),
    scales=("ls1.gamma", "ls2.gamma"),
)
# What files say in place of a name in memory.
VISION_STORED = (
    (r"^embeddings\.(cls_token|mask_token|register_tokens)", r"\1"),
    (r"^embeddings\.position_embeddings", "pos_embed"),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^layernorm\.", "norm."),
)
TEXT_FILES = TowerNames(
    block="transformer.resblocks",
    attention="attn",
    qkv=("in_proj",),
    mlp=("mlp", "c_fc", "c_proj"),
    norms=("ln_1", "", "ln_2", ""),
)
TEXT_STORED = (
    (r"\.in_proj\.", ".in_proj_"),
    (r"^embeddings\.token_embedding\.", "token_embedding."),
    (r"^final_layer_norm\.", "ln_final."),
)


@configuration
class Tipsv2TextConfig(TowerConfig):
    """Sizes of the tower over words."""

    vocab_size: Dim
    n_ctx: Dim


@configuration
class Tipsv2Config(Config):
    """The towers, which are of one width."""

    vision: Part
    text: Part
    task: str = "base"

    letters = {"vision": "img", "text": "txt"}


def tipsv2_text(c: Tipsv2TextConfig) -> Module:
    """The tower over words, whose positions are computed. Source: transformers `modeling_tipsv2.py`."""
    embed, rows = Axis("embed", c.d_model), Axis("context", c.n_ctx)
    in_memory = c.layout == "transformers"
    tables = (
        buffer("position_embedding.weights", rows, embed, persistent=False),
        buffer("position_ids", ONE, rows, persistent=False),
    )
    words = embedding("token_embedding", Axis("vocab", c.vocab_size), embed)
    own = c if in_memory else replace(c, module_names=TEXT_FILES)
    tree = Module(
        "",
        (
            Module("embeddings", (words, *(tables if in_memory else ()))),
            blocks(own),
            layer_norm("final_layer_norm", embed),
        ),
    )
    return tree if in_memory else stored_names(tree, TEXT_STORED)


def tipsv2(c: Tipsv2Config) -> Module:
    """TIPSv2. Source: transformers `modeling_tipsv2.py`, and its table of conversions for files."""
    ending = "model" if c.layout == "transformers" else "encoder"
    return Module(
        "",
        (
            Param("temperature", (), component="head"),
            c.text.module(f"text_{ending}", layout=c.layout),
            c.vision.module(f"vision_{ending}", layout=c.layout, stream="encoder"),
        ),
    )


ARCHITECTURES = {
    "tipsv2": Architecture(Tipsv2Config, tipsv2),
    "tipsv2_text": Architecture(Tipsv2TextConfig, tipsv2_text),
}


def _vision(hf: HFConfig) -> Reading:
    gated = bool(hf["use_swiglu_ffn"])
    fused = ("mlp", "w12", "w3")
    hidden = int(whole(hf, "hidden_size") * positive("mlp_ratio", hf["mlp_ratio"]))
    return read_vit(
        hf,
        # Three matrices in place of two, of two thirds of the width, rounded up to a multiple of eight.
        d_ff=(int(hidden * 2 / 3) + 7) // 8 * 8 if gated else hidden,
        d_head=whole(hf, "head_dim") if hf.given("head_dim") else None,
        gated=gated,
        act="silu" if gated else activation(hf, "hidden_act"),
        mask_token=True,
        flat_mask=True,
        n_registers=count_of(hf, "num_register_tokens"),
        module_names=DINO._replace(mlp=SWIGLU) if gated else DINO,
        file_names=VISION_FILES._replace(mlp=fused) if gated else VISION_FILES,
        stored=VISION_STORED,
    )


def _text(hf: HFConfig) -> Reading:
    given = {
        "task": "base",
        "d_model": whole(hf, "hidden_size"),
        "n_layers": listed_layers(hf),
        "n_heads": whole(hf, "num_attention_heads"),
        "d_ff": whole(hf, "intermediate_size"),
        "vocab_size": whole(hf, "vocab_size"),
        "n_ctx": whole(hf, "max_position_embeddings"),
        "act": activation(hf, "hidden_act"),
        "module_names": CLIP,
    }
    return Reading("tipsv2_text", given)


def _tipsv2(hf: HFConfig) -> Reading:
    text = hf.nested("text_config", "tipsv2_text_model")
    vision = hf.nested("vision_config", "tipsv2_vision_model")
    for part, model_type in ((text, "tipsv2_text_model"), (vision, "tipsv2_vision_model")):
        if part.model_type != model_type:
            raise InvalidConfig(f"{part.name} is a {part.model_type}; only {model_type} is read")
    if (words := whole(text, "hidden_size")) != (image := whole(vision, "hidden_size")):
        raise InvalidConfig(f"hidden_size is {words} in text_config and {image} in vision_config")
    return Reading("tipsv2", {"task": "base", "vision": part_of(vision), "text": part_of(text)})


HF_READERS = {"tipsv2": _tipsv2, "tipsv2_text_model": _text, "tipsv2_vision_model": _vision}
