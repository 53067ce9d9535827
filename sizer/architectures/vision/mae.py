"""Masked autoencoders: a ViT, and a narrow decoder that paints the patches it did not see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks
from sizer.architectures.vision.clip import ONE, patches
from sizer.architectures.vision.vit import VitConfig, vit_model
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param, Places
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MaeConfig(VitConfig):
    """Sizes of the decoder. `n_pixels`: numbers of a patch, which it paints."""

    d_decoder: Dim
    n_decoder_layers: Dim
    n_decoder_heads: Dim
    d_decoder_ff: Dim
    n_pixels: Dim
    video: bool = False

    letters = {
        **VitConfig.letters,
        "d_decoder": "D_dec",
        "n_decoder_layers": "L_dec",
        "n_decoder_heads": "H_dec",
        "d_decoder_ff": "F_dec",
        "n_pixels": "Npx",
    }
    meanings = {
        **VitConfig.meanings,
        "d_decoder": "width of the decoder",
        "n_decoder_layers": "blocks of the decoder",
        "n_decoder_heads": "heads of the decoder",
        "d_decoder_ff": "hidden width of its MLP",
        "n_pixels": "numbers of a patch",
    }


def masked_autoencoder(c: MaeConfig) -> Module:
    """MAE (arXiv:2111.06377) and VideoMAE (arXiv:2203.12602).

    Source: transformers `modeling_vit_mae.py`, `modeling_videomae.py`.
    """
    files = c.layout == "checkpoint"
    names = c.file_names if files and c.file_names is not None else c.module_names
    seen = Module("videomae" if c.video else "vit", vit_model(replace(c, module_names=names)))
    tree = Module("", (seen, *(_video_decoder(c, names) if c.video else _decoder(c, names))))
    return stored_names(tree, c.stored) if files else tree


def _blocks(c: MaeConfig, names: TowerNames) -> Module:
    painted = blocks(
        TowerConfig(
            d_model=c.d_decoder,
            n_layers=c.n_decoder_layers,
            n_heads=c.n_decoder_heads,
            d_ff=c.d_decoder_ff,
            bias=c.bias,
            act=c.act,
            module_names=names._replace(block="decoder_layers"),
        )
    )
    return painted._replace(places=Places(c.n_patches if c.n_class is None else c.n_patches + c.n_class))


def _decoder(c: MaeConfig, names: TowerNames) -> Children:
    width, rows = Axis("decoder", c.d_decoder), Axis("patches", c.n_positions)
    # The class token goes through the decoder too.
    seen = Places((c.n_patches if c.n_seen is None else c.n_seen) + 1)
    painted = Places(c.n_patches + 1)
    parts = (
        Param("mask_token", (ONE, ONE, width), component="embedding"),
        Param("decoder_pos_embed", (ONE, rows, width), trainable=False, component="position"),
        linear("decoder_embed", width, Axis("embed", c.d_model), bias=True, component="other", places=seen),
        _blocks(c, names),
        layer_norm("decoder_norm", width),
        linear(
            "decoder_pred", Axis("pixels", c.n_pixels), width, bias=True, component="head", places=painted
        ),
    )
    return (Module("decoder", parts),)


def _video_decoder(c: MaeConfig, names: TowerNames) -> Children:
    width = Axis("decoder", c.d_decoder)
    parts = (
        _blocks(c, names),
        layer_norm("norm", width),
        linear("head", Axis("pixels", c.n_pixels), width, bias=True, component="head"),
    )
    return (
        Param("mask_token", (ONE, ONE, width), component="embedding"),
        linear("encoder_to_decoder", width, Axis("embed", c.d_model), component="other"),
        Module("decoder", parts),
    )


ARCHITECTURES = {"masked_autoencoder": Architecture(MaeConfig, masked_autoencoder)}


def _read(hf: HFConfig, reading: Reading, *, frames: int = 1) -> Reading:
    """The ViT alone, or with the decoder."""
    if not hf.cls.endswith("ForPreTraining"):
        return reading
    given = {
        "d_decoder": hf["decoder_hidden_size"],
        "n_decoder_layers": hf["decoder_num_hidden_layers"],
        "n_decoder_heads": hf["decoder_num_attention_heads"],
        "d_decoder_ff": hf["decoder_intermediate_size"],
        "n_pixels": whole(hf, "num_channels") * frames * whole(hf, "patch_size") ** 2,
    }
    return Reading("masked_autoencoder", {**reading.given, **given, "task": "pretraining"})


def _task(hf: HFConfig) -> str:
    if not hf.cls.endswith(("Model", "ForPreTraining")):
        known = [
            name for names in ("ViTMAE", "VideoMAE") for name in (f"{names}Model", f"{names}ForPreTraining")
        ]
        raise UnknownName("class", hf.cls, known, hint=f"of a {hf.model_type}")
    return "base"


def _vit_mae(hf: HFConfig) -> Reading:
    # transformers 5 takes the decoder's layers for an encoder's when it writes their names.
    moved = (("decoder_layers", "decoder_encoder.layer"),) if hf.saved_by_transformers_5 else ()
    ratio = hf["mask_ratio"]
    if not isinstance(ratio, int | float) or not 0 <= ratio < 1:
        raise InvalidConfig(f"mask_ratio = {clip(repr(ratio))} is not a share of the patches")
    # The class token is not masked.
    seen = max(1, int(patches(hf) * (1 - ratio)))
    found = read_vit(hf, task=_task(hf), n_seen=seen, fixed_positions=True, file_names=EARLY, stored=moved)
    return _read(hf, found)


def _videomae(hf: HFConfig) -> Reading:
    """Positions are waves, kept nowhere; keys have no bias, and those of the others are by themselves."""
    frames = whole(hf, "tubelet_size")
    apart = (
        (r"attention\.attention\.query\.bias", "attention.attention.q_bias"),
        (r"attention\.attention\.value\.bias", "attention.attention.v_bias"),
    )
    found = read_vit(
        hf,
        task=_task(hf),
        n_patches=patches(hf) * (whole(hf, "num_frames") // frames),
        n_class=None,
        n_frames=frames,
        absolute=False,
        bias="qvo" if hf["qv_bias"] else "o",
        post_norm="" if hf["use_mean_pooling"] else "layernorm",
        module_names=EARLY,
        stored=apart,
    )
    if hf.cls.endswith("ForPreTraining"):
        found.given["video"] = True
    return _read(hf, found, frames=frames)


HF_READERS = {"vit_mae": _vit_mae, "videomae": _videomae}
