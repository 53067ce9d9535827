"""What a tensor is, by its name: its component, whether it is learned.

A checkpoint says no more of a tensor than its name, so names are read by whole steps (`mlp` between
two dots), with the words of transformers, llama.cpp, Meta and nanoGPT.
"""

from __future__ import annotations

import re

from sizer.sources.checkpoints.stored import StoredTensor

# A step of a name -> its component; the last step that is known decides.
_WORDS = {
    "embedding": "embed_tokens wte word_embeddings tok_embeddings token_embd token_types embed_in embeddings "
    "token_type_embeddings token_embedding shared word_embedding embedding embed tokens_embed "
    "patch_embedding patch_embed token_embd_norm",
    "position": "wpe position_embeddings embed_positions position_embd pos_embed position_embedding "
    "positional_embedding relative_attention_bias rotary_emb rope_freqs rope",
    "attention": "attn self_attn attention self_attention SelfAttention EncDecAttention cross_attn "
    "encoder_attn crossattention attn_q attn_k attn_v attn_qkv attn_output attn_kv_a_mqa "
    "attn_kv_b attn_q_a attn_q_b attn_k_b attn_v_b attn_sinks attn_gate q_proj k_proj v_proj "
    "o_proj wq wk wv wo",
    "mlp": "mlp feed_forward ffn ffn_up ffn_down ffn_gate ffn fc1 fc2 w1 w2 w3 DenseReluDense "
    "intermediate gate_proj up_proj down_proj",
    "router": "router gate ffn_gate_inp ffn_gate_inp_shexp shared_expert_gate exp_probs_b",
    "experts": "experts expert shared_expert shared_experts ffn_up_exps ffn_down_exps ffn_gate_exps "
    "ffn_gate_up_exps ffn_up_shexp ffn_down_shexp ffn_gate_shexp block_sparse_moe",
    "mixer": "mixer mamba ssm ssm_a ssm_d ssm_in ssm_out ssm_conv1d ssm_dt ssm_x linear_attn time_mix",
    "norm": "norm ln_f ln_1 ln_2 LayerNorm layernorm final_layernorm input_layernorm "
    "post_attention_layernorm layer_norm final_layer_norm norm1 norm2 norm_f output_norm "
    "attn_norm ffn_norm attn_q_norm attn_k_norm q_norm k_norm q_a_layernorm kv_a_layernorm "
    "attn_q_a_norm attn_kv_a_norm attention_norm post_attention_norm post_ffw_norm ln_attn ln_mlp",
    "head": "lm_head shared_head embed_out score classifier cls qa_outputs output_projection generator",
}
COMPONENT_OF = {word: component for component, words in _WORDS.items() for word in words.split()}
# No step that says something is longer.
LONGEST = 200
_NORM = re.compile(r"norm|(?:^|_)ln(?:_|$)", re.IGNORECASE)

# Stored and never learned: tables of rotary positions, causal masks, position ids, router corrections,
# running statistics.
_BUFFERS = frozenset(
    [
        "inv_freq",
        "masked_bias",
        "position_ids",
        "e_score_correction_bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
        "cos_cached",
        "sin_cached",
        "attn_mask",
        "causal_mask",
        "relative_position_index",
        "token_type_ids",
        "rope_freqs",
    ]
)
_MASKS = (".attn.bias", ".attention.bias")

# Endings of what calibration leaves beside the weights.
HELPERS = {
    "input_scale": "scales",
    "output_scale": "scales",
    "activation_scale": "scales",
    "weight_scale": "scales",
    "weight_scale_inv": "scales",
    "weight_scale_2": "scales",
    "k_scale": "scales",
    "v_scale": "scales",
    "kv_scale": "scales",
    "q_scale": "scales",
    "prob_scale": "scales",
    "q_per_channel_scales": "scales",
    "q_per_channel_zero_points": "zero points",
    "input_zero_point": "zero points",
    "output_zero_point": "zero points",
    "k_zero_point": "zero points",
    "v_zero_point": "zero points",
}
_APART = {"<optimizer>": "optimizer", "<state>": "training state", "<average>": "averages"}


def apart(name: str) -> str:
    """The component of what a training script saves beside the weights."""
    return _APART.get(name.partition(".")[0], "training state")


def classify(name: str, stored: StoredTensor, gguf: bool = False) -> tuple[str, str]:
    """The component of a weight, and whether it is a "param" or a "buffer".

    >>> one = StoredTensor("", (8, 8), "fp32", 64, 256, "")
    >>> classify("model.layers.3.self_attn.q_proj.weight", one)
    ('attention', 'param')
    >>> classify("model.layers.3.mlp.experts.7.up_proj.weight", one)
    ('experts', 'param')
    >>> classify("model.layers.3.self_attn.rotary_emb.inv_freq", one)
    ('position', 'buffer')
    """
    if ".experts." in name and name.endswith((".weight", ".bias")):
        return "experts", "param"
    steps = name.split(".")
    last = steps[-1]
    buffer = (
        last in _BUFFERS
        or stored.dtype in ("int64", "bool", "uint64")
        or (name.endswith(_MASKS) and len(stored.shape) > 1)
        or (gguf and (steps[0] == "rope_freqs" or "exp_probs_b" in steps))
        or name == "rope.freqs"
    )
    return _component(steps), "buffer" if buffer else "param"


def _component(steps: list[str]) -> str:
    if steps[0] == "output":
        return "head"
    found = ""
    for step in steps:
        if step == "output":
            # BERT's blocks end with `attention.output` and `output`.
            found = found if found == "attention" else "mlp"
            continue
        if step == "lora_A" or step == "lora_B" or step.startswith("lora_"):
            return "adapter"
        component = COMPONENT_OF.get(step)
        if component is None:
            if len(step) < LONGEST and _NORM.search(step):
                component = "norm"
            else:
                continue
        # Within experts, what follows says only which of their matrices it is.
        if found == "experts" and component not in ("router", "norm"):
            continue
        found = component
    return found or "other"
