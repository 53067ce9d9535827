"""A real module made ready for a run: its inputs, its kernels, and no dropout."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

from sizer.errors import BadInput, SizerError
from sizer.oracles.torch import build, import_torch

if TYPE_CHECKING:
    from sizer.model import Model

# Beyond this a module is not given real weights: 200 million parameters are 0.8 GB in fp32.
MOST_PARAMS = 200_000_000


def ready(model: Model, *, attention: str = "eager", real: bool = False, train: bool = False) -> Any:
    """The module of a model, on the meta device or with real weights on the CPU."""
    torch = import_torch()
    module = build(model)
    if not hasattr(module, "config"):
        raise BadInput(f"{model.name}: its module cannot be run by itself, so nothing can be measured")
    if real:
        params = sum(p.numel() for p in module.parameters())
        if params > MOST_PARAMS:
            raise BadInput(
                f"{model.name} has {params:,} parameters, too many for real weights here; "
                "make it smaller with --set, or use --attention eager"
            )
        module = type(module)(module.config)
    for config in {
        id(part.config): part.config for part in module.modules() if hasattr(part, "config")
    }.values():
        config._attn_implementation = attention
        # Experts as a loop over them, or as one batched product where sizes must not depend on data.
        config._experts_implementation = "eager" if real else "batched_mm"
    if train:
        _without_dropout(module, torch)
        return module.train()
    return module.eval()


def inputs(model: Model, module: Any, batch: int, tokens: int, encoder: int | None = None) -> dict[str, Any]:
    """Token numbers for a forward pass; both sequences of an encoder-decoder."""
    torch = import_torch()
    device = next(module.parameters()).device

    def ids(length: int) -> Any:
        return torch.ones((batch, length), dtype=torch.long, device=device)

    if getattr(module.config, "is_encoder_decoder", False):
        return {"input_ids": ids(encoder or tokens), "decoder_input_ids": ids(tokens)}
    return {"input_ids": ids(tokens)}


# What modules call the cache that they take and give, the newest first.
CACHES = ("cache", "past_key_values", "cache_params")


def over_cache(module: Any, given: dict[str, Any], tokens: int, **rest: Any) -> dict[str, Any]:
    """Run a pass over the next tokens of a sequence, and give back what the next one reads."""
    if not tokens:
        return given
    torch = import_torch()
    key = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
    ids = torch.ones((given[key].shape[0], tokens), dtype=torch.long, device=given[key].device)
    with warnings.catch_warnings():
        # transformers 5 is about to rename what it calls a cache.
        warnings.simplefilter("ignore", FutureWarning)
        output = module(**{**given, key: ids}, use_cache=True, **rest)
    name = cache_name(output)
    again = {**given, name: output[name]}
    if key == "decoder_input_ids":
        # The encoder ran once; its tokens are not read again.
        from transformers.modeling_outputs import BaseModelOutput

        again["encoder_outputs"] = BaseModelOutput(last_hidden_state=output.encoder_last_hidden_state)
        again.pop("input_ids", None)
    return again


def cache_name(output: Any) -> str:
    """What a module calls the cache that it answers with."""
    for name in CACHES:
        if output.get(name) is not None:
            return name
    raise BadInput("the module answers with no cache")


@contextlib.contextmanager
def explained(model: Model, what: str) -> Any:
    """A run that fails inside the library ends in a message, not a traceback."""
    try:
        yield
    except SizerError:
        raise
    except Exception as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise BadInput(f"{model.name}: the real module could not be run for {what}: {line[:200]}") from error


def _without_dropout(module: Any, torch: Any) -> None:
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        for name in ("dropout", "attention_dropout", "activation_dropout", "dropout_rate", "dropout_prob"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
