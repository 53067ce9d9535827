"""The model types that are a ViT with other tokens, names or norms, read from their configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Reading
from sizer.architectures.vision.clip import patches, side, vision_sizes
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.vit import VIT, VIT_FILES
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The names of transformers 4, for files and for types that keep them in memory.
EARLY = VIT_FILES._replace(attention="attention")
DINO = VIT._replace(
    block="encoder.layer",
    norms=("norm1", "", "norm2", ""),
    scales=("layer_scale1.lambda1", "layer_scale2.lambda1"),
)
DINO_FILES = DINO._replace(qkv=EARLY.qkv, output=EARLY.output)
SWIGLU = ("mlp", "gate_proj", "up_proj", "down_proj")
LAMBDAS = ("lambda_1", "lambda_2")
BEIT_FILES = (
    (r"shared_position_bias\.", "encoder.relative_position_bias."),
    (r"(layer\.\{\})\.relative_position_bias\.", r"\1.attention.attention.relative_position_bias."),
)


def task_of_vision(hf: HFConfig) -> str:
    """What stands on a vision model: nothing, or one class or more."""
    if hf.cls.endswith("Model"):
        return "base"
    if "ForImageClassification" in hf.cls:
        return "image_classification"
    known = ("…Model", "…ForImageClassification")
    raise UnknownName("class", hf.cls, known, hint=f"of a {hf.model_type}")


def read_vit(hf: HFConfig, **given: Any) -> Reading:
    """A ViT with the sizes of the file and the switches given."""
    bias = {"bias": "qkvo" if hf["qkv_bias"] else "o"} if "qkv_bias" in hf else {}
    common: dict[str, Any] = {"n_labels": hf.n_labels, "module_names": VIT, **bias}
    if "task" not in given:
        common["task"] = task_of_vision(hf)
    if "n_patches" not in given:
        common["n_patches"] = patches(hf)
    return Reading("vit", vision_sizes(hf, **{**common, **given}))


def _deit(hf: HFConfig) -> Reading:
    """DeiT (arXiv:2012.12877): a second token learns from a teacher."""
    base = task_of_vision(hf) == "base"
    teacher = hf.cls.endswith("WithTeacher")
    return read_vit(
        hf,
        distilled=True,
        n_positions=patches(hf) + 2,
        file_names=EARLY,
        d_pooler=(hf["pooler_output_size"] or hf["hidden_size"]) if base else None,
        prefix="deit",
        **({"classifiers": ("cls_classifier", "distillation_classifier")} if teacher else {}),
    )


def _ijepa(hf: HFConfig) -> Reading:
    """I-JEPA (arXiv:2301.08243): no token but the patches."""
    return read_vit(hf, n_class=None, n_positions=patches(hf), file_names=EARLY, prefix="ijepa")


def _dpt(hf: HFConfig) -> Reading:
    """DPT (arXiv:2103.13413), without what makes a map of depths of its layers."""
    if hf.cls != "DPTModel":
        raise UnknownName("class", hf.cls, ("DPTModel",), hint="of a dpt")
    if hf["is_hybrid"]:
        raise InvalidConfig("is_hybrid = true, a DPT that reads the features of a BiT, is not described")
    for key in ("hidden_act", "pooler_act"):
        activation(hf, key)
    d_pooler = hf["pooler_output_size"] or hf["hidden_size"]
    return read_vit(hf, task="base", d_pooler=d_pooler, module_names=EARLY)


def _vit_msn(hf: HFConfig) -> Reading:
    # transformers 5 writes a classifier's blocks without the name of the model below it.
    moved = hf.saved_by_transformers_5 and task_of_vision(hf) != "base"
    return read_vit(hf, file_names=EARLY, stored=((r"^vit\.encoder\.", "encoder."),) if moved else ())


def _pixio(hf: HFConfig) -> Reading:
    """Pixio: several tokens for the image, each with a position."""
    tokens = whole(hf, "n_cls_tokens")
    return read_vit(
        hf,
        d_ff=int(whole(hf, "hidden_size") * hf["mlp_ratio"]),
        n_class=tokens,
        n_positions=patches(hf) + tokens,
        file_names=EARLY._replace(norms=DINO.norms),
    )


def _dinov2(hf: HFConfig) -> Reading:
    """DINOv2 (arXiv:2304.07193), and with registers (arXiv:2309.16588)."""
    hidden = int(whole(hf, "hidden_size") * hf["mlp_ratio"])
    gated = bool(hf["use_swiglu_ffn"])
    registers = "num_register_tokens" in hf
    return read_vit(
        hf,
        d_ff=(int(hidden * 2 / 3) + 7) // 8 * 8 if gated else hidden,
        gated=gated,
        act="silu" if gated else hf["hidden_act"],
        mask_token=registers or bool(hf["use_mask_token"]),
        flat_mask=True,
        n_registers=hf["num_register_tokens"] if registers else None,
        doubled=True,
        prefix="dinov2_with_registers" if registers else "dinov2",
        module_names=DINO._replace(mlp=SWIGLU) if gated else DINO,
        file_names=DINO_FILES._replace(mlp=("mlp", "weights_in", "weights_out")) if gated else DINO_FILES,
    )


def _dinov3(hf: HFConfig) -> Reading:
    """DINOv3 (arXiv:2508.10104): rotary positions along both axes."""
    gated, bias = bool(hf["use_gated_mlp"]), bool(hf["mlp_bias"])
    keys = {"q": "query_bias", "k": "key_bias", "v": "value_bias", "o": "proj_bias"}
    names = DINO._replace(block="model.layer", mlp=SWIGLU if gated else ("mlp", "up_proj", "down_proj"))
    return read_vit(
        hf,
        bias="".join(letter for letter, key in keys.items() if hf[key]),
        mlp_bias=bias,
        down_bias=bias,
        gated=gated,
        mask_token=True,
        n_registers=hf["num_register_tokens"],
        absolute=False,
        # One frequency for every four of a head's elements, the last of them in part.
        d_axial=-(-(whole(hf, "hidden_size") // whole(hf, "num_attention_heads")) // 4),
        patch_name="patch_embeddings",
        post_norm="norm",
        module_names=names,
        file_names=names._replace(block="layer"),
    )


def _beit(hf: HFConfig) -> Reading:
    """BEiT (arXiv:2106.08254) and data2vec (arXiv:2202.03555): keys have no bias."""
    data2vec, base = hf.model_type == "data2vec-vision", task_of_vision(hf) == "base"
    mean = bool(hf["use_mean_pooling"])
    scales = LAMBDAS if hf["layer_scale_init_value"] > 0 else ()
    (height, width), (rows, columns) = side(hf, "image_size"), side(hf, "patch_size")
    shared, own = bool(hf["use_shared_relative_position_bias"]), bool(hf["use_relative_position_bias"])
    distances = (2 * (height // rows) - 1) * (2 * (width // columns) - 1) + 3
    return read_vit(
        hf,
        bias="qvo",
        mask_token=bool(hf["use_mask_token"]),
        absolute=bool(hf["use_absolute_position_embeddings"]),
        n_distances=distances if shared or own else None,
        distances="both" if shared and own else "shared" if shared else "own",
        post_norm="" if mean else "layernorm",
        pooled_norm=mean and not (data2vec and base),
        prefix="data2vec_vision" if data2vec else "beit",
        module_names=(EARLY if data2vec else VIT)._replace(scales=scales),
        file_names=EARLY._replace(scales=scales),
        stored=BEIT_FILES,
        renamed=BEIT_FILES if data2vec else (),
    )


def _ast(hf: HFConfig) -> Reading:
    """AST (arXiv:2104.01778): patches of a spectrogram that overlap."""
    width = whole(hf, "patch_size")
    # In other files that key is about writing, so no default of it is known.
    length = whole(hf, "max_length") if "max_length" in hf else 1024
    rows = (whole(hf, "num_mel_bins") - width) // whole(hf, "frequency_stride") + 1
    columns = (length - width) // whole(hf, "time_stride") + 1
    return read_vit(
        hf,
        n_patches=rows * columns,
        n_channels=1,
        distilled=True,
        n_positions=rows * columns + 2,
        file_names=EARLY,
    )


def _vivit(hf: HFConfig) -> Reading:
    """ViViT (arXiv:2103.15691): patches of a few frames."""
    frames, *tile = hf["tubelet_size"]
    if len(tile) != 2 or tile[0] != tile[1]:
        raise InvalidConfig(f"tubelet_size = {clip(repr(hf['tubelet_size']))} is not frames, side, side")
    height, width = side(hf, "image_size")
    base = task_of_vision(hf) == "base"
    return read_vit(
        hf,
        n_patches=(height // tile[0]) * (width // tile[0]) * (whole(hf, "num_frames") // frames),
        n_frames=frames,
        patch_size=tile[0],
        file_names=EARLY,
        prefix="vivit",
        d_pooler=(hf["pooler_output_size"] or hf["hidden_size"]) if base else None,
    )


HF_READERS = {
    "audio-spectrogram-transformer": _ast,
    "vivit": _vivit,
    "beit": _beit,
    "data2vec-vision": _beit,
    "deit": _deit,
    "dinov2": _dinov2,
    "dinov2_with_registers": _dinov2,
    "dinov3_vit": _dinov3,
    "dpt": _dpt,
    "ijepa": _ijepa,
    "pixio": _pixio,
    "vit_msn": _vit_msn,
}
