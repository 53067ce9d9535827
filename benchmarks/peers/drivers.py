"""Asks libraries that have no command: runs inside a peer's environment, prints one JSON object.

python drivers.py NAME FOLDER TOKENS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def module(folder: str) -> Any:
    """What transformers builds of a config.json, on the meta device."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    plain = json.loads((Path(folder) / "config.json").read_text())
    plain.pop("quantization_config", None)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(plain.pop("model_type"), **plain))


def torchinfo(folder: str, tokens: int) -> dict[str, float]:
    from torchinfo import summary

    return {"total": summary(module(folder), verbose=0).total_params}


def calflops(folder: str, tokens: int) -> dict[str, float]:
    import torch
    from calflops import calculate_flops

    # Its forward pass needs inputs; sixteen tokens do for the parameters.
    ids = torch.zeros((1, 16), dtype=torch.long, device="meta")
    _, _, params = calculate_flops(
        model=module(folder), kwargs={"input_ids": ids}, print_results=False, output_as_string=False
    )
    return {"total": params}


def llm_analysis(folder: str, tokens: int) -> dict[str, float]:
    from llm_analysis.analysis import LLMAnalysis
    from llm_analysis.config import (
        get_dtype_config_by_name,
        get_gpu_config_by_name,
        get_model_config_by_name,
    )

    model = get_model_config_by_name(folder)
    asked = LLMAnalysis(model, get_gpu_config_by_name("a100-sxm-80gb"), get_dtype_config_by_name("w16a16e16"))
    cache = asked.get_memory_kv_cache_per_layer(1, tokens) * model.num_layers
    return {"total": asked.get_num_params_total(), "kv": cache}


if __name__ == "__main__":
    name, folder, tokens = sys.argv[1:]
    print(json.dumps(globals()[name](folder, int(tokens))))
