"""What the tensors of a MoE layer are called, in memory and in published checkpoints.

The mathematics of most MoE decoders is the same; their names are not.
"""

from __future__ import annotations

from typing import NamedTuple

GATE_UP_DOWN = ("gate_proj", "up_proj", "down_proj")
W1_W3_W2 = ("w1", "w3", "w2")


class MoENames(NamedTuple):
    """Names of the parts of a layer, each from the layer's own name on.

    `expert`: the three matrices of one expert, or "" for each where all experts of a layer are two
    tensors, or three, named by `stacked`. `shared_parts`: two names for a fused gate and value.
    `norms`: replaces `DecoderConfig.norms` where only the checkpoint differs.
    """

    embedding: str = "embed_tokens"
    dense: str = "mlp"
    dense_parts: tuple[str, ...] = GATE_UP_DOWN
    router: str = "mlp.gate"
    correction: str = "mlp.gate.e_score_correction_bias"
    experts: str = "mlp.experts"
    expert: tuple[str, str, str] = GATE_UP_DOWN
    stacked: tuple[str, ...] | None = None
    shared: str = "mlp.shared_experts"
    shared_parts: tuple[str, ...] = GATE_UP_DOWN
    shared_gate: str = "mlp.shared_expert_gate"
    sinks: str = "sinks"
    norms: tuple[str, str, str, str] | None = None


_PLAIN = MoENames()
_SHARED_EXPERT = MoENames(shared="mlp.shared_expert")
_ON_BLOCK = MoENames(correction="mlp.e_score_correction_bias")
_MIXTRAL = MoENames(
    router="block_sparse_moe.gate",
    correction="block_sparse_moe.e_score_correction_bias",
    experts="block_sparse_moe.experts",
    expert=W1_W3_W2,
)
_GRANITE = MoENames(
    router="block_sparse_moe.router",
    stacked=("block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"),
    shared="shared_mlp",
    shared_parts=("input_linear", "output_linear"),
)
_GRANITE_STORED = _GRANITE._replace(
    router="block_sparse_moe.router.layer",
    stacked=("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight"),
)
_STACKED = MoENames(router="mlp.router", stacked=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"))
_PLAIN_STACKED = MoENames(stacked=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"))
_AFMOE = MoENames(router="mlp.router.gate", correction="mlp.expert_bias")
_HUNYUAN = MoENames(router="mlp.gate.wg", shared="mlp.shared_mlp")
_ERNIE = MoENames(correction="mlp.gate.moe_statics.e_score_correction_bias")
_FUSED = MoENames(
    dense_parts=("gate_up_proj", "down_proj"),
    shared_parts=("gate_up_proj", "down_proj"),
    stacked=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
)
_LLAMA4 = MoENames(
    dense="feed_forward",
    router="feed_forward.router",
    stacked=("feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"),
    shared="feed_forward.shared_expert",
)

# For each manner of naming: the names in memory (transformers 5), and those of the checkpoint.
NAMES: dict[str, tuple[MoENames, MoENames]] = {
    "qwen2_moe": (_SHARED_EXPERT, _SHARED_EXPERT),
    "deepseek": (_PLAIN, _PLAIN),
    "mixtral": (_ON_BLOCK, _MIXTRAL),
    "phimoe": (MoENames(router="mlp.router"), _MIXTRAL),
    "granitemoe": (_GRANITE, _GRANITE_STORED),
    "granitemoe_swa": (_GRANITE, _GRANITE),
    "hunyuan": (_HUNYUAN, _HUNYUAN),
    "ernie": (_ERNIE, _ERNIE._replace(correction="mlp.moe_statics.e_score_correction_bias")),
    "exaone": (_PLAIN, _ON_BLOCK),
    "afmoe": (_AFMOE, _AFMOE),
    "gpt_oss": (_STACKED, _STACKED),
    "aria": (_STACKED, _STACKED._replace(stacked=("mlp.experts.fc1.weight", "mlp.experts.fc2.weight"))),
    "hy_v3": (
        _ON_BLOCK,
        MoENames(router="mlp.router.gate", correction="mlp.expert_bias", shared="mlp.shared_mlp"),
    ),
    "kolibri1": (
        _PLAIN,
        MoENames(
            correction="moe.router.expert_bias",
            norms=("input_layernorm", "post_attn_norm", "post_attention_layernorm", "post_ffn_norm"),
        ),
    ),
    "flint": (_SHARED_EXPERT, _SHARED_EXPERT._replace(sinks="softmax_offset")),
    "laguna": (
        _PLAIN,
        MoENames(correction="mlp.experts.e_score_correction_bias", shared="mlp.shared_expert"),
    ),
    "mimo_v2_flash": (_PLAIN, MoENames(sinks="attention_sink_bias")),
    "minimax_m3": (_FUSED, _FUSED),
    "minimax_m3_vl": (_FUSED, _MIXTRAL._replace(shared="block_sparse_moe.shared_experts")),
    "step3p5": (
        _PLAIN,
        MoENames(
            router="moe.gate",
            correction="moe.router_bias",
            stacked=("moe.gate_proj.weight", "moe.up_proj.weight", "moe.down_proj.weight"),
            shared="share_expert",
        ),
    ),
    "sarvam": (_PLAIN, MoENames(embedding="word_embeddings", correction="mlp.gate.expert_bias")),
    # The bare decoder keeps its embedding's name: only that of a model with a head is another.
    "sarvam_base": (_PLAIN, MoENames(correction="mlp.gate.expert_bias")),
    "llama4": (_LLAMA4, _LLAMA4),
    "qwen3_vl_moe": (_PLAIN_STACKED, _PLAIN_STACKED),
}
