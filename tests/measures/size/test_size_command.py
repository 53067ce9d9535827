"""`sizer size` and `--quant` of `sizer memory`: documents, bad input, time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

import sizer
from sizer.errors import SizerError

Run = Callable[..., tuple[int, str, str]]


def test_the_document(sizer_cli: Run) -> None:
    code, out, err = sizer_cli("size", "llama-3-8b", "--quant", "gptq-int4-g128", "--json")
    found = json.loads(out)

    assert (code, err) == (0, "")
    assert {key: found[key] for key in ("model", "quant", "container", "label", "params")} == {
        "model": "llama-3-8b",
        "quant": "gptq-int4-g128",
        "container": "safetensors",
        "label": "exact",
        "params": 8_030_261_248,
    }
    parts = sum(found[f"{part}_bytes"] for part in ("weights", "scales", "zeros", "indices", "header"))
    assert parts == found["bytes"] == sum(file["bytes"] for file in found["files"])
    assert sum(record["bytes"] for record in found["stored"]) + found["header_bytes"] == found["bytes"]
    assert found["bits_per_weight"] == found["bytes"] * 8 / found["params"]


def test_one_number_and_one_tensor_a_line(sizer_cli: Run) -> None:
    _, quiet, _ = sizer_cli("size", "gpt2-small", "--quant", "nf4", "-q")
    _, lines, _ = sizer_cli("size", "gpt2-small", "--quant", "nf4", "--tensors", "--json")
    model = sizer.load("gpt2-small")
    records = [json.loads(line) for line in lines.splitlines()]

    assert int(quiet) == model.size(quant="nf4").bytes
    # Conv1D of GPT-2 is turned around before it is packed: [2304, 768] in blocks of 64.
    absmax = "transformer.h.0.attn.c_attn.weight.absmax"
    assert next(r for r in records if r["name"] == absmax)["shape"] == [2304 * 768 // 64]
    # Masks are rebuilt, a tied head is not stored: 148 tensors, four a layer with three more each.
    assert len(records) == 148 + 12 * 4 * 3


# A width that is no multiple of 32.
NARROW = ["--set", "d_model=4100", "--set", "n_heads=41", "--set", "n_kv_heads=1"]
BAD = [
    (["--quant", "nf5"], ["no format named 'nf5'", "'nf4'"]),
    (["--quant", "q4_k_x"], ["'q4_k_m'"]),
    (["--quant", "gptq-int5-g128"], ["gptq-int"]),
    (["--quant", "gptq", "--group-size", "0"], ["group size = 0", "-1"]),
    (["--quant", "nf4", "--group-size", "100"], ["group size = 100", "power of two"]),
    (["--quant", "fp8-block", "--group-size", "64"], ["fp8-block has no groups"]),
    (["--quant", "mlx-q4", "--group-size", "48"], ["32, 64 and 128"]),
    (
        ["--quant", "awq", "--group-size", "300"],
        ["q_proj", "[4096, 4096]", "whole groups of 300", "--skip q_proj"],
    ),
    (["--quant", "w4a16-g300"], ["compressed-tensors needs inputs in whole groups of 300"]),
    (["--max-shard-size", "-5GB"], ["max shard size = -5GB"]),
    (["--max-shard-size", "0"], ["max shard size = 0"]),
    (["--max-shard-size", "much"], ["max shard size = much"]),
    (["--dtype", "int4"], ["no dtype named 'int4'", "bf16"]),
    (["--container", "onnx"], ["no container named 'onnx'", "safetensors or gguf"]),
    (["--quant", "q4_k_m", "--container", "safetensors"], ["q4_k_m", "GGUF"]),
    (["--quant", "nf4", "--container", "gguf"], ["no GGUF type named 'nf4'"]),
    (["--quant", "q4_k_m", "--group-size", "32"], ["--group-size"]),
    (["--quant", "q4_k_m", "--max-shard-size", "5GB"], ["one file"]),
    (["--quant", "q4_k_m", "--metadata-bytes", "-1"], ["metadata bytes = -1"]),
    (["--quant", "nf4", "--pure"], ["GGUF"]),
    (["--quant", "nf4", "--skip", "q_prj"], ["no module named 'q_prj'", "'q_proj'"]),
    (["--quant", "q4_k_m", "--skip", "attn_z"], ["no tensor of the file named 'attn_z'"]),
    (["--unit", "parsec"], ["no unit named 'parsec'"]),
    (["--quant", "nf4", "--group-size", "100"], ["group size = 100 is no block size of bitsandbytes"]),
    ([*NARROW, "--quant", "mxfp4"], ["q_proj [4100, 4100]: MXFP4 needs inputs in whole blocks of 32"]),
    ([*NARROW, "--quant", "hqq"], ["HQQ needs a multiple of 64 weights"]),
    ([*NARROW, "--quant", "nf4-torchao"], ["torchao's nf4 needs weights in whole blocks of 16,384"]),
]


@pytest.mark.parametrize(("options", "fragments"), BAD, ids=[" ".join(row[0]) for row in BAD])
def test_bad_input_is_one_line(sizer_cli: Run, options: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("size", "llama-3-8b", *options)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert [fragment for fragment in fragments if fragment not in err] == []


@pytest.mark.parametrize("quant", ["none", "nf4", "q4_k_m"])
@pytest.mark.parametrize("sizes", ["n_layers=1000000000000", "d_model=1000000000000000000"])
def test_sizes_beyond_any_file_are_refused(sizer_cli: Run, quant: str, sizes: str) -> None:
    began = time.process_time()
    code, out, err = sizer_cli("size", "llama-3-8b", "--quant", quant, "--set", sizes, "--set", "d_head=128")

    assert (code, out, err.count("\n")) == (2, "", 1)
    # Laid out, this would take hours.
    assert time.process_time() - began < 20


@pytest.mark.parametrize("name", ["gptq-int4-g" + "9" * 5000, "w4a16-g" + "1" * 6, "q" * 100_000, "-g-1", ""])
def test_hostile_names_of_formats_are_refused(name: str) -> None:
    with pytest.raises(SizerError) as caught:
        sizer.load("gpt2-small").size(quant=name)
    assert len(str(caught.value)) < 400


def test_groups_that_do_not_fit_are_left_alone_by_mlx() -> None:
    config = {"model_type": "llama", "hidden_size": 96, "intermediate_size": 128, "num_hidden_layers": 1}
    model = sizer.load({**config, "num_attention_heads": 2, "vocab_size": 50})
    found = {t.name: t.dtype for t in model.size(quant="mlx-q4").tensors()}

    # 96 is no multiple of 64, and `mlx.nn.quantize` passes such modules by.
    assert found["model.layers.0.self_attn.q_proj.weight"] == "bf16"
    assert found["model.layers.0.mlp.down_proj.weight"] == "uint32"


def test_exceptions_of_the_user() -> None:
    model = sizer.load("llama-3-8b")
    skipped = {t.name: t.dtype for t in model.size(quant="nf4", skip=["*.mlp.*", "o_proj"]).tensors()}
    more = {t.name: t.dtype for t in model.size(quant="nf4", quantize=["lm_head"]).tensors()}

    assert (
        skipped["model.layers.7.mlp.up_proj.weight"]
        == skipped["model.layers.7.self_attn.o_proj.weight"]
        == "bf16"
    )
    assert skipped["model.layers.7.self_attn.q_proj.weight"] == "uint8"
    assert more["lm_head.weight"] == "uint8"


def test_nothing_packed_is_of_the_type_asked_for() -> None:
    model = sizer.load("gpt2-small")
    assert {dtype: model.size(dtype=dtype).data_bytes for dtype in ("bf16", "float32")} == {
        "bf16": 2 * 124_439_808,
        "float32": 4 * 124_439_808,
    }
    assert model.size("float16").quant == "fp16"


def test_experts_in_one_tensor_are_said_to_be_left(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("size", "mixtral-8x7b", "--quant", "nf4", "-q")
    assert (code, "--quantize experts" in err) == (0, True)

    _, packed, err = sizer_cli("size", "mixtral-8x7b", "--quant", "nf4", "--quantize", "experts", "-q")
    assert err == ""
    # 46,440,382,464 weights in nf4 at 4.5 bits, the rest in bf16; maps, states and the header are below 1 %.
    matrices = 32 * (8 * 3 * 4096 * 14336 + 2 * 4096 * 4096 + 2 * 4096 * 1024)
    least = matrices * 9 // 16 + 2 * (46_702_792_704 - matrices)
    assert 0 < int(packed) - least < least // 100


def test_memory_of_quantized_weights(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("memory", "llama-3-8b", "--mode", "infer", "--quant", "q4_k_m", "--json")
    # llama.cpp's README: 4.8944 bits a weight, here without rope_freqs.
    assert round(json.loads(out)["weights_bytes"] * 8 / 8_030_261_248, 4) == 4.8944

    lora = ["--lora", "r=8,target=q_proj+v_proj", "--seq-len", "64", "--json"]
    _, out, _ = sizer_cli("memory", "llama-3-8b", *lora)
    plain = json.loads(out)
    _, out, _ = sizer_cli("memory", "llama-3-8b", *lora, "--quant", "nf4")
    packed = json.loads(out)

    # 6,979,321,856 frozen weights go from 16 bits to 4.5, with a map of 64 bytes for each of 224 matrices.
    saved = 6_979_321_856 * 23 // 16 - 224 * 64
    assert plain["weights_bytes"] - packed["weights_bytes"] == saved
    # The largest matrix, [14336, 4096], is unpacked to bf16 when it is multiplied.
    assert plain["peaks"]["backward"] - packed["peaks"]["backward"] == saved - 2 * 14336 * 4096
    assert packed["gradients_bytes"] == plain["gradients_bytes"]
    assert packed["label"] == "estimate"


@pytest.mark.parametrize("quant", ["nf4", "q4_k_m", "bf16"])
def test_packed_weights_are_not_trained(sizer_cli: Run, quant: str) -> None:
    lora = [] if quant == "nf4" else ["--lora", "r=8,target=q_proj"]
    code, _, err = sizer_cli("memory", "llama-3-8b", "--quant", quant, *lora)

    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("quant", ["none", "fp8-block", "gptq", "q4_k_m"])
def test_deepseek_v3_takes_a_moment(quant: str) -> None:
    model = sizer.load("deepseek-v3")
    model.rows()
    model.rows("transformers")
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        model.size(quant=quant)
        best = min(best, time.process_time() - began)
    # A fiftieth of a second where it was measured.
    assert best < 1
