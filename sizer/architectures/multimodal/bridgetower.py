"""BridgeTower: the upper layers of a tower over images and of one over words feed layers over both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.encoders.bert import attention, feed_forward
from sizer.architectures.encoders.heads import pooled
from sizer.architectures.encoders.parts import with_heads
from sizer.architectures.encoders.roberta import roberta_fields
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes, vision_tower
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

TASKS = {
    "BridgeTowerModel": "base",
    "BridgeTowerForMaskedLM": "masked",
    "BridgeTowerForImageAndTextRetrieval": "retrieval",
    "BridgeTowerForContrastiveLearning": "contrastive",
}


@configuration
class BridgeVisionConfig(VisionConfig):
    """CLIP's tower under OpenAI's names. `n_norms`: norms of the outputs of single layers."""

    n_norms: Dim | None = None

    letters = {**VisionConfig.letters, "n_norms": "Nn"}
    meanings = {**VisionConfig.meanings, "n_norms": "norms of single layers"}


@configuration
class BridgeTowerConfig(Config):
    """The towers, and the layers over both, which are as those of the text.

    `link`: how a layer's input is joined with a tower's ("add", "scaled_add", "interpolate").
    `shared_transforms`, `shared_links`: all layers have them in common.
    """

    text: Part
    vision: Part
    d_model: Dim
    n_layers: Dim
    d_text: Dim
    d_vision: Dim
    vocab_size: Dim
    n_links: Dim
    d_contrast: Dim | None = None
    link: str = "add"
    shared_transforms: bool = True
    shared_links: bool = False
    tie_embeddings: bool = False
    act: str = "gelu"
    task: str = "base"

    may_be_zero = Config.may_be_zero | {"n_links"}
    letters = {
        "text": "txt",
        "vision": "img",
        "d_text": "D_txt",
        "d_vision": "D_img",
        "n_links": "Nk",
        "d_contrast": "Dc",
        "vocab_size": "V_txt",
    }
    meanings = {
        "n_layers": "layers over both",
        "d_text": "width of the text",
        "d_vision": "width of the vision tower",
        "n_links": "links between a tower and the layers over both",
        "d_contrast": "width in which the outputs meet",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def bridge_vision(c: BridgeVisionConfig) -> Module:
    """The tower, with the names of `BridgeTowerVisionModel`."""
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attn = (
        Param("in_proj_weight", (3 * heads, embed), "matmul"),
        Param("in_proj_bias", (3 * heads,)),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear("out_proj", embed, heads, bias=True),
    )
    block = (
        layer_norm("ln_1", embed),
        Module("attn", attn, component="attention"),
        layer_norm("ln_2", embed),
        mlp("mlp", ffn, embed, act=c.act, names=("c_fc", "c_proj")),
    )
    stack = Module("transformer.resblocks", block, repeat=c.n_layers)
    norms: Children = ()
    if c.n_norms is not None:
        norms = (layer_norm("ln_separate", embed)._replace(repeat=c.n_norms),)
    parts = (stack if part.name == c.module_names.block else part for part in vision_tower(c).children)
    tower: Children = (*parts, *norms)
    return Module("", (Module("visual", tower),))


def bridgetower(c: BridgeTowerConfig) -> Module:
    """BridgeTower (arXiv:2206.08657), with the names of `BridgeTowerModel`.

    Source: transformers `modeling_bridgetower.py`.
    """
    embed, inside = Axis("embed", c.d_model), "" if c.task == "base" else "bridgetower"
    streams = (("text", c.text, c.d_text, ""), ("image", c.vision, c.d_vision, "encoder"))
    model: Children = (
        c.vision.module("vision_model", layout=c.layout, inside=inside, stream="encoder"),
        c.text.module("text_model", layout=c.layout, inside=inside),
        embedding("token_type_embeddings", Axis("types", 2), embed),
    )
    for name, _, width, stream in streams:
        layers = (*_transform(c, name, Axis("tower", width)), _links(c, name), _cross_layers(c, name))
        norm = layer_norm(f"cross_modal_{name}_layernorm", embed)
        pooling = pooled(f"cross_modal_{name}_pooler.dense", embed, embed)
        model = (*model, Module("", (*layers, norm), stream=stream), pooling)
    return with_heads(c, "bridgetower", model, *_heads(c, embed))


def _transform(c: BridgeTowerConfig, name: str, tower: Axis) -> Children:
    """The matrix between the width of a tower and that of the layers over both."""
    module = linear(f"cross_modal_{name}_transform", Axis("embed", c.d_model), tower, bias=True)
    return (module if c.shared_transforms else module._replace(repeat=c.n_layers),)


def _links(c: BridgeTowerConfig, name: str) -> Module:
    scalars = {"scaled_add": ("scaled_factor",), "interpolate": ("beta",)}.get(c.link, ())
    parts: Children = (
        *(Param(scalar, (), component="other") for scalar in scalars),
        layer_norm("LayerNorm", Axis("embed", c.d_model)),
    )
    return Module(f"cross_modal_{name}_link_tower", parts, repeat=None if c.shared_links else c.n_links)


def _cross_layers(c: BridgeTowerConfig, name: str) -> Module:
    text: Any = c.text.config
    parts = (attention(text), attention(text, name="crossattention", cross=True), *feed_forward(text))
    return Module(f"cross_modal_{name}_layers", parts, repeat=c.n_layers)


def _heads(c: BridgeTowerConfig, embed: Axis) -> Children:
    if c.task == "masked":
        vocab = Axis("vocab", c.vocab_size)
        table = "bridgetower.text_model.embeddings.word_embeddings.weight"
        parts: Children = (
            linear("transform.dense", embed, embed, bias=True),
            Op("act", c.act, {"width": c.d_model}),
            layer_norm("transform.LayerNorm", embed),
            linear("decoder", vocab, embed, tied_to=table if c.tie_embeddings else None),
            Param("bias", (vocab,)),
        )
        return (Module("mlm_score", parts, component="head"),)
    if c.task == "retrieval":
        return (pooled("itm_score.fc", Axis("labels", 2), 2 * embed),)
    if c.task == "contrastive":
        meet = Axis("projection", c.d_contrast)
        widths = (("text", embed), ("image", embed), ("cross_modal", 2 * embed))
        heads = (pooled(f"itc_{name}_head.fc", meet, width) for name, width in widths)
        return (*heads, Param("logit_scale", (), component="head"))
    return ()


ARCHITECTURES = {
    "bridgetower": Architecture(BridgeTowerConfig, bridgetower),
    "bridgetower_vision": Architecture(BridgeVisionConfig, bridge_vision),
}


def _vision(hf: HFConfig) -> Reading:
    width, n_layers = hf["hidden_size"], hf["num_hidden_layers"]
    given = vision_sizes(
        hf,
        n_layers=n_layers - 1 if hf["remove_last_layer"] else n_layers,
        n_heads=width // 64,
        d_ff=4 * width,
        act="quick_gelu",
        n_patches=patches(hf),
        n_norms=None if hf["share_layernorm"] else n_layers,
        class_token=True,
        patch_bias=False,
        pre_norm="ln_pre",
        post_norm="ln_post",
    )
    return Reading("bridgetower_vision", given)


def _text(hf: HFConfig) -> Reading:
    return Reading("bert", roberta_fields(hf, task="base", pooler=True))


def _bridgetower(hf: HFConfig) -> Reading:
    if hf.cls not in TASKS:
        raise UnknownName("class", hf.cls, TASKS, hint="of a bridgetower")
    text, vision = hf.nested("text_config"), hf.nested("vision_config")
    task = TASKS[hf.cls]
    given = {
        "task": task,
        "text": bare(text),
        "vision": bare(vision),
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "d_text": text["hidden_size"],
        "d_vision": vision["hidden_size"],
        "vocab_size": text["vocab_size"],
        "n_links": hf["num_hidden_layers"] - 1,
        "d_contrast": hf["contrastive_hidden_size"] if task == "contrastive" else None,
        "link": hf["link_tower_type"],
        "shared_transforms": bool(hf["share_cross_modal_transformer_layers"]),
        "shared_links": bool(hf["share_link_tower_layers"]),
        "tie_embeddings": bool(hf["tie_word_embeddings"]),
        "act": hf["hidden_act"],
    }
    return Reading("bridgetower", given)


HF_READERS = {
    "bridgetower": _bridgetower,
    "bridgetower_text_model": _text,
    "bridgetower_vision_model": _vision,
}
