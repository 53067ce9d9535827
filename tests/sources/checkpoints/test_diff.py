"""`sizer diff` and `sizer reconcile` on files: small and full-size checkpoints made byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest
from making import Entry, gguf, safetensors, sharded

import sizer
from sizer.oracles.naming import folded

CLI = Callable[..., tuple[int, str, str]]
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}
# 2·1000·256 and 256, and three layers of 3·65,536 (attention), 3·131,072 (MLP) and 512
LLAMA_TOTAL = "2,283,264"


def stored(config: dict[str, Any] | str, dtype: str = "BF16") -> dict[str, Entry]:
    """The tensors that a published file has: those with a storage of their own."""
    return {t.name: (dtype, list(t.shape)) for t in sizer.load(config).tensors() if t.tied_to is None}


def in_gptq(tensors: dict[str, Entry]) -> dict[str, Entry]:
    """The same in AutoGPTQ's layout of 4 bits and groups of 128."""
    found: dict[str, Entry] = {}
    for name, (dtype, shape) in tensors.items():
        stem = name.removesuffix(".weight")
        if not stem.endswith("_proj"):
            found[name] = (dtype, shape)
            continue
        outputs, inputs = shape
        found[f"{stem}.qweight"] = ("I32", [inputs // 8, outputs])
        found[f"{stem}.qzeros"] = ("I32", [inputs // 128, outputs // 8])
        found[f"{stem}.scales"] = ("F16", [inputs // 128, outputs])
        found[f"{stem}.g_idx"] = ("I32", [inputs])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def test_a_file_of_its_config(sizer_cli: CLI, folder: Path) -> None:
    file = safetensors(folder / "model.safetensors", stored(LLAMA))

    code, out, _ = sizer_cli("diff", str(folder / "config.json"), str(file))

    assert (code, f"equal, {LLAMA_TOTAL} parameters" in out) == (0, True), out
    assert sizer_cli("diff", f"formula:{folder}", f"checkpoint:{folder}", "-q")[:2] == (0, "0\n")


def test_a_quantized_file_is_compared_in_logical_weights(sizer_cli: CLI, folder: Path) -> None:
    safetensors(folder / "model.safetensors", in_gptq(stored(LLAMA)))
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (folder / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": settings}))
    plain = safetensors(folder / "plain.safetensors", stored(LLAMA))

    assert sizer_cli("diff", f"formula:{folder}", f"checkpoint:{folder}", "-q")[:2] == (0, "0\n")
    assert sizer_cli("diff", str(folder / "model.safetensors"), str(plain), "-q")[:2] == (0, "0\n")


def test_what_differs_is_named_and_layers_are_folded(sizer_cli: CLI, folder: Path) -> None:
    tensors = stored(LLAMA)
    tensors |= {f"model.layers.{i}.self_attn.q_proj.bias": ("BF16", [256]) for i in range(3)}
    tensors["model.norm.weight"] = ("BF16", [255])
    del tensors["model.layers.1.mlp.up_proj.weight"]
    file = safetensors(folder / "model.safetensors", tensors)

    code, out, _ = sizer_cli("diff", str(folder / "config.json"), str(file), "--json")
    found = json.loads(out)

    assert (code, found["ok"]) == (1, False)
    assert [(d["kind"], d["name"], d["tensors"], d["a"], d["b"]) for d in found["differences"]] == [
        ("only in A", "model.layers.1.mlp.up_proj.weight", 1, "[512, 256]", "–"),
        ("only in B", "model.layers.{0-2}.self_attn.q_proj.bias", 3, "–", "[256]"),
        ("shape", "model.norm.weight", 1, "[256]", "[255]"),
    ]
    assert sizer_cli("diff", str(folder / "config.json"), str(file), "-q")[1] == "3\n"


@pytest.mark.parametrize(("level", "kinds"), [("total", ["total"]), ("component", ["total", "component"])])
def test_levels(sizer_cli: CLI, folder: Path, level: str, kinds: list[str]) -> None:
    tensors = stored(LLAMA)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    file = safetensors(folder / "model.safetensors", tensors)

    code, out, _ = sizer_cli("diff", str(folder), str(file), "--level", level, "--json")
    found = json.loads(out)["differences"]

    assert (code, [d["kind"] for d in found]) == (1, kinds)
    assert (found[0]["a"], found[0]["b"]) == (LLAMA_TOTAL, "2,152,192")


@pytest.mark.parametrize(
    ("rename", "mapping"),
    [
        (lambda name: name.removeprefix("transformer."), "'transformer.' taken off the names of A"),
        (lambda name: f"module.{name}", "'module.' taken off the names of B"),
        (lambda name: f"_orig_mod.module.{name}", "'_orig_mod.module.' taken off the names of B"),
        (
            lambda name: f"module._orig_mod.base_model.model.{name}",
            "'module._orig_mod.base_model.model.' taken off the names of B",
        ),
        (lambda name: name, "equal names"),
    ],
)
def test_names_are_matched(
    sizer_cli: CLI, tmp_path: Path, rename: Callable[[str], str], mapping: str
) -> None:
    """openai-community/gpt2 has no "transformer.", a DistributedDataParallel's file has "module."."""
    tensors = {rename(name): entry for name, entry in stored("gpt2-small", "F32").items()}
    file = safetensors(tmp_path / "model.safetensors", tensors)

    code, out, _ = sizer_cli("diff", "gpt2-small", str(file), "--json")

    assert (code, mapping in json.loads(out)["mapping"]) == (0, True), out


@pytest.mark.parametrize(
    ("one", "other", "mapping", "shared"),
    [
        # Three prefixes are taken off one after the other, and no fourth.
        (
            ["model.a", "module.b", "encoder.c", "decoder.d"],
            ["a", "b", "c", "d"],
            "'model.' taken off the names of A, 'module.' taken off the names of A, "
            "'decoder.' taken off the names of A",
            3,
        ),
        # Without it two tensors would have one name.
        (["model.a", "a", "model.b"], ["a", "b"], "equal names", 1),
        # A name that says nothing but where it stands.
        (["model.encoder", "model.a"], ["encoder", "a"], "'model.' taken off the names of A", 2),
    ],
)
def test_prefixes_are_taken_off(
    sizer_cli: CLI, tmp_path: Path, one: list[str], other: list[str], mapping: str, shared: int
) -> None:
    files = [
        str(safetensors(tmp_path / f"{i}.safetensors", dict.fromkeys(names, ("F32", [3]))))
        for i, names in enumerate((one, other))
    ]
    found = json.loads(sizer_cli("diff", *files, "--json")[1])

    assert (found["mapping"], found["shared"]) == (mapping, shared)


def test_what_is_learned_of_one_formula_alone(sizer_cli: CLI, tmp_path: Path) -> None:
    """Pegasus has sinusoids where BART learns positions; the router's bias of AFMoE is a parameter."""
    sizes = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in SEQ2SEQ.items()}
    # BART has two rows more than it says, in front of the positions.
    positions = {"bart": 8, "pegasus": 10}
    for name, n in positions.items():
        config = {**sizes, "model_type": name, "d_model": 8, "vocab_size": 16, "max_position_embeddings": n}
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    for name, dense in (("afmoe", "num_dense_layers"), ("hy_v3", "first_k_dense_replace")):
        config = {**SPARSE, "model_type": name, dense: 1}
        (tmp_path / f"{name}.json").write_text(json.dumps(config))

    def lines(a: str, b: str) -> set[tuple[str, ...]]:
        out = sizer_cli("diff", str(tmp_path / f"{a}.json"), str(tmp_path / f"{b}.json"), "--json")[1]
        return {tuple(d[k] for k in ("kind", "name", "a", "b")) for d in json.loads(out)["differences"]}

    frozen = {line for line in lines("bart", "pegasus") if line[0] == "trainable"}
    assert frozen == {
        ("trainable", f"model.{side}.embed_positions.weight", "trainable", "frozen")
        for side in ("encoder", "decoder")
    }
    assert ("kind", "model.layers.1.mlp.expert_bias", "param", "buffer") in lines("afmoe", "hy_v3")


SEQ2SEQ = {"attention_heads": 2, "layers": 1, "ffn_dim": 16}
SPARSE = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "moe_intermediate_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
}


def test_masks_are_no_difference(sizer_cli: CLI, tmp_path: Path) -> None:
    tensors = {n: e for n, e in stored("gpt2-small", "F32").items() if not n.endswith(".attn.bias")}
    file = safetensors(tmp_path / "model.safetensors", tensors)

    code, out, _ = sizer_cli("diff", "gpt2-small", str(file))

    assert code == 0
    assert "12 buffers transformer.h.{0-11}.attn.bias are of the first side alone" in out


def test_a_head_that_is_stored_apart(sizer_cli: CLI, tmp_path: Path) -> None:
    tensors = {**stored("gpt2-small", "F32"), "lm_head.weight": ("F32", [50257, 768])}
    file = safetensors(tmp_path / "model.safetensors", tensors)

    found = json.loads(sizer_cli("diff", "gpt2-small", str(file), "--json")[1])

    assert [(d["kind"], d["name"]) for d in found["differences"]] == [("tie", "lm_head.weight")]


def test_types_of_two_files(sizer_cli: CLI, tmp_path: Path) -> None:
    one = safetensors(tmp_path / "one.safetensors", stored(LLAMA))
    other = safetensors(tmp_path / "other.safetensors", stored(LLAMA, "F16"))

    found = json.loads(sizer_cli("diff", str(one), str(other), "--json")[1])["differences"]

    assert {(d["kind"], d["a"], d["b"]) for d in found} == {("dtype", "bf16", "fp16")}
    assert sum(d["tensors"] for d in found) == len(stored(LLAMA))


def test_a_missing_shard_is_said(sizer_cli: CLI, folder: Path) -> None:
    items = list(stored(LLAMA).items())
    index = sharded(folder / "shards", [dict(items[:12]), dict(items[12:])])
    (folder / "shards" / "model-00002-of-00002.safetensors").unlink()

    code, out, err = sizer_cli("diff", str(folder / "config.json"), str(index), "--json")
    found = json.loads(out)

    assert (code, found["ok"], found["differences"], found["shared"]) == (1, False, [], 12)
    assert f"{len(items) - 12} tensors are not known" in found["remarks"][0]
    assert "missing: model-00002-of-00002.safetensors" in err


def test_prediction_layers_of_a_file(sizer_cli: CLI, tmp_path: Path) -> None:
    config = {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "first_k_dense_replace": 1,
        "vocab_size": 100,
        "num_nextn_predict_layers": 1,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = {t.name: ("BF16", list(t.shape)) for t in sizer.load(config, count_mtp=True).tensors()}
    file = safetensors(tmp_path / "model.safetensors", tensors)

    found = json.loads(sizer_cli("diff", f"formula:{tmp_path}", str(file), "--json")[1])

    assert found["mapping"] == "with the layers for multi-token prediction"
    # The files repeat the two tables, which are the model's own.
    assert {(d["kind"], d["name"]) for d in found["differences"]} == {
        ("tie", "model.layers.2.embed_tokens.weight"),
        ("tie", "model.layers.2.shared_head.head.weight"),
    }
    (tmp_path / "config.json").unlink()
    total = sizer.load(config).count().total
    code, out, _ = sizer_cli("reconcile", str(file), str(total), "--json")
    assert (code, [t["name"] for t in json.loads(out)["terms"]]) == (
        0,
        ["layers for multi-token prediction left out"],
    )


@pytest.mark.torch
def test_three_ways(sizer_cli: CLI, tmp_path: Path) -> None:
    file = safetensors(tmp_path / "model.safetensors", stored("gpt2-small", "F32"))

    assert sizer_cli("diff", "gpt2-small", "torch:gpt2-small", "-q")[:2] == (0, "0\n")
    assert sizer_cli("diff", "torch:gpt2-small", str(file), "-q")[:2] == (0, "0\n")
    assert sizer_cli("diff", "torch:gpt2-small", "torch:gpt2-small", "-q")[:2] == (0, "0\n")
    assert sizer_cli("diff", "torch:gpt2-small", "gpt2-medium", "-q")[0] == 1


@pytest.mark.torch
def test_a_module_without_a_formula(sizer_cli: CLI, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "encodec"}')

    # EncodecModel of transformers 5.24 with its defaults.
    out = sizer_cli("diff", f"torch:{path}", f"torch:{path}")[1]
    assert "equal, 14,851,810 parameters" in out
    assert "no preset named 'nope'" in sizer_cli("diff", "torch:nope", f"torch:{path}")[2]


@pytest.mark.torch
def test_experts_of_a_file_and_of_a_module(sizer_cli: CLI, tmp_path: Path) -> None:
    """Files keep each expert's matrices, transformers 5 all of a layer in two tensors."""
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "vocab_size": 100,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    file = safetensors(tmp_path / "model.safetensors", stored(config))

    code, out, _ = sizer_cli("diff", f"torch:{tmp_path}/config.json", str(file), "--json")

    assert (code, "published names" in json.loads(out)["mapping"]) == (0, True), out


def llama_cpp() -> list[tuple[str, list[int], int, int]]:
    """The same model in F32, as convert_hf_to_gguf.py names its tensors."""
    parts = {
        "attn_norm": [256],
        "attn_q": [256, 256],
        "attn_k": [256, 128],
        "attn_v": [256, 128],
        "attn_output": [256, 256],
        "ffn_norm": [256],
        "ffn_gate": [256, 512],
        "ffn_up": [256, 512],
        "ffn_down": [512, 256],
    }
    sizes = {"token_embd": [256, 1000], "output_norm": [256], "output": [256, 1000]}
    sizes |= {f"blk.{i}.{part}": shape for i in range(3) for part, shape in parts.items()}
    return [(f"{name}.weight", shape, 0, 4 * prod(shape)) for name, shape in sizes.items()]


@pytest.mark.torch
def test_totals_of_a_gguf_file_are_verified(sizer_cli: CLI, folder: Path) -> None:
    tensors = [*llama_cpp(), ("rope_freqs.weight", [32], 0, 128)]
    file = folder / "model.gguf"
    file.write_bytes(gguf(tensors, [("general.architecture", 8, "llama")]))
    command = ("verify", str(folder / "config.json"), "--checkpoint", str(file))

    code, out, _ = sizer_cli(*command)
    assert code == 0, out
    assert "totals of parameters are compared" in out

    file.write_bytes(gguf(tensors[1:], [("general.architecture", 8, "llama")]))
    found = json.loads(sizer_cli(*command, "--json")[1])["differences"]
    assert [(d["kind"], d["theirs"]) for d in found] == [("total", f"{2_283_264 - 256_000:,}")]


def test_names_of_llama_cpp(sizer_cli: CLI, folder: Path) -> None:
    tensors = llama_cpp()
    file = folder / "model.gguf"
    file.write_bytes(gguf(tensors, [("general.architecture", 8, "llama")]))

    code, out, _ = sizer_cli("diff", str(folder / "config.json"), str(file), "--json")

    assert (code, json.loads(out)["mapping"]) == (0, "names of llama.cpp under those of LLaMA"), out

    # What llama.cpp has of its own keeps its name.
    tensors.append(("rope_freqs.weight", [32], 0, 128))
    file.write_bytes(gguf(tensors, [("general.architecture", 8, "llama")]))
    found = json.loads(sizer_cli("diff", str(folder / "config.json"), str(file), "--json")[1])
    assert found["remarks"] == ["the buffer rope_freqs.weight is of the second side alone, and no difference"]

    # Under other names two tensors would have one: then the file is read as it is.
    tensors.append(("lm_head.weight", [256, 1000], 0, 4 * 256_000))
    file.write_bytes(gguf(tensors, [("general.architecture", 8, "llama")]))
    found = json.loads(sizer_cli("diff", str(folder / "config.json"), str(file), "--json")[1])
    assert (found["mapping"], found["shared"]) == ("equal names", 1)


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (("foo:x", "gpt2-small"), "no side named 'foo'"),
        (("torch:", "gpt2-small"), "names nothing"),
        (("gpt2-small", "gtp2-medium"), "gpt2-medium"),
        (("gpt2-small", "checkpoint:/nowhere"), "there is no file"),
        (("gpt2-small",), "Missing argument"),
        (("gpt2-small", "gpt2-small", "--level", "shapes"), "shapes"),
    ],
)
def test_a_wrong_question(sizer_cli: CLI, args: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli("diff", *args)

    assert (code, out, fragment in err, err.count("\n")) == (2, "", True, 1), err


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["a.0.w", "a.1.w"], ["a.{0-1}.w"]),
        (["a.0.w", "a.2.w", "a.3.w"], ["a.{0,2-3}.w"]),
        (["a.0.e.0.w", "a.0.e.1.w", "a.1.e.0.w", "a.1.e.1.w"], ["a.{0-1}.e.{0-1}.w"]),
        (["a.7.e.0.w", "a.7.e.1.w"], ["a.7.e.{0-1}.w"]),
        (["a.w", "b.w"], ["a.w", "b.w"]),
    ],
)
def test_names_of_layers_as_one(names: list[str], expected: list[str]) -> None:
    assert [name for name, _ in folded(names)] == expected


UP = "model.layers.0.mlp.up_proj"
SMALL_FILES: list[tuple[dict[str, Entry], int, str]] = [
    # 40 of the table; a pooler of 16 and 4.
    (
        {
            "embeddings.word_embeddings.weight": ("F32", [10, 4]),
            "pooler.dense.weight": ("F32", [4, 4]),
            "pooler.dense.bias": ("F32", [4]),
        },
        40,
        "pooler left out",
    ),
    # A word of FP8 is one weight: what is counted beside the weights is the scale alone.
    (
        {
            "model.embed_tokens.weight": ("BF16", [10, 128]),
            f"{UP}.weight": ("F8_E4M3", [128, 128]),
            f"{UP}.weight_scale_inv": ("F32", [1, 1]),
        },
        10 * 128 + 128 * 128 + 1,
        "scales counted",
    ),
]


@pytest.mark.parametrize(("tensors", "number", "name"), SMALL_FILES, ids=[row[2] for row in SMALL_FILES])
def test_numbers_of_a_small_file(
    sizer_cli: CLI, tmp_path: Path, tensors: dict[str, Entry], number: int, name: str
) -> None:
    file = safetensors(tmp_path / "model.safetensors", tensors)
    out = sizer_cli("reconcile", str(file), str(number), "--json")[1]

    assert [term["name"] for term in json.loads(out)["terms"]] == [name]


def test_active_parameters_of_a_file(sizer_cli: CLI, tmp_path: Path) -> None:
    """Of four experts of 3·8·6 one is visited, in each of two layers: the config says so, and no file."""
    sizes = {"hidden_size": 8, "intermediate_size": 6, "num_attention_heads": 2, "vocab_size": 11}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 1, "num_hidden_layers": 2}
    config = {"model_type": "mixtral", **sizes, **experts, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = stored(config)
    file = safetensors(tmp_path / "model.safetensors", tensors)
    active = sum(prod(shape) for _, shape in tensors.values()) - 2 * 3 * (3 * 8 * 6)
    out = sizer_cli("reconcile", str(file), str(active), "--json")[1]

    assert [term["name"] for term in json.loads(out)["terms"]] == ["active parameters instead of all"]


def test_a_file_without_weights_is_not_reconciled(sizer_cli: CLI, tmp_path: Path) -> None:
    file = safetensors(tmp_path / "x.safetensors", {"rotary_emb.inv_freq": ("F32", [32])})
    code, _, err = sizer_cli("reconcile", str(file), "32")

    assert (code, "holds no weights" in err) == (2, True)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("number", "names"),
    [(43, ["scales counted"]), (83, ["scales counted", "tied tensors counted again"])],
)
def test_numbers_of_a_file_with_ties(sizer_cli: CLI, tmp_path: Path, number: int, names: list[str]) -> None:
    """`torch.save` writes a storage once: a table of 10 · 4 as a head too, three scales of two layers."""
    torch = pytest.importorskip("torch")
    table, scales = torch.zeros(10, 4), torch.zeros(3)
    tensors = {"model.embed_tokens.weight": table, "lm_head.weight": table}
    tensors |= {f"model.layers.{i}.self_attn.k_scale": scales for i in range(2)}
    torch.save(tensors, tmp_path / "model.pt")
    out = sizer_cli("reconcile", str(tmp_path / "model.pt"), str(number), "--json")[1]

    assert sorted(term["name"] for term in json.loads(out)["terms"]) == names


# number, names of the terms
OF_GPTQ = [
    ("8030261248", []),
    (
        "1985941504",
        [
            "packed words instead of weights (GPTQ 4-bit)",
            "zero points counted",
            "scales counted",
            "group indices counted",
        ],
    ),
    ("5.73GB", []),
    ("7,504,924,672", ["token embedding left out"]),
]


@pytest.mark.parametrize(("number", "names"), OF_GPTQ)
def test_numbers_of_a_gptq_file(sizer_cli: CLI, tmp_path: Path, number: str, names: list[str]) -> None:
    """Llama-3-8B in GPTQ: 5.73 GB, which header readers call a model of 1.99B parameters."""
    file = safetensors(tmp_path / "model.safetensors", in_gptq(stored("llama-3-8b")))

    code, out, _ = sizer_cli("reconcile", str(file), number, "--json")
    found = json.loads(out)

    assert (code, [term["name"] for term in found["terms"]]) == (0, names)
    assert found["total"] + sum(t["amount"] for t in found["terms"]) == found["value"]


@pytest.mark.parametrize(
    ("number", "name"), [("137022720", "attn.bias buffers"), ("163037184", "tied head counted again")]
)
def test_numbers_of_the_published_gpt2(sizer_cli: CLI, tmp_path: Path, number: str, name: str) -> None:
    file = safetensors(tmp_path / "model.safetensors", stored("gpt2-small", "F32"))

    code, out, _ = sizer_cli("reconcile", str(file), number, "--json")

    assert (code, [term["name"] for term in json.loads(out)["terms"]]) == (0, [name])
