"""FLAVA: a ViT over images, one over words, one over both, and a codebook whose tokens are guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.encoders.heads import pooled
from sizer.architectures.encoders.parts import bert_embeddings
from sizer.architectures.parts import Part, frozen
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, blocks, convolution
from sizer.architectures.vision.clip import vision_sizes
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Layers, Module, Op, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class FlavaTextConfig(TowerConfig):
    """A tower over words; without a vocabulary over what the other towers give."""

    vocab_size: Dim | None = None
    n_ctx: Dim | None = None
    n_token_types: Dim | None = None
    class_token: bool = False

    letters = {**TowerConfig.letters, "n_token_types": "Nt"}
    meanings = {**TowerConfig.meanings, "n_token_types": "token types"}


@configuration
class CodebookConfig(Config):
    """Sizes of the codebook; `d_path`: a quarter of its width, that of a path beside an identity."""

    d_model: Dim
    n_blocks: Dim
    n_channels: Dim
    vocab_size: Dim
    d_path: Dim | None = None
    trained: bool = True
    task: str = "base"

    letters = {"n_blocks": "Nb", "n_channels": "Nc", "d_path": "Dq"}
    meanings = {
        "n_blocks": "blocks of a group",
        "n_channels": "colour channels",
        "d_path": "a quarter of the width",
        "vocab_size": "tokens of an image",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.d_path is None:
            self.derive(d_path=divide(self.d_model, 4, names="d_model / 4"))


@configuration
class FlavaConfig(Config):
    """The parts, their widths, and what is guessed before training."""

    text: Part
    image: Part
    both: Part
    d_model: Dim
    d_text: Dim
    d_image: Dim
    d_both: Dim
    d_projection: Dim
    text_vocab: Dim
    image_vocab: Dim
    codebook: Part | None = None
    text_act: str = "gelu"
    image_act: str = "gelu"
    tie_embeddings: bool = True
    task: str = "base"

    letters = {
        "text": "txt",
        "image": "img",
        "both": "mm",
        "codebook": "cb",
        "d_text": "D_txt",
        "d_image": "D_img",
        "d_both": "D_mm",
        "d_projection": "Dp",
        "text_vocab": "V_txt",
        "image_vocab": "V_img",
    }
    meanings = {
        "d_model": "width of what is pooled of both",
        "d_text": "width of the tower over words",
        "d_image": "width of the tower over patches",
        "d_both": "width of the tower over both",
        "d_projection": "width in which the towers meet",
        "text_vocab": "tokens of words",
        "image_vocab": "tokens of an image",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def flava_text(c: FlavaTextConfig) -> Module:
    """The tower over words, or over both, with the names of `FlavaTextModel` and `FlavaMultimodalModel`."""
    embed = Axis("embed", c.d_model)
    first: Children = ()
    if c.vocab_size is not None:
        vocab, positions = Axis("vocab", c.vocab_size), Axis("context", c.n_ctx)
        types = Axis("types", c.n_token_types)
        first = (bert_embeddings(c, vocab, embed, positions=positions, types=types, type_ids=True),)
    if c.class_token:
        first = (*first, Param("cls_token", (ONE, ONE, embed), component="embedding"))
    return Module(
        "", (*first, blocks(c), layer_norm("layernorm", embed), pooled("pooler.dense", embed, embed))
    )


def codebook(c: CodebookConfig) -> Module:
    """DALL-E's image encoder (arXiv:2102.12092), with the names of `FlavaImageCodebook`."""
    side, vocab = Axis("kernel", 7), Axis("vocab", c.vocab_size)
    first = convolution("input", Axis("width", c.d_model), Axis("channels", c.n_channels), side, side)
    groups = (_group(c, i, inp, out) for i, (inp, out) in enumerate(((1, 1), (1, 2), (2, 4), (4, 8)), 1))
    last = convolution("output.conv", vocab, Axis("width", 8 * c.d_model), ONE, ONE)
    tree = Module("", (Module("blocks", (first, *groups, last), component="other"),))
    return tree if c.trained else frozen(tree)


def _group(c: CodebookConfig, index: int, before: int, after: int) -> Module:
    """Blocks of one width, of which the first widens, unless it is as wide as what it reads."""
    inp, out = Axis("width", before * c.d_model), Axis("width", after * c.d_model)
    widening = (convolution("id_path", out, inp, ONE, ONE),) if before != after else ()
    first = Module("", (*widening, _path(c, inp, out, after)), at=_counted(1, 2))
    more = Module("", (_path(c, out, out, after),), at=_counted(2, c.n_blocks + 1))
    return Module(f"group_{index}.group.block_{{}}", (first, more), repeat=_counted(1, c.n_blocks + 1))


def _counted(first: int, end: Dim) -> Layers:
    """Blocks that are counted from one."""
    return Layers(end - first, range(first, end) if isinstance(end, int) else None)


def _path(c: CodebookConfig, inp: Axis, out: Axis, times: int) -> Module:
    """Three convolutions of a quarter of the width, and one back to it."""
    assert c.d_path is not None
    narrow, side = Axis("path", times * c.d_path), Axis("kernel", 3)
    parts = (
        convolution("conv_1", narrow, inp, side, side, act="relu"),
        convolution("conv_2", narrow, narrow, side, side, act="relu"),
        convolution("conv_3", narrow, narrow, side, side, act="relu"),
        convolution("conv_4", out, narrow, ONE, ONE),
    )
    return Module("res_path.path", parts)


