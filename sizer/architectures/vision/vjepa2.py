"""V-JEPA 2: a ViT over pieces of a video, and one that predicts what is hidden from it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import count_of, positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.lists import activation
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
NAMES = TowerNames(
    block="layer",
    attention="attention",
    qkv=("query", "key", "value"),
    output="proj",
    norms=("norm1", "", "norm2", ""),
)
POOLER = TowerNames(block="pooler.self_attention_layers")
# An MLP of the pooler is this many times as wide as the model.
POOLER_RATIO = 4


@configuration
class VJepa2Config(TowerConfig):
    """Sizes of a V-JEPA 2: of its encoder, and of the predictor beside it.

    `n_frames`: frames of a piece. `n_masks`: learned vectors for what is hidden.
    `n_poolers`: blocks of the pooler under a classifier.
    """

    patch_size: Dim
    n_frames: Dim
    d_predictor: Dim
    n_predictor_layers: Dim
    n_predictor_heads: Dim
    d_ff_predictor: Dim
    n_masks: Dim
    n_poolers: Dim = 3
    n_channels: Dim = 3
    task: str = "base"
    module_names: TowerNames = NAMES

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_frames": "Nf",
        "d_predictor": "Dpr",
        "n_predictor_layers": "Lpr",
        "n_predictor_heads": "Hpr",
        "d_ff_predictor": "Fpr",
        "n_masks": "Nm",
        "n_poolers": "Npl",
        "n_channels": "Nc",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_frames": "frames of a patch",
        "d_predictor": "width of the predictor",
        "n_predictor_layers": "blocks of the predictor",
        "n_predictor_heads": "query heads of the predictor",
        "d_ff_predictor": "hidden width of the predictor's MLP",
        "n_masks": "vectors for what is hidden",
        "n_poolers": "blocks of the pooler",
        "n_channels": "colour channels",
    }
    may_be_zero = TowerConfig.may_be_zero | {"n_layers", "n_predictor_layers", "n_masks", "n_poolers"}


def vjepa2(c: VJepa2Config) -> Module:
    """V-JEPA 2 (arXiv:2506.09985). Source: transformers `modeling_vjepa2.py`."""
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    kernel = (Axis("frames", c.n_frames), side, side)
    pixels = convolution("embeddings.patch_embeddings.proj", embed, Axis("channels", c.n_channels), *kernel)
    model = (
        Module("encoder", (pixels, blocks(c), layer_norm("layernorm", embed))),
        _predictor(c, embed),
    )
    if c.task == "base":
        return Module("", model)
    classifier = linear("classifier", Axis("labels", c.n_labels), embed, bias=True, component="head")
    return Module("", (Module("vjepa2", model), *_pooler(c, embed), classifier))


def _predictor(c: VJepa2Config, embed: Axis) -> Module:
    own = replace(
        c,
        d_model=c.d_predictor,
        n_layers=c.n_predictor_layers,
        n_heads=c.n_predictor_heads,
        d_ff=c.d_ff_predictor,
        n_kv_heads=None,
        d_head=None,
    )
    width = Axis("embed", c.d_predictor)
    masks = Param("mask_tokens", (Axis("masks", c.n_masks), ONE, ONE, width), component="embedding")
    first = linear("predictor_embeddings", width, embed, bias=True, component="embedding")
    return Module(
        "predictor",
        (
            Module("embeddings", (masks, first)),
            blocks(own),
            layer_norm("layernorm", width),
            linear("proj", embed, width, bias=True, component="head"),
        ),
    )


def _pooler(c: VJepa2Config, embed: Axis) -> tuple[Module, Module]:
    """One learned query attends to all that blocks made of the patches."""
    own = replace(c, n_layers=c.n_poolers, d_ff=POOLER_RATIO * c.d_model, bias="qkvo", module_names=POOLER)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attention = Module(
        "cross_attn",
        (
            *(linear(f"{name}_proj", heads, embed, bias=True) for name in "kvq"),
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, cached=False, cross=True),
        ),
        component="attention",
    )
    layer = (
        layer_norm("layer_norm1", embed),
        attention,
        layer_norm("layer_norm2", embed),
        mlp("mlp", Axis("ffn", POOLER_RATIO * c.d_model), embed, act=c.act, names=("fc1", "fc2")),
    )
    query = Param("query_tokens", (ONE, ONE, embed), component="embedding")
    return blocks(own), Module("pooler", (query, Module("cross_attention_layer", layer)))


ARCHITECTURES = {"vjepa2": Architecture(VJepa2Config, vjepa2)}


def _vjepa2(hf: HFConfig) -> Reading:
    known = ("VJEPA2Model", "VJEPA2ForVideoClassification")
    if hf.cls not in known:
        raise UnknownName("class", hf.cls, known, hint="of a vjepa2")
    base = hf.cls == "VJEPA2Model"
    width, narrow = whole(hf, "hidden_size"), whole(hf, "pred_hidden_size")
    given = {
        "task": "base" if base else "video_classification",
        "n_labels": 2 if base else hf.n_labels,
        "d_model": width,
        "n_layers": count_of(hf, "num_hidden_layers"),
        "n_heads": whole(hf, "num_attention_heads"),
        "d_ff": int(width * positive("mlp_ratio", hf["mlp_ratio"])),
        "bias": "qkvo" if hf["qkv_bias"] else "o",
        "act": activation(hf, "hidden_act"),
        "patch_size": whole(hf, "patch_size"),
        "n_frames": whole(hf, "tubelet_size"),
        "n_channels": whole(hf, "in_chans"),
        "d_predictor": narrow,
        "n_predictor_layers": count_of(hf, "pred_num_hidden_layers"),
        "n_predictor_heads": whole(hf, "pred_num_attention_heads"),
        "d_ff_predictor": int(narrow * positive("pred_mlp_ratio", hf["pred_mlp_ratio"])),
        "n_masks": count_of(hf, "pred_num_mask_tokens"),
        "n_poolers": count_of(hf, "num_pooler_layers"),
    }
    return Reading("vjepa2", given)


HF_READERS = {"vjepa2": _vjepa2}
