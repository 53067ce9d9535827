"""PaLM: parallel blocks, multi-query attention, a gated MLP and no biases."""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gated_mlp, linear, rms_norm
from sizer.core.tree import Axis, Module, heads_axis


@configuration
class PalmConfig(Config):
    """Sizes of a PaLM. The width of a head is its own: it is not d_model / n_heads."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    vocab_size: Dim
    d_ff: Dim | None = None
    n_kv_heads: Dim = 1
    tie_embeddings: bool = True

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)


def palm(c: PalmConfig) -> Module:
    """PaLM (Chowdhery et al. 2022), section 2: attention and MLP side by side, after one norm.

    The checkpoint is not public; tensor names are ours. Norms have a scale and no bias, as T5X's.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)

    block = Module(
        "layers",
        (
            rms_norm("norm", embed),
            Module(
                "attention",
                (
                    linear("q_proj", heads, embed),
                    linear("k_proj", kv_heads, embed),
                    linear("v_proj", kv_heads, embed),
                    *attention_core(c.n_heads, c.n_kv_heads, c.d_head),
                    linear("o_proj", embed, heads),
                ),
                component="attention",
            ),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed),
        ),
        repeat=c.n_layers,
    )
    tied_to = "embedding.weight" if c.tie_embeddings else None
    return Module(
        "",
        (
            embedding("embedding", vocab, embed),
            block,
            rms_norm("final_norm", embed),
            linear("head", vocab, embed, tied_to=tied_to, component="head"),
        ),
    )


ARCHITECTURES = {"palm": Architecture(PalmConfig, palm)}
