"""xLSTM: blocks of matrix LSTMs, each with a square memory a head, and of gated MLPs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, gate_op, gated_mlp, linear
from sizer.core.tree import Axis, Module, Op, Param, State

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class XLSTMConfig(Config):
    """Sizes and switches of an xLSTM.

    `d_keys`, `d_values`: all heads together. `d_key_head`: of the memory that decoding keeps.
    `fused`: projections of one input are laid end to end. `d_embedding`: the table's width, where
    a file contradicts itself.
    """

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    n_heads: Dim
    d_keys: Dim
    d_values: Dim
    d_key_head: Dim
    d_ff: Dim
    d_embedding: Dim | None = None
    bias: bool = False
    fused: bool = False

    letters = {"d_keys": "Dk", "d_values": "Dv", "d_key_head": "Dh", "d_embedding": "De"}
    meanings = {
        "d_keys": "width of the keys of all heads",
        "d_values": "width of the values of all heads",
        "d_key_head": "width of a key head in memory",
        "d_embedding": "width of the embedding table",
    }

    # The reference declares no tie.
    tie_embeddings = False

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_embedding=self.d_model)


def xlstm(c: XLSTMConfig) -> Module:
    """xLSTM 7B (arXiv:2503.13427), with the tensor names of `xLSTMForCausalLM`.

    Source: transformers `modeling_xlstm.py`.
    """
    embed = Axis("embed", c.d_model)
    block = Module(
        "blocks",
        (
            _norm("norm_mlstm", embed, bias=c.bias),
            _mlstm(c, embed),
            _norm("norm_ffn", embed, bias=c.bias),
            _feed_forward(c, embed),
        ),
        repeat=c.n_layers,
    )
    table = embedding("embeddings", Axis("vocab", c.vocab_size), Axis("embed", c.d_embedding))
    backbone = (table, block, _norm("out_norm", embed, bias=False))
    return with_head(c, backbone, prefix="backbone", embedding="embeddings")


def _norm(name: str, width: Axis, *, bias: bool) -> Module:
    """An RMSNorm, or one of each head, that may have a bias."""
    leaves = (Param("weight", (width,)), Param("bias", (width,))) if bias else (Param("weight", (width,)),)
    return Module(name, leaves, kind="rms_norm", component="norm")


def _mlstm(c: XLSTMConfig, embed: Axis) -> Module:
    """The matrix LSTM: a memory `[key, value]`, a normalizer `[key]` and a maximum for each head."""
    keys, values, heads = Axis("heads", c.d_keys), Axis("heads", c.d_values), Axis("heads", c.n_heads)
    if c.fused:
        projections: tuple[Module, ...] = (
            linear("qkv_opreact", 2 * keys + 2 * values, embed, bias=c.bias),
            linear("ifgate_preact", 2 * heads, embed, bias=True),
        )
    else:
        widths = {"q": keys, "k": keys, "v": values, "ogate_preact": values}
        projections = (
            *(linear(name, width, embed, bias=c.bias) for name, width in widths.items()),
            linear("igate_preact", heads, embed, bias=True),
            linear("fgate_preact", heads, embed, bias=True),
        )
    memory = c.d_key_head * c.d_values + c.n_heads * c.d_key_head + c.n_heads
    return Module(
        "mlstm_layer",
        (
            *projections,
            Op("scan", "mlstm", {"width": c.d_values, "d_state": c.d_key_head}),
            State("ssm", per_sequence=memory),
            _norm("multihead_norm", values, bias=c.bias),
            gate_op("sigmoid", c.d_values),
            linear("out_proj", embed, values, bias=c.bias),
        ),
        component="mixer",
    )


def _feed_forward(c: XLSTMConfig, embed: Axis) -> Module:
    ffn = Axis("ffn", c.d_ff)
    if not c.fused:
        names = ("proj_up_gate", "proj_up", "proj_down")
        return gated_mlp("ffn", ffn, embed, bias=c.bias, names=names)
    return Module(
        "ffn",
        (
            linear("proj_up_gate_z", 2 * ffn, embed, bias=c.bias),
            gate_op("silu", c.d_ff),
            linear("proj_down", embed, ffn, bias=c.bias),
        ),
        component="mlp",
    )


ARCHITECTURES = {"xlstm": Architecture(XLSTMConfig, xlstm)}


def _xlstm(hf: HFConfig) -> Reading:
    # A file may give the width and the depth under two names, and each part of the model reads its own.
    width = hf["hidden_size"] if hf["hidden_size"] is not None else hf["embedding_dim"]
    depth = hf["num_blocks"] if hf["num_blocks"] is not None else hf["num_hidden_layers"]
    table = hf["embedding_dim"]
    keys = width * hf["qk_dim_factor"]
    multiple = hf["ffn_round_up_to_multiple_of"]
    given = hf.fill(
        XLSTMConfig,
        d_model=width,
        n_layers=depth,
        d_embedding=None if table == width else table,
        d_keys=int(keys),
        d_values=int(width * hf["v_dim_factor"]),
        d_key_head=_rounded(keys, 64) // hf["num_heads"],
        d_ff=_rounded(width * hf["ffn_proj_factor"], multiple),
        bias=hf["use_bias"],
        fused=hf["weight_mode"] == "fused",
    )
    return Reading("xlstm", given)


def _rounded(width: float, multiple: int) -> int:
    """Up to a multiple as the reference does it: a fraction of one above a multiple is dropped."""
    return int((width + multiple - 1) // multiple * multiple)


HF_READERS = {"xlstm": _xlstm}
