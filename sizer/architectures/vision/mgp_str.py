"""MGP-STR: a ViT that reads the letters of a line, as characters, as bytes' pairs and as pieces of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import count_of, positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.clip import patch_side, patches
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# The groups of channels that see one another when tokens are made.
GROUPS = 8
NAMES = TowerNames(
    block="encoder.blocks",
    attention="attn",
    qkv=("qkv",),
    output="proj",
    norms=("norm1", "", "norm2", ""),
)


@configuration
class MgpStrConfig(TowerConfig):
    """Sizes of an MGP-STR.

    `n_rows`: rows of the table of positions. `n_tokens`: tokens that a line is read as; `d_group`:
    channels that see one another when they are made. `n_characters`, `n_bpe`, `n_pieces`: what each
    of the three readings chooses from.
    """

    patch_size: Dim
    n_rows: Dim
    n_tokens: Dim
    n_characters: Dim
    n_bpe: Dim
    n_pieces: Dim
    d_group: Dim | None = None
    n_channels: Dim = 3
    task: str = "scene_text"
    module_names: TowerNames = NAMES

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_rows": "Nps",
        "n_tokens": "Nt",
        "n_characters": "Vc",
        "n_bpe": "Vb",
        "n_pieces": "Vw",
        "d_group": "Dg",
        "n_channels": "Nc",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_rows": "rows of the table of positions",
        "n_tokens": "tokens of a line",
        "n_characters": "characters",
        "n_bpe": "pairs of bytes",
        "n_pieces": "pieces of words",
        "d_group": "channels of a group",
        "n_channels": "colour channels",
    }

    may_be_zero = TowerConfig.may_be_zero | {"n_layers"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(d_group=divide(self.d_model, GROUPS, names="d_model / 8"))


def mgp_str(c: MgpStrConfig) -> Module:
    """MGP-STR (arXiv:2209.03592). Source: transformers `modeling_mgp_str.py`."""
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    embeddings = (
        Param("cls_token", (ONE, ONE, embed), component="embedding"),
        Param("pos_embed", (ONE, Axis("patches", c.n_rows), embed), component="position"),
        convolution("proj", embed, Axis("channels", c.n_channels), side, side),
    )
    readings = {"char": c.n_characters, "bpe": c.n_bpe, "wp": c.n_pieces}
    return Module(
        "",
        (
            Module("mgp_str", (Module("embeddings", embeddings), blocks(c))),
            *(_tokens(c, f"{name}_a3_module", embed) for name in readings),
            *(
                linear(f"{name}_head", Axis("vocab", size), embed, bias=True, component="head")
                for name, size in readings.items()
            ),
        ),
    )


def _tokens(c: MgpStrConfig, name: str, embed: Axis) -> Module:
    """Each token is a mean of the patches, weighted by a map that is learned for it."""
    group, tokens = Axis("group", c.d_group), Axis("tokens", c.n_tokens)
    maps = {"tokenLearner.0": (embed, group), "tokenLearner.1": (tokens, embed), "feat": (embed, group)}
    return Module(
        name,
        (
            layer_norm("token_norm", embed),
            *(
                convolution(conv, out, inp, ONE, ONE, bias=False, component="head")
                for conv, (out, inp) in maps.items()
            ),
            layer_norm("norm", embed),
        ),
    )


ARCHITECTURES = {"mgp_str": Architecture(MgpStrConfig, mgp_str)}


def _mgp_str(hf: HFConfig) -> Reading:
    if hf.cls != "MgpstrForSceneTextRecognition":
        raise UnknownName("class", hf.cls, ("MgpstrForSceneTextRecognition",), hint="of an mgp-str")
    width = whole(hf, "hidden_size")
    given = {
        "task": "scene_text",
        "d_model": width,
        "n_layers": count_of(hf, "num_hidden_layers"),
        "n_heads": whole(hf, "num_attention_heads"),
        "d_ff": int(width * positive("mlp_ratio", hf["mlp_ratio"])) or width,
        "bias": "qkvo" if hf["qkv_bias"] else "o",
        "patch_size": patch_side(hf),
        "n_rows": patches(hf) + (2 if hf["distilled"] else 1),
        "n_tokens": whole(hf, "max_token_length"),
        "n_characters": whole(hf, "num_character_labels"),
        "n_bpe": whole(hf, "num_bpe_labels"),
        "n_pieces": whole(hf, "num_wordpiece_labels"),
        "n_channels": whole(hf, "num_channels"),
    }
    return Reading("mgp_str", given)


HF_READERS = {"mgp-str": _mgp_str}
