"""Dots 3: latent attention that alternates with one over a window, with sizes of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.latent import latent_attention, latent_model
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import DeepseekConfig, dense_and_sparse, kinds_of_mlp, mixture
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer, gated_mlp, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class Dots3Config(DeepseekConfig):
    """Sizes and switches of a Dots 3.

    `layers`: "indexed" (an indexer selects the keys), "full", or "sliding" (the last W tokens).
    The fields that begin with `sliding` are the sizes of that attention.
    """

    layers: Pattern
    sliding_heads: Dim
    sliding_q_lora_rank: Dim
    sliding_kv_lora_rank: Dim
    sliding_nope: Dim
    sliding_rope: Dim
    sliding_value: Dim
    sliding_rotary: Dim | None = None

    letters = {
        **DeepseekConfig.letters,
        "sliding_heads": "Hw",
        "sliding_q_lora_rank": "Rqw",
        "sliding_kv_lora_rank": "Rkw",
        "sliding_nope": "Dnw",
        "sliding_rope": "Drw",
        "sliding_value": "Dvw",
        "sliding_rotary": "Drbw",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(sliding_rotary=self.sliding_rope)


def dots3(c: Dots3Config) -> Module:
    """Dots 3, with the tensor names of `Dots3NoteForCausalLM`.

    Source: transformers `modeling_dots3_note.py`.
    """
    embed = Axis("embed", c.d_model)
    dense, sparse = dense_and_sparse(c)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            *_attentions(c, embed),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act)._replace(at=dense),
            mixture(c, embed)._replace(at=sparse),
        ),
        repeat=c.n_layers,
    )
    table, blocks, last_norm, *_ = latent_model(c, embed, block)
    return with_head(c, (table, blocks, last_norm, *_rotary(c)))


def _attentions(c: Dots3Config, embed: Axis) -> tuple[Module, ...]:
    """The attention of each kind of layer."""
    unindexed = replace(c, n_index_heads=None, d_index=None, index_top_k=None)
    sliding = replace(
        unindexed,
        n_heads=c.sliding_heads,
        q_lora_rank=c.sliding_q_lora_rank,
        kv_lora_rank=c.sliding_kv_lora_rank,
        d_nope=c.sliding_nope,
        d_rope=c.sliding_rope,
        d_qk=None,
        d_value=c.sliding_value,
    )
    kinds = {"indexed": replace(c, window=None), "full": replace(unindexed, window=None), "sliding": sliding}

    def attention(kind: str, sizes: Dots3Config) -> Module:
        more = (
            rms_norm("k_rope_only_layernorm", Axis("rope", sizes.d_rope)),
            linear("g_proj", Axis("heads", sizes.n_heads), embed),
        )
        return latent_attention(sizes, embed, more)._replace(at=c.layers.layers(kind))

    return tuple(attention(kind, sizes) for kind, sizes in kinds.items() if c.layers.has(kind))


def _rotary(c: Dots3Config) -> tuple[Module, ...]:
    """Frequencies for each kind of layer, in memory alone."""
    if c.layout == "checkpoint":
        return ()
    widths = {"indexed": c.d_rotary, "full": c.d_rotary, "sliding": c.sliding_rotary}
    return (
        Module(
            "rotary_emb",
            tuple(
                buffer(
                    f"{kind}_attention_{name}",
                    Axis("rotary", divide(width, 2, names="d_rotary / 2")),
                    persistent=False,
                )
                for kind, width in widths.items()
                if c.layers.has(kind)
                for name in ("inv_freq", "original_inv_freq")
            ),
        ),
    )


ARCHITECTURES = {"dots3": Architecture(Dots3Config, dots3)}

# What a file in the older spelling leaves out of the sliding layers' sizes.
_SLIDING = {
    "num_attention_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}


def _dots3_note_text(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    kinds = _layer_kinds(hf, n_layers)
    sliding = _sliding_sizes(hf, kinds)
    return Reading(
        "dots3",
        hf.fill(
            Dots3Config,
            **kinds_of_mlp(_mlp_types(hf, n_layers), n_layers, None),
            layers=Pattern(kinds),
            d_ff_shared=hf.get("moe_shared_expert_intermediate_size", hf["shared_experts_intermediate_size"]),
            window=hf["sliding_window"] or hf.get("sliding_window_size", 512),
            mlp_bias=False,
            d_rotary=_rotary_width(hf),
            sliding_heads=sliding["num_attention_heads"],
            sliding_q_lora_rank=sliding["q_lora_rank"],
            sliding_kv_lora_rank=sliding["kv_lora_rank"],
            sliding_nope=sliding["qk_nope_head_dim"],
            sliding_rope=sliding["qk_rope_head_dim"],
            sliding_value=sliding["v_head_dim"],
            sliding_rotary=_rotary_width(sliding),
        ),
    )


def _layer_kinds(hf: HFConfig, n_layers: int) -> tuple[str, ...]:
    use_dsa = hf.get("use_dsa", None if "per_layer_config" in hf else True)
    types = hf.per_layer("layer_types", n_layers)
    if types is None:
        sliding = hf.get("use_sliding_window", True)
        full = "full" if use_dsa is False else "indexed"
        types = [full if not sliding or i < 2 or i % 4 == 1 else "sliding" for i in range(n_layers)]
    kinds = [kind.removesuffix("_attention") for kind in types[:n_layers]]
    if use_dsa is not None:
        old, new = ("full", "indexed") if use_dsa else ("indexed", "full")
        kinds = [new if kind == old else kind for kind in kinds]
    return tuple(kinds)


def _sliding_sizes(hf: HFConfig, kinds: tuple[str, ...]) -> dict[str, int]:
    """The sizes of the sliding layers: from what single layers change, or keys that say `swa`."""
    base = {key: hf[key] for key in (*_SLIDING, "qk_rope_head_dim")}
    if "per_layer_config" in hf:
        by_layer = {int(i): values for i, values in (hf["per_layer_config"] or {}).items()}
        found = [{**base, **by_layer.get(i, {})} for i, kind in enumerate(kinds) if kind == "sliding"]
        others = [by_layer.get(i) for i, kind in enumerate(kinds) if kind != "sliding"]
        if any(others) or any(sizes != found[0] for sizes in found):
            raise InvalidConfig("per_layer_config gives layers of one kind different sizes")
        return found[0] if found else base
    sizes = {key: hf.get(f"swa_{key}", default) for key, default in _SLIDING.items()}
    rope = sizes["head_dim"] - sizes["qk_nope_head_dim"]
    return {**sizes, "qk_rope_head_dim": hf.get("swa_qk_rope_head_dim", rope)}


def _mlp_types(hf: HFConfig, n_layers: int) -> list[str]:
    types: list[str] | None = hf.per_layer("mlp_layer_types", n_layers)
    if types is not None:
        return types
    first, step = hf.get("first_k_dense_replace", 1), hf.get("moe_layer_freq", 1)
    chosen = step if isinstance(step, list) else [i % step == 0 for i in range(n_layers)]
    return ["sparse" if i >= first and chosen[i] else "dense" for i in range(n_layers)]


def _rotary_width(sizes: Any) -> int:
    """The part of a head that its kind of layer turns.

    transformers works that share out anew from the sizes, whatever a file says.
    """
    return int(sizes["head_dim"] * (sizes["qk_rope_head_dim"] / sizes["head_dim"]))


HF_READERS = {"dots3_note_text": _dots3_note_text}
