"""`params.json`: LLaMA as Meta publishes it, Mistral and Mixtral as Mistral does.

Sources: github.com/meta-llama/llama3 `llama/model.py`; mistral-inference `args.py`.
"""

from __future__ import annotations

from sizer.core.dims import round_up
from sizer.errors import InvalidConfig
from sizer.sources.formats.settings import Described, Format, Settings

# Of the tokenizer of LLaMA 1 and 2; their files leave the vocabulary to it, and say -1.
LLAMA_VOCAB = 32_000

_REFUSED = {
    "moe_args": "Llama 4 alternates dense layers and experts",
    "vision_num_cross_attention_layers": "Llama 3.2 Vision attends to images in layers of their own",
    "q_lora_rank": "latent attention",
    "kv_lora_rank": "latent attention",
    "lora": "adapters",
    "lora_args": "adapters",
    "quantization_args": "a quantized checkpoint",
    "n_groups": "a Mamba",
    "n_layers_cross": "layers of cross attention",
}


def read(s: Settings) -> Described:
    """The names are those of `consolidated.00.pth`; the head is never tied."""
    s.refuse(_REFUSED)
    d_model, n_heads = s.needed("dim"), s.needed("n_heads")
    notes = []
    vocab = s.get("vocab_size")
    if vocab is None or (vocab == -1 and not isinstance(vocab, bool)):
        vocab = LLAMA_VOCAB
        notes.append(f"the file leaves the vocabulary to the tokenizer: LLaMA's {vocab:,} is taken")
    else:
        vocab = s.size("vocab_size")
    if s.section("vision_encoder") or s.given("vision_chunk_size"):
        notes.append("the text part alone: the vision encoder is not counted")
    moe = s.section("moe")
    given = {
        "tool": "meta",
        "d_model": d_model,
        "n_layers": s.needed("n_layers"),
        "n_heads": n_heads,
        "n_kv_heads": s.size("n_kv_heads", n_heads),
        "d_head": s.size("head_dim"),
        "d_ff": s.size("hidden_dim") or _swiglu(s, d_model),
        "vocab_size": vocab,
        "window": _window(s),
    }
    if moe is not None:
        given["n_experts"] = moe.needed("num_experts")
        given["top_k"] = moe.needed("num_experts_per_tok")
    return Described("tool_decoder", given, tuple(notes))


def _swiglu(s: Settings, d_model: int) -> int:
    """Two thirds of 4D, times a factor, rounded up: the rule of LLaMA's `FeedForward`."""
    hidden = int(2 * (4 * d_model) / 3)
    factor = s.number("ffn_dim_multiplier")
    if factor is not None:
        if factor <= 0 or factor > 1e6:
            raise InvalidConfig(f"{s.name}: ffn_dim_multiplier = {factor} is no positive factor")
        hidden = int(factor * hidden)
    return int(round_up(max(hidden, 1), s.size("multiple_of", 256)))


def _window(s: Settings) -> int | None:
    """Mistral's window; a list has one for each layer in turn, and changes no parameter."""
    if isinstance(s.get("sliding_window"), list):
        return None
    return s.count("sliding_window")


FORMAT = Format(
    "Meta's or Mistral's params.json",
    read,
    required=("dim", "n_layers", "n_heads"),
    marks=(
        "norm_eps",
        "multiple_of",
        "hidden_dim",
        "n_kv_heads",
        "ffn_dim_multiplier",
        "head_dim",
        "rope_theta",
    ),
    sizes={
        "d_model": "dim",
        "n_layers": "n_layers",
        "n_heads": "n_heads",
        "n_kv_heads": "n_kv_heads",
        "d_head": "head_dim",
        "d_ff": "hidden_dim",
        "vocab_size": "vocab_size",
        "window": "sliding_window",
        "multiple": "multiple_of",
        "factor": "ffn_dim_multiplier",
    },
    ignored=(
        "norm_eps",
        "rope_theta",
        "use_scaled_rope",
        "rope_scaling_factor",
        "rope_high_freq_factor",
        "max_batch_size",
        "max_seq_len",
        "max_position_embeddings",
        "model_type",
        "moe",
        "vision_encoder",
        "vision_chunk_size",
        "vision_max_num_chunks",
        "multimodal",
        "rope_scaling",
    ),
)
