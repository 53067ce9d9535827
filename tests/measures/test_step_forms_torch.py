"""The closed form of what a step keeps, at other batches than it was asked for, against real steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sympy = pytest.importorskip("sympy")

from sizer.oracles.memory import measure  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
Run = Callable[..., tuple[int, str, str]]

SIZES = {"vocab_size": 97, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 40, "head_dim": 8}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
DROPLESS = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, **DROPLESS}),
    "llama": ("LlamaForCausalLM", {**LLAMA, **HEADS}),
    "mistral": ("MistralForCausalLM", {**LLAMA, **HEADS, "sliding_window": 16}),
    "mixtral": ("MixtralForCausalLM", {**LLAMA, **HEADS, "num_local_experts": 3, "sliding_window": None}),
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_form_of_one_sequence_is_that_of_several(
    sizer_cli: Run, tmp_path: Path, kind: str, attention: str
) -> None:
    cls, own = MODELS[kind]
    config = transformers.AutoConfig.for_model(kind, **SIZES, **own)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, "architectures": [cls], **SIZES, **own}))

    line = ("formula", str(path), "--of", "activations", "--precision", "fp32", "--attention", attention)
    code, out, err = sizer_cli(*line, "--seq-len", "13", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["holds"][0] == "B >= 1"
    form = sympy.sympify(answer["total"], {letter: sympy.Symbol(letter) for letter in answer["values"]})
    for batch, length in ((1, 13), (2, 13), (3, 7)):
        module = getattr(transformers, cls)._from_config(config, attn_implementation=attention)
        real = measure(module, batch_size=batch, seq_len=length)
        assert form.subs({**answer["values"], "B": batch, "T": length}) == real.saved_bytes
