"""The real torch modules, on the meta device: nothing is downloaded, nothing is allocated."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sizer.errors import BadInput, MissingExtra, UnknownName, clip
from sizer.oracles.compare import Found

if TYPE_CHECKING:
    from sizer.model import Model


def tensors(module: Any) -> list[Found]:
    """The parameters and buffers of a module, ties told by identity."""
    from sizer.oracles.ledger import count_module

    return [
        Found(t.name, t.shape, t.kind, t.tied_to, t.trainable or t.kind == "buffer", t.dtype, t.persistent)
        for t in count_module(module).tensors
    ]


class NoModule(BadInput):
    """There is no public module of this model, so nothing to compare it with."""


def build(model: Model) -> Any:
    """The module that a model describes: transformers' class, or torch's own."""
    if model.hf_config is None and model.architecture not in REFERENCES:
        raise NoModule(
            f"{model.name}: no public torch module is known for the architecture {model.architecture!r}, "
            "so there is nothing to compare with"
        )
    torch = import_torch()
    with torch.device("meta"):
        if model.hf_config is not None:
            return transformers_module(model.hf_config, model.hf_class)
        return REFERENCES[model.architecture](model.config)


def real(model: Model) -> Any:
    """The module with weights of its own, to run: keep it small. Nothing drops out."""
    torch = import_torch()
    if model.architecture not in REFERENCES:
        raise BadInput(f"{model.name}: no public torch module is known for {model.architecture!r}")
    module = REFERENCES[model.architecture](model.config)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return module


def transformers_module(values: dict[str, Any], cls: str) -> Any:
    """The class of transformers, from the contents of a `config.json`."""
    transformers = import_transformers()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if values["model_type"] not in CONFIG_MAPPING:
        raise NoModule(
            f"{values['model_type']} models run on code of their own repository, which sizer never runs, "
            "so there is no torch module to compare with"
        )
    config = configured(CONFIG_MAPPING[values["model_type"]], values, values["model_type"])
    found = getattr(transformers, cls, None)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise NoModule(f"{cls} is no class of transformers, so there is no torch module to compare with")
    return built(found, config)


def built(kind: Any, config: Any) -> Any:
    """A class of transformers with its configuration: of the whole model, or of the part it builds."""
    wanted = getattr(kind, "config_class", None) or type(config)
    if not isinstance(config, wanted):
        parts = (getattr(config, name, None) for name in type(config).sub_configs)
        config = next((part for part in parts if isinstance(part, wanted)), config)
    try:
        return kind(config)
    except Exception as error:
        raise BadInput(f"transformers cannot build {kind.__name__}: {clip(error, 200)}") from None


def build_from_config(values: Mapping[str, Any], cls: str | None, name: str) -> Any:
    """The module that a `config.json` names, whether or not sizer describes its architecture."""
    torch, transformers = import_torch(), import_transformers()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise UnknownName("model type", str(model_type), CONFIG_MAPPING, hint="in transformers")
    named = values.get("architectures")
    wanted = cls or (named[0] if isinstance(named, list) and named else None)
    config = configured(CONFIG_MAPPING[model_type], values, name)
    found = getattr(transformers, str(wanted), None) if wanted else None
    if wanted and not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise UnknownName("class", str(wanted), (), hint="in transformers")
    try:
        with torch.device("meta"):
            return found(config) if found else transformers.AutoModel.from_config(config)
    except Exception as error:
        raise BadInput(f"{name}: transformers cannot build {wanted or model_type}: {clip(error)}") from None


def configured(kind: Any, values: Mapping[str, Any], name: str) -> Any:
    """A configuration of transformers, or its refusal in one line."""
    try:
        return kind.from_dict(_inert(dict(values)))
    except Exception as error:
        raise BadInput(f"{name}: transformers refuses this configuration: {clip(error)}") from None


# Keys that name code: classes of a repository, kernels of a hub. None decides a size.
_CODE = frozenset(
    [
        "auto_map",
        *("attn_implementation", "_attn_implementation", "_attn_implementation_internal"),
        *("experts_implementation", "_experts_implementation", "_experts_implementation_internal"),
    ]
)


def _inert(value: Any) -> Any:
    """A configuration without what names code, at any depth."""
    if isinstance(value, dict):
        return {key: _inert(entry) for key, entry in value.items() if key not in _CODE}
    return value


def versions() -> dict[str, str]:
    """The versions that a comparison was made with."""
    torch, transformers = import_torch(), import_transformers()
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def import_torch(purpose: str = "building the real module") -> Any:
    """torch, which is imported only where it is asked for; `purpose`: what needs it."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", purpose) from None
    return torch


