"""Qwen's vision towers: patches of a few frames, rotary positions in two axes, and a merger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, convolution, norm
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module, Op, Places

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

QWEN = TowerNames(
    block="blocks",
    attention="attn",
    qkv=("qkv",),
    output="proj",
    mlp=("mlp", "linear_fc1", "linear_fc2"),
    norms=("norm1", "", "norm2", ""),
    rotary="rotary_pos_emb",
)
QWEN2 = QWEN._replace(mlp=("mlp", "fc1", "fc2"))
QWEN2_5 = QWEN._replace(mlp=("mlp", "gate_proj", "up_proj", "down_proj"))


@configuration
class QwenVisionConfig(TowerConfig):
    """Sizes and switches of a Qwen vision tower.

    `n_positions`: rows of a learned table of positions, which is resampled to the image, if any.
    `merge`: patches along each side of a square that the merger turns into one token of `d_out`.
    `n_deep`: mergers of inner blocks, whose outputs the first blocks of the text add (DeepStack).
    `merger_names`: its norm and its two matrices; `deep_name`: that of the list of the others.
    """

    patch_size: Dim
    n_frames: Dim
    d_out: Dim
    n_channels: Dim = 3
    n_positions: Dim | None = None
    merge: Dim = 2
    n_deep: Dim | None = None
    patch_bias: bool = True
    merger_names: tuple[str, str, str] = ("norm", "linear_fc1", "linear_fc2")
    deep_name: str = "deepstack_merger_list"

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_frames": "Nf",
        "n_channels": "Nc",
        "n_positions": "Np",
        "merge": "Mg",
        "n_deep": "Nd",
        "d_out": "Do",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_frames": "frames of a patch",
        "n_channels": "colour channels",
        "n_positions": "rows of the table of positions",
        "merge": "patches along a side that become one token",
        "n_deep": "mergers of inner blocks",
        "d_out": "width that the text is given",
    }


def qwen_vision(c: QwenVisionConfig) -> Module:
    """The tower of Qwen2-VL (arXiv:2409.12191) and of those after it.

    Source: transformers `modeling_qwen2_vl.py`, `modeling_qwen2_5_vl.py`, `modeling_qwen3_vl.py`.
    """
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    kernel = (Axis("frames", c.n_frames), side, side)
    table: tuple[Module, ...] = ()
    if c.n_positions is not None:
        table = (embedding("pos_embed", Axis("positions", c.n_positions), embed, component="position"),)
    merged = Axis("merged", c.d_model * c.merge * c.merge)
    # A token of the text is made of a square of patches.
    patches = Places(each=c.merge * c.merge)
    deep: tuple[Module, ...] = ()
    if c.n_deep is not None:
        deep = (merger(c, c.deep_name, merged)._replace(repeat=c.n_deep),)
    return Module(
        "",
        (
            Module(
                "patch_embed",
                (convolution("proj", embed, Axis("channels", c.n_channels), *kernel, bias=c.patch_bias),),
                places=patches,
            ),
            *table,
            *rotary_buffers(c.d_rotary, layout=c.layout, name=c.module_names.rotary),
            blocks(c)._replace(places=patches),
            merger(c, "merger", embed),
            *deep,
        ),
    )


def merger(c: QwenVisionConfig, name: str, normed: Axis) -> Module:
    """The patches of a square, side by side, through two matrices; `normed` is what its norm sees."""
    merged = Axis("merged", c.d_model * c.merge * c.merge)
    norm_name, first, second = c.merger_names
    return Module(
        name,
        (
            norm(c, norm_name, normed),
            linear(first, merged, merged, bias=True),
            Op("act", "gelu", {"width": merged.size}),
            linear(second, Axis("out", c.d_out), merged, bias=True),
        ),
        component="other",
    )


ARCHITECTURES = {"qwen_vision": Architecture(QwenVisionConfig, qwen_vision)}


def tower_sizes(hf: HFConfig, **given: Any) -> dict[str, Any]:
    """The fields of a Qwen tower; an axis of the image rotates half of each head."""
    width = whole(hf, "embed_dim") if "embed_dim" in hf else whole(hf, "hidden_size")
    rotary = width // whole(hf, "num_heads") // 2
    return {
        "task": "base",
        "d_model": width,
        "n_layers": hf["depth"],
        "n_heads": hf["num_heads"],
        "d_rotary": rotary + rotary % 2,
        "patch_size": hf["patch_size"],
        "n_frames": hf["temporal_patch_size"],
        "n_channels": hf["in_channels"],
        "merge": hf["spatial_merge_size"],
        "act": hf["hidden_act"],
        **given,
    }


def _qwen2_vl(hf: HFConfig) -> Reading:
    ratio = hf["mlp_ratio"]
    given = tower_sizes(
        hf,
        d_ff=int(whole(hf, "embed_dim") * ratio),
        d_out=hf["hidden_size"],
        patch_bias=False,
        merger_names=("ln_q", "mlp.0", "mlp.2"),
        module_names=QWEN2,
    )
    return Reading("qwen_vision", given)


def _qwen2_5_vl(hf: HFConfig, names: TowerNames = QWEN2_5) -> Reading:
    given = tower_sizes(
        hf,
        n_kv_heads=hf.get("num_key_value_heads"),
        d_ff=hf["intermediate_size"],
        d_out=hf["out_hidden_size"],
        norm="rms",
        gated=True,
        patch_bias=False,
        merger_names=("ln_q", "mlp.0", "mlp.2"),
        module_names=names,
    )
    return Reading("qwen_vision", given)


def _qwen2_5_omni(hf: HFConfig) -> Reading:
    return _qwen2_5_vl(hf, QWEN2_5._replace(qkv=("q", "k", "v")))


def _qwen3_vl(hf: HFConfig, **names: Any) -> Reading:
    deep = hf.get("deepstack_visual_indexes") or ()
    given = tower_sizes(
        hf,
        d_ff=hf["intermediate_size"],
        d_out=hf["out_hidden_size"],
        n_positions=hf["num_position_embeddings"],
        n_deep=len(deep) or None,
        module_names=QWEN,
        **names,
    )
    return Reading("qwen_vision", given)


def _qwen3_omni(hf: HFConfig) -> Reading:
    return _qwen3_vl(hf, merger_names=("ln_q", "mlp.0", "mlp.2"), deep_name="merger_list")


HF_READERS = {
    "cohere_compass_vision": _qwen3_vl,
    "qwen3_omni_moe_vision_encoder": _qwen3_omni,
    "exaone4_5_vision": _qwen2_5_vl,
    "qwen2_vl_vision": _qwen2_vl,
    "qwen2_5_vl_vision": _qwen2_5_vl,
    "qwen2_5_omni_vision_encoder": _qwen2_5_omni,
    "qwen3_vl_vision": _qwen3_vl,
    "qwen3_vl_moe_vision": _qwen3_vl,
    "qwen3_5_vision": _qwen3_vl,
    "qwen3_5_moe_vision": _qwen3_vl,
    "qwen4_exp_vision": _qwen3_vl,
}
