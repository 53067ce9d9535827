"""IDEFICS, after Flamingo: gated layers that attend to images stand between those of a frozen LLaMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward, rotary_buffers
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.parts import Part, frozen
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp, rms_norm
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# What transformers calls the kinds of modules that stay trained in a frozen part.
KINDS = {"LayerNorm": "layer_norm", "Linear": "linear", "Embedding": "embedding"}


@configuration
class IdeficsConfig(DecoderConfig):
    """A LLaMA, a tower, and what reads its patches.

    `n_cross_layers`: layers that attend to images; `cross_norm`: they norm queries and keys, and
    `perceiver_norm`: the resampler does. `wide_gates`: a gate has a number for each channel.
    `n_extra_tokens`: tokens with a table and a head of their own. `frozen`: parts that are not trained
    ("text", "vision", "head"); `text_kept`, `vision_kept`: kinds of modules in them that are.
    """

    vision: Part
    d_vision: Dim
    n_cross_layers: Dim
    n_extra_tokens: Dim | None = None
    n_latents: Dim | None = None
    n_resampler_layers: Dim | None = None
    n_resampler_heads: Dim | None = None
    d_resampler_head: Dim | None = None
    wide_gates: bool = False
    cross_norm: bool = False
    perceiver_norm: bool = False
    frozen: tuple[str, ...] = ()
    text_kept: tuple[str, ...] = ()
    vision_kept: tuple[str, ...] = ()

    may_be_zero = DecoderConfig.may_be_zero | {"n_cross_layers"}
    letters = {
        **DecoderConfig.letters,
        "vision": "img",
        "d_vision": "D_img",
        "n_cross_layers": "Lx",
        "n_extra_tokens": "Vx",
        "n_latents": "Nlt",
        "n_resampler_layers": "L_rs",
        "n_resampler_heads": "H_rs",
        "d_resampler_head": "Dh_rs",
    }
    meanings = {
        **DecoderConfig.meanings,
        "d_vision": "width of the vision tower",
        "n_cross_layers": "gated layers that attend to images",
        "n_extra_tokens": "tokens with a table of their own",
        "n_latents": "learned latents, the tokens of an image",
        "n_resampler_layers": "layers of the resampler",
        "n_resampler_heads": "heads of the resampler",
        "d_resampler_head": "width of a head of the resampler",
    }


def idefics(c: IdeficsConfig) -> Module:
    """IDEFICS (arXiv:2306.16527), with the names of `IdeficsForVisionText2Text`.

    Source: transformers `modeling_idefics.py`.
    """
    embed, inside = Axis("embed", c.d_model), "" if c.task == "base" else "model"
    vision = c.vision.module("vision_model", layout=c.layout, inside=inside, stream="encoder")
    block = (
        rms_norm("input_layernorm", embed),
        _with_rotary(c, attention(c)),
        rms_norm("post_attention_layernorm", embed),
        feed_forward(c),
    )
    text = Module("", (Module("layers", block, repeat=c.n_layers), rms_norm("norm", embed)))
    model = (
        _tokens(c, embed),
        frozen(vision, c.vision_kept) if "vision" in c.frozen else vision,
        *_resampler(c),
        Module("gated_cross_attn_layers", _cross_layer(c, embed), repeat=c.n_cross_layers),
        frozen(text, c.text_kept) if "text" in c.frozen else text,
    )
    return Module("", model if c.task == "base" else (Module("model", model), _head(c, embed)))


def _tokens(c: IdeficsConfig, embed: Axis) -> Module:
    """The table of a frozen text, and beside it that of the tokens that were added."""
    table = embedding("embed_tokens", Axis("vocab", c.vocab_size), embed)
    table = frozen(table) if "text" in c.frozen else table
    if c.n_extra_tokens is None:
        return table
    more = embedding("additional_embedding", Axis("extra", c.n_extra_tokens), embed)
    return table._replace(children=(*table.children, more))


def _head(c: IdeficsConfig, embed: Axis) -> Module:
    table = "model.embed_tokens"
    tied_to = f"{table}.weight" if c.tie_embeddings else None
    head = linear("lm_head", Axis("vocab", c.vocab_size), embed, tied_to=tied_to, component="head")
    head = frozen(head) if "head" in c.frozen else head
    if c.n_extra_tokens is None:
        return head
    tied_to = f"{table}.additional_embedding.weight" if c.tie_embeddings else None
    more = linear("additional_fc", Axis("extra", c.n_extra_tokens), embed, tied_to=tied_to)
    return head._replace(children=(*head.children, more))


def _with_rotary(c: IdeficsConfig, module: Module) -> Module:
    """Each attention keeps the frequencies of its own."""
    return module._replace(children=(*module.children, *rotary_buffers(c.d_rotary, layout=c.layout)))


def _cross_layer(c: IdeficsConfig, embed: Axis) -> Children:
    """Attention to an image and an MLP, each behind a gate that starts closed."""
    heads, vision = heads_axis("heads", c.n_heads, c.d_head), Axis("vision", c.d_vision)
    head = Axis("head", c.d_head)
    gate = (ONE, ONE, embed) if c.wide_gates else (ONE,)
    cross = (
        linear("q_proj", heads, embed),
        linear("k_proj", heads, vision)._replace(stream="encoder"),
        linear("v_proj", heads, vision)._replace(stream="encoder"),
        *((rms_norm("q_layer_norm", head), rms_norm("k_layer_norm", head)) if c.cross_norm else ()),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False, cross=True),
        linear("o_proj", embed, heads),
    )
    return (
        rms_norm("input_layernorm", embed),
        _with_rotary(c, Module("cross_attn", cross, component="attention")),
        Param("alpha_cross_attn", gate, component="attention"),
        rms_norm("post_attention_layernorm", embed),
        feed_forward(c),
        Param("alpha_dense", gate, component="mlp"),
    )


def _resampler(c: IdeficsConfig) -> Children:
    """Each latent attends to all latents and all patches."""
    if c.n_latents is None:
        return ()
    embed, head = Axis("vision", c.d_vision), Axis("head", c.d_resampler_head)
    heads = heads_axis("heads", c.n_resampler_heads, c.d_resampler_head)
    norms = (layer_norm("q_layer_norm", head), layer_norm("k_layer_norm", head))
    attention = (
        layer_norm("context_layer_norm", embed),
        layer_norm("latents_layer_norm", embed),
        *(norms if c.perceiver_norm else ()),
        *(linear(name, heads, embed) for name in ("q_proj", "k_proj", "v_proj")),
        *attention_core(c.n_resampler_heads, c.n_resampler_heads, c.d_resampler_head, cached=False),
        linear("output_proj", embed, heads),
    )
    ffn = Axis("ffn", 4 * c.d_vision)
    feed = mlp("", ffn, embed, bias=False, act="relu", names=("fc", "c_proj"))
    block = (
        Module("0", attention, component="attention"),
        Module("1", (layer_norm("ln", embed), feed)),
    )
    parts = (
        Param("latents", (Axis("latents", c.n_latents), embed), component="embedding"),
        Module("blocks", block, repeat=c.n_resampler_layers),
        layer_norm("layer_norm", embed),
    )
    return (Module("perceiver_resampler", parts, component="other", stream="encoder"),)


ARCHITECTURES = {"idefics": Architecture(IdeficsConfig, idefics)}


def _kept(hf: HFConfig, key: str) -> tuple[str, ...]:
    """The kinds of modules that stay trained in a part that is frozen."""
    names = hf[key]
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise InvalidConfig(f"{key} has {clip(repr(unknown[0]))}; the kinds are {', '.join(KINDS)}")
    return tuple(KINDS[name] for name in names)


def _idefics(hf: HFConfig) -> Reading:
    vision, resampler = hf.nested("vision_config"), hf.nested("perceiver_config")
    frozen_parts = {"text": "freeze_text_layers", "vision": "freeze_vision_layers", "head": "freeze_lm_head"}
    given = {
        "task": "base" if hf.cls.endswith("Model") else "causal",
        "vision": bare(vision),
        "d_vision": vision["hidden_size"],
        "n_cross_layers": whole(hf, "num_hidden_layers") // whole(hf, "cross_layer_interval"),
        "wide_gates": hf["alpha_type"] == "vector",
        "n_extra_tokens": hf["additional_vocab_size"] or None,
        "cross_norm": bool(hf["qk_layer_norms"]),
        "frozen": tuple(part for part, key in frozen_parts.items() if hf[key]),
        "text_kept": _kept(hf, "freeze_text_module_exceptions"),
        "vision_kept": _kept(hf, "freeze_vision_module_exceptions"),
    }
    if hf["use_resampler"]:
        given |= {
            "n_latents": resampler["resampler_n_latents"],
            "n_resampler_layers": resampler["resampler_depth"],
            "n_resampler_heads": resampler["resampler_n_heads"],
            "d_resampler_head": resampler["resampler_head_dim"],
            "perceiver_norm": bool(resampler["qk_layer_norms_perceiver"]),
        }
    return dense(hf, "idefics", IdeficsConfig, **given)


HF_READERS = {"idefics": _idefics}
