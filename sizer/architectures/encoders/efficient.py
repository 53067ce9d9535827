"""Encoders that approximate attention: MRA, Nyströmformer, YOSO. Their tensors are a BERT's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders.bert import (
    BertConfig,
    attention,
    embeddings,
    feed_forward,
    fields_of,
    stack,
)
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class EfficientConfig(BertConfig):
    """Sizes and switches of an encoder with approximate attention.

    `d_conv`: width of a convolution over the values of each head, which skips the attention.
    `n_landmarks`: the tokens that stand for all others in Nyström's approximation.
    """

    d_conv: Dim | None = None
    n_landmarks: Dim | None = None

    letters = {**BertConfig.letters, "d_conv": "Kc", "n_landmarks": "M"}
    meanings = {
        **BertConfig.meanings,
        "d_conv": "width of the convolution over values",
        "n_landmarks": "landmarks that stand for all tokens",
    }


def efficient(c: EfficientConfig) -> Module:
    """MRA (Zeng et al. 2022), Nyströmformer (Xiong et al. 2021) and YOSO (Zeng et al. 2021).

    Sources: transformers `modeling_mra.py`, `modeling_nystromformer.py`, `modeling_yoso.py`.
    """
    block = (attention(c, *_scores(c), *_convolution(c), bare=True), *feed_forward(c))
    return with_head(c, (*embeddings(c), *stack(c, block)))


def _scores(c: EfficientConfig) -> Children:
    if c.n_landmarks is None:
        return attention_core(c.n_heads, c.n_heads, c.d_head, window=c.window, cached=False)
    # Every token meets the landmarks, and the landmarks meet every token.
    landmarks = attention_core(c.n_heads, c.n_heads, c.d_head, window=c.n_landmarks, cached=False)
    return (*landmarks, *landmarks)


def _convolution(c: EfficientConfig) -> Children:
    if c.d_conv is None:
        return ()
    one, kernel = Axis("one", 1), Axis("kernel", c.d_conv)
    weight = Param("weight", (Axis("heads", c.n_heads), one, kernel, one))
    channels = heads_axis("heads", c.n_heads, c.d_head).size
    return (Module("self.conv", (weight, Op("conv", "conv", {"channels": channels, "kernel": c.d_conv}))),)


ARCHITECTURES = {"efficient_bert": Architecture(EfficientConfig, efficient)}

# Positions begin after those of padding.
POSITION_OFFSET = 2


def _fields(hf: HFConfig, **given: Any) -> Reading:
    usual: dict[str, Any] = {
        "prefix": hf.model_type,
        "pooled": (),
        "classifier": "two_layers",
        "choice_layer": "pre_classifier",
        "position_rows": hf["max_position_embeddings"] + POSITION_OFFSET,
        # These layers are never given cross-attention, whatever the configuration says.
        "causal": False,
        "cross_attention": False,
    }
    if hf.task == "qa":
        usual["n_labels"] = 2
    return Reading("efficient_bert", fields_of(hf, EfficientConfig, **{**usual, **given}))


def _mra(hf: HFConfig) -> Reading:
    # The attention is exact in some blocks of 32 × 32 tokens a row.
    return _fields(hf, saved_ids=("position_ids",), window=32 * hf["block_per_row"])


def _nystromformer(hf: HFConfig) -> Reading:
    landmarks = hf["num_landmarks"]
    exact = landmarks == hf["segment_means_seq_len"]
    return _fields(hf, d_conv=hf["conv_kernel_size"], n_landmarks=None if exact else landmarks)


def _yoso(hf: HFConfig) -> Reading:
    return _fields(hf, d_conv=hf["conv_window"])


HF_READERS = {"mra": _mra, "nystromformer": _nystromformer, "yoso": _yoso}
