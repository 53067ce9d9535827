"""Llama 3.2 Vision: a tower over tiles, and a text some of whose layers attend to images instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward, rotary_buffers
from sizer.architectures.decoders.reading import dense, listed_layers, rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading, hf_reader
from sizer.architectures.tower import LLAMA_LIKE, TowerConfig, blocks, convolution
from sizer.architectures.vision.clip import patches, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import EACH, Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
PLACES = PartNames(vision="vision_model")


@configuration
class MllamaTextConfig(DecoderConfig):
    """A LLaMA; `kinds` says which layers attend to the words ("self") and which to an image ("cross").

    `n_extra_rows`: rows of the embedding for tokens that no head predicts.
    """

    kinds: Pattern
    n_extra_rows: Dim = 8

    letters = {**DecoderConfig.letters, "kinds": "L", "n_extra_rows": "Vx"}
    meanings = {**DecoderConfig.meanings, "n_extra_rows": "rows of the embedding that no head predicts"}


@configuration
class MllamaVisionConfig(TowerConfig):
    """Sizes of the tower. `n_ratios`: ways to lay out the tiles, with one more for none."""

    n_patches: Dim
    patch_size: Dim
    n_channels: Dim
    n_global_layers: Dim
    n_tiles: Dim
    n_ratios: Dim

    letters = {
        "n_patches": "Np",
        "patch_size": "p",
        "n_channels": "Nc",
        "n_global_layers": "Lg",
        "n_tiles": "Nt",
        "n_ratios": "Nr",
    }
    meanings = {
        "n_patches": "patches of a tile",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "n_global_layers": "gated blocks after the others",
        "n_tiles": "tiles of an image",
        "n_ratios": "layouts of tiles",
    }


def mllama(c: MultimodalConfig) -> Module:
    """Llama 3.2 Vision (arXiv:2407.21783), with the names of `MllamaForConditionalGeneration`.

    Source: transformers `modeling_mllama.py`. The text reads the outputs of several blocks at once.
    """
    joined, embed = Axis("vision", c.d_joined), Axis("embed", c.d_model)
    bridge = linear("multi_modal_projector", embed, joined, bias=True, component="other")
    return multimodal(c, bridge._replace(stream="encoder"))


def text(c: MllamaTextConfig) -> Module:
    """The text model, with the names of `MllamaForCausalLM`."""
    embed, rows = Axis("embed", c.d_model), Axis("vocab", c.vocab_size + c.n_extra_rows)
    to_words, to_image = c.kinds.layers("self"), c.kinds.layers("cross")
    gates = (Param("cross_attn_attn_gate", (ONE,)), Param("cross_attn_mlp_gate", (ONE,)))
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            attention(c)._replace(at=to_words),
            _cross_attention(c, embed)._replace(at=to_image),
            Module("", (*gates, Op("image", "no_image", {})), at=to_image),
            rms_norm("post_attention_layernorm", embed),
            feed_forward(c),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", rows, embed),
        block,
        rms_norm("norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    return with_head(c, model)


def _cross_attention(c: MllamaTextConfig, embed: Axis) -> Module:
    heads, head = heads_axis("heads", c.n_heads, c.d_head), Axis("head", c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        "cross_attn",
        (
            linear("q_proj", heads, embed),
            linear("k_proj", kv_heads, embed)._replace(stream="encoder"),
            linear("v_proj", kv_heads, embed)._replace(stream="encoder"),
            rms_norm("q_norm", head),
            rms_norm("k_norm", head),
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, cross=True),
            linear("o_proj", embed, heads),
        ),
        component="attention",
    )


def vision(c: MllamaVisionConfig) -> Module:
    """The tower, with the names of `MllamaVisionModel`; its last blocks are gated."""
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    gates = (Param("gate_attn", (ONE,)), Param("gate_ffn", (ONE,)))
    return Module(
        "",
        (
            Param("class_embedding", (embed,), component="embedding"),
            convolution(
                "patch_embedding", embed, Axis("channels", c.n_channels), side, side, bias=False, places=EACH
            ),
            _tile_positions(c, "pre_tile_positional_embedding"),
            _positions(c, embed),
            layer_norm("layernorm_pre", embed),
            blocks(c, name="transformer.layers"),
            layer_norm("layernorm_post", embed),
            _tile_positions(c, "post_tile_positional_embedding"),
            blocks(c, *gates, name="global_transformer.layers", repeat=c.n_global_layers),
        ),
    )


def _positions(c: MllamaVisionConfig, embed: Axis) -> Module:
    """Positions of the patches, and of the patches of each tile by the layout of the tiles."""
    patches = c.n_patches + 1
    tiles = embedding(
        "tile_embedding",
        Axis("ratios", c.n_ratios + 1),
        Axis("tiles", c.n_tiles * patches * c.d_model),
        component="position",
    )
    table = Param("embedding", (Axis("patches", patches), embed))
    return Module("gated_positional_embedding", (Param("gate", (ONE,)), table, tiles), component="position")


def _tile_positions(c: MllamaVisionConfig, name: str) -> Module:
    ratios, tiles = Axis("ratios", c.n_ratios + 1), Axis("tiles", c.n_tiles * c.d_model)
    table = embedding("embedding", ratios, tiles, component="position")
    return Module(name, (Param("gate", (ONE,)), table), component="position")


ARCHITECTURES = {
    "mllama": Architecture(MultimodalConfig, mllama),
    "mllama_text": Architecture(MllamaTextConfig, text),
    "mllama_vision": Architecture(MllamaVisionConfig, vision),
}


def _text(hf: HFConfig) -> Reading:
    n_layers = listed_layers(hf)
    crossing = hf["cross_attention_layers"]
    crossing = (3, 8, 13, 18, 23, 28, 33, 38) if crossing is None else crossing
    kinds = Pattern(tuple("cross" if i in crossing else "self" for i in range(n_layers)))
    given = dense(hf, "mllama_text", d_head=None, d_rotary=rotary_width(hf)).given
    # No head is tied, since the embedding has more rows.
    return Reading("mllama_text", {**given, "kinds": kinds, "tie_embeddings": False})


def _vision(hf: HFConfig) -> Reading:
    ratios = hf["supported_aspect_ratios"]
    given = vision_sizes(
        hf,
        n_heads=hf["attention_heads"],
        n_patches=patches(hf),
        n_global_layers=hf["num_global_layers"],
        n_tiles=hf["max_num_tiles"],
        n_ratios=8 if ratios is None else len(ratios),
        bias="",
        module_names=LLAMA_LIKE._replace(mlp=("mlp", "fc1", "fc2")),
    )
    return Reading("mllama_vision", given)


def _mllama(hf: HFConfig) -> Reading:
    """With the class of its language model alone, that."""
    nested = hf.nested("text_config")
    if hf.cls == "MllamaForCausalLM":
        return hf_reader(nested.model_type)(nested)
    tower = hf.nested("vision_config")
    return reading(
        hf,
        "mllama",
        vision=tower,
        d_joined=tower["vision_output_dim"],
        places=PLACES,
        files="whole_text",
        tie_embeddings=False,
    )


HF_READERS = {"mllama": _mllama, "mllama_text_model": _text, "mllama_vision_model": _vision}
