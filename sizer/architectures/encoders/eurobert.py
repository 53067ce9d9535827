"""EuroBERT, UltraBERT and ESM C: encoders with the blocks of a LLaMA, looking both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.encoders.parts import (
    Children,
    dense_label_head,
    label_head,
    masked_head,
    read_layers,
    typed_rotary_buffers,
    windowed_core,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import embedding, gated_mlp, layer_norm, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class EuroBertConfig(Config):
    """Sizes and switches of a EuroBERT.

    `family`: "eurobert", "ultrabert" or "esmc", which differ in their heads and their names; ESM C
    has LayerNorms, also for queries and keys.
    `window_layers`: "full" or "window" for each layer; `window` is the reach to either side.
    `d_prediction`: the bottleneck before UltraBERT's masked-token head.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    window: Dim | None = None
    window_layers: Pattern | None = None
    d_prediction: Dim | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_embeddings: bool = False
    family: str = "eurobert"
    act: str = "silu"
    task: str = "masked"

    letters = {"d_prediction": "Dp", "window_layers": "L"}
    meanings = {"d_prediction": "width of the bottleneck before the head"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")


def eurobert(c: EuroBertConfig) -> Module:
    """EuroBERT (arXiv:2503.05500), with the tensor names of transformers `modeling_eurobert.py`.

    Sources: also `modeling_ultrabert.py` and `modeling_esmc.py` there.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    return with_heads(c, prefix(c), encoder(c, embed, vocab), *heads(c, embed, vocab))


def encoder(c: EuroBertConfig, embed: Axis, vocab: Axis) -> Children:
    """Embedding, blocks, and a norm."""
    block = Module(
        "layers",
        (
            norm(c, "input_layernorm", embed),
            attention(c, embed),
            norm(c, "post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act),
        ),
        repeat=c.n_layers,
    )
    last = layer_norm("norm", embed, bias=False) if c.family == "esmc" else rms_norm("norm", embed)
    return (embedding("embed_tokens", vocab, embed), block, last, *rotary(c))


def attention(c: EuroBertConfig, embed: Axis) -> Module:
    """Grouped-query attention over the whole sequence or a window."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    names = ("q_norm", "k_norm") if c.family == "esmc" else ()
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed, bias=c.attention_bias),
            linear("k_proj", kv_heads, embed, bias=c.attention_bias),
            linear("v_proj", kv_heads, embed, bias=c.attention_bias),
            *(layer_norm(name, embed, bias=False) for name in names),
            *windowed_core(c),
            linear("o_proj", embed, heads, bias=c.attention_bias),
        ),
        component="attention",
    )


def norm(c: EuroBertConfig, name: str, width: Axis) -> Module:
    """The norm of a block."""
    return layer_norm(name, width) if c.family == "esmc" else rms_norm(name, width)


def rotary(c: EuroBertConfig) -> tuple[Module, ...]:
    """Inverse frequencies, of each kind of layer where there are two."""
    if c.window_layers is None:
        return rotary_buffers(c.d_head, layout=c.layout)
    half = Axis("rotary", divide(c.d_head, 2, names="d_head / 2"))
    return typed_rotary_buffers(c, half, half)


def prefix(c: EuroBertConfig) -> str:
    """The name of the model below a head."""
    if c.family == "esmc":
        return "esmc"
    return "ultrabert" if c.family == "ultrabert" and c.layout == "checkpoint" else "model"


def heads(c: EuroBertConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task == "masked":
        return masked_heads(c, embed, vocab)
    if c.family == "eurobert" and c.task == "sequence":
        return linear("dense", embed, embed, bias=True, component="head"), label_head(c, embed)
    if c.family == "esmc":
        return (dense_label_head(c, embed) if c.task == "sequence" else label_head(c, embed, name="score"),)
    if c.task == "qa":
        return (linear("qa_outputs", Axis("span", 2), embed, bias=True, component="head"),)
    return (label_head(c, embed),)


def masked_heads(c: EuroBertConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of masked tokens: a projection, that of RoBERTa, or one behind a bottleneck."""
    table = f"{prefix(c)}.embed_tokens"
    if c.family == "esmc":
        names = ("dense", "layer_norm", "decoder")
        return (masked_head(c, "lm_head", vocab, embed, table=table, names=names, shared_bias=False),)
    tied_to = f"{table}.weight" if c.tie_embeddings else None
    if c.family == "eurobert":
        return (linear("lm_head", vocab, embed, bias=c.mlp_bias, tied_to=tied_to, component="head"),)
    name = "cls" if c.layout == "checkpoint" else "head.decoder"
    return (bottleneck("head", c, embed), linear(name, vocab, embed, tied_to=tied_to, component="head"))


def bottleneck(name: str, c: EuroBertConfig, embed: Axis) -> Module:
    """UltraBERT's two matrices before the projection to the vocabulary."""
    width = Axis("prediction", c.d_prediction)
    return Module(name, (linear("linear1", width, embed), linear("linear2", embed, width)), component="head")


ARCHITECTURES = {"eurobert": Architecture(EuroBertConfig, eurobert)}


def _eurobert(hf: HFConfig) -> Reading:
    return Reading("eurobert", hf.fill(EuroBertConfig, window=None, act=hf["hidden_act"]))


def _esmc(hf: HFConfig) -> Reading:
    given = hf.fill(EuroBertConfig, window=None, family="esmc", tie_embeddings=False, act=hf["hidden_act"])
    return Reading("eurobert", given)


def ultrabert_fields(hf: HFConfig, config: type[EuroBertConfig], **given: Any) -> dict[str, Any]:
    """The fields of an UltraBERT, also of one inside another model."""
    window, kinds = hf["sliding_window"], hf["layer_types"]
    windows = hf.in_file("attention_windows")
    if windows is not None:
        window = next((w for w in windows if w), window)
        kinds = kinds or ["sliding_attention" if w else "full_attention" for w in windows]
    if kinds is None:
        kinds = [
            "sliding_attention" if (i + 1) % 3 else "full_attention" for i in range(hf["num_hidden_layers"])
        ]
    return hf.fill(
        config,
        family="ultrabert",
        window=window,
        window_layers=read_layers(kinds, hf.name),
        d_prediction=hf["prediction_head_size"],
        act=hf["hidden_act"],
        **given,
    )


def _ultrabert(hf: HFConfig) -> Reading:
    return Reading("eurobert", ultrabert_fields(hf, EuroBertConfig))


HF_READERS = {"eurobert": _eurobert, "ultrabert": _ultrabert, "esmc": _esmc}
