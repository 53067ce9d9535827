"""dots3.note's towers: a ViT whose upper blocks route patches to ever more experts, and one for sound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import listed_layers, rotary_width, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    LLAMA_LIKE,
    Children,
    TowerConfig,
    TowerNames,
    blocks,
    convolution,
    feed_forward,
    norm,
    rotary,
)
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.tree import EACH, Axis, Layers, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

VISION = TowerNames(
    block="blocks",
    attention="attn",
    qkv=("qkv",),
    output="proj",
    mlp=("mlp", "gate_proj", "up_proj", "down_proj"),
    norms=("norm1", "", "norm2", ""),
    rotary="rotary_pos_emb",
)
VISION_FILES = VISION._replace(mlp=("mlp", "fc1", "fc3", "fc2"), norms=("norm_1", "", "norm_2", ""))
AUDIO = LLAMA_LIKE._replace(mlp=("mlp", "gate_up_proj", "down_proj"), rotary="rotary_embedding")
AUDIO_FILES = AUDIO._replace(
    output="out_proj",
    mlp=("", "fc1", "fc2"),
    norms=("self_attn_layer_norm", "", "final_layer_norm", ""),
)
# Experts of each block of the published model, after twenty-five dense ones.
PYRAMID = (*(None for _ in range(25)), *range(4, 65, 4), 64)


@configuration
class DotsVisionConfig(TowerConfig):
    """Sizes of the vision tower. `experts`: of each block, `kinds`: "dense" or "sparse"."""

    patch_size: Dim
    n_channels: Dim
    d_ff_expert: Dim
    top_k: Dim
    d_merged: Dim
    d_out: Dim
    experts: PerLayer
    kinds: Pattern

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_channels": "Nc",
        "d_merged": "Dm",
        "d_out": "Do",
        "experts": "E",
        "kinds": "L",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "d_merged": "width of a square of patches",
        "d_out": "width that the text is given",
    }


@configuration
class DotsAudioConfig(TowerConfig):
    """Sizes of the audio tower: `d_stem` channels before it, of which a frame leaves `d_joined`."""

    d_stem: Dim
    d_joined: Dim
    d_out: Dim

    letters = {**TowerConfig.letters, "d_stem": "Ds", "d_joined": "Dj", "d_out": "Do"}
    meanings = {
        **TowerConfig.meanings,
        "d_stem": "channels of the convolutions before the blocks",
        "d_joined": "numbers of a frame after them",
        "d_out": "width that the text is given",
    }


def vision(c: DotsVisionConfig) -> Module:
    """The vision tower, with the names of `Dots3NoteVisionModel`, or those of files.

    Source: transformers `modeling_dots3_note.py`.
    """
    in_file = c.layout == "checkpoint"
    embed, side, merged = Axis("embed", c.d_model), Axis("patch", c.patch_size), Axis("merged", c.d_merged)
    named = replace(c, module_names=VISION_FILES) if in_file else c
    dense = feed_forward(named)._replace(at=c.kinds.layers("dense"))
    sparse = (_experts(c, embed, count, layers) for count, layers in c.experts.groups())
    merger = Module(
        "adapter" if in_file else "merger",
        (
            layer_norm("ln_q", embed),
            linear("mlp.0", merged, merged, bias=True),
            Op("act", "gelu", {"width": merged.size}),
            linear("mlp.2", Axis("out", c.d_out), merged, bias=True),
        ),
        component="other",
    )
    return Module(
        "",
        (
            convolution("patch_embed.proj", embed, Axis("channels", c.n_channels), side, side, places=EACH),
            rms_norm("patch_embed.norm", embed),
            *rotary(c),
            blocks(named, mlps=(dense, *sparse)),
            rms_norm("post_trunk_norm" if in_file else "norm", embed),
            merger,
        ),
    )


def _experts(c: DotsVisionConfig, embed: Axis, count: Dim, layers: Layers) -> Module:
    in_file, experts = c.layout == "checkpoint", Axis("expert", count)
    router = "gate_weight" if in_file else "gate.weight"
    names = ("fc1", "fc3", "fc2") if in_file else ("gate_proj", "up_proj", "down_proj")
    ffn = Axis("expert_ffn", c.d_ff_expert)
    return Module(
        "mlp",
        (
            Param(router, (experts, embed), "matmul", component="router"),
            buffer("router_bias" if in_file else "e_score_correction_bias", experts, component="router"),
            routed_experts("experts", experts, c.top_k, ffn, embed, layout=c.layout, names=names, act=c.act),
        ),
        at=layers,
    )


def audio(c: DotsAudioConfig) -> Module:
    """The audio tower, with the names of `Dots3NoteAudioModel`, or those of files."""
    in_file, embed = c.layout == "checkpoint", Axis("embed", c.d_model)
    named = replace(c, module_names=AUDIO_FILES) if in_file else c
    inside = (*_stem(c, embed), *rotary(c), blocks(named), norm(c, "layer_norm", embed))
    names = ("audio_adapter.proj", "0", "1", "3") if in_file else ("adapter", "norm", "fc1", "fc2")
    adapter, first, second, third = names
    out = Axis("out", c.d_out)
    return Module(
        "",
        (
            Module("dots_encoder.speech_encoder" if in_file else "", inside),
            Module(
                adapter,
                (
                    layer_norm(first, embed),
                    linear(second, out, embed, bias=True),
                    Op("act", "gelu", {"width": out.size}),
                    linear(third, out, out, bias=True),
                ),
                component="other",
            ),
        ),
    )


def _stem(c: DotsAudioConfig, embed: Axis) -> Children:
    """Three convolutions over time and frequency."""
    stem, one, kernel = Axis("stem", c.d_stem), Axis("one", 1), Axis("kernel", 3)
    prefix, names = ("", "conv2d{}") if c.layout == "checkpoint" else ("conv_stem.", "convs.{}")
    first = 1 if c.layout == "checkpoint" else 0
    convs = (
        convolution(
            prefix + names.format(first + i), stem, one if i == 0 else stem, kernel, kernel, act="gelu"
        )
        for i in range(3)
    )
    out = linear(f"{prefix}conv_out", embed, Axis("stem", c.d_joined), component="embedding")
    return (*convs, out)


ARCHITECTURES = {
    "dots3_audio": Architecture(DotsAudioConfig, audio),
    "dots3_vision": Architecture(DotsVisionConfig, vision),
}


def _vision(hf: HFConfig) -> Reading:
    n_layers = listed_layers(hf)
    experts = _expert_counts(hf, n_layers)
    head = whole(hf, "hidden_size") // whole(hf, "num_attention_heads") // 2
    given = vision_sizes(
        hf,
        d_rotary=head + head % 2,
        d_ff_expert=hf["moe_intermediate_size"],
        top_k=hf["num_experts_per_tok"] or 2,
        d_merged=whole(hf, "adapter_in_dim") * whole(hf, "adapter_merge_size") ** 2,
        d_out=hf["adapter_out_dim"],
        experts=PerLayer(experts),
        kinds=Pattern(tuple("dense" if count is None else "sparse" for count in experts)),
        bias="qkvo" if hf["attention_bias"] else "",
        mlp_bias=bool(hf["mlp_bias"]),
        down_bias=bool(hf["mlp_bias"]),
        gated=True,
        norm="rms",
        qk_norm="head",
        module_names=VISION,
    )
    return Reading("dots3_vision", given)


def _expert_counts(hf: HFConfig, n_layers: int) -> tuple[int | None, ...]:
    """Experts of each block; where a file does not say, the published pyramid."""
    types, own = hf["mlp_layer_types"], hf.get("per_layer_config") or {}
    if types is None:
        counts = hf.get("pyramid_num_routed") or PYRAMID
        return tuple(None if count is None or count < 1 else count for count in counts[:n_layers])
    counts = {int(layer): values.get("num_local_experts") for layer, values in own.items()}
    every = hf["num_local_experts"]
    return tuple(counts.get(i, every) if types[i] == "sparse" else None for i in range(n_layers))


def _audio(hf: HFConfig) -> Reading:
    head = whole(hf, "hidden_size") // whole(hf, "num_attention_heads")
    left = whole(hf, "downsample_hidden_size") * -(-whole(hf, "feature_size") // 8)
    given: dict[str, Any] = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "d_rotary": rotary_width(hf, head, default=0.5) or head,
        "d_stem": hf["downsample_hidden_size"],
        "d_joined": hf.in_file("conv_output_size", left),
        "d_out": hf["adapter_out_dim"],
        "bias": "qvo" if hf["attention_bias"] else "",
        "gated": True,
        "norm": "rms",
        "act": hf["hidden_act"],
        "module_names": AUDIO,
    }
    return Reading("dots3_audio", given)


HF_READERS = {"dots3_note_audio_encoder": _audio, "dots3_note_vision_encoder": _vision}
