"""RADIO, and Nemotron 3 Omni, which reads images through it and sounds through Parakeet's encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import MultimodalConfig, PartNames, bare, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm, linear, rms_norm
from sizer.core.tree import Axis, Module, Op, Param, Places

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="encoder.layer",
    attention="attention",
    output="o_proj",
    norms=("norm1", "", "norm2", ""),
    scales=("layer_scale1.lambda1", "layer_scale2.lambda1"),
)
GATED = NAMES._replace(mlp=("mlp", "gate_proj", "up_proj", "down_proj"))
TOWER = (
    (r"^embeddings\.video_patch_projection\.", "radio_model.model.patch_generator.video_embedder."),
    (r"^embeddings\.patch_projection\.", "radio_model.model.patch_generator.embedder."),
    (r"^embeddings\.position_embedding", "radio_model.model.patch_generator.pos_embed"),
    (r"^embeddings\.cls_register_token", "radio_model.model.patch_generator.cls_token.token"),
    (r"^encoder\.layer\.", "radio_model.model.blocks."),
    (r"^(input_conditioner|summary_idxs)", r"radio_model.\1"),
    (r"\.attention\.o_proj\.", ".attn.proj."),
    (r"\.attention\.", ".attn."),
)
OMNI = (
    (r"^multi_modal_projector\.layer_norm\.", "mlp1.0."),
    (r"^multi_modal_projector\.linear_1\.", "mlp1.1."),
    (r"^multi_modal_projector\.linear_2\.", "mlp1.3."),
    (r"^vision_final_layernorm\.", "vision_projector.vision_final_layernorm."),
    (r"^audio_tower\.", "sound_encoder.encoder."),
    (r"^embed_audio\.layer_norm\.", "sound_projection.norm."),
    (r"^embed_audio\.linear_(1|2)\.", r"sound_projection.linear\1."),
)


@configuration
class RadioConfig(TowerConfig):
    """Sizes and switches of a RADIO.

    `n_side`: patches along the side of the largest image. `n_tokens`: learned tokens before the patches.
    `n_frames`: frames of a video in one patch, where it reads videos. `n_summary`: tokens that sum an
    image up. `conditioner`: mean and deviation of the colours are kept in it.
    """

    patch_size: Dim
    n_side: Dim
    n_tokens: Dim
    n_summary: Dim
    n_frames: Dim | None = None
    n_channels: Dim = 3
    n_means: Dim = 3
    conditioner: bool = True

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_side": "Ns",
        "n_tokens": "Nt",
        "n_summary": "Nsm",
        "n_frames": "Nf",
        "n_channels": "Nc",
        "n_means": "Nme",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_side": "patches along the side of the largest image",
        "n_tokens": "learned tokens before the patches",
        "n_summary": "tokens that sum an image up",
        "n_frames": "frames of a patch of a video",
        "n_channels": "colour channels",
        "n_means": "means that colours are measured from",
    }


@configuration
class OmniConfig(MultimodalConfig):
    """The parts; the text has a head of its own. `d_audio_bridge`: hidden width between sound and text.

    `final_norm`: a norm behind the tower, where the text has layers for multi-token prediction.
    """

    d_audio_bridge: Dim | None = None
    audio_bias: bool = False
    final_norm: bool = False

    letters = {**MultimodalConfig.letters, "d_audio_bridge": "D_ab"}
    meanings = {**MultimodalConfig.meanings, "d_audio_bridge": "hidden width between sound and text"}


def radio(c: RadioConfig) -> Module:
    """RADIO (arXiv:2312.06709), with the names of `RadioModel`.

    Source: transformers `modeling_radio.py`.
    """
    stored = c.layout == "checkpoint"
    c = replace(c, module_names=c.module_names._replace(qkv=("qkv",))) if stored else c
    embed, one = Axis("embed", c.d_model), Axis("one", 1)
    pixels = c.n_channels * c.patch_size * c.patch_size
    video: tuple[Module, ...] = ()
    if c.n_frames is not None:
        frames = Axis("pixels", c.n_frames * pixels)
        video = (linear("video_patch_projection", embed, frames, component="embedding"),)
    embeddings: Children = (
        Param("position_embedding", (one, Axis("patches", c.n_side * c.n_side), embed), component="position"),
        Param("cls_register_token", (Axis("tokens", c.n_tokens), embed), component="embedding"),
        linear("patch_projection", embed, Axis("pixels", pixels), component="embedding"),
        *video,
    )
    tree = Module(
        "",
        (
            *_conditioner(c, one),
            Module("embeddings", embeddings),
            blocks(c)._replace(places=Places(c.n_tokens, each=1)),
            Module("", (buffer("summary_idxs", Axis("summary", c.n_summary)),)),
        ),
    )
    return stored_names(tree, TOWER) if stored else tree


def _conditioner(c: RadioConfig, one: Axis) -> tuple[Module, ...]:
    if not c.conditioner:
        return ()
    axes = (Axis("means", c.n_means), one, one)
    return (Module("input_conditioner", (buffer("norm_mean", *axes), buffer("norm_std", *axes))),)


def nemotron_omni(c: OmniConfig) -> Module:
    """Nemotron 3 Omni (NVIDIA 2026), with the names of `NemotronH_Omni_Reasoning_V3`.

    Source: transformers `modeling_nemotron_h_omni.py`.
    """
    embed, vision = Axis("embed", c.d_model), Axis("vision", c.d_vision)
    joined = Axis("vision", c.merge * vision.size)
    last = (layer_norm("vision_final_layernorm", vision),) if c.final_norm else ()
    sounds: tuple[Module, ...] = ()
    if c.audio is not None:
        hidden = Axis("bridge", c.d_audio_bridge)
        sounds = (_projector("embed_audio", embed, hidden, Axis("audio", c.d_audio), c.audio_bias),)
    images = _projector(c.places.bridge, embed, Axis("bridge", c.d_bridge), joined, False)
    return multimodal(c, *last, images, *sounds)


def _projector(name: str, out: Axis, hidden: Axis, inp: Axis, bias: bool) -> Module:
    parts = (
        rms_norm("layer_norm", inp),
        linear("linear_1", hidden, inp, bias=bias),
        Op("act", "relu2", {"width": hidden.size}),
        linear("linear_2", out, hidden, bias=bias),
    )
    return Module(name, parts, component="other", stream="encoder")


ARCHITECTURES = {
    "nemotron_omni": Architecture(OmniConfig, nemotron_omni),
    "radio": Architecture(RadioConfig, radio),
}


def _radio(hf: HFConfig) -> Reading:
    width, gated = whole(hf, "hidden_size"), bool(hf["use_swiglu_ffn"])
    d_ff = int(width * hf["mlp_ratio"])
    given = {
        "task": "base",
        "d_model": width,
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        # A gated MLP has two thirds of the width, in whole eights.
        "d_ff": (int(d_ff * 2 / 3) + 7) // 8 * 8 if gated else d_ff,
        "gated": gated,
        "act": "silu" if gated else hf["hidden_act"],
        "bias": "qkvo" if hf["qkv_bias"] else "o",
        "patch_size": hf["patch_size"],
        "n_side": whole(hf, "max_img_size") // whole(hf, "patch_size"),
        "n_tokens": whole(hf, "num_cls_tokens") + whole(hf, "num_registers"),
        "n_summary": len(hf["summary_idxs"] or (0, 1)),
        "n_frames": hf["video_temporal_patch_size"],
        "n_channels": hf["num_channels"],
        "n_means": len(hf["norm_mean"]),
        "module_names": GATED if gated else NAMES,
    }
    return Reading("radio", given)


def _omni(hf: HFConfig) -> Reading:
    """Published files have names of their own for the parts."""
    text = hf.nested("llm_config" if hf.given("llm_config") else "text_config", "nemotron_h")
    tower = bare(hf.nested("vision_config"))
    sound = "sound_config" if hf.given("sound_config") else "audio_config"
    more: dict[str, Any] = {}
    if hf.in_file(sound) is not None:
        audio = hf.nested(sound, "parakeet_encoder")
        encoder = bare(audio)
        # Published files say nothing of these biases, and have none.
        bias = bool(audio.in_file("attention_bias", False))
        more = {
            "audio": encoder._replace(given={**encoder.given, "bias": bias}),
            "d_audio": audio["hidden_size"],
            "d_audio_bridge": audio["projection_hidden_size"],
            "audio_bias": bool(audio["projection_bias"]),
        }
    found = reading(
        hf,
        "nemotron_omni",
        text=text,
        task="base",
        tie_embeddings=False,
        vision=tower._replace(given={**tower.given, "conditioner": False}),
        d_vision=hf["vit_hidden_size" if hf.given("vit_hidden_size") else "vision_hidden_size"],
        d_bridge=hf["projector_hidden_size"],
        merge=int(1 / hf["downsample_ratio"]) ** 2,
        final_norm=bool(text.get("num_nextn_predict_layers")),
        places=PartNames(vision="vision_model"),
        stored=OMNI,
        **more,
    )
    return found._replace(given={**found.given, "text": part_of(text.as_task("causal"))})


HF_READERS = {"nemotron_h_omni": _omni, "radio": _radio}
