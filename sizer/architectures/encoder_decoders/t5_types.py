"""The model types that are a T5 with other flags, read from their Hugging Face configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoder_decoders.t5 import T5Config
from sizer.architectures.encoder_decoders.tasks import task_of
from sizer.architectures.registry import Reading
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _read(hf: HFConfig, **flags: Any) -> Reading:
    given = hf.fill(
        T5Config,
        task=task_of(hf),
        n_decoder_layers=hf["num_decoder_layers"],
        n_buckets=hf["relative_attention_num_buckets"],
        **{"encoder_kinds": None, "decoder_kinds": None, **flags},
    )
    return Reading("t5", given)


def _t5(hf: HFConfig, **flags: Any) -> Reading:
    return _read(hf, **mlp_fields(hf), **_head(hf), **flags)


def mlp_fields(hf: HFConfig) -> dict[str, Any]:
    """`feed_forward_proj` is an activation, or "gated-" and one; "gated-gelu" means another gelu."""
    words = hf["feed_forward_proj"].split("-")
    gated = hf["is_gated_act"] if hf.given("is_gated_act") else words[0] == "gated"
    return {"gated": gated, "act": "gelu_new" if words == ["gated", "gelu"] else words[-1]}


def _head(hf: HFConfig) -> dict[str, bool]:
    """Files with `tie_word_embeddings: false` hold a head, which transformers 5 ties all the same.

    What transformers 5 writes says true, and keeps what was read in `scale_decoder_outputs`.
    """
    said = (hf[key] for key in ("tie_word_embeddings", "scale_decoder_outputs") if hf.given(key))
    return {"tie_embeddings": all(value is not False for value in said), "tie_head": True}


def _mt5(hf: HFConfig) -> Reading:
    return _t5(hf, scales_tied_head=False)


def _umt5(hf: HFConfig) -> Reading:
    return _t5(hf, own_positions=True)


def _longt5(hf: HFConfig) -> Reading:
    # A token sees its own block and its two neighbours.
    window = 3 * (hf["local_radius"] + 1)
    return _t5(hf, encoder_attention=hf["encoder_attention_type"].replace("-", "_"), window=window)


def _switch_transformers(hf: HFConfig) -> Reading:
    tied = hf["tie_word_embeddings"]
    n_layers = hf["num_layers"]
    n_decoder_layers = n_layers if hf["num_decoder_layers"] is None else hf["num_decoder_layers"]
    return _read(
        hf,
        act=hf["dense_act_fn"],
        tie_tokens=tied,
        mlp_name="mlp",
        encoder_kinds=_sparse(hf, "encoder", n_layers),
        decoder_kinds=_sparse(hf, "decoder", n_decoder_layers),
    )


def _sparse(hf: HFConfig, side: str, n_layers: int) -> Pattern:
    """Every so many blocks, the second of them is sparse."""
    wanted = hf[f"num_sparse_{side}_layers"]
    key = f"{side}_sparse_step"
    step = hf[key] if hf.given(key) else n_layers // wanted if wanted > 0 else n_layers
    return Pattern(
        tuple("sparse" if step > 0 and (i % step == 1 or step == 1) else "dense" for i in range(n_layers))
    )


HF_READERS = {
    "longt5": _longt5,
    "mt5": _mt5,
    "switch_transformers": _switch_transformers,
    "t5": _t5,
    "umt5": _umt5,
}
