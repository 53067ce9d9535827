"""The names llama.cpp's converter gives the tensors of a checkpoint, and those it splits or joins.

Names: `gguf/tensor_mapping.py` of gguf 0.19, which a test compares. Splits: `convert_hf_to_gguf.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Outside the blocks, without `.weight` or `.bias`.
_TOP = {
    "token_embd": "model.embed_tokens transformer.wte transformer.word_embeddings gpt_neox.embed_in "
    "backbone.embeddings embeddings.word_embeddings shared model.tok_embeddings",
    "position_embd": "transformer.wpe embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm transformer.word_embeddings_layernorm model.embedding_norm",
    "output_norm": "model.norm transformer.ln_f transformer.norm_f gpt_neox.final_layer_norm "
    "model.final_layernorm backbone.norm_f",
    "enc.output_norm": "encoder.final_layer_norm",
    "dec.output_norm": "decoder.final_layer_norm",
    "output": "lm_head embed_out output",
}
# Within a block. A name of two meanings is in `_BY_TYPE` for the types that mean the other.
_BLOCK = {
    "attn_norm": "input_layernorm ln_1 ln_mlp norm_1 attention_norm attention_layernorm operator_norm norm "
    "norm_attn_norm.norm_1",
    "attn_norm_2": "ln_attn",
    "ffn_norm": "post_attention_layernorm ln_2 norm_2 pre_feedforward_layernorm pre_ff_layernorm ffn_norm "
    "feedforward_layernorm",
    "post_attention_norm": "post_self_attn_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm post_mlp_layernorm",
    "attn_q": "self_attn.q_proj attn.q_proj attention.self.query",
    "attn_k": "self_attn.k_proj attn.k_proj attention.self.key",
    "attn_v": "self_attn.v_proj attn.v_proj attention.self.value",
    "attn_qkv": "attn.c_attn attn.Wqkv self_attention.query_key_value attention.query_key_value "
    "self_attn.qkv_proj norm_attn_norm.attn.Wqkv",
    "attn_output": "self_attn.o_proj attn.c_proj attn.out_proj self_attention.dense attention.dense "
    "self_attn.dense attention.output.dense attention.wo self_attn.out_proj norm_attn_norm.attn.out_proj",
    "attn_output_norm": "attention.output.LayerNorm norm_attn_norm.norm_2",
    "layer_output_norm": "output.LayerNorm",
    "attn_q_norm": "self_attn.q_norm self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_norm self_attn.k_layernorm",
    "attn_sinks": "self_attn.sinks",
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_sub_norm": "self_attn.attn_sub_norm",
    "ffn_sub_norm": "mlp.ffn_sub_norm",
    "ffn_gate": "mlp.gate_proj feed_forward.gate_proj feed_forward.w1",
    "ffn_up": "mlp.up_proj mlp.c_fc mlp.fc1 mlp.fc_in mlp.dense_h_to_4h intermediate.dense ffn.up_proj "
    "mlp.gate_up_proj feed_forward.up_proj feed_forward.w3",
    "ffn_down": "mlp.down_proj mlp.c_proj mlp.fc2 mlp.fc_out mlp.dense_4h_to_h output.dense ffn.down_proj "
    "feed_forward.down_proj feed_forward.w2",
    "ffn_gate_inp": "mlp.gate block_sparse_moe.gate block_sparse_moe.router.layer mlp.router "
    "ffn.router.layer feed_forward.router router.proj",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj mlp.shared_experts.gate_proj "
    "feed_forward.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj mlp.shared_experts.up_proj feed_forward.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj mlp.shared_experts.down_proj "
    "feed_forward.shared_expert.down_proj",
    "ffn_gate_exps": "mlp.experts.{}.gate_proj block_sparse_moe.experts.{}.w1 ffn.experts.mlp.w1 "
    "feed_forward.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj block_sparse_moe.experts.{}.w3 ffn.experts.mlp.v1 "
    "feed_forward.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj block_sparse_moe.experts.{}.w2 ffn.experts.mlp.w2 "
    "mlp.experts.down_proj experts.down_proj block_sparse_moe.output_linear feed_forward.experts.down_proj "
    "feed_forward.experts.{}.down_proj",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    "post_ffw_norm_1": "post_feedforward_layernorm_1",
    "post_ffw_norm_2": "post_feedforward_layernorm_2",
    "layer_output_scale": "layer_scalar",
    "ffn_gate_up_exps": "experts.gate_up_proj",
    "ssm_in": "mixer.in_proj mamba.in_proj",
    "ssm_conv1d": "mixer.conv1d mamba.conv1d",
    "ssm_x": "mixer.x_proj mamba.x_proj",
    "ssm_dt": "mixer.dt_proj mamba.dt_proj",
    "ssm_a": "mixer.A_log mamba.A_log",
    "ssm_d": "mixer.D mamba.D",
    "ssm_norm": "mixer.norm",
    "ssm_out": "mixer.out_proj mamba.out_proj",
    "ssm_b_norm": "mamba.b_layernorm",
    "ssm_c_norm": "mamba.c_layernorm",
    "ssm_dt_norm": "mamba.dt_layernorm",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.conv": "conv.conv",
    "shortconv.out_proj": "conv.out_proj",
    "attn_rel_b": "layer.0.SelfAttention.relative_attention_bias",
    "attn_o": "layer.0.SelfAttention.o",
    **{f"cross_attn_{x}": f"layer.1.EncDecAttention.{x}" for x in "qkvo"},
}
_TOP_OF = {name: gguf for gguf, names in _TOP.items() for name in names.split()}
_BLOCK_OF = {name: gguf for gguf, names in _BLOCK.items() for name in names.split()}
_AFTER = {"post_attention_layernorm": "post_attention_norm"}
_T5 = {
    **{f"layer.0.SelfAttention.{x}": f"attn_{x}" for x in "qkv"},
    "layer.0.layer_norm": "attn_norm",
    **{
        f"layer.{i}.DenseReluDense.{name}": gguf
        for i in (1, 2)
        for name, gguf in (("wi", "ffn_up"), ("wi_0", "ffn_gate"), ("wi_1", "ffn_up"), ("wo", "ffn_down"))
    },
}
_BY_TYPE: dict[str, dict[str, str]] = {
    **dict.fromkeys(
        (
            "gemma2",
            "gemma3",
            "gemma3_text",
            "gemma4",
            "gemma4_text",
            "olmo2",
            "gpt_oss",
            "seed_oss",
            "glm4_moe",
        ),
        _AFTER,
    ),
    "qwen": {"mlp.w1": "ffn_up", "mlp.w2": "ffn_gate"},
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),
}
# Tensors that the converter leaves out: poolers and heads of encoders, masks.
_LEFT_OUT = ("pooler.", "cls.")
# Beginnings of names that encoders of a task have before those of the encoder.
_PREFIXES = ("bert.", "roberta.")
# Their positions begin behind that of the padding token, and the converter drops the two before.
_OFFSET = ("roberta", "xlm-roberta", "camembert")


class Named(NamedTuple):
    """A tensor of a GGUF file: its name with a `{}` for the layer, and its shape, outermost first."""

    name: str
    shape: tuple[int, ...]


def renamed(
    name: str, shape: tuple[int, ...], experts: int, model_type: str, config: Any
) -> list[Named] | None:
    """What becomes of a tensor of a checkpoint; `None` where its name is unknown.

    `name` has a `{}` for each index, `experts` is the number of equal ones that are joined.

    >>> renamed("model.layers.{}.mlp.experts.{}.up_proj.weight", (2048, 7168), 256, "deepseek_v3", None)
    [Named(name='blk.{}.ffn_up_exps.weight', shape=(256, 2048, 7168))]
    """
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    if name.startswith(_LEFT_OUT):
        return []
    if model_type in _OFFSET and name == "embeddings.position_embeddings.weight":
        shape = (shape[0] - 2, shape[1])
    stem, dot, last = name.rpartition(".")
    if last not in ("weight", "bias"):
        stem, dot, last = name, "", ""
    before, inside, rest = stem.partition("{}.")
    if not inside:
        found = _TOP_OF.get(stem)
        return None if found is None else [Named(found + dot + last, _squeezed(shape))]
    if rest.endswith("gate.e_score_correction_bias"):
        return [Named("blk.{}.exp_probs_b.bias", shape)]
    is_t5 = model_type in ("t5", "mt5", "umt5")
    block = f"{before[:3]}.blk.{{}}." if is_t5 else "blk.{}."
    split = _split(rest, shape, last, config)
    if split is not None:
        return [Named(block + part + dot + last, size) for part, size in split]
    if is_t5 and rest in ("layer.1.layer_norm", "layer.2.layer_norm"):
        is_cross = before.startswith("dec") and rest.startswith("layer.1")
        return [Named(f"{block}{'cross_attn_norm' if is_cross else 'ffn_norm'}{dot}{last}", shape)]
    found = _BY_TYPE.get(model_type, {}).get(rest) or _BLOCK_OF.get(rest)
    if found is None:
        return None
    if found.endswith("_exps") and not dot:
        # Experts that are one tensor already, whose name says no `weight`.
        dot, last = ".", "weight"
        if len(shape) == 2:
            # DBRX keeps all experts of a layer in one matrix, and of the last [E·F, D], too.
            shape = (config.n_experts, shape[0] // config.n_experts, shape[1])
        if rest.startswith(("mlp.experts", "feed_forward.experts")) or rest == "ffn.experts.mlp.w2":
            # Kept [E, in, out] in the checkpoint.
            shape = (shape[0], shape[2], shape[1])
    if "{}" in rest:
        shape = (experts, *shape)
    return [Named(block + found + dot + last, _squeezed(shape))]


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without sizes of one, of which ggml keeps none in front."""
    found = tuple(size for size in shape if size != 1)
    return found or (1,)


