"""RWKV-4: a recurrence with a decay for each channel, and no attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import FIRST, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, State

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class RwkvConfig(Config):
    """Sizes of an RWKV. `d_attn`: the width of the recurrence."""

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    d_attn: Dim | None = None
    d_ff: Dim | None = None
    tie_embeddings: bool = False

    letters = {"d_attn": "Di"}
    meanings = {"d_attn": "width of the recurrence"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_attn=self.d_model, d_ff=4 * self.d_model)


def rwkv(c: RwkvConfig) -> Module:
    """RWKV-4 (arXiv:2305.13048), with the tensor names of `RwkvForCausalLM`.

    Source: transformers `modeling_rwkv.py`. The first block norms the embeddings too.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    block = Module(
        "blocks",
        (
            layer_norm("pre_ln", embed)._replace(at=FIRST),
            layer_norm("ln1", embed),
            _time_mix(c, embed),
            layer_norm("ln2", embed),
            _channel_mix(c, embed),
        ),
        repeat=c.n_layers,
    )
    model = (embedding("embeddings", vocab, embed), block, layer_norm("ln_out", embed))
    if c.task == "base":
        return Module("", model)
    tied_to = "rwkv.embeddings.weight" if c.tie_embeddings else None
    head = linear("head", vocab, embed, tied_to=tied_to, component="head")
    return Module("", (Module("rwkv", model), head))


def _mixes(embed: Axis, *names: str) -> tuple[Param, ...]:
    """How much of the last token each channel takes in, for each input."""
    one = Axis("one", 1)
    return tuple(Param(f"time_mix_{name}", (one, one, embed)) for name in names)


def _time_mix(c: RwkvConfig, embed: Axis) -> Module:
    """The recurrence: a numerator, a denominator and a maximum for each channel, kept in fp32."""
    inner = Axis("inner", c.d_attn)
    return Module(
        "attention",
        (
            Param("time_decay", (inner,)),
            Param("time_first", (inner,)),
            *_mixes(embed, "key", "value", "receptance"),
            State("shift", per_sequence=c.d_model),
            linear("key", inner, embed),
            linear("value", inner, embed),
            linear("receptance", inner, embed),
            Op("scan", "wkv", {"width": inner.size}),
            State("wkv", per_sequence=3 * inner.size, dtype="fp32"),
            linear("output", embed, inner),
        ),
        component="mixer",
    )


def _channel_mix(c: RwkvConfig, embed: Axis) -> Module:
    """`sigmoid(receptance(x)) · value(relu(key(x))²)`."""
    ffn = Axis("ffn", c.d_ff)
    return Module(
        "feed_forward",
        (
            *_mixes(embed, "key", "receptance"),
            State("shift", per_sequence=c.d_model),
            linear("key", ffn, embed),
            Op("act", "relu2", {"width": c.d_ff}),
            linear("receptance", embed, embed),
            linear("value", embed, ffn),
        ),
        component="mlp",
    )


ARCHITECTURES = {"rwkv": Architecture(RwkvConfig, rwkv)}


def _rwkv(hf: HFConfig) -> Reading:
    return Reading("rwkv", hf.fill(RwkvConfig, d_attn=hf["attention_hidden_size"]))


HF_READERS = {"rwkv": _rwkv}
