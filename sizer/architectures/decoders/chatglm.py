"""ChatGLM and GLM-4 by their own code: fused projections, few KV heads, a head inside the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.decoder_names import Names
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.heads import with_parts
from sizer.architectures.registry import Architecture, Reading
from sizer.core.dims import divide
from sizer.core.layers import buffer, linear
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_CHATGLM = Names(
    model="transformer",
    embedding="embedding.word_embeddings",
    block="encoder.layers",
    attention="self_attention",
    qkv=("query_key_value",),
    output="dense",
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
    final_norm="encoder.final_layernorm",
    rotary=(),
    head="transformer.output_layer",
)
_FIRST = _CHATGLM._replace(
    embedding="word_embeddings",
    block="layers",
    attention="attention",
    final_norm="final_layernorm",
    head="lm_head",
)


def chatglm(c: DecoderConfig) -> Module:
    """ChatGLM2, ChatGLM3 and GLM-4 (arXiv:2406.12793), with the tensor names of their checkpoints.

    Source: THUDM/chatglm3-6b and glm-4-9b, `modeling_chatglm.py`. The frequencies of the rotary
    positions are stored. A classifier stands beside the head of the language model, which stays.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    half = Axis("rotary", divide(c.d_rotary, 2, names="d_rotary / 2"))
    rotary = Module("rotary_pos_emb", (buffer("inv_freq", half),))
    if c.task != "sequence":
        return with_parts(decoder(c), c, rotary)
    tree = with_parts(decoder(c), c, rotary, linear("output_layer", vocab, embed, component="head"))
    head = linear("classifier_head", Axis("labels", c.n_labels), embed, bias=True, component="head")
    return tree._replace(children=(tree.children[0], head))


ARCHITECTURES = {"chatglm": Architecture(DecoderConfig, chatglm)}


def _chatglm(hf: HFConfig) -> Reading:
    if hf.get("inner_hidden_size") is not None:
        return _first(hf)
    for key, part in (("pre_seq_len", "a trained prefix"), ("vision_config", "a vision tower")):
        if hf.get(key):
            raise InvalidConfig(
                f"{key}: sizer does not know a ChatGLM with {part}; remove {key} to count without"
            )
    bias = hf["add_bias_linear"]
    d_head = hf["kv_channels"] or whole(hf, "hidden_size") // whole(hf, "num_attention_heads")
    return dense(
        hf,
        "chatglm",
        module_names=_CHATGLM._replace(final_norm=_CHATGLM.final_norm if hf["post_layer_norm"] else ""),
        vocab_size=hf["padded_vocab_size"],
        norm="rms" if hf["rmsnorm"] else "layer",
        n_kv_heads=hf["multi_query_group_num"] if hf["multi_query_attention"] else None,
        d_head=d_head,
        d_rotary=d_head // 2,
        qkv_bias=bias or hf["add_qkv_bias"],
        o_bias=bias,
        mlp_bias=bias,
        tie_embeddings=False,
    )


def _first(hf: HFConfig) -> Reading:
    """The first ChatGLM (2023): LayerNorms, biases, an MLP of two matrices and a tied head."""
    return dense(
        hf,
        module_names=_FIRST,
        vocab_size=hf["vocab_size"],
        norm="layer",
        n_kv_heads=None,
        d_head=None,
        d_ff=hf["inner_hidden_size"],
        gated=False,
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        tie_embeddings=hf.in_file("tie_word_embeddings", True),
    )


HF_READERS = {"chatglm": _chatglm}
