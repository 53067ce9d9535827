"""BERT and the encoders that differ from it by a switch: ERNIE, LayoutLM, BigBird, Megatron-BERT.

One builder with flags. Its parts (`embeddings`, `layer`, `stack`, `pooler`) are put together
anew by the families beside this file that have more of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders.heads import Children, pooled, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, residual
from sizer.core.tree import Axis, Leaf, Module, Op, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class BertConfig(Config):
    """Sizes and switches of a BERT.

    `d_embed`: width of the embeddings, where it is not `d_model`; the linear `projection` widens them.
    `position_rows`: rows of the position table, where they are more than `n_ctx`.
    `causal`: a decoder, which keeps keys and values; `cross_attention`: it also reads an encoder,
    whose width `d_source` is, where it is not its own.
    `pooled`: tasks that pool the first token through a dense layer; `pooler` overrules it.
    `norms`: names of the norms of attention (in it), of the MLP (in the layer), and after all layers.
    `head`: the kind of language head, `classifier`: that of the classification head ("linear",
    "two_layers"), `choice_layer`: the linear before that of multiple choice. `prefix`: the name of
    the encoder under a head. `counted_positions`: the place of a token is counted from those of its
    sequence that are no padding. `head_first`: the module makes the head before the encoder.
    `id_buffers`: buffers of the embeddings, of which a file has `saved_ids`.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    d_embed: Dim | None = None
    position_rows: Dim | None = None
    n_token_types: Dim | None = 2
    n_task_types: Dim | None = None
    n_coordinates: Dim | None = None
    d_source: Dim | None = None
    window: Dim | None = None
    task: str = "base"
    pooled: tuple[str, ...] = ("base", "pretraining", "next_sentence", "sequence", "choice")
    pooler: bool | None = None
    pooler_name: str = "pooler.dense"
    tie_embeddings: bool = True
    causal: bool = False
    cross_attention: bool = False
    qkv_bias: bool = True
    act: str = "gelu"
    prefix: str = "bert"
    head: str = "bert"
    sentence_head: bool = True
    classifier: str = "linear"
    choice_layer: str = ""
    projection: str = "embeddings_project"
    learned_positions: bool = True
    embedding_norm: str = "LayerNorm"
    norms: tuple[str, str, str] = ("output.LayerNorm", "output.LayerNorm", "")
    counted_positions: bool = False
    head_first: bool = False
    id_buffers: tuple[str, ...] = ("position_ids", "token_type_ids")
    saved_ids: tuple[str, ...] = ()

    letters = {
        "d_embed": "De",
        "position_rows": "P",
        "n_token_types": "Nt",
        "n_task_types": "Na",
        "n_coordinates": "Nc",
        "d_source": "Ds",
    }
    meanings = {
        "d_embed": "width of the embeddings",
        "position_rows": "rows of the position table",
        "n_token_types": "token types (sentence A, sentence B)",
        "n_task_types": "task types",
        "n_coordinates": "coordinates of a token on its page",
        "d_source": "width of what a decoder reads",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model, position_rows=self.n_ctx, pooler=self.task in self.pooled)
        self.derive_quotient("d_head", "d_model", "n_heads")
        if self.cross_attention and not self.causal:
            raise InvalidConfig("cross_attention needs a decoder; set causal (is_decoder in a config.json)")


def bert(c: BertConfig) -> Module:
    """BERT (Devlin et al. 2018), with the tensor names of transformers `modeling_bert.py`."""
    plain = not c.cross_attention and all(name.startswith("output") for name in c.norms[:2])
    blocks = stack(c, layer(c), flow="block" if plain else "")
    return with_head(c, (*embeddings(c), *blocks, *pooler(c)))


def narrow(c: BertConfig) -> Axis:
    """The axis of the embeddings."""
    return Axis("embed", c.d_model) if c.d_embed is None else Axis("embedding", c.d_embed)


def embeddings(c: BertConfig, *more: Module | Leaf) -> Children:
    """Word, position and type embeddings and their norm; a projection if they are narrow."""
    width, context = narrow(c), Axis("context", c.n_ctx)
    tables = [embedding("word_embeddings", Axis("vocab", c.vocab_size), width)]
    if c.learned_positions:
        rows = Axis("context", c.position_rows)
        tables.append(embedding("position_embeddings", rows, width, component="position"))
    if c.n_coordinates is not None:
        page = Axis("coordinates", c.n_coordinates)
        tables += [embedding(f"{x}_position_embeddings", page, width, component="position") for x in "xyhw"]
    if c.n_token_types is not None:
        tables.append(embedding("token_type_embeddings", Axis("types", c.n_token_types), width))
    if c.n_task_types is not None:
        tables.append(embedding("task_type_embeddings", Axis("types", c.n_task_types), width))
    norm = (layer_norm(c.embedding_norm, width),) if c.embedding_norm else ()
    names = c.saved_ids if c.layout == "checkpoint" else c.id_buffers
    ids = (buffer(n, Axis("one", 1), context, persistent=n in c.saved_ids) for n in names)
    flow = "embeddings"
    if c.counted_positions:
        # Their table is made last.
        flow = "embeddings_counted"
        norm = (*norm, *(table for table in tables if table.component == "position"))
        tables = [table for table in tables if table.component != "position"]
    module = Module("embeddings", (*tables, *more, *norm, *ids), flow="" if more else flow)
    if c.d_embed is None:
        return (module,)
    return (module, linear(c.projection, Axis("embed", c.d_model), width, bias=True, component="embedding"))


