"""The GPT of the book *Build a Large Language Model (From Scratch)* by Sebastian Raschka."""

from __future__ import annotations

from sizer.architectures.decoders.gpt2 import GPT2Config
from sizer.architectures.registry import Architecture
from sizer.core.config import configuration
from sizer.core.layers import attention_core, buffer, linear
from sizer.core.tree import Axis, Module, Param, heads_axis


@configuration
class GPTFromScratchConfig(GPT2Config):
    """As GPT-2, with a head of its own and, by default, no bias on queries, keys and values."""

    tie_embeddings: bool = False
    qkv_bias: bool = False
    causal_masks: bool = True


def gpt_from_scratch(c: GPTFromScratchConfig) -> Module:
    """`GPTModel` of chapter 4, with its tensor names.

    Source: github.com/rasbt/LLMs-from-scratch `ch04/01_main-chapter-code/gpt.py`.
    The output projection has a bias whatever `qkv_bias` says, and the head never has one.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    context, ffn = Axis("context", c.n_ctx), Axis("ffn", c.d_ff)

    ff = Module(
        "ff.layers",
        (linear("0", ffn, embed, bias=c.bias), linear("2", embed, ffn, bias=c.bias)),
        component="mlp",
    )
    block = Module(
        "trf_blocks",
        (_norm("norm1", embed, c.bias), _attention(c, embed, context), _norm("norm2", embed, c.bias), ff),
        repeat=c.n_layers,
    )
    tied_to = "tok_emb.weight" if c.tie_embeddings else None
    return Module(
        "",
        (
            Module("tok_emb", (Param("weight", (vocab, embed), "lookup"),), component="embedding"),
            Module("pos_emb", (Param("weight", (context, embed), "lookup"),), component="position"),
            block,
            _norm("final_norm", embed, c.bias),
            *(
                (linear("out_head", vocab, embed, tied_to=tied_to, component="head"),)
                if c.task == "causal"
                else ()
            ),
        ),
    )


def _attention(c: GPTFromScratchConfig, embed: Axis, context: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    biased = c.bias and c.qkv_bias
    parts = (
        linear("W_query", heads, embed, bias=biased),
        linear("W_key", heads, embed, bias=biased),
        linear("W_value", heads, embed, bias=biased),
        *((buffer("mask", context, context),) if c.causal_masks else ()),
        *attention_core(c.n_heads, c.n_heads, c.d_head),
        linear("out_proj", embed, heads, bias=c.bias),
    )
    return Module("att", parts, component="attention")


def _norm(name: str, width: Axis, bias: bool) -> Module:
    leaves = (Param("scale", (width,)), *((Param("shift", (width,)),) if bias else ()))
    return Module(name, leaves, kind="layer_norm", component="norm")


ARCHITECTURES = {"gpt_from_scratch": Architecture(GPTFromScratchConfig, gpt_from_scratch)}