def flava(c: FlavaConfig) -> Module:
    """FLAVA (arXiv:2112.04482), with the names of `FlavaForPreTraining`.

    Source: transformers `modeling_flava.py`.
    """
    inside = "" if c.task == "base" else "flava"
    parts = (
        (c.text, "text_model", ""),
        (c.image, "image_model", "encoder"),
        (c.both, "multimodal_model", ""),
    )
    meet, both = Axis("projection", c.d_projection), Axis("both", c.d_both)
    image, text = Axis("image", c.d_image), Axis("text", c.d_text)
    model: Children = (
        *(part.module(name, layout=c.layout, inside=inside, stream=s) for part, name, s in parts),
        linear("image_projection", meet, image, bias=True, component="head"),
        linear("text_projection", meet, text, bias=True, component="head"),
        linear("image_to_mm_projection", both, image, bias=True, component="other"),
        linear("text_to_mm_projection", both, text, bias=True, component="other"),
        Param("logit_scale", (), component="head"),
    )
    if c.task == "base":
        return Module("", model)
    code = () if c.codebook is None else (c.codebook.module("image_codebook", layout=c.layout),)
    embed = Axis("embed", c.d_model)
    heads = (
        *(_guess(c, name, image, c.image_vocab, c.image_act) for name in ("mim_head", "mmm_image_head")),
        *(_guess(c, name, text, c.text_vocab, c.text_act) for name in ("mlm_head", "mmm_text_head")),
        pooled("itm_head.pooler.dense", embed, embed),
        pooled("itm_head.seq_relationship", Axis("labels", 2), embed),
    )
    return Module("", (Module("flava", model), *code, *heads))


def _guess(c: FlavaConfig, name: str, width: Axis, vocab_size: Dim, act: str) -> Module:
    """The head that guesses tokens that were masked."""
    vocab = Axis("vocab", vocab_size)
    tied_to = f"{name}.decoder.bias" if c.tie_embeddings else None
    parts: Children = (
        linear("transform.dense", width, width, bias=True),
        Op("act", act, {"width": width.size}),
        layer_norm("transform.LayerNorm", width),
        linear("decoder", vocab, width, bias=True),
        Param("bias", (vocab,), tied_to=tied_to),
    )
    return Module(name, parts, component="head")


ARCHITECTURES = {
    "flava": Architecture(FlavaConfig, flava),
    "flava_codebook": Architecture(CodebookConfig, codebook),
    "flava_text": Architecture(FlavaTextConfig, flava_text),
}


def _sizes(hf: HFConfig, **given: Any) -> Reading:
    bias = "qkvo" if hf["qkv_bias"] else "o"
    return Reading("flava_text", vision_sizes(hf, bias=bias, module_names=EARLY, **given))


def _text(hf: HFConfig) -> Reading:
    given = {"n_ctx": hf["max_position_embeddings"], "n_token_types": hf["type_vocab_size"]}
    return _sizes(hf, vocab_size=hf["vocab_size"], **given)


def _both(hf: HFConfig) -> Reading:
    return _sizes(hf, class_token=bool(hf["use_cls_token"]))


def _image(hf: HFConfig) -> Reading:
    return read_vit(
        hf,
        task="base",
        mask_token=bool(hf.get("mask_token", True)),
        d_pooler=hf["hidden_size"],
        module_names=EARLY,
    )


def _codebook(hf: HFConfig) -> Reading:
    given = {
        "d_model": hf["hidden_size"],
        "n_blocks": hf["num_blocks_per_group"],
        "n_channels": hf["input_channels"],
        "vocab_size": hf["vocab_size"],
        "trained": not hf["freeze"],
    }
    return Reading("flava_codebook", given)


def _flava(hf: HFConfig) -> Reading:
    if hf.cls not in ("FlavaModel", "FlavaForPreTraining"):
        raise UnknownName("class", hf.cls, ("FlavaModel", "FlavaForPreTraining"), hint="of a flava")
    text, image = hf.nested("text_config"), hf.nested("image_config")
    both, code = hf.nested("multimodal_config"), hf.nested("image_codebook_config")
    given = {
        "task": hf.task,
        "text": bare(text),
        "image": bare(image),
        "both": bare(both),
        "codebook": bare(code) if hf.get("init_codebook", True) else None,
        "d_model": hf["hidden_size"],
        "d_text": text["hidden_size"],
        "d_image": image["hidden_size"],
        "d_both": both["hidden_size"],
        "d_projection": whole(hf, "projection_dim"),
        "text_vocab": text["vocab_size"],
        "image_vocab": image["vocab_size"],
        "text_act": text["hidden_act"],
        "image_act": image["hidden_act"],
        "tie_embeddings": hf["tie_word_embeddings"],
    }
    return Reading("flava", given)


HF_READERS = {
    "flava": _flava,
    "flava_image_codebook": _codebook,
    "flava_image_model": _image,
    "flava_multimodal_model": _both,
    "flava_text_model": _text,
}
