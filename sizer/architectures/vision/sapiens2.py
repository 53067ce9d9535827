"""Sapiens 2: a ViT of people, whose middle layers share keys and values between heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import fused_gated_mlp
from sizer.architectures.decoders.reading import count_of, listed_layers, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import patch_side
from sizer.architectures.vision.lists import activation, listed_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, gated_mlp, linear, rms_norm
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# What files say in place of a name in memory.
FILES = (
    (r"^embeddings\.cls_token", "cls_token"),
    (r"^embeddings\.register_tokens", "storage_tokens"),
    (r"^embeddings\.patch_embeddings\.", "patch_embed.projection."),
    (r"^model\.layer\.", "blocks."),
    (r"\.attention\.o_proj\.", ".attn.proj."),
    (r"\.attention\.([qkv])_proj\.", r".attn.w\1."),
    (r"\.attention\.([qk])_norm\.", r".attn.\1_norm."),
    (r"\.layer_scale1\.lambda1", ".attn.gamma.weight"),
    (r"\.norm([12])\.", r".ln\1."),
    (r"^norm\.", "ln1."),
)


@configuration
class Sapiens2Config(Config):
    """Sizes and switches of a Sapiens 2.

    `kv_heads`: key and value heads of each layer. `bias`: which projections of attention have one.
    `n_registers`: tokens that stand for nothing; `d_axial`: frequencies of rotary positions.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    kv_heads: PerLayer
    d_ff: Dim
    patch_size: Dim
    n_registers: Dim
    d_axial: Dim
    d_head: Dim | None = None
    n_channels: Dim = 3
    bias: str = "qkvo"
    mlp_bias: bool = True
    qk_norm: bool = True
    mask_token: bool = False
    act: str = "silu"
    task: str = "base"

    letters = {"kv_heads": "K", "patch_size": "p", "n_registers": "Nr", "d_axial": "Dx", "n_channels": "Nc"}
    meanings = {
        "patch_size": "side of a patch",
        "n_registers": "tokens that stand for nothing",
        "d_axial": "frequencies of rotary positions along an axis",
        "n_channels": "colour channels",
    }
    may_be_zero = Config.may_be_zero | {"n_registers"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def sapiens2(c: Sapiens2Config) -> Module:
    """Sapiens 2. Source: transformers `modeling_sapiens2.py`, and its table of conversions for files."""
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    registers = Axis("tokens", c.n_registers)
    mask = (Param("mask_token", (ONE, ONE, embed), component="embedding"),) if c.mask_token else ()
    embeddings: Children = (
        Param("cls_token", (ONE, ONE, embed), component="embedding"),
        *mask,
        Param("register_tokens", (ONE, registers, embed), component="embedding"),
        convolution("patch_embeddings", embed, Axis("channels", c.n_channels), side, side),
    )
    frequencies = (buffer("inv_freq", Axis("rotary", c.d_axial), persistent=False),)
    in_memory = c.layout == "transformers"
    tree = Module(
        "",
        (
            Module("embeddings", embeddings),
            *((Module("rope_embeddings", frequencies),) if in_memory else ()),
            Module("model.layer", _block(c, embed), repeat=c.n_layers),
            rms_norm("norm", embed),
        ),
    )
    return tree if in_memory else stored_names(tree, FILES)


def _block(c: Sapiens2Config, embed: Axis) -> Children:
    ffn = Axis("ffn", c.d_ff)
    mlp = (
        gated_mlp("mlp", ffn, embed, bias=c.mlp_bias, act=c.act)
        if c.layout == "transformers"
        else fused_gated_mlp("ffn", ffn, embed, bias=c.mlp_bias, act=c.act, names=("w12", "w3"))
    )
    return (
        rms_norm("norm1", embed),
        Module("attention", _attention(c, embed), component="attention"),
        Param("layer_scale1.lambda1", (embed,)),
        rms_norm("norm2", embed),
        mlp,
    )


def _attention(c: Sapiens2Config, embed: Axis) -> Children:
    heads, one_head = heads_axis("heads", c.n_heads, c.d_head), Axis("head", c.d_head)
    norms = (rms_norm("q_norm", one_head), rms_norm("k_norm", one_head)) if c.qk_norm else ()
    shared = (
        Module(
            "",
            (
                linear("k_proj", heads_axis("kv_heads", count, c.d_head), embed, bias="k" in c.bias),
                linear("v_proj", heads_axis("kv_heads", count, c.d_head), embed, bias="v" in c.bias),
                *attention_core(c.n_heads, count, c.d_head, cached=False),
            ),
            at=layers,
        )
        for count, layers in c.kv_heads.groups()
    )
    return (
        linear("q_proj", heads, embed, bias="q" in c.bias),
        *norms,
        *shared,
        linear("o_proj", embed, heads, bias="o" in c.bias),
    )


ARCHITECTURES = {"sapiens2": Architecture(Sapiens2Config, sapiens2)}


def _sapiens2(hf: HFConfig) -> Reading:
    if hf.cls != "Sapiens2Model":
        raise UnknownName("class", hf.cls, ("Sapiens2Model",), hint="of a sapiens2")
    if not hf["use_gated_mlp"]:
        raise InvalidConfig("use_gated_mlp = false: how files name such an MLP is not known")
    biases = {"q": "query_bias", "k": "key_bias", "v": "value_bias", "o": "proj_bias"}
    width, n_heads, kv_heads = whole(hf, "hidden_size"), whole(hf, "num_attention_heads"), _kv_heads(hf)
    given = {
        "task": "base",
        "d_model": width,
        "n_layers": len(kv_heads),
        "n_heads": n_heads,
        "kv_heads": PerLayer(kv_heads),
        "d_ff": whole(hf, "intermediate_size"),
        "patch_size": patch_side(hf),
        "n_registers": count_of(hf, "num_register_tokens"),
        # One frequency for every four of a head's elements, the last of them in part.
        "d_axial": -(-(width // n_heads) // 4),
        "n_channels": whole(hf, "num_channels"),
        "bias": "".join(letter for letter, key in biases.items() if hf[key]),
        "mlp_bias": bool(hf["mlp_bias"]),
        "qk_norm": bool(hf["use_qk_norm"]),
        "mask_token": bool(hf["use_mask_token"]),
        "act": activation(hf, "hidden_act"),
    }
    return Reading("sapiens2", given)


def _kv_heads(hf: HFConfig) -> tuple[int, ...]:
    """Key and value heads of each layer: as listed, or fewer but for the first and the last layers."""
    n_layers, n_heads = listed_layers(hf), whole(hf, "num_attention_heads")
    if hf["num_key_value_heads_per_layer"] is not None:
        listed = listed_sizes(hf, "num_key_value_heads_per_layer")
        if len(listed) < n_layers:
            raise InvalidConfig(
                f"num_key_value_heads_per_layer lists {len(listed)} layers of num_hidden_layers = {n_layers}"
            )
        return listed[:n_layers]
    first = count_of(hf, "num_first_full_attention_layers")
    last = n_layers - count_of(hf, "num_last_full_attention_layers")
    fewer = whole(hf, "num_key_value_attention_heads")
    return tuple(n_heads if i < first or i >= last else fewer for i in range(n_layers))


HF_READERS = {"sapiens2": _sapiens2}
