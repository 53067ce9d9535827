"""GPT-2 and GPT-3: pre-norm decoder blocks with learned positions and a tied head."""

from __future__ import annotations

from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp, residual
from sizer.core.tree import Axis, Module, heads_axis


@configuration
class GPT2Config(Config):
    """Sizes and switches of a GPT-2.

    `qkv_bias=False` leaves the bias off the fused projection alone; `bias=False` leaves every
    bias off, those of the LayerNorms included, as nanoGPT does.
    `causal_masks`: the published checkpoints carry the mask of each layer as a buffer.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    tie_embeddings: bool = True
    bias: bool = True
    qkv_bias: bool = True
    causal_masks: bool = False

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)
        if self.d_head is None:
            self.derive(d_head=divide(self.d_model, self.n_heads, names="d_model / n_heads"))


def gpt2(c: GPT2Config) -> Module:
    """GPT-2 (Radford et al. 2019), with the tensor names of `GPT2LMHeadModel`.

    Source: github.com/openai/gpt-2 `src/model.py`; transformers `modeling_gpt2.py`.
    Linear weights are stored `[in, out]`, as the original's 1-d convolutions are.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    heads, ffn = heads_axis("heads", c.n_heads, c.d_head), Axis("ffn", c.d_ff)
    context, one = Axis("context", c.n_ctx), Axis("one", 1)
    biased = c.bias and c.qkv_bias
    masks = (buffer("bias", one, one, context, context),) if c.causal_masks else ()

    attn = Module(
        "attn",
        (
            *masks,
            linear("c_attn", 3 * heads, embed, bias=biased, transposed=True),
            *attention_core(c.n_heads, c.n_heads, c.d_head, traits=("causal",)),
            linear("c_proj", embed, heads, bias=c.bias, transposed=True),
        ),
        component="attention",
        flow="attention",
    )
    two_layers = mlp(
        "mlp", ffn, embed, bias=c.bias, act="gelu_new", names=("c_fc", "c_proj"), transposed=True
    )
    block = Module(
        "h",
        (
            residual(layer_norm("ln_1", embed, bias=c.bias), attn, after=True),
            residual(layer_norm("ln_2", embed, bias=c.bias), two_layers),
        ),
        repeat=c.n_layers,
    )
    transformer = (
        embedding("wte", vocab, embed),
        embedding("wpe", context, embed, component="position"),
        block,
        layer_norm("ln_f", embed, bias=c.bias),
    )
    return with_head(c, transformer, prefix="transformer", embedding="wte")


ARCHITECTURES = {"gpt2": Architecture(GPT2Config, gpt2)}
