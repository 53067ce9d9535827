"""What the families of LLaMA-like decoders call their modules."""

from __future__ import annotations

from typing import NamedTuple


class Names(NamedTuple):
    """What a family calls its modules.

    `qkv`: three projections, or one that computes all three at once.
    `mlp`: gate, up and down; of a gated MLP with two, the first computes gate and up at once.
    `rotary`: the modules that hold the frequencies of the rotary positions.
    `layer_rotary`: the same inside each layer's attention, where the checkpoint stores them.
    `positions`: the table of learned positions; "" for none.
    `head`, `classifier`: the head of the language model, and that of a classification.
    `qa`: the decoder below a question-answering head.
    """

    model: str = "model"
    embedding: str = "embed_tokens"
    block: str = "layers"
    attention: str = "self_attn"
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    output: str = "o_proj"
    feed_forward: str = "mlp"
    mlp: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    final_norm: str = "norm"
    rotary: tuple[str, ...] = ("rotary_emb",)
    layer_rotary: str = ""
    positions: str = ""
    head: str = "lm_head"
    classifier: str = "score"
    qa: str = "transformer"


LLAMA = Names()
# Before the names of the frequencies of layers with a window.
WINDOWED = "sliding_attention_"
