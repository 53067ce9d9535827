"""llm-analysis: the model files of github.com/cli99/llm-analysis."""

from __future__ import annotations

from sizer.errors import InvalidConfig, shown
from sizer.sources.formats.settings import Described, Format, Settings


def read(s: Settings) -> Described:
    """Only its GPT-2 files say enough to tell which tensors there are."""
    if s.get("model_type") != "gpt2":
        kind = shown(s.get("model_type"))
        raise InvalidConfig(f"{s.name}: of llm-analysis' files sizer reads those of a gpt2, not of {kind}")
    return Described(
        "gpt2",
        {
            "d_model": s.needed("hidden_dim"),
            "n_layers": s.needed("num_layers"),
            "n_heads": s.needed("n_head"),
            "n_ctx": s.needed("max_seq_len"),
            "vocab_size": s.needed("vocab_size"),
            "d_ff": s.needed("ffn_embed_dim"),
        },
        ("the file names its sizes only: the biases and the tied head are GPT-2's",),
    )


FORMAT = Format(
    "llm-analysis",
    read,
    required=("num_layers", "n_head", "hidden_dim"),
    marks=("ffn_embed_dim",),
    sizes={
        "d_model": "hidden_dim",
        "n_layers": "num_layers",
        "n_heads": "n_head",
        "n_ctx": "max_seq_len",
        "d_ff": "ffn_embed_dim",
        "vocab_size": "vocab_size",
    },
    ignored=("name",),
)
