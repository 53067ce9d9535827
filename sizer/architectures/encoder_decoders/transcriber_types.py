"""Moonshine, Canary and Cohere Transcribe, read from their configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare, task_of
from sizer.architectures.decoders.reading import rotary_width, whole
from sizer.architectures.encoder_decoders.transcriber import TranscriberConfig
from sizer.architectures.parts import Part
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# How Cohere's files name what transformers names otherwise.
STORED = (
    (r"^model\.", ""),
    (r"^encoder\.subsampling\.layers\.", "encoder.pre_encode.conv."),
    (r"^encoder\.subsampling\.linear", "encoder.pre_encode.out"),
    (r"^(encoder\.layers\..*\.conv)\.norm\.", r"\1.batch_norm."),
    (r"^(encoder\.layers\..*\.self_attn)\.(q|k|v)_proj", r"\1.linear_\2"),
    (r"^(encoder\.layers\..*\.self_attn)\.o_proj", r"\1.linear_out"),
    (r"^(encoder\.layers\..*\.self_attn)\.relative_k_proj", r"\1.linear_pos"),
    (r"^(encoder\.layers\..*\.self_attn)\.bias_", r"\1.pos_bias_"),
    (r"^decoder\.proj\.", "encoder_decoder_proj."),
    (r"^decoder\.embed_tokens", "transf_decoder._embedding.token_embedding"),
    (r"^decoder\.pos_emb\.weight", "transf_decoder._embedding.position_embedding.pos_enc"),
    (r"^decoder\.embedding_layernorm", "transf_decoder._embedding.layer_norm"),
    (r"^decoder\.norm\.", "transf_decoder._decoder.final_layer_norm."),
    (r"^decoder\.layers\.", "transf_decoder._decoder.layers."),
    (r"(^transf_decoder.*)\.self_attn\.", r"\1.first_sub_layer."),
    (r"(^transf_decoder.*)\.encoder_attn\.", r"\1.second_sub_layer."),
    (r"(^transf_decoder.*)\.mlp\.fc1", r"\1.third_sub_layer.dense_in"),
    (r"(^transf_decoder.*)\.mlp\.fc2", r"\1.third_sub_layer.dense_out"),
    (r"(^transf_decoder.*)\.q_proj", r"\1.query_net"),
    (r"(^transf_decoder.*)\.k_proj", r"\1.key_net"),
    (r"(^transf_decoder.*)\.v_proj", r"\1.value_net"),
    (r"(^transf_decoder.*)\.o_proj", r"\1.out_projection"),
    (r"(^transf_decoder.*)\.input_layernorm", r"\1.layer_norm_1"),
    (r"(^transf_decoder.*)\.post_attention_layernorm", r"\1.layer_norm_2"),
    (r"(^transf_decoder.*)\.final_layernorm", r"\1.layer_norm_3"),
    (r"^proj_out", "log_softmax.mlp.layer0"),
)


def _read(hf: HFConfig, **given: Any) -> Reading:
    task = "base" if task_of(hf) == "base" else "seq2seq"
    return Reading("transcriber", hf.fill(TranscriberConfig, task=task, **given))


def _moonshine(hf: HFConfig) -> Reading:
    """Both halves have the heads of the encoder, since transformers builds that first.

    Its layers write them into the configuration, in the place of the decoder's.
    """
    heads = whole(hf, "encoder_num_attention_heads")
    d_head = hf.get("head_dim") or whole(hf, "hidden_size") // heads
    attention = {
        "d_model": hf["hidden_size"],
        "n_heads": heads,
        "n_kv_heads": hf["encoder_num_key_value_heads"],
        "d_head": d_head,
        "d_ff": hf["intermediate_size"],
        "d_rotary": rotary_width(hf, d_head, default=0.9) or d_head,
    }
    encoder = {
        **attention,
        "n_layers": hf["encoder_num_hidden_layers"],
        "bias": "qkv" if hf["attention_bias"] else "",
        "act": hf["encoder_hidden_act"],
    }
    return _read(
        hf,
        encoder=Part("moonshine_encoder", encoder),
        **attention,
        n_layers=hf["decoder_num_hidden_layers"],
        act=hf["decoder_hidden_act"],
        n_ctx=None,
        **_of_moonshine(hf),
    )


def _of_moonshine(hf: HFConfig) -> dict[str, Any]:
    return {
        "bias": bool(hf["attention_bias"]),
        "output_bias": False,
        "norm_bias": False,
        "gated": True,
        "positions": "rotary",
    }


def _moonshine_streaming(hf: HFConfig) -> Reading:
    encoder = hf.nested("encoder_config")
    d_head = hf["head_dim"] or whole(hf, "hidden_size") // whole(hf, "num_attention_heads")
    same = encoder["hidden_size"] == hf["hidden_size"]
    fraction = 1.0 if hf.in_file("rope_parameters") else 0.8
    return _read(
        hf,
        encoder=bare(encoder),
        d_source=encoder["hidden_size"],
        d_head=d_head,
        d_rotary=rotary_width(hf, d_head, default=fraction) or d_head,
        n_kv_heads=hf.get("num_key_value_heads"),
        act=hf["hidden_act"],
        **{**_of_moonshine(hf), "positions": "frames"},
        projection="" if same else "plain",
    )


def _canary(hf: HFConfig) -> Reading:
    """Canary (arXiv:2509.14128)."""
    decoder = hf.nested("decoder_config")
    reading = _read(
        decoder,
        encoder=bare(hf.nested("encoder_config")),
        act=decoder["hidden_act"],
        **_of_nemo(decoder),
        positions="waves",
    )
    task, tied = ("base" if task_of(hf) == "base" else "seq2seq"), bool(hf["tie_word_embeddings"])
    return reading._replace(given={**reading.given, "task": task, "tie_embeddings": tied})


def _of_nemo(decoder: HFConfig) -> dict[str, Any]:
    biased = bool(decoder["attention_bias"])
    return {"bias": biased, "output_bias": biased, "embedding_norm": True, "head_bias": True}


def _cohere_asr(hf: HFConfig) -> Reading:
    encoder = hf.nested("encoder_config", merged=True)
    return _read(
        hf,
        encoder=bare(encoder),
        d_source=encoder["hidden_size"],
        d_head=hf["head_dim"] or whole(hf, "hidden_size") // whole(hf, "num_attention_heads"),
        act=hf["hidden_act"],
        **_of_nemo(hf),
        positions="learned",
        projection="biased",
        stored=STORED,
    )


HF_READERS = {
    "canary": _canary,
    "cohere_asr": _cohere_asr,
    "moonshine": _moonshine,
    "moonshine_streaming": _moonshine_streaming,
}
