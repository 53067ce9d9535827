"""MiMo: a Qwen2 with layers that predict tokens further ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import LLAMA, DecoderConfig, attention, decoder, feed_forward
from sizer.architectures.decoders.reading import dense, optional
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear, rms_norm
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_NAMES = LLAMA._replace(rotary=())


@configuration
class MiMoConfig(DecoderConfig):
    """Sizes and switches of a MiMo.

    `mtp_layers`: layers for multi-token prediction, which help in training and speculative
    decoding; they are in the count where `count_mtp` says so.
    """

    mtp_layers: Dim | None = None
    count_mtp: bool = False


def mimo(c: MiMoConfig) -> Module:
    """MiMo (arXiv:2505.07608), with the tensor names of `MiMoForCausalLM`.

    Source: XiaomiMiMo/MiMo-7B-RL `modeling_mimo.py`.
    """
    tree = decoder(c)
    if not c.count_mtp or c.mtp_layers is None:
        return tree
    return with_parts(tree, c, _mtp_layers(c, c.mtp_layers))


def _mtp_layers(c: MiMoConfig, count: Dim) -> Module:
    """A block over the next token's embedding and the last hidden state, side by side."""
    embed = Axis("embed", c.d_model)
    parts = (
        rms_norm("token_layernorm", embed),
        rms_norm("hidden_layernorm", embed),
        linear("input_proj", embed, 2 * embed),
        rms_norm("input_layernorm", embed),
        attention(c),
        rms_norm("post_attention_layernorm", embed),
        feed_forward(c),
        rms_norm("final_layernorm", embed),
    )
    return Module("mtp_layers", tuple(other(part) for part in parts), repeat=count)


def other(module: Module) -> Module:
    """The same module with all it holds counted as "other" than the parts of the model proper."""
    children = tuple(
        other(child) if isinstance(child, Module) else child._replace(component="other")
        for child in module.children
    )
    return module._replace(children=children, component="other")


def with_parts(tree: Module, c: DecoderConfig, *parts: Module) -> Module:
    """A decoder with more parts, beside its blocks and below its head."""
    if c.task == "base":
        return tree._replace(children=(*tree.children, *parts))
    model, *heads = tree.children
    assert isinstance(model, Module)
    return tree._replace(children=(model._replace(children=(*model.children, *parts)), *heads))


ARCHITECTURES = {"mimo": Architecture(MiMoConfig, mimo)}


def _mimo(hf: HFConfig) -> Reading:
    return dense(
        hf,
        "mimo",
        MiMoConfig,
        module_names=_NAMES,
        qkv_bias=True,
        mtp_layers=optional(hf, "num_nextn_predict_layers") or None,
        count_mtp=bool(optional(hf, "count_mtp")),
    )


HF_READERS = {"mimo": _mimo}
