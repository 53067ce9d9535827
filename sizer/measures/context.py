"""The longest sequence a model was made for, and what to say of a longer one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.model import Model

_CAP = "attn_logit_softcapping"
# Types whose configuration class has one (transformers 5.24).
_CAPPED = ("gemma2", "vaultgemma", "t5_gemma_module", "videoprism_text_model", "videoprism_vision_model")
# Where configuration files say it, by family; a nested text model has its own.
_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "max_target_positions",
    "seq_length",
    "n_ctx",
)


def context(model: Model) -> tuple[str, int] | None:
    """The name and value of a model's context; nothing where none is said."""
    own = getattr(model.config, "n_ctx", None)
    if isinstance(own, int):
        return "n_ctx", own
    values = model.hf_config or {}
    for source in (values, values.get("text_config")):
        if isinstance(source, dict):
            for key in _KEYS:
                if isinstance(source.get(key), int) and source[key] > 0:
                    return key, source[key]
    return None


def check_kernel(model: Model, kernel: str) -> None:
    """Refuse a kernel that cannot cap the scores of a model that caps them (Gemma 2).

    torch's `scaled_dot_product_attention` has no soft cap; eager attention and flash-attention have.
    """
    if kernel in ("sdpa", "efficient") and _soft_cap(model):
        raise InvalidConfig(
            f"attention = {kernel}: {model.name} caps its scores (attn_logit_softcapping), which that kernel "
            "cannot; use eager or flash"
        )


def _soft_cap(model: Model) -> Any:
    """The bound of the scores that a configuration says, or that its type has where it says nothing."""
    values = model.hf_config or {}
    nested = values.get("text_config")
    text = nested if isinstance(nested, dict) else values
    return text.get(_CAP, text.get("model_type") in _CAPPED)


def warnings(model: Model, tokens: int, *, what: str = "seq_len") -> list[str]:
    """A warning that names the limit, where a sequence is longer than the model's context.

    >>> import sizer
    >>> [text.partition(";")[0] for text in warnings(sizer.load("gpt2-small"), 2048)]
    ['seq_len = 2048 is beyond n_ctx = 1024, the context of gpt2-small']
    """
    limit = context(model)
    if limit is None or tokens <= limit[1]:
        return []
    return [
        f"{what} = {tokens} is beyond {limit[0]} = {limit[1]}, the context of {model.name}; "
        "the numbers are for a model that had it"
    ]


def without_encoder(model: Model, encoder_len: int | None) -> list[str]:
    """A warning where the length of a sequence is given that nothing reads.

    >>> import sizer
    >>> without_encoder(sizer.load("gpt2-small"), 8)
    ['encoder_len = 8 changes nothing: gpt2-small has no encoder']
    """
    if encoder_len is None or any(row.stream == "encoder" for row in model.rows()):
        return []
    return [f"encoder_len = {encoder_len} changes nothing: {model.name} has no encoder"]