def layer(c: BertConfig, *more: Module | Leaf) -> Children:
    """One block: attention, cross-attention in a decoder that reads an encoder, MLP."""
    cross = (attention(c, name="crossattention", cross=True),) if c.cross_attention else ()
    return (attention(c, *more), *cross, *feed_forward(c))


def stack(c: BertConfig, block: Children, *, flow: str = "") -> Children:
    """All blocks, and the norm after them where there is one."""
    final = (layer_norm(c.norms[2], Axis("embed", c.d_model)),) if c.norms[2] else ()
    return (Module("encoder.layer", block, repeat=c.n_layers, flow=flow), *final)


def attention(
    c: BertConfig, *more: Module | Leaf, name: str = "attention", cross: bool = False, bare: bool = False
) -> Module:
    """Queries, keys and values of all heads; keys and values over the encoder's tokens if `cross`.

    `more` is what a family adds; with `bare`, that includes its own scores and mixing.
    """
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    stream = "encoder" if cross else ""
    source = Axis("source", c.d_source) if cross and c.d_source is not None else embed
    core = attention_core(
        c.n_heads, c.n_heads, c.d_head, window=None if cross else c.window, cached=c.causal, cross=cross
    )
    projections: Children = (
        linear("self.query", heads, embed, bias=c.qkv_bias),
        linear("self.key", heads, source, bias=c.qkv_bias)._replace(stream=stream),
        linear("self.value", heads, source, bias=c.qkv_bias)._replace(stream=stream),
        *more,
        *(() if bare else core),
        linear("output.dense", embed, heads, bias=True),
    )
    if not (more or bare or cross):
        projections = (Module("", projections, flow="attention"),)
    return Module(name, around(c.norms[0], embed, projections), component="attention")


def feed_forward(c: BertConfig) -> Children:
    """The MLP of a block and its norm."""
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    parts = (
        linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
        Op("act", c.act, {"width": c.d_ff}, component="mlp"),
        linear("output.dense", embed, ffn, bias=True, component="mlp"),
    )
    return around(c.norms[1], embed, parts)


def around(norm: str, width: Axis, parts: Children) -> Children:
    """The parts with their norm: after them if it belongs to their output, else before them."""
    one = layer_norm(norm, width)
    return (residual(*parts, after=True), one) if norm.startswith("output") else (one, *parts)


def pooler(c: BertConfig) -> Children:
    """The dense layer over the first token, for the tasks that have it."""
    embed = Axis("embed", c.d_model)
    return (pooled(c.pooler_name, embed, embed),) if c.pooler else ()


ARCHITECTURES = {"bert": Architecture(BertConfig, bert)}

EVERY_TASK = ("base", "masked", "causal", "pretraining", "sequence", "token", "qa", "choice")


def flag(hf: HFConfig, key: str) -> bool:
    """A switch that not every model type has; null is off."""
    return bool(hf.get(key))


def fields_of(hf: HFConfig, config: type[BertConfig] = BertConfig, **given: Any) -> dict[str, Any]:
    """The fields of a BERT-like configuration that are read the same for all model types."""
    usual = {
        "causal": flag(hf, "is_decoder"),
        "cross_attention": flag(hf, "add_cross_attention"),
        "act": hf.get("hidden_act", "gelu"),
    }
    return hf.fill(config, **{**usual, **given})


def _bert(hf: HFConfig) -> Reading:
    return Reading("bert", fields_of(hf))


def _ernie(hf: HFConfig) -> Reading:
    task_types = hf["task_type_vocab_size"] if hf["use_task_id"] else None
    return Reading("bert", fields_of(hf, prefix="ernie", n_task_types=task_types))


def _layoutlm(hf: HFConfig) -> Reading:
    given: dict[str, Any] = {"prefix": "layoutlm", "pooled": EVERY_TASK, "id_buffers": ("position_ids",)}
    return Reading("bert", fields_of(hf, n_coordinates=hf["max_2d_position_embeddings"], **given))


def _megatron_bert(hf: HFConfig) -> Reading:
    given: dict[str, Any] = {
        "norms": ("ln", "ln", "encoder.ln"),
        "embedding_norm": "",
        "id_buffers": ("position_ids",),
    }
    return Reading("bert", fields_of(hf, **given))


def _bert_generation(hf: HFConfig) -> Reading:
    given: dict[str, Any] = {"n_token_types": None, "pooled": (), "id_buffers": ("position_ids",)}
    return Reading("bert", fields_of(hf, head="generation", **given))


def _big_bird(hf: HFConfig) -> Reading:
    given: dict[str, Any] = {"pooler_name": "pooler", "classifier": "two_layers", "head": "big_bird"}
    if hf.task == "qa":
        given["n_labels"] = 2
    if hf["attention_type"] == "block_sparse" and not flag(hf, "is_decoder"):
        # Each block of queries sees itself, its two neighbours, two global blocks and some at random.
        given["window"] = (5 + hf["num_random_blocks"]) * hf["block_size"]
    tasks = tuple(task for task in EVERY_TASK if task != "qa")
    return Reading("bert", fields_of(hf, qkv_bias=hf["use_bias"], pooled=tasks, **given))


HF_READERS = {
    "bert": _bert,
    "ernie": _ernie,
    "layoutlm": _layoutlm,
    "megatron-bert": _megatron_bert,
    "bert-generation": _bert_generation,
    "big_bird": _big_bird,
}
