"""LLaMA-like decoders whose code is in their repositories: fused projections and names of their own.

Sources: the `modeling_*.py` of each repository on Hugging Face, named in
`presets/huggingface/remote_types.jsonl`. Names in memory are those of the checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder_names import LLAMA, Names
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.registry import Reading
from sizer.core.dims import round_up
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_PLAIN = LLAMA._replace(rotary=())
_BAICHUAN = _PLAIN._replace(qkv=("W_pack",))
_INTERNLM2 = _PLAIN._replace(
    embedding="tok_embeddings",
    attention="attention",
    qkv=("wqkv",),
    output="wo",
    feed_forward="feed_forward",
    mlp=("w1", "w3", "w2"),
    head="output",
)
_QWEN = _PLAIN._replace(
    model="transformer",
    embedding="wte",
    block="h",
    attention="attn",
    qkv=("c_attn",),
    output="c_proj",
    mlp=("w2", "w1", "c_proj"),
    final_norm="ln_f",
)
_PHI3_SMALL = _PLAIN._replace(
    qkv=("query_key_value",), output="dense", mlp=("up_proj", "down_proj"), final_norm="final_layernorm"
)
_MPT = Names(
    model="transformer",
    embedding="wte",
    block="blocks",
    attention="attn",
    qkv=("Wqkv",),
    output="out_proj",
    feed_forward="ffn",
    mlp=("gate_proj", "up_proj", "down_proj"),
    final_norm="norm_f",
    rotary=(),
)


def _baichuan(hf: HFConfig) -> Reading:
    """Baichuan 1 and 2 (arXiv:2309.10305); the 13B has ALiBi, and version 2 a head of unit rows."""
    return dense(hf, module_names=_BAICHUAN, n_kv_heads=None, d_head=None)


def _internlm(hf: HFConfig) -> Reading:
    """InternLM (2023): a LLaMA whose attention has biases."""
    bias = hf["bias"]
    return dense(hf, module_names=_PLAIN, n_kv_heads=None, d_head=None, qkv_bias=bias, o_bias=bias)


def _internlm2(hf: HFConfig) -> Reading:
    """InternLM2 (arXiv:2403.17297); the reward model scores a token by a head of one row."""
    bias = hf["bias"]
    reward = hf.task == "reward"
    return dense(
        hf,
        module_names=_INTERNLM2._replace(classifier="v_head" if reward else "score"),
        task="sequence" if reward else hf.task,
        n_labels=1 if reward else hf.n_labels,
        norms=("attention_norm", "", "ffn_norm", ""),
        d_head=None,
        qkv_bias=bias,
        o_bias=bias,
    )


def _orion(hf: HFConfig) -> Reading:
    """Orion (arXiv:2401.12246): a LLaMA with LayerNorms."""
    return dense(hf, module_names=_PLAIN, norm="layer", d_head=None)


def _qwen(hf: HFConfig) -> Reading:
    """Qwen (arXiv:2309.16609). `intermediate_size` is the width of both halves of the gated MLP."""
    bias = not hf["no_bias"]
    width = whole(hf, "intermediate_size")
    if width % 2:
        raise InvalidConfig(f"intermediate_size = {width} is odd; a Qwen's MLP has half of it")
    return dense(
        hf,
        module_names=_QWEN,
        norms=("ln_1", "", "ln_2", ""),
        vocab_size=hf["vocab_size"],
        n_kv_heads=None,
        d_ff=width // 2,
        qkv_bias=True,
        o_bias=bias,
        mlp_bias=bias,
    )


def _pangu(hf: HFConfig) -> Reading:
    """openPangu Embedded (arXiv:2505.22375): a LLaMA with biases on all of attention."""
    bias = hf["bias"]
    return dense(hf, module_names=_PLAIN._replace(layer_rotary="rotary_emb"), qkv_bias=bias, o_bias=bias)


def _stablelm_epoch(hf: HFConfig) -> Reading:
    """StableLM before transformers had it: the same tensors."""
    return dense(hf, module_names=_PLAIN, norm="layer", d_head=None, qkv_bias=hf["use_qkv_bias"])


def _phi3_small(hf: HFConfig) -> Reading:
    """Phi-3 small (arXiv:2404.14219): fused projections, LayerNorms, biases, a tied head.

    Every second layer's attention is block-sparse; it has the same tensors and cache.
    """
    width = hf["ff_intermediate_size"]
    if width is None:
        width = whole(hf, "ff_dim_multiplier") * (whole(hf, "hidden_size") // 3) * 2
        width = round_up(width, 256) if hf["gegelu_pad_to_256"] else width
    reading = dense(
        hf,
        module_names=_PHI3_SMALL,
        norm="layer",
        d_ff=width,
        d_head=None,
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
    )
    sparse = "attention is counted as dense in all layers, though it is block-sparse in some"
    return Reading(reading.architecture, reading.given, (sparse,))


def _mpt(hf: HFConfig) -> Reading:
    """MPT by MosaicML's own code (llm-foundry), which has more switches than transformers' class."""
    attn, ffn = hf.nested("attn_config"), hf.nested("ffn_config")
    kv_heads = {
        "multihead_attention": None,
        "multiquery_attention": 1,
        "grouped_query_attention": attn["kv_n_heads"],
    }
    kind = attn["attn_type"]
    if kind not in kv_heads:
        raise InvalidConfig(f"attn_type = {kind!r} is none of {', '.join(kv_heads)}")
    learned = hf["learned_pos_emb"] and not attn["alibi"] and not attn["rope"]
    bias = not hf["no_bias"]
    rms = "rms" in str(hf["norm_type"])
    return dense(
        hf,
        module_names=_MPT._replace(positions="wpe" if learned else ""),
        norm="rms" if rms else "layer" if bias else "layer_no_bias",
        norms=("norm_1", "", "norm_2", ""),
        qk_norm="full" if attn["qk_ln"] else None,
        qk_norm_names=("q_ln", "k_ln"),
        n_kv_heads=kv_heads[kind],
        d_head=None,
        d_ff=ffn["ffn_hidden_size"] or int(whole(hf, "d_model") * hf["expansion_ratio"]),
        gated=ffn["ffn_type"] == "mptglu",
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
    )


HF_READERS = {
    "PanguEmbedded": _pangu,
    "baichuan": _baichuan,
    "internlm": _internlm,
    "internlm2": _internlm2,
    "mpt-mosaic": _mpt,
    "orion": _orion,
    "phi3small": _phi3_small,
    "qwen": _qwen,
    "stablelm_epoch": _stablelm_epoch,
}
