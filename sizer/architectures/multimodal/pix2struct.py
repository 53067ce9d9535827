"""Pix2Struct: patches of any image in rows, and a T5 that writes what stands on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, norm
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import FIRST, attention_core, embedding, gated_mlp, linear, rms_norm
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="encoder.layer",
    attention="attention",
    qkv=("query", "key", "value"),
    output="output",
    mlp=("mlp", "wi_0", "wi_1", "wo"),
    norms=("pre_attention_layer_norm", "", "pre_mlp_layer_norm", ""),
)
GATED = ("wi_0", "wi_1", "wo")


@configuration
class RowsVisionConfig(TowerConfig):
    """Sizes of the tower. `n_pixels`: numbers of a patch; `n_rows`: of the tables of its two places."""

    n_pixels: Dim
    n_rows: Dim

    letters = {**TowerConfig.letters, "n_pixels": "Nx", "n_rows": "Nr"}
    meanings = {**TowerConfig.meanings, "n_pixels": "numbers of a patch", "n_rows": "rows of an image"}


@configuration
class Pix2StructConfig(Config):
    """The tower, and the sizes of the text that reads it."""

    vision: Part
    d_vision: Dim
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    n_buckets: Dim
    tie_embeddings: bool = False
    act: str = "gelu"

    letters = {"vision": "img", "d_vision": "D_img", "n_buckets": "Nb"}
    meanings = {"d_vision": "width of the tower", "n_buckets": "buckets of relative positions"}

    def __post_init__(self) -> None:
        check_sizes(self)


def rows_vision(c: RowsVisionConfig) -> Module:
    """The tower, with the names of `Pix2StructVisionModel`. Source: transformers `modeling_pix2struct.py`."""
    embed, rows = Axis("embed", c.d_model), Axis("rows", c.n_rows)
    embeddings = (
        linear("patch_projection", embed, Axis("pixels", c.n_pixels), bias=True, component="embedding"),
        embedding("row_embedder", rows, embed, component="position"),
        embedding("column_embedder", rows, embed, component="position"),
    )
    return Module("", (Module("embeddings", embeddings), blocks(c), norm(c, "layernorm", embed)))


def pix2struct(c: Pix2StructConfig) -> Module:
    """Pix2Struct (arXiv:2210.03347), with the names of `Pix2StructForConditionalGeneration`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    ffn = Axis("ffn", c.d_ff)
    block = (
        _attention(c, "self_attention", embed),
        _attention(c, "encoder_decoder_attention", embed, cross=True),
        Module(
            "mlp",
            (gated_mlp("DenseReluDense", ffn, embed, act=c.act, names=GATED), rms_norm("layer_norm", embed)),
        ),
    )
    tied = "decoder.embed_tokens.weight" if c.tie_embeddings else None
    decoder = (
        embedding("embed_tokens", vocab, embed),
        Module("layer", block, repeat=c.n_layers),
        rms_norm("final_layer_norm", embed),
        linear("lm_head", vocab, embed, tied_to=tied, component="head"),
    )
    tower = c.vision.module("encoder", layout=c.layout, stream="encoder")
    return Module("", (tower, Module("decoder", decoder)))


def _attention(c: Pix2StructConfig, name: str, embed: Axis, *, cross: bool = False) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    source, stream = (Axis("source", c.d_vision), "encoder") if cross else (embed, "")
    table = embedding(
        "relative_attention_bias",
        Axis("buckets", c.n_buckets),
        Axis("heads", c.n_heads),
        component="position",
    )
    parts: Children = (
        linear("query", heads, embed),
        linear("key", heads, source)._replace(stream=stream),
        linear("value", heads, source)._replace(stream=stream),
        *(() if cross else (Module("", (table,), at=FIRST),)),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cross=cross),
        linear("output", embed, heads),
    )
    return Module(name, (Module("attention", parts), rms_norm("layer_norm", embed)), component="attention")


ARCHITECTURES = {
    "pix2struct": Architecture(Pix2StructConfig, pix2struct),
    "rows_vision": Architecture(RowsVisionConfig, rows_vision),
}


def _vision(hf: HFConfig) -> Reading:
    early = "d_kv" in hf
    given = {
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_head": hf["d_kv"] if early else hf["head_dim"],
        "d_ff": hf["d_ff"] if early else hf["intermediate_size"],
        "n_pixels": hf["patch_embed_hidden_size"],
        "n_rows": hf["seq_len"] if early else hf["max_num_patches"],
        "bias": "",
        "mlp_bias": False,
        "down_bias": False,
        "gated": True,
        "norm": "rms",
        "act": hf["dense_act_fn"],
        "module_names": NAMES,
    }
    return Reading("rows_vision", given)


def _pix2struct(hf: HFConfig) -> Reading:
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    width = whole(text, "hidden_size")
    given = {
        "vision": bare(vision),
        # The text reads the tower as if that were as wide as itself.
        "d_vision": width,
        "d_model": width,
        "n_layers": text["num_layers"],
        "n_heads": text["num_heads"],
        "d_head": width // whole(text, "num_heads"),
        "d_ff": text["d_ff"],
        "vocab_size": text["vocab_size"],
        "n_buckets": text["relative_attention_num_buckets"],
        "tie_embeddings": bool(hf["tie_word_embeddings"]),
        "act": text["dense_act_fn"],
    }
    return Reading("pix2struct", given)


HF_READERS = {
    "kosmos_2_5_vision_model": _vision,
    "pix2struct": _pix2struct,
    "pix2struct_vision_model": _vision,
}
