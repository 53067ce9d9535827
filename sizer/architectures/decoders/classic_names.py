"""What each family of `classic` calls its parts."""

from __future__ import annotations

from sizer.architectures.decoders.classic import Style

_NEOX = Style(
    prefix="gpt_neox",
    embedding="embed_in",
    block="layers",
    norms=("input_layernorm", "post_attention_layernorm"),
    attention="attention",
    qkv=("query_key_value",),
    out="dense",
    mlp="mlp",
    ffn=("dense_h_to_4h", "dense_4h_to_h"),
    final_norm="final_layer_norm",
    positions="rotary",
    published_head="embed_out",
)
_BLOOM = _NEOX._replace(
    prefix="transformer",
    embedding="word_embeddings",
    embedding_norm="word_embeddings_layernorm",
    block="h",
    attention="self_attention",
    final_norm="ln_f",
    positions="",
    published_head="",
)
_GPTJ = Style(
    prefix="transformer",
    embedding="wte",
    block="h",
    norms=("ln_1", ""),
    attention="attn",
    qkv=("q_proj", "k_proj", "v_proj"),
    out="out_proj",
    mlp="mlp",
    ffn=("fc_in", "fc_out"),
    final_norm="ln_f",
    positions="table",
    position_name="rotary_emb.embed_positions",
    head_bias=True,
)
_OPT = _GPTJ._replace(
    prefix="model",
    inner="decoder",
    embedding="embed_tokens",
    block="layers",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    attention="self_attn",
    mlp="",
    ffn=("fc1", "fc2"),
    final_norm="final_layer_norm",
    positions="learned",
    position_name="embed_positions",
    position_offset=2,
    head_bias=False,
)

# GPT-NeoX (arXiv:2204.06745), BLOOM (2211.05100), Falcon (2311.16867), MPT (MosaicML 2023), GPT-J (Wang
# and Komatsuzaki 2021), CodeGen (2203.13474), GPT-Neo (Black et al. 2021), CTRL (1909.05858), OPT
# (2205.01068), XGLM (2112.10668), BioGPT (2210.10341). Names: transformers, `modeling_<name>.py`.
STYLES = {
    "gpt_neox": _NEOX,
    "gpt_neox_japanese": _NEOX._replace(
        prefix="gpt_neox_japanese", head="embed_out", published_head="", last_out_bias="dense_bias"
    ),
    "bloom": _BLOOM,
    "falcon": _BLOOM._replace(embedding_norm="", positions="rotary"),
    "mpt": _BLOOM._replace(
        embedding="wte",
        embedding_norm="",
        block="blocks",
        norms=("norm_1", "norm_2"),
        attention="attn",
        qkv=("Wqkv",),
        out="out_proj",
        mlp="ffn",
        ffn=("up_proj", "down_proj"),
        final_norm="norm_f",
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ._replace(qkv=("qkv_proj",)),
    "gpt_neo": _GPTJ._replace(
        norms=("ln_1", "ln_2"),
        attention="attn.attention",
        ffn=("c_fc", "c_proj"),
        positions="learned",
        position_name="wpe",
        head_bias=False,
        masks=True,
    ),
    "ctrl": _GPTJ._replace(
        embedding="w",
        norms=("layernorm1", "layernorm2"),
        attention="multi_head_attention",
        qkv=("Wq", "Wk", "Wv"),
        out="dense",
        mlp="ffn",
        ffn=("0", "2"),
        final_norm="layernorm",
        positions="sinusoids",
        position_name="pos_encoding",
        classifier="classifier",
    ),
    "opt": _OPT,
    "xglm": _OPT._replace(
        inner="", final_norm="layer_norm", positions="sinusoids", position_name="embed_positions.weights"
    ),
    "biogpt": _OPT._replace(prefix="biogpt", inner="", final_norm="layer_norm", head="output_projection"),
}
