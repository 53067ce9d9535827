"""CPM-Ant: a Chinese decoder with a table of prompts, and biases for the distance of each two tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gate_op, linear, rms_norm
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class CpmAntConfig(Config):
    """Sizes and switches of a CPM-Ant."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    n_prompts: Dim = 32
    prompt_length: Dim = 32
    n_segments: Dim = 32
    n_buckets: Dim = 512
    tie_embeddings: bool = True

    letters = {"n_prompts": "P", "prompt_length": "Lp", "n_segments": "Ns", "n_buckets": "Nb"}
    meanings = {
        "n_prompts": "kinds of prompt",
        "prompt_length": "vectors of one prompt",
        "n_segments": "segments (source, target, …)",
        "n_buckets": "buckets of relative distance",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def cpmant(c: CpmAntConfig) -> Module:
    """CPM-Ant (OpenBMB 2022), with the tensor names of `CpmAntForCausalLM`.

    Source: transformers `modeling_cpmant.py`. One table of biases, by segment and distance, serves
    all layers.
    """
    embed = Axis("embed", c.d_model)
    buckets = Axis("buckets", c.n_segments * c.n_segments + c.n_buckets)
    encoder = Module(
        "encoder",
        (
            Module("layers", (_attention(c, embed), _feed_forward(c, embed)), repeat=c.n_layers),
            rms_norm("output_layernorm", embed),
        ),
    )
    biases = Param("relative_attention_bias", (buckets, Axis("heads", c.n_heads)), "lookup")
    model = (
        embedding("input_embedding", _rows(c), embed),
        embedding("segment_embedding", Axis("segments", c.n_segments), embed),
        Module("position_bias", (biases,), component="position"),
        encoder,
    )
    if c.task == "base":
        return Module("", model)
    return Module("", (Module("cpmant", model), _head(c, embed)))


def _rows(c: CpmAntConfig) -> Axis:
    """Tokens, and the vectors of the prompts after them."""
    return Axis("vocab", c.vocab_size + c.n_prompts * c.prompt_length)


def _head(c: CpmAntConfig, embed: Axis) -> Module:
    """The language-model head: in published files the whole input table, prompts included.

    transformers 5 no longer ties it, and makes a head of its own with a row for each token.
    """
    if c.tie_embeddings and c.layout == "checkpoint":
        return linear("lm_head", _rows(c), embed, tied_to="cpmant.input_embedding.weight", component="head")
    return linear("lm_head", Axis("vocab", c.vocab_size), embed, component="head")


def _attention(c: CpmAntConfig, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attention = Module(
        "self_attention",
        (
            *(linear(name, heads, embed) for name in ("project_q", "project_k", "project_v")),
            *attention_core(c.n_heads, c.n_heads, c.d_head),
            Op("prompt", "prompt", {}),
            linear("attention_out", embed, heads),
        ),
        component="attention",
    )
    return Module("self_att", (rms_norm("layernorm_before_attention", embed), attention))


def _feed_forward(c: CpmAntConfig, embed: Axis) -> Module:
    ffn = Axis("ffn", c.d_ff)
    mlp = Module(
        "ffn",
        (
            linear("w_in.w_0", ffn, embed),
            linear("w_in.w_1", ffn, embed),
            gate_op("gelu", c.d_ff),
            linear("w_out", embed, ffn),
        ),
        component="mlp",
    )
    return Module("ffn", (rms_norm("layernorm_before_ffn", embed), mlp))


ARCHITECTURES = {"cpmant": Architecture(CpmAntConfig, cpmant)}


def _cpmant(hf: HFConfig) -> Reading:
    given = hf.fill(
        CpmAntConfig,
        d_head=hf["dim_head"],
        d_ff=hf["dim_ff"],
        n_prompts=hf["prompt_types"],
        n_segments=hf["segment_types"],
        n_buckets=hf["position_bias_num_buckets"],
        # transformers 4 ties the head to the table; 5 declares no tie.
        tie_embeddings=not hf.saved_by_transformers_5,
    )
    return Reading("cpmant", given)


HF_READERS = {"cpmant": _cpmant}
