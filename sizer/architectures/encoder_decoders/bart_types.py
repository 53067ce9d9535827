"""The model types that are a BART with other flags, read from their Hugging Face configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoder_decoders.bart import BartConfig
from sizer.architectures.encoder_decoders.tasks import task_of
from sizer.architectures.registry import Reading
from sizer.core.pattern import PerLayer

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def sizes(hf: HFConfig) -> dict[str, Any]:
    """What the configurations of encoder-decoders spell alike."""
    return {
        "task": task_of(hf),
        "n_layers": hf["encoder_layers"],
        "n_heads": hf["encoder_attention_heads"],
        "d_ff": hf["encoder_ffn_dim"],
        "n_decoder_layers": hf["decoder_layers"],
        "n_decoder_heads": hf["decoder_attention_heads"],
        "d_ff_decoder": hf["decoder_ffn_dim"],
        "act": hf["activation_function"],
    }


def _read(hf: HFConfig, **flags: Any) -> Reading:
    return Reading("bart", hf.fill(BartConfig, **{**sizes(hf), **flags}))


def _bart(hf: HFConfig) -> Reading:
    # BART alone has three labels where a file does not say.
    said = hf.given("id2label") or hf.given("num_labels")
    return _read(hf, n_labels=hf.n_labels if said else 3)


def _plbart(hf: HFConfig) -> Reading:
    return _read(hf)


def _mvp(hf: HFConfig) -> Reading:
    if not hf["use_prompt"]:
        return _read(hf, prompt_length=None)
    return _read(hf, prompt_length=hf["prompt_length"], d_prompt=hf["prompt_mid_dim"])


def _mbart(hf: HFConfig) -> Reading:
    return _read(hf, final_norm=True)


def _blenderbot(hf: HFConfig) -> Reading:
    return _read(hf, position_offset=0, embedding_norm=False, final_norm=True)


def _blenderbot_small(hf: HFConfig) -> Reading:
    return _read(hf, position_offset=0)


def _pegasus(hf: HFConfig) -> Reading:
    return _read(hf, positions="frozen", position_offset=0, embedding_norm=False, final_norm=True)


def _marian(hf: HFConfig) -> Reading:
    return _read(
        hf,
        positions="frozen",
        position_offset=0,
        embedding_norm=False,
        embeddings="shared" if hf["share_encoder_decoder_embeddings"] else "separate",
        decoder_vocab_size=hf["decoder_vocab_size"] or hf["vocab_size"],
    )


def _m2m_100(hf: HFConfig) -> Reading:
    return _read(hf, positions="buffer", embedding_norm=False, final_norm=True, logits_bias=False)


def _fsmt(hf: HFConfig) -> Reading:
    # The sinusoids have a row for each position after the padding token's.
    padding = hf.in_file("pad_token_id", 1)
    return _read(
        hf,
        vocab_size=hf["src_vocab_size"],
        decoder_vocab_size=hf["tgt_vocab_size"],
        embeddings="target",
        position_offset=padding + 1,
        embedding_norm=False,
        logits_bias=False,
    )


def _bigbird_pegasus(hf: HFConfig) -> Reading:
    sparse = hf["attention_type"] == "block_sparse"
    # A block sees its two neighbours and itself, two global blocks and some random ones.
    window = (5 + hf["num_random_blocks"]) * hf["block_size"] if sparse else None
    return _read(
        hf,
        position_offset=0,
        attention_bias=hf["use_bias"],
        encoder_attention="block_sparse",
        window=window,
        causal_tie=False,
    )


def _led(hf: HFConfig) -> Reading:
    window = hf["attention_window"]
    layers = hf["encoder_layers"]
    per_layer = PerLayer(tuple(window[:layers])) if isinstance(window, list | tuple) else None
    return _read(
        hf,
        n_ctx=hf["max_decoder_position_embeddings"],
        n_source_ctx=hf["max_encoder_position_embeddings"],
        position_offset=0,
        encoder_attention="longformer",
        window=None if per_layer else window,
        windows=per_layer,
        prefix="led",
    )


def _pegasus_x(hf: HFConfig) -> Reading:
    return _read(
        hf,
        positions="none",
        embedding_norm=False,
        final_norm=True,
        encoder_attention="global_local",
        n_global_tokens=hf["num_global_tokens"],
        window=hf["block_size"],
        attention_bias=False,
        logits_bias=False,
    )


def _trocr(hf: HFConfig) -> Reading:
    given = hf.fill(
        BartConfig,
        task=task_of(hf),
        n_layers=None,
        n_heads=None,
        d_ff=None,
        n_decoder_layers=hf["decoder_layers"],
        n_decoder_heads=hf["decoder_attention_heads"],
        d_ff_decoder=hf["decoder_ffn_dim"],
        d_source=hf["cross_attention_hidden_size"],
        positions="learned" if hf["use_learned_position_embeddings"] else "none",
        embedding_norm=hf["layernorm_embedding"],
        act=hf["activation_function"],
        head_name="output_projection",
    )
    return Reading("bart", given)


HF_READERS = {
    "bart": _bart,
    "bigbird_pegasus": _bigbird_pegasus,
    "blenderbot": _blenderbot,
    "blenderbot-small": _blenderbot_small,
    "fsmt": _fsmt,
    "led": _led,
    "m2m_100": _m2m_100,
    "marian": _marian,
    "mbart": _mbart,
    "mvp": _mvp,
    "pegasus": _pegasus,
    "pegasus_x": _pegasus_x,
    "plbart": _plbart,
    "trocr": _trocr,
}
