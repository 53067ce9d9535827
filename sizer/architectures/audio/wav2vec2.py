"""wav2vec 2.0: convolutions over the waveform, and an encoder that learns to tell its codes apart."""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.architectures.tower import (
    Children,
    TowerConfig,
    TowerNames,
    batch_norm,
    blocks,
    convolution,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import FIRST, embedding, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import EACH, ONCE, Axis, Module, Op, Param, Places

ONE = Axis("one", 1)
NAMES = TowerNames(
    block="layers",
    attention="attention",
    mlp=("feed_forward", "intermediate_dense", "output_dense"),
    norms=("layer_norm", "", "final_layer_norm", ""),
)


@configuration
class Wav2Vec2Config(TowerConfig):
    """Sizes and switches of a wav2vec 2.0.

    `channels`, `kernels`, `steps`: of each convolution over the waveform; `conv_norm`: a norm after the
    first alone ("group") or after each ("layer"). `n_position_frames`, `n_groups`: of the convolution
    that gives positions: one under "weight_norm", one before a "batch_norm", or a few plain "layers";
    whether its kernel is `even`. `n_buckets`: of WavLM's relative positions. `n_clusters`: UniSpeech's
    classes. `d_adapter`: width of adapters inside the blocks.
    `n_adapter_layers`, `d_out`: convolutions after the blocks, and the width they give.
    """

    channels: PerLayer = PerLayer(())
    kernels: PerLayer = PerLayer(())
    n_position_frames: Dim | None = None
    n_groups: Dim | None = None
    d_group: Dim | None = None
    d_adapter: Dim | None = None
    n_adapter_layers: Dim | None = None
    adapter_kernel: Dim | None = None
    d_out: Dim | None = None
    widens: bool = False
    vocab_size: Dim | None = None
    d_projection: Dim | None = None
    n_code_groups: Dim | None = None
    n_codes: Dim | None = None
    d_code: Dim | None = None
    d_code_group: Dim | None = None
    d_contrast: Dim | None = None
    conv_bias: bool = False
    conv_norm: str = "group"
    n_position_layers: Dim | None = None
    n_buckets: Dim | None = None
    n_clusters: Dim | None = None
    steps: tuple[int, ...] = ()
    even: bool = True
    masked: bool = True
    weighted_layers: bool = False
    positions: str = "weight_norm"
    projection_norm: bool = True
    prefix: str = "wav2vec2"

    letters = {
        "channels": "Cw",
        "kernels": "Kw",
        "n_position_frames": "Kp",
        "n_groups": "G",
        "d_group": "Dg",
        "d_adapter": "Da",
        "n_adapter_layers": "La",
        "adapter_kernel": "Ka",
        "d_out": "Do",
        "d_projection": "Dp",
        "n_code_groups": "Gc",
        "n_codes": "Nc",
        "d_code": "Dc",
        "d_code_group": "Dcg",
        "d_contrast": "Dx",
        "n_position_layers": "Lp",
        "n_buckets": "Nb",
        "n_clusters": "Ncl",
    }
    meanings = {
        "n_position_frames": "frames under the convolution that gives positions",
        "n_groups": "groups of its channels",
        "d_group": "channels of a group",
        "d_adapter": "width of the adapters in the blocks",
        "n_adapter_layers": "convolutions after the blocks",
        "adapter_kernel": "frames under them",
        "d_out": "width that they give",
        "d_projection": "width before the classifier",
        "n_code_groups": "codebooks",
        "n_codes": "codes of a codebook",
        "d_code": "width of a code of all codebooks",
        "d_code_group": "width of a code of one",
        "d_contrast": "width in which codes are told apart",
        "n_position_layers": "convolutions that give positions",
        "n_buckets": "buckets of relative positions",
        "n_clusters": "classes that are told apart before training",
    }

    def __post_init__(self) -> None:
        TowerConfig.__post_init__(self)
        self.derive(d_out=self.d_model)
        if self.d_group is None and self.n_groups is not None:
            self.derive(d_group=divide(self.d_model, self.n_groups, names="d_model / n_groups"))
        if self.d_code is not None and self.d_code_group is None:
            names = "d_code / n_code_groups"
            self.derive(d_code_group=divide(self.d_code, self.n_code_groups, names=names))


def wav2vec2(c: Wav2Vec2Config) -> Module:
    """wav2vec 2.0 (arXiv:2006.11477), with the names of `Wav2Vec2ForCTC`.

    Source: transformers `modeling_wav2vec2.py`.
    """
    embed, waveform = Axis("embed", c.d_model), Axis("channels", c.channels.sizes()[-1])
    masked = (Param("masked_spec_embed", (embed,), component="embedding"),) if c.masked else ()
    projection = (
        *((layer_norm("layer_norm", waveform),) if c.projection_norm else ()),
        linear("projection", embed, waveform, bias=True, component="embedding"),
    )
    around = Module("pos_conv_embed", positions(c, embed), component="position")
    model = (
        *masked,
        Module("feature_extractor", feature_layers(c)),
        Module("feature_projection", projection),
        Module(
            "encoder",
            (
                around,
                layer_norm("layer_norm", embed),
                blocks(c, *_attention_adapter(c, embed), in_attention=_buckets(c)),
            ),
        ),
        *adapter(c, embed),
    )
    return with_speech_head(c, model, embed, waveform)


def with_speech_head(
    c: Wav2Vec2Config, model: Children, embed: Axis, waveform: Axis, places: Places | None = None
) -> Module:
    """The model alone, or under the head of its task, which runs at those places."""
    if c.task == "base":
        return Module("", model)
    head = Module("", _head(c, embed, waveform), places=places)
    return Module("", (Module(c.prefix, model), head))


def feature_layers(c: Wav2Vec2Config, last: Places = EACH) -> Children:
    """The convolutions over the waveform; `last`: where the last of them runs."""
    widths = [Axis("channels", width) for width in c.channels.sizes()]
    inputs = [ONE, *widths[:-1]]
    layers: list[Module] = []
    places = _sound_places(c, last)
    for i, kernel in enumerate(c.kernels.sizes()):
        normed = c.conv_norm == "layer" or i == 0
        norm = (layer_norm("layer_norm", widths[i]),) if normed else ()
        conv = convolution("conv", widths[i], inputs[i], Axis("kernel", kernel), bias=c.conv_bias, act="gelu")
        layers.append(Module(f"conv_layers.{i}", (conv, *norm), places=places[i]))
    return tuple(layers)


def _sound_places(c: Wav2Vec2Config, last: Places) -> list[Places]:
    """Where each convolution runs over the shortest waveform that becomes T frames."""
    found = [last]
    for kernel, step in list(zip(c.kernels.values, c.steps, strict=True))[:0:-1]:
        after = found[0]
        found.insert(0, Places((after.fixed - 1) * step + kernel, each=after.each * step))
    return found


def positions(c: Wav2Vec2Config, embed: Axis) -> Children:
    """What tells the frames apart by what is around them."""
    frames, group = Axis("kernel", c.n_position_frames), Axis("group", c.d_group)
    # An even kernel between margins of its half gives a frame too many, which is cut off.
    places = Places(int(c.even), each=1)
    if c.positions == "weight_norm":
        return (Module("conv", _position_convolution(c, embed), places=places),)
    conv = convolution("conv", embed, group, frames, component="position", places=places)
    if c.positions == "batch_norm":
        return (conv, batch_norm("batch_norm", embed))
    return (Module("layers", (conv,), repeat=c.n_position_layers),)


def _buckets(c: Wav2Vec2Config) -> Children:
    """WavLM (arXiv:2110.13900): relative positions of the first block, which every block gates."""
    if c.n_buckets is None:
        return ()
    heads, head = Axis("heads", c.n_heads), Axis("head", c.d_head)
    table = (embedding("rel_attn_embed", Axis("buckets", c.n_buckets), heads, component="position"),)
    return (
        Param("gru_rel_pos_const", (ONE, heads, ONE, ONE)),
        linear("gru_rel_pos_linear", Axis("gates", 8), head, bias=True)._replace(uses=c.n_heads),
        Module("", table, at=FIRST),
    )


def _position_convolution(c: Wav2Vec2Config, embed: Axis) -> Children:
    """A convolution under weight normalization: a direction for each frame, and its length."""
    frames, group = Axis("kernel", c.n_position_frames), Axis("group", c.d_group)
    return (
        Param("bias", (embed,)),
        Param("parametrizations.weight.original0", (ONE, ONE, frames)),
        Param("parametrizations.weight.original1", (embed, group, frames), "matmul"),
    )


def _attention_adapter(c: Wav2Vec2Config, embed: Axis) -> tuple[Module, ...]:
    """A bottleneck for each language, at the end of a block."""
    if c.d_adapter is None:
        return ()
    narrow = Axis("adapter", c.d_adapter)
    parts = (
        layer_norm("norm", embed),
        linear("linear_1", narrow, embed, bias=True),
        Op("act", "relu", {"width": narrow.size}),
        linear("linear_2", embed, narrow, bias=True),
    )
    return (Module("adapter_layer", parts, component="mlp"),)


def adapter(c: Wav2Vec2Config, embed: Axis) -> tuple[Module, ...]:
    """Convolutions that shorten what the blocks give."""
    if c.n_adapter_layers is None:
        return ()
    out, kernel = Axis("out", c.d_out), Axis("kernel", c.adapter_kernel)
    widen: Children = ()
    if c.widens:
        widen = (linear("proj", out, embed, bias=True), layer_norm("proj_layer_norm", out))
    conv = convolution("conv", 2 * out, out, kernel, component="other")
    return (
        Module("adapter", (*widen, Module("layers", (conv,), repeat=c.n_adapter_layers)), component="other"),
    )


def _head(c: Wav2Vec2Config, embed: Axis, waveform: Axis) -> Children:
    labels = Axis("labels", c.n_labels)
    weights = (Param("layer_weights", (Axis("layers", c.n_layers + 1),), component="head"),)
    weighted = weights if c.weighted_layers else ()
    if c.task == "ctc":
        vocab, out = Axis("vocab", c.vocab_size), Axis("out", c.d_out)
        return (linear("lm_head", vocab, out, bias=True, component="head"),)
    if c.task == "frames":
        return (*weighted, linear("classifier", labels, embed, bias=True, component="head"))
    if c.task == "sequence":
        width = Axis("projection", c.d_projection)
        return (
            *weighted,
            linear("projector", width, embed, bias=True, component="head"),
            linear("classifier", labels, width, bias=True, component="head", places=ONCE),
        )
    return _codes(c, embed, waveform)


def _codes(c: Wav2Vec2Config, embed: Axis, waveform: Axis) -> Children:
    """The codes that a frame is told apart by, and in UniSpeech the classes besides."""
    codes, code = Axis("codes", c.n_code_groups * c.n_codes), Axis("code", c.d_code)  # type: ignore[operator]
    contrast, narrow = Axis("contrast", c.d_contrast), Axis("code", c.d_code_group)
    satellite = c.prefix == "unispeech_sat"
    quantizer = (
        Param("codevectors", (ONE, codes, narrow), component="head"),
        linear("weight_proj", codes, embed if satellite else waveform, bias=True, component="head"),
    )
    out, inp = (embed, contrast) if c.prefix == "unispeech" else (contrast, embed)
    head: Children = (
        Module("quantizer", quantizer),
        linear("project_hid", out, inp, bias=True, component="head"),
        linear("project_q", contrast, code, bias=True, component="head"),
    )
    if c.n_clusters is None:
        return head
    clusters = Axis("clusters", c.n_clusters)
    if not satellite:
        return (*head, linear("ctc_proj", clusters, embed, bias=True, component="head"))
    return (
        *head,
        linear("speaker_proj", code, embed, bias=True, component="head"),
        Param("label_embeddings_concat", (clusters, code), component="head"),
        layer_norm("layer_norm_for_extract", embed),
    )


ARCHITECTURES = {"wav2vec2": Architecture(Wav2Vec2Config, wav2vec2)}
