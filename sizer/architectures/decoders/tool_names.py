"""What each tool, and each published checkpoint that it can write, calls the parts of a decoder."""

from __future__ import annotations

from typing import NamedTuple


class LatentNames(NamedTuple):
    """The projections of latent attention; `q` is the one of a model without a rank for queries."""

    q: str = "q_proj"
    q_down: str = "q_a_proj"
    q_norm: str = "q_a_norm"
    q_up: str = "q_b_proj"
    kv_down: str = "kv_a_proj_with_mqa"
    kv_norm: str = "kv_a_norm"
    kv_up: str = "kv_b_proj"


class ToolNames(NamedTuple):
    """Names of modules. `qkv` and `gated` have one name more for each matrix that is not fused.

    `norms`: before and after attention, before and after the MLP.
    `expert_gated`: the matrices of an expert, where they are not called as those of the MLP.
    """

    embedding: str
    block: str
    final_norm: str
    head: str
    attention: str
    qkv: tuple[str, ...]
    output: str
    norms: tuple[str, str, str, str]
    positions: str = "wpe"
    mlp: str = "mlp"
    gated: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    plain: tuple[str, str] = ("up_proj", "down_proj")
    qk_norms: tuple[str, str] = ("q_norm", "k_norm")
    sinks: str = "sinks"
    moe: str = "mlp"
    router: str = "gate"
    expert_bias: str = "e_score_correction_bias"
    experts: str = "experts"
    expert_gated: tuple[str, ...] = ()
    shared: str = "shared_experts"
    norm_tensors: tuple[str, str] = ("weight", "bias")
    latent: LatentNames = LatentNames()


_SPLIT = ("q_proj", "k_proj", "v_proj")

# The model types of transformers whose names litgpt writes when it converts a checkpoint.
HF_LLAMA = ToolNames(
    embedding="model.embed_tokens",
    block="model.layers",
    final_norm="model.norm",
    head="lm_head",
    attention="self_attn",
    qkv=_SPLIT,
    output="o_proj",
    norms=("input_layernorm", "", "post_attention_layernorm", ""),
    latent=LatentNames(q_norm="q_a_layernorm", kv_norm="kv_a_layernorm"),
)
HF_GEMMA = HF_LLAMA._replace(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
)
HF_NEOX = ToolNames(
    embedding="gpt_neox.embed_in",
    positions="gpt_neox.embed_positions",
    block="gpt_neox.layers",
    final_norm="gpt_neox.final_layer_norm",
    head="embed_out",
    attention="attention",
    qkv=("query_key_value",),
    output="dense",
    norms=("input_layernorm", "", "post_attention_layernorm", ""),
    plain=("dense_h_to_4h", "dense_4h_to_h"),
)
HF_FALCON = ToolNames(
    embedding="transformer.word_embeddings",
    block="transformer.h",
    final_norm="transformer.ln_f",
    head="lm_head",
    attention="self_attention",
    qkv=("query_key_value",),
    output="dense",
    norms=("ln_attn", "", "ln_mlp", ""),
    plain=("dense_h_to_4h", "dense_4h_to_h"),
)
_BOOK = ToolNames(
    embedding="tok_emb",
    block="trf_blocks",
    final_norm="final_norm",
    head="out_head",
    attention="att",
    qkv=("W_query", "W_key", "W_value"),
    output="out_proj",
    norms=("norm1", "", "norm2", ""),
    mlp="ff",
    gated=("fc1", "fc2", "fc3"),
    moe="ff",
)

NAMES = {
    "litgpt": ToolNames(
        embedding="transformer.wte",
        block="transformer.h",
        final_norm="transformer.ln_f",
        head="lm_head",
        attention="attn",
        qkv=("qkv",),
        output="proj",
        norms=("norm_1", "post_attention_norm", "norm_2", "post_mlp_norm"),
        gated=("fc_1", "fc_2", "proj"),
        plain=("fc", "proj"),
        qk_norms=("norm_q", "norm_k"),
    ),
    "hf_llama": HF_LLAMA,
    "hf_mixtral": HF_LLAMA._replace(moe="block_sparse_moe", expert_gated=("w1", "w3", "w2")),
    "hf_gemma": HF_GEMMA,
    "hf_olmo2": HF_LLAMA._replace(norms=("", "post_attention_layernorm", "", "post_feedforward_layernorm")),
    "hf_phi": HF_LLAMA._replace(output="dense", plain=("fc1", "fc2"), final_norm="model.final_layernorm"),
    "hf_phi3": HF_LLAMA._replace(qkv=("qkv_proj",), gated=("gate_up_proj", "down_proj")),
    "hf_gpt_neox": HF_NEOX,
    "hf_falcon": HF_FALCON,
    "hf_falcon_7b": HF_FALCON._replace(norms=("input_layernorm", "", "", "")),
    "megatron": ToolNames(
        embedding="embedding.word_embeddings",
        positions="embedding.position_embeddings",
        block="decoder.layers",
        final_norm="decoder.final_layernorm",
        head="output_layer",
        attention="self_attention",
        qkv=("linear_qkv",),
        output="linear_proj",
        norms=("input_layernorm", "", "pre_mlp_layernorm", ""),
        gated=("linear_fc1", "linear_fc2"),
        plain=("linear_fc1", "linear_fc2"),
        qk_norms=("q_layernorm", "k_layernorm"),
        sinks="core_attention.softmax_offset",
        router="router",
        expert_bias="expert_bias",
        experts="experts.local_experts",
        latent=LatentNames(
            q="linear_q_proj",
            q_down="linear_q_down_proj",
            q_norm="q_layernorm",
            q_up="linear_q_up_proj",
            kv_down="linear_kv_down_proj",
            kv_norm="kv_layernorm",
            kv_up="linear_kv_up_proj",
        ),
    ),
    # GPT-NeoX saves each layer in a file of its own; these are the names of the files put together.
    "gpt_neox": HF_NEOX._replace(
        gated=("linear1", "linear2"),
        qk_norms=("qk_layernorm", ""),
    ),
    "nanogpt": ToolNames(
        embedding="transformer.wte",
        positions="transformer.wpe",
        block="transformer.h",
        final_norm="transformer.ln_f",
        head="lm_head",
        attention="attn",
        qkv=("c_attn",),
        output="c_proj",
        norms=("ln_1", "", "ln_2", ""),
        plain=("c_fc", "c_proj"),
    ),
    "meta": ToolNames(
        embedding="tok_embeddings",
        block="layers",
        final_norm="norm",
        head="output",
        attention="attention",
        qkv=("wq", "wk", "wv"),
        output="wo",
        norms=("attention_norm", "", "ffn_norm", ""),
        mlp="feed_forward",
        gated=("w1", "w3", "w2"),
        moe="feed_forward",
    ),
    "book": _BOOK,
    "book_qwen3": _BOOK._replace(norm_tensors=("scale", "shift")),
}
