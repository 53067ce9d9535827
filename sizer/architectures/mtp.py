"""Layers for multi-token prediction: in the published files, and in a count where asked for.

They serve training and speculative decoding, and transformers builds none of them. A family that
has them gives its configuration two fields, `mtp_layers: Dim | None = None` and
`count_mtp: bool = False`; its reader fills the first (no layers: `None`) and passes the second on.
Its builder adds what `mtp_layers` returns below, as `sizer.architectures.decoders.mimo` does.
`sizer.loading` says how much a count leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.heads import Children
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear, rms_norm
from sizer.core.tree import Axis, Layers, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# What files call the number of layers.
KEYS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")


def mtp_layers(c: Any, name: str, parts: Children, *, after: Dim | None = None) -> tuple[Module, ...]:
    """The layers, `parts` each, as the component "other"; nothing unless they are counted.

    `after`: they go on with the numbers of that many layers before them (DeepSeek-V3's 62nd).
    """
    count = c.mtp_layers
    if not c.count_mtp or count is None:
        return ()
    repeat = count
    if after is not None:
        known = isinstance(count, int) and isinstance(after, int)
        repeat = Layers(count, range(after, after + count) if known else None)
    return (_other(Module(name, parts, repeat=repeat)),)


def layers_in_file(hf: HFConfig) -> int | None:
    """How many layers a file itself says there are; `None` for none."""
    for key in KEYS:
        if hf.given(key):
            return hf[key] or None
    return None


def next_layers(c: Any, block: Children) -> tuple[Module, ...]:
    """DeepSeek-V3's layers (arXiv:2412.19437, section 2.2), numbered after the others.

    Each is a `block` over the next token's embedding and the last hidden state, both normed, side
    by side. Its embedding and head are those of the model; the published files store them again.
    Source: deepseek-ai/DeepSeek-V3 `README_WEIGHTS.md`; zai-org/GLM-4.5 has the same names.
    """
    if c.task != "causal" or not c.count_mtp or c.mtp_layers is None:
        return ()
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    table = "model.embed_tokens.weight"
    head = linear("head", vocab, embed, tied_to=table if c.tie_embeddings else "lm_head.weight")
    parts = (
        embedding("embed_tokens", vocab, embed, tied_to=table),
        rms_norm("enorm", embed),
        rms_norm("hnorm", embed),
        linear("eh_proj", embed, 2 * embed),
        *(_everywhere(part) for part in block),
        Module("shared_head", (rms_norm("norm", embed), head)),
    )
    return mtp_layers(c, "layers", parts, after=c.n_layers)


def fused_inputs(c: Any, block: Children) -> tuple[Module, ...]:
    """Qwen3-Next's layers beside the model: their inputs are joined once, before all of them.

    Source: vLLM `qwen3_next_mtp.py`, which loads `mtp.*` of Qwen/Qwen3-Next-80B-A3B-Instruct.
    """
    if c.task != "causal" or not c.count_mtp or c.mtp_layers is None:
        return ()
    embed = Axis("embed", c.d_model)
    parts = (
        rms_norm("pre_fc_norm_embedding", embed),
        rms_norm("pre_fc_norm_hidden", embed),
        linear("fc", embed, 2 * embed),
        Module("layers", tuple(_everywhere(part) for part in block), repeat=c.mtp_layers),
        rms_norm("norm", embed),
    )
    return (_other(Module("mtp", parts)),)


def beside_the_layers(c: Any, block: Children) -> tuple[Module, ...]:
    """ERNIE 4.5's layers, each of its parts in a list of its own.

    Source: vLLM `ernie_mtp.py`, which loads `model.mtp_*` of baidu/ERNIE-4.5-21B-A3B-PT.
    """
    if c.task != "causal" or not c.count_mtp or c.mtp_layers is None:
        return ()
    embed = Axis("embed", c.d_model)
    parts = (
        rms_norm("mtp_emb_norm", embed),
        rms_norm("mtp_hidden_norm", embed),
        linear("mtp_linear_proj", embed, 2 * embed),
        Module("mtp_block", tuple(_everywhere(part) for part in block)),
    )
    return tuple(_other(part._replace(repeat=c.mtp_layers)) for part in parts)


def with_own_table(c: Any, block: Children) -> tuple[Module, ...]:
    """LongCat-Flash's layers, with the model's embedding stored again beside them.

    Source: vLLM `longcat_flash_mtp.py`, which loads `model.mtp.*` of meituan-longcat/LongCat-Flash-Chat.
    """
    if c.task != "causal" or not c.count_mtp or c.mtp_layers is None:
        return ()
    embed = Axis("embed", c.d_model)
    table = embedding("embed_tokens", Axis("vocab", c.vocab_size), embed, tied_to="model.embed_tokens.weight")
    layer = (
        Module("enorm", (rms_norm("m", embed),)),
        Module("hnorm", (rms_norm("m", embed),)),
        linear("eh_proj", embed, 2 * embed),
        *(_everywhere(part) for part in block),
    )
    layers = Module("layers", layer, repeat=c.mtp_layers)
    return (_other(Module("mtp", (table, layers, rms_norm("norm", embed)))),)


def _everywhere(part: Any) -> Any:
    """A part of a block, with those of its children that stand in some layers only."""
    if not isinstance(part, Module):
        return part
    return part._replace(at=None, children=tuple(map(_everywhere, part.children)))


def _other(module: Module) -> Module:
    children = tuple(
        _other(child) if isinstance(child, Module) else child._replace(component="other")
        for child in module.children
    )
    return module._replace(children=children, component="other")
