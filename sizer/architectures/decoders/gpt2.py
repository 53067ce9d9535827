"""GPT-2 and GPT-3, and the two that frame them: GPT-1 (post-norm) and GPT-BigCode (one KV head)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.heads import Children, with_named_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp, residual
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class GPT2Config(Config):
    """Sizes and switches of a GPT-2.

    `qkv_bias=False` leaves the bias off the fused projection alone; `bias=False` leaves every
    bias off, those of the LayerNorms included, as nanoGPT does.
    `causal_masks`: the published checkpoints carry the mask of each layer as a buffer.
    `cross_attention`: each block attends to an encoder's output too.
    `summary`: what the second head of a double-headed model projects to, "labels" (one) or
    "embed"; without it that head has no parameters.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    n_kv_heads: Dim | None = None
    tie_embeddings: bool = True
    bias: bool = True
    qkv_bias: bool = True
    causal_masks: bool = False
    cross_attention: bool = False
    act: str = "gelu_new"
    summary: str | None = None

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model, n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")


def gpt2(c: GPT2Config) -> Module:
    """GPT-2 (Radford et al. 2019), with the tensor names of `GPT2LMHeadModel`.

    Source: github.com/openai/gpt-2 `src/model.py`; transformers `modeling_gpt2.py`.
    Linear weights are stored `[in, out]`, as the original's 1-d convolutions are.
    """
    return _pre_norm(c, transposed=True)


def gpt_bigcode(c: GPT2Config) -> Module:
    """GPT-BigCode, the SantaCoder and StarCoder blocks: a GPT-2 whose query heads share one KV head.

    Source: arXiv:2301.03988; transformers `modeling_gpt_bigcode.py`, which keeps one mask for all
    layers in memory and stores its weights `[out, in]`.
    """
    context = Axis("context", c.n_ctx)
    mask = (buffer("bias", context, context, persistent=False),) if c.layout == "transformers" else ()
    return _pre_norm(c, *mask, transposed=False)


def openai_gpt(c: GPT2Config) -> Module:
    """GPT-1 (Radford et al. 2018), with the tensor names of `OpenAIGPTLMHeadModel`.

    Source: transformers `modeling_openai.py`. Norms follow attention and MLP, and none closes the stack.
    """
    embed, context, one = Axis("embed", c.d_model), Axis("context", c.n_ctx), Axis("one", 1)
    in_memory = c.layout == "transformers"
    masks = (buffer("bias", one, one, context, context, persistent=False),) if in_memory else ()
    block = Module(
        "h",
        (
            _attention(c, *masks, transposed=True),
            layer_norm("ln_1", embed),
            _feed_forward(c, transposed=True),
            layer_norm("ln_2", embed),
        ),
        repeat=c.n_layers,
    )
    transformer = (
        embedding("tokens_embed", Axis("vocab", c.vocab_size), embed),
        embedding("positions_embed", context, embed, component="position"),
        *((buffer("position_ids", context, persistent=False),) if in_memory else ()),
        block,
    )
    return _with_heads(c, transformer, embedding="tokens_embed")


def _pre_norm(c: GPT2Config, *buffers: Any, transposed: bool) -> Module:
    embed, context, one = Axis("embed", c.d_model), Axis("context", c.n_ctx), Axis("one", 1)
    masks = (buffer("bias", one, one, context, context),) if c.causal_masks else ()
    cross = (
        (layer_norm("ln_cross_attn", embed, bias=c.bias), _cross_attention(c, transposed=transposed))
        if c.cross_attention
        else ()
    )
    block = Module(
        "h",
        (
            residual(
                layer_norm("ln_1", embed, bias=c.bias),
                _attention(c, *masks, transposed=transposed),
                held=True,
            ),
            *cross,
            residual(layer_norm("ln_2", embed, bias=c.bias), _feed_forward(c, transposed=transposed)),
        ),
        repeat=c.n_layers,
        flow="" if cross else "block",
    )
    transformer = (
        *buffers,
        embedding("wte", Axis("vocab", c.vocab_size), embed),
        embedding("wpe", context, embed, component="position"),
        block,
        layer_norm("ln_f", embed, bias=c.bias),
    )
    return _with_heads(c, transformer, embedding="wte")


