"""Write presets/huggingface/model_types.jsonl: what transformers assumes for keys a file omits.

Each line is one model type: its configuration's raw defaults (before anything is derived from
them), its attribute map, its nested configurations, and its classes by task. Facts only; how the
sizes follow from them is in `sizer/architectures`. Run with the torch extra installed:

    python tools/hf_defaults.py
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
import transformers.models.auto.modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from sizer.sources.model_types import ending_of  # noqa: E402

OUT = ROOT / "presets" / "huggingface" / "model_types.jsonl"

# Keys that never change the size of a model or of its step: kept by name, so that they are known and ignored.
NO_SIZE = re.compile(
    r"(_token_ids?|_token_index|_token|dropout\w*|_eps|_epsilon|_std|_init|_scale|_momentum|_coef|_weight)$"
    r"|^(initializer\w*|use_cache|return_dict|transformers_version|architectures|dtype|id2label"
    r"|label2id|problem_type|rope_\w+|output_(?!embedding)\w+|eps|is_decoder_only|max_length|init_\w+|time_step_\w+)$"
    r"|(drop_?path|layerdrop|jitter|temperature|router_logit_softcapping|multiplier|_loss|loss_)"
)

# Keys that look like those and do.
SIZE = re.compile(
    r"^(output_(vocab_size|hidden_size|channels|dim|proj_dims|num_channels|groups|gate_type)"
    r"|(channel|depthwise|width|depth|ffn|embed_dim|block_ffn_dim)_multiplier|\w*use_(cls|mask)_token"
    r"|use_layer_scale|layer_scale)$"
)

TASKS = {
    "base": "MODEL_MAPPING_NAMES",
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "pretraining": "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "image_text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "multimodal": "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "speech_seq2seq": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "ctc": "MODEL_FOR_CTC_MAPPING_NAMES",
    "image_classification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "sequence": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "token": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "qa": "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "choice": "MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES",
    "next_sentence": "MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING_NAMES",
}


def main() -> None:
    """Write one line a model type."""
    lines = [json.dumps({"source": f"transformers {transformers.__version__}"})]
    for model_type in sorted(CONFIG_MAPPING_NAMES):
        lines.append(json.dumps(describe(model_type), sort_keys=False, separators=(",", ":")))
    OUT.write_text("\n".join(lines) + "\n")


def describe(model_type: str) -> dict[str, Any]:
    """What is known of one model type."""
    return {
        "model_type": model_type,
        "classes": classes(model_type),
        **describe_class(CONFIG_MAPPING[model_type], set()),
    }


def describe_class(config: type, above: set[type]) -> dict[str, Any]:
    """Defaults of a configuration class, nested ones by model type or, where they have none, whole."""
    found: dict[str, Any] = {"defaults": {}, "ignored": []}
    for field in dataclasses.fields(config):
        default = field.default
        if default is dataclasses.MISSING:
            has_factory = field.default_factory is not dataclasses.MISSING
            default = field.default_factory() if has_factory else None
        if not may_size(field.name):
            found["ignored"].append(field.name)
        else:
            found["defaults"][field.name] = plain(default)
    # By either name: XLNet calls its vocabulary `n_token`.
    aliases = {a: b for a, b in config.attribute_map.items() if may_size(a) or may_size(b)}
    if aliases:
        found["aliases"] = aliases
    nested: dict[str, Any] = {}
    # Parts that are of this type, whatever a file calls them.
    fixed: list[str] = []
    specs = config.sub_configs_defaults
    for key in {**config.sub_configs, **specs}:
        spec = specs.get(key)
        sub = spec.config_class if spec else config.sub_configs[key]
        registered = getattr(sub, "model_type", "") in CONFIG_MAPPING_NAMES
        if sub.__name__ == "AutoConfig":
            nested[key] = (spec.model_type if spec else "") or ""
        elif registered or sub in above:
            nested[key] = getattr(sub, "model_type", "")
            fixed.append(key)
        else:
            nested[key] = describe_class(sub, above | {config})
        # What the whole model assumes of a part that the file leaves out.
        if spec and spec.init_kwargs and found["defaults"].get(key) is None:
            found["defaults"][key] = plain(spec.init_kwargs)
    if nested:
        found["nested"] = nested
    if fixed:
        found["fixed"] = fixed
    return found


def may_size(key: str) -> bool:
    """Whether the value of a key may change the size of a model."""
    return not NO_SIZE.search(key) or bool(SIZE.search(key))


def classes(model_type: str) -> dict[str, list[str]]:
    """The classes of a model type, by task; those in none of these tables are `other`."""
    found = {task: listed(table, model_type) for task, table in TASKS.items()}
    tabled = {name for names in found.values() for name in names}
    if tabled:  # else the type is a part, whose classes are those of the whole
        known = (name for name in exported(model_type) if ending_of(name).startswith("For"))
        found["other"] = [name for name in known if name not in tabled]
    return {task: names for task, names in found.items() if names}


def listed(table: str, model_type: str) -> list[str]:
    """The classes of a model type in a table of transformers."""
    names = getattr(auto, table).get(model_type, ())
    return [names] if isinstance(names, str) else list(names)


def exported(model_type: str) -> list[str]:
    """The classes that transformers exports for a model type's configuration."""
    config = CONFIG_MAPPING[model_type]
    path = config.__module__.replace(".configuration_", ".modeling_")
    if path == config.__module__ or find_spec(path) is None:
        return []
    try:
        module = import_module(path)
    except ImportError:  # of a package for sounds or pictures, which no class of text needs
        return []
    return [name for name in module.__all__ if getattr(getattr(module, name), "config_class", None) is config]


def plain(value: Any) -> Any:
    """A default as JSON; infinity and the like never decide a size and become null."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return None


if __name__ == "__main__":
    main()
