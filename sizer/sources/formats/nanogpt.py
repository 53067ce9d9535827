"""nanoGPT: the arguments of its `GPTConfig`, as its checkpoints keep them.

Source: github.com/karpathy/nanoGPT `model.py` and `train.py`.
"""

from __future__ import annotations

from sizer.sources.formats.settings import Described, Format, Settings

# GPT-2's 50,257 tokens, padded to a multiple of 64, which `train.py` takes for data without a vocabulary.
PADDED_VOCAB = 50304


def read(s: Settings) -> Described:
    """A GPT-2 with a tied head, and a switch for all biases."""
    vocab = s.size("vocab_size")
    bias = s.flag("bias", True)
    return Described(
        "tool_decoder",
        {
            "tool": "nanogpt",
            "positions": True,
            "d_model": s.needed("n_embd"),
            "n_layers": s.needed("n_layer"),
            "n_heads": s.needed("n_head"),
            "n_ctx": s.size("block_size", 1024),
            "vocab_size": vocab or PADDED_VOCAB,
            "d_ff": 4 * s.needed("n_embd"),
            "gated": False,
            "act": "gelu",
            "norm": "layer" if bias else "layer_no_bias",
            "qkv_bias": bias,
            "o_bias": bias,
            "mlp_bias": bias,
            "tie_embeddings": True,
        },
        () if vocab else (f"no vocab_size is given: nanoGPT's padded {PADDED_VOCAB:,} is taken",),
    )


FORMAT = Format(
    "nanoGPT",
    read,
    required=("n_layer", "n_head", "n_embd"),
    weak=("block_size",),
    sizes={
        "d_model": "n_embd",
        "n_layers": "n_layer",
        "n_heads": "n_head",
        "n_ctx": "block_size",
        "vocab_size": "vocab_size",
    },
    ignored=("dropout",),
)