def _split(
    rest: str, shape: tuple[int, ...], last: str, config: Any
) -> list[tuple[str, tuple[int, ...]]] | None:
    """Tensors that the converter takes apart."""
    if rest == "self_attn.kv_b_proj" and last == "weight":
        # Of latent attention, so that keys and values can be absorbed: [H, Rk, Dn] and [H, Dv, Rk].
        heads, rank = config.n_heads, shape[1]
        nope = config.d_nope
        value = shape[0] // heads - nope
        return [("attn_k_b", (heads, rank, nope)), ("attn_v_b", (heads, value, rank))]
    if rest in ("self_attn.W_pack", "attention.wqkv"):
        kv = config.n_kv_heads * config.d_head
        rows = (shape[0] - 2 * kv, kv, kv)
        return [(f"attn_{x}", (n, *shape[1:])) for x, n in zip("qkv", rows, strict=True)]
    if rest in ("mlp.experts.gate_up_proj", "feed_forward.experts.gate_up_proj"):
        half = (shape[0], shape[2] // 2, shape[1])
        return [("ffn_gate_exps.weight", half), ("ffn_up_exps.weight", half)]
    if rest == "mlp.experts.gate_up_proj_bias":
        half_bias = (shape[0], shape[1] // 2)
        return [("ffn_gate_exps.bias", half_bias), ("ffn_up_exps.bias", half_bias)]
    if rest == "mlp.experts.down_proj_bias":
        return [("ffn_down_exps.bias", shape)]
    if rest == "block_sparse_moe.input_linear":
        half = (shape[0], shape[1] // 2, shape[2])
        return [("ffn_gate_exps", half), ("ffn_up_exps", half)]
    return None
