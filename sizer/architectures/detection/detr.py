"""DETR and Table Transformer: a frozen ResNet, and a transformer whose queries find objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.detection.backbones import backbone_of, last_width
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import Rules, stored_names
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear
from sizer.core.tree import Axis, Buffer, Module, Op, Param, Places, heads_axis
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# Rows and columns of an image with a learned position.
SIDES = 50
FILES = (
    (r"backbone\.model\.", "backbone.conv_encoder.model."),
    (r"\.o_proj\.", ".out_proj."),
    (r"(layers\.\{\})\.mlp\.fc", r"\1.fc"),
)


@configuration
class DetrConfig(Config):
    """Sizes of the transformer, and its backbone.

    `d_backbone`: channels that it gives; `n_queries`: objects that an image may have. `early`: the
    names of transformers 4 in memory too, and a norm after the encoder. `n_classes`: labels, and one
    for nothing at all.
    """

    backbone: Part
    d_backbone: Dim
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    n_decoder_layers: Dim
    n_decoder_heads: Dim
    d_ff_decoder: Dim
    n_queries: Dim
    d_head: Dim | None = None
    d_decoder_head: Dim | None = None
    d_side: Dim | None = None
    learned_positions: bool = False
    early: bool = False
    act: str = "relu"
    stored: Rules = ()
    task: str = "base"

    letters = {
        "backbone": "bb",
        "d_backbone": "Cb",
        "n_decoder_layers": "L_dec",
        "n_decoder_heads": "H_dec",
        "d_decoder_head": "Dh_dec",
        "d_ff_decoder": "F_dec",
        "n_queries": "Nq",
        "d_side": "Ds",
    }
    meanings = {
        "d_backbone": "channels that the backbone gives",
        "n_decoder_layers": "blocks of the decoder",
        "n_decoder_heads": "heads of the decoder",
        "d_decoder_head": "width of one of them",
        "d_ff_decoder": "hidden width of the decoder's MLP",
        "n_queries": "objects that are looked for",
        "d_side": "width of the position of a row or column",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")
        self.derive_quotient("d_decoder_head", "d_model", "n_decoder_heads")


def frozen(module: Module) -> Module:
    """A backbone that is not trained: the norms of its batches are constants."""
    children: list[Any] = []
    for child in module.children:
        if isinstance(child, Module):
            children.append(frozen(child))
        elif module.kind != "batch_norm":
            children.append(child._replace(trainable=False) if isinstance(child, Param) else child)
        elif isinstance(child, Param):
            children.append(Buffer(child.name, child.axes, component="norm"))
        elif child.name != "num_batches_tracked":
            children.append(child)
    return module._replace(children=tuple(children))


def detr(c: DetrConfig) -> Module:
    """DETR (arXiv:2005.12872), with the names of `DetrForObjectDetection`.

    Source: transformers `modeling_detr.py`, `modeling_table_transformer.py`.
    """
    embed, queries = Axis("embed", c.d_model), Places(c.n_queries)
    wrapped = "backbone.conv_encoder.model" if c.early else "backbone.model"
    backbone = frozen(c.backbone.module(wrapped, layout=c.layout, stream="encoder"))
    last = (layer_norm("layernorm", embed),) if c.early else ()
    model = (
        backbone,
        *_positions(c),
        embedding("query_position_embeddings", Axis("queries", c.n_queries), embed, component="position"),
        Module(
            "",
            (convolution("input_projection", embed, Axis("channels", c.d_backbone), ONE, ONE),),
            stream="encoder",
        ),
        Module("encoder", (_encoder_layer(c, embed), *last), stream="encoder"),
        Module("decoder", (_decoder_layer(c, embed), layer_norm("layernorm", embed)), places=queries),
    )
    if c.task == "base":
        tree = Module("", model)
    else:
        out = Axis("labels", c.n_labels + 1)
        labels = linear("class_labels_classifier", out, embed, bias=True, component="head", places=queries)
        tree = Module("", (Module("model", model), labels, boxes(embed)._replace(places=queries)))
    return stored_names(tree, c.stored) if c.layout == "checkpoint" else tree


def boxes(embed: Axis) -> Module:
    """Three matrices that make the four sides of a box."""
    outputs = (embed, embed, Axis("box", 4))
    layers = (linear(f"layers.{i}", out, embed, bias=True) for i, out in enumerate(outputs))
    return Module("bbox_predictor", tuple(layers), component="head")


def _positions(c: DetrConfig) -> tuple[Module, ...]:
    if not c.learned_positions:
        return ()
    rows, side = Axis("sides", SIDES), Axis("side", c.d_side)
    where = "backbone.position_embedding" if c.early else "position_embedding"
    tables = (embedding(f"{x}_embeddings", rows, side, component="position") for x in ("row", "column"))
    return (Module(where, tuple(tables)),)


def _encoder_layer(c: DetrConfig, embed: Axis) -> Module:
    parts = (
        _attention(c, "self_attn", embed, c.n_heads, c.d_head),
        layer_norm("self_attn_layer_norm", embed),
        *_mlp(c, embed, c.d_ff),
        layer_norm("final_layer_norm", embed),
    )
    return Module("layers", parts, repeat=c.n_layers)


def _decoder_layer(c: DetrConfig, embed: Axis) -> Module:
    parts = (
        _attention(c, "self_attn", embed, c.n_decoder_heads, c.d_decoder_head),
        layer_norm("self_attn_layer_norm", embed),
        _attention(c, "encoder_attn", embed, c.n_decoder_heads, c.d_decoder_head, cross=True),
        layer_norm("encoder_attn_layer_norm", embed),
        *_mlp(c, embed, c.d_ff_decoder),
        layer_norm("final_layer_norm", embed),
    )
    return Module("layers", parts, repeat=c.n_decoder_layers)


def _attention(c: DetrConfig, name: str, embed: Axis, n: Dim, d_head: Dim, *, cross: bool = False) -> Module:
    heads, stream = heads_axis("heads", n, d_head), "encoder" if cross else ""
    parts: Children = (
        linear("q_proj", heads, embed, bias=True),
        linear("k_proj", heads, embed, bias=True)._replace(stream=stream),
        linear("v_proj", heads, embed, bias=True)._replace(stream=stream),
        *attention_core(n, n, d_head, cached=False, cross=cross),
        linear("out_proj" if c.early else "o_proj", embed, heads, bias=True),
    )
    return Module(name, parts, component="attention")


def _mlp(c: DetrConfig, embed: Axis, width: Dim) -> Children:
    ffn, prefix = Axis("ffn", width), "" if c.early else "mlp"
    parts = (
        linear("fc1", ffn, embed, bias=True),
        Op("act", c.act, {"width": width}),
        linear("fc2", embed, ffn, bias=True),
    )
    return (Module(prefix, parts, component="mlp"),)


ARCHITECTURES = {"detr": Architecture(DetrConfig, detr)}


def _detr(hf: HFConfig, **given: Any) -> Reading:
    task = "base" if hf.cls.endswith("Model") else "detection"
    if task == "detection" and not hf.cls.endswith("ForObjectDetection"):
        known = ("DetrModel", "DetrForObjectDetection")
        raise UnknownName("class", hf.cls, known, hint=f"of a {hf.model_type}")
    backbone = backbone_of(hf, "resnet")
    learned = hf.get("position_embedding_type", "sine") == "learned"
    fields = {
        "task": task,
        "n_labels": hf.n_labels,
        "backbone": bare(backbone),
        "d_backbone": last_width(backbone),
        "d_model": hf["d_model"],
        "n_layers": hf["encoder_layers"],
        "n_heads": hf["encoder_attention_heads"],
        "d_ff": hf["encoder_ffn_dim"],
        "n_decoder_layers": hf["decoder_layers"],
        "n_decoder_heads": hf["decoder_attention_heads"],
        "d_ff_decoder": hf["decoder_ffn_dim"],
        "n_queries": hf["num_queries"],
        "d_side": whole(hf, "d_model") // 2 if learned else None,
        "learned_positions": learned,
        "act": hf["activation_function"],
        "stored": FILES,
        **given,
    }
    return Reading("detr", fields)


def _table(hf: HFConfig) -> Reading:
    return _detr(hf, early=True, stored=())


HF_READERS = {"detr": _detr, "table-transformer": _table}
