"""wav2vec 2.0 and its kin, read from their configurations: HuBERT, WavLM, data2vec, UniSpeech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.audio.wav2vec2 import NAMES
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Reading
from sizer.core.pattern import PerLayer
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# What stands on the model, by the ending of its class.
TASKS = {
    "ForCTC": "ctc",
    "ForPreTraining": "pretraining",
    "ForSequenceClassification": "sequence",
    "ForAudioFrameClassification": "frames",
    "Model": "base",
}


def speech_task(hf: HFConfig) -> str:
    """What stands on a model that hears."""
    for ending, task in TASKS.items():
        if hf.cls.endswith(ending):
            return task
    raise UnknownName("class", hf.cls, [f"…{ending}" for ending in TASKS], hint=f"of a {hf.model_type}")


def waveform_layers(hf: HFConfig) -> dict[str, Any]:
    """The convolutions over the waveform."""
    channels, kernels = tuple(hf["conv_dim"]), tuple(hf["conv_kernel"])
    if len(channels) != len(kernels):
        raise InvalidConfig(f"conv_dim lists {len(channels)} layers and conv_kernel {len(kernels)}")
    steps = tuple(hf["conv_stride"])
    if len(steps) != len(kernels) or any(not isinstance(step, int) or step < 1 for step in steps):
        raise InvalidConfig(
            f"conv_stride = {clip(repr(hf['conv_stride']))} lists no step for each convolution"
        )
    return {
        "steps": steps,
        "even": whole(hf, "num_conv_pos_embeddings") % 2 == 0,
        "channels": PerLayer(channels),
        "kernels": PerLayer(kernels),
        "conv_bias": bool(hf["conv_bias"]),
        "conv_norm": hf.get("feat_extract_norm", "layer"),
        "n_groups": whole(hf, "num_conv_pos_embedding_groups"),
        "n_position_frames": whole(hf, "num_conv_pos_embeddings"),
    }


def wav2vec2_fields(hf: HFConfig, **own: Any) -> dict[str, Any]:
    """The fields that all of them have in common."""
    if speech_task(hf) == "ctc" and hf["vocab_size"] is None:
        raise InvalidConfig("vocab_size is missing; a class that writes letters needs it")
    given: dict[str, Any] = {
        "task": speech_task(hf),
        "n_labels": hf.n_labels,
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "act": hf["hidden_act"],
        **(waveform_layers(hf) if "conv_dim" in hf else {}),
        "masked": hf["mask_time_prob"] > 0 or hf["mask_feature_prob"] > 0,
        "weighted_layers": bool(hf.get("use_weighted_layer_sum")),
        "vocab_size": hf["vocab_size"],
        "d_projection": hf["classifier_proj_size"],
        "module_names": NAMES,
        **_codes(hf),
        **_adapter(hf),
        **own,
    }
    return given


def _adapter(hf: HFConfig) -> dict[str, Any]:
    """Convolutions after the blocks."""
    if not hf.get("add_adapter"):
        return {}
    width = hf["output_hidden_size"] or hf["hidden_size"]
    return {
        "n_adapter_layers": hf["num_adapter_layers"],
        "adapter_kernel": hf["adapter_kernel_size"],
        "d_out": width,
        "widens": width != hf["hidden_size"],
    }


def _codes(hf: HFConfig) -> dict[str, Any]:
    if not hf.cls.endswith("ForPreTraining"):
        return {}
    return {
        "n_code_groups": hf["num_codevector_groups"],
        "n_codes": hf["num_codevectors_per_group"],
        "d_code": hf["codevector_dim"],
        "d_contrast": hf["proj_codevector_dim"],
    }


def _read(hf: HFConfig, **given: Any) -> Reading:
    return Reading("wav2vec2", wav2vec2_fields(hf, **given))


def _stable(hf: HFConfig) -> dict[str, Any]:
    """Adapters stand only in blocks that norm first."""
    return {"d_adapter": hf.get("adapter_attn_dim")} if hf["do_stable_layer_norm"] else {}


def _wav2vec2(hf: HFConfig) -> Reading:
    return _read(hf, **_stable(hf))


def _hubert(hf: HFConfig) -> Reading:
    """HuBERT (arXiv:2106.07447)."""
    return _read(
        hf,
        prefix="hubert",
        positions="batch_norm" if hf["conv_pos_batch_norm"] else "weight_norm",
        projection_norm=bool(hf["feat_proj_layer_norm"]),
        **_stable(hf),
    )


def _wavlm(hf: HFConfig) -> Reading:
    return _read(hf, prefix="wavlm", n_buckets=hf["num_buckets"])


def _data2vec(hf: HFConfig) -> Reading:
    """data2vec (arXiv:2202.03555): several convolutions give positions."""
    return _read(
        hf,
        prefix="data2vec_audio",
        positions="layers",
        n_position_layers=hf["num_conv_pos_embeddings"],
        n_position_frames=whole(hf, "conv_pos_kernel_size"),
        even=whole(hf, "conv_pos_kernel_size") % 2 == 0,
    )


def _unispeech(hf: HFConfig) -> Reading:
    """UniSpeech (arXiv:2101.07597)."""
    classes = {"n_clusters": hf["num_ctc_classes"]} if hf.cls.endswith("ForPreTraining") else {}
    return _read(hf, prefix="unispeech", **classes, **_stable(hf))


def _unispeech_sat(hf: HFConfig) -> Reading:
    """UniSpeech-SAT (arXiv:2110.05752), which always has a vector for masked frames."""
    classes = {"n_clusters": hf["num_clusters"]} if hf.cls.endswith("ForPreTraining") else {}
    return _read(hf, prefix="unispeech_sat", masked=True, **classes, **_stable(hf))


HF_READERS = {
    "data2vec-audio": _data2vec,
    "hubert": _hubert,
    "unispeech": _unispeech,
    "unispeech-sat": _unispeech_sat,
    "wav2vec2": _wav2vec2,
    "wavlm": _wavlm,
}
