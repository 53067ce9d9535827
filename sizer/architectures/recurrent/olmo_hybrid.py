"""OLMo Hybrid: OLMo's post-norm attention layers between pre-norm Gated DeltaNet layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import attention, feed_forward, rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.delta import DeltaConfig, delta_axes, delta_net, delta_sizes
from sizer.architectures.recurrent.parts import in_layers, layer_pattern, short_conv
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import embedding, linear, rms_norm
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class OlmoHybridConfig(DeltaConfig):
    """Sizes and switches of an OLMo Hybrid. `rotary`: whether there are rotary positions."""

    qk_norm: str | None = "full"
    rotary: bool = True


def olmo_hybrid(c: OlmoHybridConfig) -> Module:
    """OLMo Hybrid (Ai2 2026), with the tensor names of `OlmoHybridForCausalLM`.

    Source: transformers `modeling_olmo_hybrid.py`. The names of two norms differ in checkpoints.
    """
    embed = Axis("embed", c.d_model)
    stored = c.layout == "checkpoint"
    before, middle = (
        ("attention_layer_norm", "feedforward_layer_norm")
        if stored
        else ("input_layernorm", "post_attention_layernorm")
    )
    block = Module(
        "layers",
        (
            *in_layers(c.layers, rms_norm(before, embed), "linear"),
            *in_layers(c.layers, _mixer(c, embed), "linear"),
            *in_layers(c.layers, attention(c), "full"),
            # Before the MLP of a mixer's layer, after the attention of an attention layer.
            rms_norm(middle, embed),
            feed_forward(c),
            *in_layers(c.layers, rms_norm("post_feedforward_layernorm", embed), "full"),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm("norm", embed),
        *(rotary_buffers(c.d_rotary, layout=c.layout) if c.rotary else ()),
    )
    return with_head(c, model)


def _mixer(c: OlmoHybridConfig, embed: Axis) -> Module:
    keys, values, heads = delta_axes(c)
    widths = {"q": keys, "k": keys, "v": values, "a": heads, "b": heads, "g": values}
    projections = tuple(linear(f"{x}_proj", width, embed) for x, width in widths.items())
    if c.layout == "checkpoint":
        thirds = zip("qkv", _thirds(2 * keys.size + values.size), strict=True)
        convolutions = tuple(
            short_conv(f"{x}_conv1d", Axis("channels", third), c.d_conv, bias=False) for x, third in thirds
        )
    else:
        convolutions = (short_conv("conv1d", 2 * keys + values, c.d_conv, bias=False),)
    return delta_net(c, projections, convolutions, linear("o_proj", embed, values), norm="o_norm")


def _thirds(channels: Dim) -> tuple[Dim, Dim, Dim]:
    """The one convolution in memory is cut into three equal parts, whatever they serve, to be stored."""
    third = -(-channels // 3) if isinstance(channels, int) else divide(channels, 3, names="channels / 3")
    return third, third, channels - 2 * third


ARCHITECTURES = {"olmo_hybrid": Architecture(OlmoHybridConfig, olmo_hybrid)}


def _olmo_hybrid(hf: HFConfig) -> Reading:
    n_layers, width = hf["num_hidden_layers"], hf["hidden_size"]
    kinds = hf["layer_types"]
    if kinds is None:
        kinds = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(n_layers)]
        kinds = kinds if "full_attention" in kinds else [*kinds[:-1], "full_attention"]
    sizes = delta_sizes(hf)
    for heads in ("n_key_heads", "n_value_heads"):
        sizes[heads] = sizes[heads] or hf["num_attention_heads"]
    sizes["d_key_head"] = sizes["d_key_head"] or int(0.75 * width / sizes["n_key_heads"])
    sizes["d_value_head"] = sizes["d_value_head"] or 2 * sizes["d_key_head"]
    d_head = hf.in_file("head_dim") or width // hf["num_attention_heads"]
    given = hf.fill(
        OlmoHybridConfig,
        **sizes,
        layers=layer_pattern(hf, kinds, "linear", "full"),
        window=None,
        d_rotary=rotary_width(hf, d_head),
        rotary=_rotates(hf),
    )
    return Reading("olmo_hybrid", given)


def _rotates(hf: HFConfig) -> bool:
    """A file may switch rotary positions off with a `rope_theta` of null."""
    rope = hf.in_file("rope_parameters") or {}
    return rope.get("rope_theta", hf.in_file("rope_theta", 0)) is not None


HF_READERS = {"olmo_hybrid": _olmo_hybrid}
