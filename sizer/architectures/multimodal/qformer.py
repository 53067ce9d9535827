"""The Q-Former: learned queries that attend to each other, and in some layers to a tower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import listed_layers, whole
from sizer.architectures.encoder_decoders.bart_layers import attention as qkv
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class QFormerConfig(Config):
    """Sizes and switches of a Q-Former.

    `kinds`: "cross" for layers that also attend to a tower of width `d_source`. `text_mlp`: text
    has MLPs of its own. `vocab_size`: with a table of words, which stand beside the queries.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    d_source: Dim
    kinds: Pattern
    vocab_size: Dim | None = None
    n_ctx: Dim | None = None
    d_head: Dim | None = None
    text_mlp: bool = False
    act: str = "gelu"
    task: str = "base"

    letters = {"d_source": "Ds", "kinds": "L"}
    meanings = {"d_source": "width of what the queries attend to"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def qformer(c: QFormerConfig) -> Module:
    """BLIP-2's Q-Former (arXiv:2301.12597), with the names of `Blip2QFormerModel`.

    Source: transformers `modeling_blip_2.py`.
    """
    embed, source = Axis("embed", c.d_model), Axis("source", c.d_source)
    reads = _attention(c, "crossattention", embed, source)._replace(at=c.kinds.layers("cross"))
    text = _mlp(c, "intermediate", "output", embed) if c.text_mlp else ()
    block = Module(
        "encoder.layer",
        (
            _attention(c, "attention", embed, None),
            reads,
            *(_unused(part) for part in text),
            *_mlp(c, "intermediate_query", "output_query", embed),
        ),
        repeat=c.n_layers,
    )
    if c.vocab_size is None:
        return Module("", (layer_norm("layernorm", embed), block))
    rows = Axis("context", c.n_ctx)
    ids = (buffer("position_ids", Axis("one", 1), rows, persistent=False),)
    tables = (
        embedding("word_embeddings", Axis("vocab", c.vocab_size), embed),
        embedding("position_embeddings", rows, embed, component="position"),
        layer_norm("layernorm", embed),
        *(ids if c.layout == "transformers" else ()),
    )
    return Module("", (Module("embeddings", tables), block))


def _attention(c: QFormerConfig, name: str, embed: Axis, source: Axis | None) -> Module:
    names = ("key", "value", "query", "output")
    inner = qkv("attention", embed, n=c.n_heads, d_head=c.d_head, source=source, cached=False, names=names)
    *inside, output = inner.children
    assert isinstance(output, Module)
    # The output projection stands beside the attention proper, with the norm after it.
    after = (output._replace(name="dense"), layer_norm("LayerNorm", embed))
    return Module(
        name, (inner._replace(children=tuple(inside)), Module("output", after)), component="attention"
    )


def _mlp(c: QFormerConfig, up: str, down: str, embed: Axis) -> tuple[Module, ...]:
    ffn = Axis("ffn", c.d_ff)
    first: Children = (linear("dense", ffn, embed, bias=True), Op("act", c.act, {"width": ffn.size}))
    return (
        Module(up, first, component="mlp"),
        Module(
            down, (linear("dense", embed, ffn, bias=True), layer_norm("LayerNorm", embed)), component="mlp"
        ),
    )


def _unused(part: Module) -> Module:
    """What runs for text alone, of which the queries make no use."""
    return part._replace(uses=0)


ARCHITECTURES = {"qformer": Architecture(QFormerConfig, qformer)}


def _qformer(hf: HFConfig, *, words: bool = False) -> Reading:
    n_layers, step = listed_layers(hf), whole(hf, "cross_attention_frequency")
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": n_layers,
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "d_source": hf["encoder_hidden_size"],
        "kinds": Pattern(tuple("cross" if i % step == 0 else "self" for i in range(n_layers))),
        "text_mlp": words or bool(hf["use_qformer_text_input"]),
        "act": hf["hidden_act"],
        "vocab_size": hf["vocab_size"] if words else None,
        "n_ctx": hf["max_position_embeddings"] if words else None,
    }
    return Reading("qformer", given)


def _instruct(hf: HFConfig) -> Reading:
    """InstructBLIP's, which reads the instruction too."""
    return _qformer(hf, words=True)


HF_READERS = {
    "blip_2_qformer": _qformer,
    "instructblip_qformer": _instruct,
    "instructblipvideo_qformer": _instruct,
}
