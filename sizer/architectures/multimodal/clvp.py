"""CLVP: a decoder that speaks a text, and two towers that say how well the speech fits the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import CLIP, Children, TowerConfig, blocks, convolution
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
NAMES = CLIP._replace(
    block="layers",
    mlp=("mlp", "fc1.proj", "fc2"),
    norms=("input_rmsnorm", "", "post_attention_rmsnorm", ""),
)


@configuration
class ClvpEncoderConfig(TowerConfig):
    """A tower over the tokens of a text or of speech. `n_turned`: stored frequencies of its positions."""

    vocab_size: Dim
    d_projection: Dim
    n_turned: Dim | None = None

    letters = {**TowerConfig.letters, "d_projection": "Dp", "n_turned": "Nt"}
    meanings = {
        **TowerConfig.meanings,
        "d_projection": "width in which the towers meet",
        "n_turned": "frequencies of rotary positions",
    }


@configuration
class ClvpConfig(Config):
    """The towers, and the sizes of the decoder, whose keys and values may have biases.

    `text_rows`: tokens of a text, `text_ctx`: their positions. `n_mel`: numbers of a frame of sound,
    which `n_mel_layers` read.
    """

    text: Part
    speech: Part
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    text_rows: Dim
    text_ctx: Dim
    n_mel: Dim
    n_mel_layers: Dim
    d_head: Dim | None = None
    qkv_bias: bool = True
    act: str = "gelu_new"
    task: str = "base"

    letters = {
        "text": "txt",
        "speech": "sp",
        "text_rows": "V_txt",
        "text_ctx": "Ct",
        "n_mel": "Nm",
        "n_mel_layers": "Lm",
    }
    meanings = {
        "text_rows": "tokens of a text",
        "text_ctx": "positions of a text",
        "n_mel": "numbers of a frame of sound",
        "n_mel_layers": "layers over frames of sound",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def clvp_encoder(c: ClvpEncoderConfig) -> Module:
    """One of the towers, with the names of `ClvpEncoder`."""
    embed = Axis("embed", c.d_model)
    turned: Children = ()
    if c.n_turned is not None:
        turned = (Module("rotary_pos_emb", (buffer("inv_freq", Axis("rotary", c.n_turned)),)),)
    parts: Children = (
        embedding("token_embedding", Axis("vocab", c.vocab_size), embed),
        *turned,
        blocks(c),
        layer_norm("final_layer_norm", embed),
        linear("projection", Axis("projection", c.d_projection), embed, component="head"),
    )
    return Module("", parts)


def clvp(c: ClvpConfig) -> Module:
    """CLVP, of Tortoise (arXiv:2305.07243), with the names of `ClvpModelForConditionalGeneration`.

    Source: transformers `modeling_clvp.py`.
    """
    parts: Children = (
        _conditioning(c),
        Module("speech_decoder_model", _decoder(c)),
        c.text.module("text_encoder_model", layout=c.layout),
        c.speech.module("speech_encoder_model", layout=c.layout),
        Param("logit_scale", (), component="head"),
    )
    return Module("", parts)


def _conditioning(c: ClvpConfig) -> Module:
    """What the decoder reads first: a sample of the voice, and the text."""
    embed = Axis("embed", c.d_model)
    parts = (
        embedding("text_token_embedding", Axis("vocab", c.text_rows), embed),
        embedding("text_position_embedding", Axis("context", c.text_ctx), embed, component="position"),
        convolution("mel_conv", embed, Axis("mel", c.n_mel), ONE),
        layer_norm("group_norms", embed)._replace(repeat=c.n_mel_layers, kind="group_norm"),
        _attention(c, "mel_attn_blocks", cached=False)._replace(repeat=c.n_mel_layers),
    )
    return Module("conditioning_encoder", parts, stream="encoder")


def _decoder(c: ClvpConfig) -> Children:
    """GPT-2 over tokens of speech."""
    embed, vocab, ffn = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("ffn", c.d_ff)
    block = (
        layer_norm("input_layernorm", embed),
        _attention(c, "attn", cached=True),
        layer_norm("post_attention_layernorm", embed),
        mlp("mlp", ffn, embed, act=c.act, names=("c_fc", "c_proj"), transposed=True),
    )
    decoder = (
        embedding("input_embeds_layer", vocab, embed),
        embedding("position_embeds_layer", Axis("context", c.n_ctx), embed, component="position"),
        Module("layers", block, repeat=c.n_layers),
        layer_norm("layer_norm", embed),
    )
    return (
        Module("model.decoder", decoder),
        layer_norm("final_norm", embed),
        linear("lm_head", vocab, embed, bias=True, component="head"),
    )


def _attention(c: ClvpConfig, name: str, *, cached: bool) -> Module:
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    rows = Axis("context", c.n_ctx)
    mask = (buffer("bias", ONE, ONE, rows, rows, persistent=False),) if c.layout == "transformers" else ()
    parts = (
        *mask,
        *(linear(part, heads, embed, bias=c.qkv_bias) for part in ("q_proj", "k_proj", "v_proj")),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=cached),
        linear("out_proj", embed, heads, bias=True),
    )
    return Module(name, parts, component="attention")


ARCHITECTURES = {
    "clvp": Architecture(ClvpConfig, clvp),
    "clvp_encoder": Architecture(ClvpEncoderConfig, clvp_encoder),
}


def _encoder(hf: HFConfig) -> Reading:
    width = max(hf["projection_dim"] // (2 * hf["num_attention_heads"]), 32)
    given: dict[str, Any] = vision_sizes(
        hf,
        vocab_size=hf["vocab_size"],
        d_projection=hf["projection_dim"],
        n_turned=(width + 1) // 2 if hf["use_rotary_embedding"] else None,
        bias="qkvo" if hf["use_attention_bias"] else "o",
        norm="rms",
        gated=True,
        module_names=NAMES,
    )
    return Reading("clvp_encoder", given)


def _part(hf: HFConfig) -> Part:
    return Part("clvp_encoder", _encoder(hf).given)


def _clvp(hf: HFConfig) -> Reading:
    if hf.cls != "ClvpModelForConditionalGeneration":
        raise UnknownName("class", hf.cls, ("ClvpModelForConditionalGeneration",), hint="of a clvp")
    text, decoder = hf.nested("text_config"), hf.nested("decoder_config")
    width, inner = decoder["hidden_size"], decoder["n_inner"]
    given = {
        "text": _part(text),
        "speech": _part(hf.nested("speech_config")),
        "d_model": width,
        "n_layers": decoder["num_hidden_layers"],
        "n_heads": decoder["num_attention_heads"],
        "d_ff": 4 * width if inner is None else inner,
        "vocab_size": decoder["vocab_size"],
        "n_ctx": decoder["max_position_embeddings"],
        "text_rows": text["vocab_size"],
        "text_ctx": decoder["max_text_tokens"],
        "n_mel": decoder["feature_size"],
        "n_mel_layers": decoder["num_mel_attn_blocks"],
        "qkv_bias": bool(decoder["use_attention_bias"]),
        "act": decoder["activation_function"],
    }
    return Reading("clvp", given)


HF_READERS = {"clvp": _clvp, "clvp_encoder": _encoder}
