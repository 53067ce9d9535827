"""LXMERT: an encoder of words, one of regions of an image, and layers where each attends to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import (
    BertConfig,
    attention,
    embeddings,
    feed_forward,
    fields_of,
    layer,
    pooler,
)
from sizer.architectures.encoders.heads import Children, pooled, word_embeddings
from sizer.architectures.encoders.parts import with_heads
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, renamed
from sizer.core.tree import Axis, Module, Op, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class LxmertConfig(BertConfig):
    """Sizes of LXMERT; `n_layers` are those of the words.

    `d_region`, `d_box`: numbers that describe a region and where it is. `regions`: what is guessed of
    a region that was masked ("obj", "attr", "feat"). `answers`: questions are answered as well.
    """

    n_region_layers: Dim
    n_cross_layers: Dim
    d_region: Dim
    d_box: Dim
    n_objects: Dim
    n_attributes: Dim
    n_answers: Dim
    regions: tuple[str, ...] = ("obj", "attr", "feat")
    answers: bool = True

    letters = {
        **BertConfig.letters,
        "n_region_layers": "Lr",
        "n_cross_layers": "Lx",
        "d_region": "Dr",
        "d_box": "Db",
        "n_objects": "No",
        "n_attributes": "Nat",
        "n_answers": "Nans",
    }
    meanings = {
        **BertConfig.meanings,
        "n_region_layers": "blocks over regions",
        "n_cross_layers": "blocks over words and regions",
        "d_region": "numbers that describe a region",
        "d_box": "numbers that place a region",
        "n_objects": "kinds of objects",
        "n_attributes": "kinds of attributes",
        "n_answers": "answers",
    }


def lxmert(c: LxmertConfig) -> Module:
    """LXMERT (arXiv:1908.07490), with the names of `LxmertForPreTraining`.

    Source: transformers `modeling_lxmert.py`.
    """
    embed = Axis("embed", c.d_model)
    encoder: Children = (
        _regions(c, embed),
        Module("layer", layer(c), repeat=c.n_layers),
        Module("r_layers", layer(c), repeat=c.n_region_layers, stream="encoder"),
        Module("x_layers", _cross_layer(c), repeat=c.n_cross_layers),
    )
    model = (*embeddings(c), Module("encoder", encoder), *pooler(c))
    heads = _pretraining(c, embed) if c.task == "pretraining" else (_answers(c, embed),)
    return with_heads(c, "lxmert", model, *heads)


def _regions(c: LxmertConfig, embed: Axis) -> Module:
    parts = (
        linear("visn_fc", embed, Axis("region", c.d_region), bias=True),
        layer_norm("visn_layer_norm", embed),
        linear("box_fc", embed, Axis("box", c.d_box), bias=True),
        layer_norm("box_layer_norm", embed),
    )
    return Module("visn_fc", parts, component="embedding", stream="encoder")


def _cross_layer(c: LxmertConfig) -> Children:
    """Words attend to regions and regions to words, by the same matrices; then each to themselves."""
    cross = attention(c, name="visual_attention", cross=True)._replace(uses=2)
    names = {f"self.{name}": f"att.{name}" for name in ("query", "key", "value")}
    parts: Children = (renamed(cross, names),)
    for who, stream in (("lang", ""), ("visn", "encoder")):
        block = Module("", (attention(c, name=f"{who}_self_att"), *feed_forward(c)), stream=stream)
        names = {
            "intermediate.dense": f"{who}_inter.dense",
            "output.dense": f"{who}_output.dense",
            "output.LayerNorm": f"{who}_output.LayerNorm",
        }
        own, *rest = block.children
        parts = (*parts, block._replace(children=(own, *renamed(Module("", tuple(rest)), names).children)))
    return parts


def _pretraining(c: LxmertConfig, embed: Axis) -> Children:
    vocab = Axis("vocab", c.vocab_size)
    tied_to = word_embeddings(c) if c.tie_embeddings else None
    words = (
        Param("bias", (vocab,)),
        *_transform(c, embed),
        linear("decoder", vocab, embed, tied_to=tied_to),
    )
    sizes = {"obj": c.n_objects, "attr": c.n_attributes, "feat": c.d_region}
    guesses = (
        linear(f"decoder_dict.{name}", Axis(name, sizes[name]), embed, bias=True) for name in c.regions
    )
    regions = Module("obj_predict_head", (*_transform(c, embed), *guesses), stream="encoder")
    return (
        Module("cls.predictions", words, component="head"),
        pooled("cls.seq_relationship", Axis("labels", 2), embed),
        *((regions._replace(component="head"),) if c.regions else ()),
        *((_answers(c, embed),) if c.answers else ()),
    )


def _transform(c: LxmertConfig, embed: Axis) -> Children:
    return (
        linear("transform.dense", embed, embed, bias=True),
        Op("act", c.act, {"width": c.d_model}),
        layer_norm("transform.LayerNorm", embed),
    )


def _answers(c: LxmertConfig, embed: Axis) -> Module:
    parts = (
        pooled("0", 2 * embed, embed),
        layer_norm("2", 2 * embed),
        pooled("3", Axis("answers", c.n_answers), 2 * embed),
    )
    return Module("answer_head.logit_fc", parts, component="head")


ARCHITECTURES = {"lxmert": Architecture(LxmertConfig, lxmert)}


def _lxmert(hf: HFConfig) -> Reading:
    if hf.task not in ("base", "pretraining", "qa"):
        known = ("LxmertModel", "LxmertForPreTraining", "LxmertForQuestionAnswering")
        raise UnknownName("class", hf.cls, known, hint="of an lxmert")
    losses = {"obj": "visual_obj_loss", "attr": "visual_attr_loss", "feat": "visual_feat_loss"}
    given = fields_of(
        hf,
        LxmertConfig,
        prefix="lxmert",
        pooler=True,
        id_buffers=(),
        n_layers=hf["l_layers"],
        n_region_layers=hf["r_layers"],
        n_cross_layers=hf["x_layers"],
        d_region=hf["visual_feat_dim"],
        d_box=hf["visual_pos_dim"],
        n_objects=hf["num_object_labels"],
        n_attributes=hf["num_attr_labels"],
        n_answers=hf["num_qa_labels"],
        regions=tuple(name for name, key in losses.items() if hf.get(key, True))
        if hf["task_obj_predict"]
        else (),
        answers=bool(hf["task_qa"]),
    )
    return Reading("lxmert", given)


HF_READERS = {"lxmert": _lxmert}
