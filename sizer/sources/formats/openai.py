"""GPT-2's own `hparams.json`, and the first `config.json` files, which had no `model_type`.

Source: github.com/openai/gpt-2 `src/model.py`.
"""

from __future__ import annotations

from sizer.errors import InvalidConfig
from sizer.sources.formats.settings import Described, Format, Settings


def read(s: Settings) -> Described:
    """A GPT-2."""
    given = {
        "d_model": s.needed("n_embd"),
        "n_layers": s.needed("n_layer"),
        "n_heads": s.needed("n_head"),
        "n_ctx": s.size("n_ctx") or s.size("n_positions"),
        "vocab_size": s.size("n_vocab") or s.size("vocab_size"),
    }
    for key, value in given.items():
        if value is None:
            raise InvalidConfig(f"{s.name}: {FORMAT.sizes[key]} is missing")
    return Described("gpt2", given)


FORMAT = Format(
    "GPT-2's hparams.json",
    read,
    required=("n_layer", "n_head", "n_embd"),
    weak=("n_ctx", "n_vocab"),
    sizes={
        "d_model": "n_embd",
        "n_layers": "n_layer",
        "n_heads": "n_head",
        "n_ctx": "n_ctx",
        "vocab_size": "n_vocab",
    },
    ignored=("initializer_range", "layer_norm_epsilon", "n_positions", "vocab_size"),
)
