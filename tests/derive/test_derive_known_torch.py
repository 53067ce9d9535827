"""Closed forms of classes of transformers, from the modules alone, against those of papers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import sympy  # noqa: E402
from forms import assert_equal, closed, document  # noqa: E402

from sizer.oracles.derive.proof import disagreements  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


# The closed forms of the papers and of docs/, in the words of transformers' configurations.
L, D, F = "num_hidden_layers", "hidden_size", "intermediate_size"
H, K, V = "num_attention_heads", "num_key_value_heads", "vocab_size"
KNOWN = [
    ("GPT2LMHeadModel", {}, "n_layer*(12*n_embd**2 + 13*n_embd) + (vocab_size + n_positions + 2)*n_embd"),
    ("LlamaForCausalLM", {K: 8}, f"{L}*(2*{D}**2 + 2*{D}**2*{K}/{H} + 3*{D}*{F} + 2*{D}) + 2*{V}*{D} + {D}"),
    (
        "MixtralForCausalLM",
        {},
        f"{L}*(2*{D}**2 + 2*{D}**2*{K}/{H} + num_local_experts*(3*{D}*{F} + {D}) + 2*{D}) + 2*{V}*{D} + {D}",
    ),
    (
        "T5ForConditionalGeneration",
        {},
        "num_layers*(4*d_model*num_heads*d_kv + 2*d_model*d_ff + 2*d_model)"
        " + num_layers*(8*d_model*num_heads*d_kv + 2*d_model*d_ff + 3*d_model)"
        " + vocab_size*d_model + 2*relative_attention_num_buckets*num_heads + 2*d_model",
    ),
    (
        "BertModel",
        {},
        f"({V} + max_position_embeddings + type_vocab_size + 2)*{D} + {D}**2 + {D}"
        f" + {L}*(4*{D}**2 + 4*{D} + 2*{D}*{F} + {F} + {D} + 4*{D})",
    ),
    (
        "ViTModel",
        {},
        f"{D}*((image_size/patch_size)**2 + 1) + {D}"
        f" + (num_channels*patch_size**2 + 1)*{D} + {D}**2 + {D} + 2*{D}"
        f" + {L}*(4*{D}**2 + 4*{D} + 2*{D}*{F} + {F} + {D} + 4*{D})",
    ),
    # Gu and Dao 2023: in, convolution, x, dt, A, D, out; the rank of dt is D/16 rounded up.
    (
        "MambaForCausalLM",
        {},
        f"{V}*{D} + {D} + {L}*({D} + 2*expand*{D}**2 + expand*{D}*(conv_kernel + 1)"
        f" + expand*{D}*(ceiling({D}/16) + 2*state_size) + expand*{D}*(ceiling({D}/16) + 1)"
        f" + expand*{D}*state_size + expand*{D} + expand*{D}**2)",
    ),
]


@pytest.mark.parametrize(("cls", "config", "expected"), KNOWN, ids=lambda x: x if isinstance(x, str) else "")
def test_a_class_of_transformers(cls: str, config: dict[str, Any], expected: str) -> None:
    found = document(f"transformers:{cls}", **config)

    assert_equal(found, expected)
    assert found["fixed"] == []
    assert found["checked"]["bound"] < 1e-3
    assert found["params"]["total"] == int(sympy.sympify(expected, locals=found["values"]))


@pytest.mark.parametrize(
    ("cls", "config"), [("GPT2LMHeadModel", {}), ("LlamaForCausalLM", {K: 8}), ("MptForCausalLM", {})]
)
def test_our_count_is_the_derived_formula(cls: str, config: dict[str, Any]) -> None:
    assert disagreements(closed(f"transformers:{cls}", config)) == []


def test_where_our_count_is_not_the_module() -> None:
    """The published checkpoints of BigBird-Pegasus tie its head, and transformers 5 does not: V·D apart."""
    found = disagreements(closed("transformers:BigBirdPegasusForCausalLM", {}), points=3)

    assert len(found) == 3
    assert all(derived - counted == point[V] * point["d_model"] for point, derived, counted in found)


def test_configurations_within_a_configuration() -> None:
    """What an inner one is not given it has by default, `null` too; counted by the module itself."""
    from transformers import SiglipConfig, SiglipModel

    given = {"text_config": {L: 3}, "vision_config": None}
    found = document("transformers:SiglipModel", **given)
    with torch.device("meta"):
        module = SiglipModel(SiglipConfig(**given))

    assert found["params"]["total"] == sum(p.numel() for p in module.parameters())
    assert found["values"][f"text_config_{L}"] == 3
    assert found["fixed"] == []
