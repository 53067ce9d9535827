"""Molmo: an OLMo or Qwen2 decoder that reads images through a CLIP tower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward, norm
from sizer.architectures.decoders.decoder_names import Names
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, gated_mlp, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_NAMES = Names(
    attention="",
    qkv=("att_proj",),
    output="attn_out",
    feed_forward="",
    mlp=("ff_proj", "ff_out"),
    rotary=(),
)


@configuration
class MolmoConfig(DecoderConfig):
    """Sizes and switches of a Molmo.

    `n_new_tokens`: rows of a second embedding, for tokens that mark the parts of an image.
    The sizes of the tower are those of CLIP ViT-L/14 at 336 pixels, without its last layer; files
    do not give them. `d_image_in`: what the pooling reads, the tower's states after two layers.
    """

    n_new_tokens: Dim = 128
    n_image_layers: Dim = 23
    n_image_heads: Dim = 16
    d_image: Dim = 1024
    d_image_head: Dim = 64
    d_image_ff: Dim = 4096
    d_image_in: Dim = 2048
    n_pixels: Dim = 588
    n_positions: Dim = 577

    letters = {
        **DecoderConfig.letters,
        "n_new_tokens": "Vn",
        "n_image_layers": "Li",
        "n_image_heads": "Hi",
        "d_image": "Di",
        "d_image_head": "Dhi",
        "d_image_ff": "Fi",
        "d_image_in": "D2",
        "n_pixels": "P",
        "n_positions": "Ci",
    }
    meanings = {
        **DecoderConfig.meanings,
        "n_new_tokens": "tokens of the second embedding",
        "n_image_layers": "blocks of the image tower",
        "n_image_heads": "heads of the image tower",
        "d_image": "width of the image tower",
        "d_image_head": "width of one head of the image tower",
        "d_image_ff": "hidden width of the image tower's MLP",
        "d_image_in": "width of what the pooling of the image reads",
        "n_pixels": "numbers in one patch of an image",
        "n_positions": "patches of an image, and one",
    }


def molmo(c: MolmoConfig) -> Module:
    """Molmo (arXiv:2409.17146), with the tensor names of `MolmoForCausalLM`.

    Source: allenai/Molmo-7B-D-0924 `modeling_molmo.py`.
    """
    embed, vocab, new = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("vocab", c.n_new_tokens)
    table = Module(
        "wte",
        (Param("embedding", (vocab, embed), "lookup"), Param("new_embedding", (new, embed), "lookup")),
        kind="embedding",
        component="embedding",
    )
    block = Module(
        "blocks",
        (
            norm(c, "attn_norm", embed),
            attention(c, "", names=_NAMES),
            norm(c, "ff_norm", embed),
            feed_forward(c, "", names=_NAMES),
        ),
        repeat=c.n_layers,
    )
    words = "model.transformer.wte.embedding" if c.tie_embeddings else None
    head = linear("ff_out", vocab, embed, tied_to=words, component="head")
    transformer = Module("transformer", (table, block, norm(c, "ln_f", embed), head))
    return Module("model", (transformer, _tower(c, embed)))


def _tower(c: MolmoConfig, embed: Axis) -> Module:
    """The image tower, an attention that pools four patches into one, and the way into the decoder."""
    image, pair = Axis("embed", c.d_image), Axis("embed", c.d_image_in)
    heads = heads_axis("heads", c.n_image_heads, c.d_image_head)
    block = Module(
        "transformer.resblocks",
        (
            layer_norm("attention_norm", image),
            _attention(c, "attention", heads, image, image),
            layer_norm("ffn_norm", image),
            mlp("feed_forward", Axis("ffn", c.d_image_ff), image, act="quick_gelu", names=("w1", "w2")),
        ),
        repeat=c.n_image_layers,
    )
    positions = Param("positional_embedding", (Axis("context", c.n_positions), image), component="position")
    vit = Module(
        "image_vit",
        (
            Param("class_embedding", (image,), component="embedding"),
            positions,
            linear("patch_embedding", image, Axis("patch", c.n_pixels), component="embedding"),
            layer_norm("pre_ln", image),
            block,
        ),
    )
    projector = gated_mlp("image_projector", Axis("ffn", c.d_ff), image, names=("w1", "w3", "w2"))
    # The last matrix goes to the decoder's width, not back to the tower's.
    first, second, act, _ = projector.children
    last = linear("w2", embed, Axis("ffn", c.d_ff))
    return Module(
        "vision_backbone",
        (
            vit,
            _attention(c, "image_pooling_2d", heads, image, pair),
            projector._replace(children=(first, second, act, last)),
            Param("pad_embed", (Axis("two", 2), pair)),
        ),
        stream="image",
    )


def _attention(c: MolmoConfig, name: str, heads: Axis, out: Axis, inp: Axis) -> Module:
    return Module(
        name,
        (
            *(linear(w, heads, inp, bias=True) for w in ("wq", "wk", "wv")),
            *attention_core(c.n_image_heads, c.n_image_heads, c.d_image_head, cached=False),
            linear("wo", out, heads, bias=True),
        ),
        component="attention",
    )


ARCHITECTURES = {"molmo": Architecture(MolmoConfig, molmo)}


def _molmo(hf: HFConfig) -> Reading:
    width = whole(hf, "intermediate_size")
    if width % 2:
        raise InvalidConfig(f"intermediate_size = {width} is odd; a Molmo's MLP has half of it")
    reading = dense(
        hf,
        "molmo",
        MolmoConfig,
        module_names=_NAMES,
        vocab_size=hf["embedding_size"] or hf["vocab_size"],
        d_ff=width // 2,
        d_head=None,
        norm="rms" if hf["layer_norm_type"] == "rms" else "layer_no_bias",
        qk_norm="full" if hf["attention_layer_norm"] else None,
        qkv_bias=hf["qkv_bias"],
        tie_embeddings=hf["weight_tying"],
    )
    tower = (
        "the image tower is CLIP ViT-L/14 at 336 pixels, whose sizes stand in Molmo's code, not in the file"
    )
    return Reading(reading.architecture, reading.given, (tower,))


HF_READERS = {"molmo": _molmo}
