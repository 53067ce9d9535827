"""Inkling with eyes and ears: matrices that fold an image into one token, and a table of mel bins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import log
from operator import mul
from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, linear, rms_norm
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

FILES = (
    (r"vision_tower\.encoder_layers\.(\d+)\.projection\.", r"vision_tower.layers.linear_\1."),
    (r"vision_tower\.encoder_layers\.(\d+)\.layer_norm\.", r"vision_tower.layers.norm_\1."),
    (r"audio_tower\.embed_audio_tokens\.embed_audio_tokens\.", "audio_tower.encoder."),
    (r"audio_tower\.norm\.", "audio_tower.final_norm."),
    (r"\.conv1d\.", "."),
    (r"\.post_attention_layernorm\.", ".mlp_norm."),
    (r"\.input_layernorm\.", ".attn_norm."),
    (r"\.self_attn\.(q|r)_proj\.", r".attn.w\1_du."),
    (r"\.self_attn\.(k|v)_proj\.", r".attn.w\1_dv."),
    (r"\.self_attn\.o_proj\.", ".attn.wo_ud."),
    (r"\.self_attn\.", ".attn."),
    (r"\.mlp\.experts\.gate_up_proj", ".mlp.experts.w13_weight"),
    (r"\.mlp\.experts\.down_proj", ".mlp.experts.w2_weight"),
    (r"\.gate\.e_score_correction_bias", ".gate.bias"),
    (r"^model\.vision_tower\.", "model.visual."),
    (r"^model\.audio_tower\.", "model.audio."),
    (r"^model\.language_model\.embed_tokens\.embed_norm\.", "model.llm.embed_norm."),
    (r"^model\.language_model\.embed_tokens\.", "model.llm.embed."),
    (r"^model\.language_model\.", "model.llm."),
    (r"^lm_head\.", "model.llm.unembed."),
)


@configuration
class InklingVisionConfig(Config):
    """Sizes of the tower. `steps`: width in and out of each matrix but the last, which gives `d_out`."""

    d_in: Dim
    d_out: Dim
    steps: tuple[tuple[int, int], ...]
    task: str = "base"

    letters = {"d_in": "Din", "d_out": "Do"}
    meanings = {"d_in": "width before the last matrix", "d_out": "width that the text is given"}

    def __post_init__(self) -> None:
        check_sizes(self)


@configuration
class InklingAudioConfig(Config):
    """Sizes of the table of sounds. `n_mels`: numbers of a frame, each of `n_levels` levels."""

    n_mels: Dim
    n_levels: Dim
    d_out: Dim
    task: str = "base"

    letters = {"n_mels": "Nm", "n_levels": "Nv", "d_out": "Do"}
    meanings = {
        "n_mels": "mel bins of a frame",
        "n_levels": "levels of a bin",
        "d_out": "width that the text is given",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def inkling_vision(c: InklingVisionConfig) -> Module:
    """The tower, with the names of `InklingVisionModel`.

    Source: transformers `modeling_inkling.py`.
    """
    out, last = Axis("out", c.d_out), len(c.steps)
    layers = (
        Module(
            f"encoder_layers.{i}",
            (
                linear("projection", Axis("scale", wide), Axis("folded", narrow)),
                rms_norm("layer_norm", Axis("scale", wide)),
                Op("act", "gelu", {"width": wide}),
            ),
        )
        for i, (narrow, wide) in enumerate(c.steps)
    )
    final = Module(f"encoder_layers.{last}", (linear("projection", out, Axis("folded", c.d_in)),))
    return Module("", (*layers, final, rms_norm("final_norm", out)))


def inkling_audio(c: InklingAudioConfig) -> Module:
    """The table of sounds, with the names of `InklingAudioModel`: a row for each level of each bin."""
    out = Axis("out", c.d_out)
    offsets = buffer("audio_tokens_offsets", Axis("mels", c.n_mels), persistent=False)
    table = (
        embedding("embed_audio_tokens", Axis("sounds", c.n_mels * c.n_levels), out),
        *(() if c.layout == "checkpoint" else (offsets,)),
    )
    return Module("", (Module("embed_audio_tokens", table), rms_norm("norm", out)))


ARCHITECTURES = {
    "inkling_audio": Architecture(InklingAudioConfig, inkling_audio),
    "inkling_multimodal": Architecture(MultimodalConfig, multimodal),
    "inkling_vision": Architecture(InklingVisionConfig, inkling_vision),
}


# -- the widths of the tower ----------------------------------------------------------------------


def widths(patch: int, frames: int, n_channels: int, n_layers: int) -> list[tuple[int, int]]:
    """Width in and out of each matrix: of all foldings, those whose sizes are nearest to even steps.

    >>> widths(40, 2, 3, 5)
    [(75, 128), (512, 320), (1280, 1216), (4864, 4800), (9600, 614400)]
    """
    sides = list(accumulate(_prime_factors(patch)[::-1], mul))
    times = list(accumulate(_prime_factors(frames)[::-1], mul))
    scales = [(1, 1, n_channels)]
    scales += [(1, side, -(-(side**2) * n_channels // 64) * 64) for side in sides]
    scales += [(time, patch, patch**2 * n_channels * time * 64) for time in times]
    sizes = [log(time * side**2) for time, side, _ in scales]
    even = [i * log(patch**2 * frames * n_channels) / n_layers for i in range(n_layers + 1)]
    chosen = _nearest(even, sizes) if n_layers >= len(scales) else _matched(even, sizes)
    chosen[0], chosen[-1] = 0, len(scales) - 1
    return [
        ((later[0] // time) * (later[1] // side) ** 2 * width, later[2])
        for (time, side, width), later in pairwise(scales[i] for i in chosen)
    ]


def _prime_factors(number: int) -> list[int]:
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return [*found, number] if number > 1 else found


def _nearest(even: Sequence[float], sizes: Sequence[float]) -> list[int]:
    return [min(range(len(sizes)), key=lambda i: abs(sizes[i] - step)) for step in even]


def _matched(even: Sequence[float], sizes: Sequence[float]) -> list[int]:
    """The nearest for all together, each size at most once; both rise, and so do the places."""
    best: dict[int, tuple[float, list[int]]] = {-1: (0.0, [])}
    for step in even:
        found: dict[int, tuple[float, list[int]]] = {}
        for i, size in enumerate(sizes):
            before = [value for last, value in best.items() if last < i]
            if before:
                cost, path = min(before, key=lambda value: value[0])
                found[i] = (cost + abs(size - step), [*path, i])
        best = found
    return min(best.values(), key=lambda value: value[0])[1]


def _vision(hf: HFConfig) -> Reading:
    keys = ("patch_size", "temporal_patch_size", "num_channels", "n_layers")
    *steps, (last, _) = widths(*(whole(hf, key) for key in keys))
    given = {"task": "base", "d_in": last, "d_out": hf["text_hidden_size"], "steps": tuple(steps)}
    return Reading("inkling_vision", given)


def _audio(hf: HFConfig) -> Reading:
    given = {
        "task": "base",
        "n_mels": hf["n_mel_bins"],
        "n_levels": hf["mel_vocab_size"],
        "d_out": hf["text_hidden_size"],
    }
    return Reading("inkling_audio", given)


def _inkling(hf: HFConfig) -> Reading:
    """The towers are as wide as the text, whatever their own configurations say."""
    text = hf.nested("text_config")
    width = {"d_out": text["hidden_size"]}
    vision, audio = (bare(hf.nested(f"{name}_config")) for name in ("vision", "audio"))
    found = reading(
        hf,
        "inkling_multimodal",
        vision=vision._replace(given={**vision.given, **width}),
        audio=audio._replace(given={**audio.given, **width}),
        # The class declares no tie, whatever a file says.
        tie_embeddings=False,
        stored=FILES,
    )
    part = found.given["text"]
    fused = part._replace(given={**part.given, "fused": True})
    return found._replace(given={**found.given, "text": fused})


HF_READERS = {"inkling_audio": _audio, "inkling_mm_model": _inkling, "inkling_vision": _vision}