def _attention(c: GPT2Config, *buffers: Any, transposed: bool) -> Module:
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    biased = c.bias and c.qkv_bias
    return Module(
        "attn",
        (
            *buffers,
            linear("c_attn", heads + 2 * kv_heads, embed, bias=biased, transposed=transposed),
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, traits=("causal", "laid_by_head")),
            linear("c_proj", embed, heads, bias=c.bias, transposed=transposed),
        ),
        component="attention",
        # GPT-BigCode's own module works on one KV head in another way, which nobody has written down here.
        flow="attention" if transposed else "",
    )


def _cross_attention(c: GPT2Config, *, transposed: bool) -> Module:
    """Queries from the text; keys and values, in one matrix, from the encoder's output."""
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    keys_values = linear("c_attn", 2 * heads, embed, bias=c.bias, transposed=transposed)
    return Module(
        "crossattention",
        (
            keys_values._replace(stream="encoder"),
            linear("q_attn", heads, embed, bias=c.bias, transposed=transposed),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cross=True),
            linear("c_proj", embed, heads, bias=c.bias, transposed=transposed),
        ),
        component="attention",
    )


def _feed_forward(c: GPT2Config, *, transposed: bool) -> Module:
    ffn, embed = Axis("ffn", c.d_ff), Axis("embed", c.d_model)
    return mlp("mlp", ffn, embed, bias=c.bias, act=c.act, names=("c_fc", "c_proj"), transposed=transposed)


def _with_heads(c: GPT2Config, transformer: Children, *, embedding: str) -> Module:
    """The usual heads, or a language-model head beside one that scores multiple choices."""
    if c.task != "double_heads":
        return with_named_head(c, transformer, prefix="transformer", embedding=embedding)
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    tied_to = f"transformer.{embedding}.weight" if c.tie_embeddings else None
    head = linear("lm_head", vocab, embed, tied_to=tied_to, component="head")
    if c.summary is None:
        return Module("", (Module("transformer", transformer), head))
    scores = embed if c.summary == "embed" else Axis("one", 1)
    choice = linear("multiple_choice_head.summary", scores, embed, bias=True, component="head")
    return Module("", (Module("transformer", transformer), head, choice))


ARCHITECTURES = {
    "gpt2": Architecture(GPT2Config, gpt2),
    "gpt_bigcode": Architecture(GPT2Config, gpt_bigcode),
    "openai_gpt": Architecture(GPT2Config, openai_gpt),
}


def _summary(hf: HFConfig) -> str | None:
    if not hf["summary_use_proj"]:
        return None
    return "labels" if hf["summary_proj_to_labels"] else "embed"


def _reading(architecture: str, hf: HFConfig, **given: Any) -> Reading:
    """A configuration in transformers' own words alone: it ignores those of other tools.

    The switches of nanoGPT and of the published masks are not among them.
    """
    sizes = {
        "d_model": hf["n_embd"],
        "n_layers": hf["n_layer"],
        "n_heads": hf["n_head"],
        "n_ctx": hf["n_positions"],
        "n_kv_heads": None,
        "d_head": None,
    }
    switches = {"bias": True, "qkv_bias": True, "causal_masks": False, "summary": None}
    return Reading(architecture, hf.fill(GPT2Config, **{**sizes, **switches, **given}))


def _gpt2(hf: HFConfig) -> Reading:
    return _reading(
        "gpt2",
        hf,
        d_ff=hf["n_inner"],
        cross_attention=hf["add_cross_attention"],
        act=hf["activation_function"],
        summary=_summary(hf),
    )


def _gpt_bigcode(hf: HFConfig) -> Reading:
    return _reading(
        "gpt_bigcode",
        hf,
        d_ff=hf["n_inner"],
        n_kv_heads=1 if hf["multi_query"] else None,
        cross_attention=hf["add_cross_attention"],
        act=hf["activation_function"],
    )


def _openai_gpt(hf: HFConfig) -> Reading:
    return _reading("openai_gpt", hf, d_ff=None, act=hf["afn"], summary=_summary(hf))


HF_READERS = {
    "gpt2": _gpt2,
    "gpt-sw3": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "openai-gpt": _openai_gpt,
}