def import_transformers() -> Any:
    """transformers, offline and quiet.

    It learns on import that it is offline; whoever asks a hub in this process on purpose still can.
    """
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = before or "1"
    try:
        import transformers
    except ImportError:
        raise MissingExtra("torch", "building the real module") from None
    finally:
        if before is None:
            os.environ.pop("HF_HUB_OFFLINE", None)
    transformers.logging.set_verbosity_error()
    return transformers


def _gpt2(c: Any) -> Any:
    if not (c.bias and c.qkv_bias):
        raise NoModule(
            "transformers' GPT-2 always has its biases, so there is nothing to compare this variant with"
        )
    transformers = import_transformers()
    config = transformers.GPT2Config(
        vocab_size=c.vocab_size,
        n_positions=c.n_ctx,
        n_embd=c.d_model,
        n_layer=c.n_layers,
        n_head=c.n_heads,
        n_inner=c.d_ff,
        tie_word_embeddings=c.tie_embeddings,
    )
    return transformers.GPT2LMHeadModel(config) if c.task == "causal" else transformers.GPT2Model(config)


def _llama(c: Any) -> Any:
    transformers = import_transformers()
    config = transformers.LlamaConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.d_model,
        intermediate_size=c.d_ff,
        num_hidden_layers=c.n_layers,
        num_attention_heads=c.n_heads,
        num_key_value_heads=c.n_kv_heads,
        head_dim=c.d_head,
        attention_bias=c.qkv_bias,
        mlp_bias=c.mlp_bias,
        tie_word_embeddings=c.tie_embeddings,
    )
    return transformers.LlamaForCausalLM(config) if c.task == "causal" else transformers.LlamaModel(config)


def _bert(c: Any) -> Any:
    transformers = import_transformers()
    config = transformers.BertConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.d_model,
        num_hidden_layers=c.n_layers,
        num_attention_heads=c.n_heads,
        intermediate_size=c.d_ff,
        max_position_embeddings=c.n_ctx,
        type_vocab_size=c.n_token_types,
        num_labels=c.n_labels,
    )
    classes = {
        "base": "BertModel",
        "masked": "BertForMaskedLM",
        "pretraining": "BertForPreTraining",
        "causal": "BertLMHeadModel",
        "sequence": "BertForSequenceClassification",
        "token": "BertForTokenClassification",
        "qa": "BertForQuestionAnswering",
        "choice": "BertForMultipleChoice",
        "next_sentence": "BertForNextSentencePrediction",
    }
    return getattr(transformers, classes[c.task])(config)


def _t5(c: Any) -> Any:
    transformers = import_transformers()
    config = transformers.T5Config(
        vocab_size=c.vocab_size,
        d_model=c.d_model,
        d_kv=c.d_head,
        d_ff=c.d_ff,
        num_layers=c.n_layers,
        num_decoder_layers=c.n_decoder_layers,
        num_heads=c.n_heads,
        relative_attention_num_buckets=c.n_buckets,
        feed_forward_proj=f"gated-{c.act}" if c.gated else c.act,
    )
    return (
        transformers.T5ForConditionalGeneration(config)
        if c.task == "seq2seq"
        else transformers.T5Model(config)
    )


def _transformer(c: Any) -> Any:
    """`torch.nn.Transformer`'s two stacks; the paper's shared embedding around them if asked for."""
    from torch import nn

    def stack(layer: Any, whole: Any, depth: int) -> Any:
        norm = nn.LayerNorm(c.d_model, bias=c.bias) if c.final_norm else None
        made = layer(c.d_model, c.n_heads, c.d_ff, bias=c.bias)
        fast_path = {"enable_nested_tensor": False} if whole is nn.TransformerEncoder else {}
        return whole(made, depth, norm, **fast_path)

    module = nn.Module()
    module.encoder = stack(nn.TransformerEncoderLayer, nn.TransformerEncoder, c.n_layers)
    module.decoder = stack(nn.TransformerDecoderLayer, nn.TransformerDecoder, c.n_decoder_layers)
    if c.embeddings:
        module.src_embed = nn.Embedding(c.vocab_size, c.d_model)
        module.tgt_embed = nn.Embedding(c.vocab_size, c.d_model)
        module.generator = nn.Linear(c.d_model, c.vocab_size, bias=False)
        if c.shared_embeddings:
            module.tgt_embed.weight = module.src_embed.weight
            module.generator.weight = module.src_embed.weight
    return module


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "t5": _t5,
    "transformer": _transformer,
}
