"""`sizer reconcile`: numbers that people publish, print or misread, and the terms that make them of ours."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sizer
from sizer.oracles.reconcile.figure import parse
from sizer.oracles.reconcile.search import MOST_TERMS, search, subsets_of
from sizer.oracles.reconcile.term import Term
from sizer.oracles.reconcile.variants import variants

CLI = Callable[..., tuple[int, str, str]]

HEAD, MASKS, ROUTER, SCALES = (
    "tied head counted again",
    "attn.bias buffers",
    "router biases",
    "FP8 block scales (weight_scale_inv)",
)
MTP = "layers for multi-token prediction"
COPIES = ("copy of the embedding in the prediction layers", "copy of the head in the prediction layers")

# model, number, names of the terms, where the number is from
EXACT = [
    ("gpt2-small", 124_439_808, [], "GPT2LMHeadModel, each tied tensor once"),
    ("gpt2-small", 163_037_184, [HEAD], "torchinfo 1.8.0; rasbt/LLMs-from-scratch ch04"),
    ("gpt2-small", 137_022_720, [MASKS], "elements of openai-community/gpt2, model.safetensors"),
    (
        "gpt2-small",
        137_022_732,
        ["attn.bias and attn.masked_bias buffers"],
        "register_buffer of both in GPT2Attention of transformers 4.0: 12·(1024² + 1) more",
    ),
    ("gpt2-small", 175_620_096, [HEAD, MASKS], "both at once"),
    ("gpt2-small", 85_056_000, ["all embeddings left out"], "12 blocks of 7,087,872 and ln_f, 1,536"),
    ("gpt2-small", 123_653_376, ["positions left out"], "124,439,808 - 1024·768"),
    ("gpt2-small", 163_009_536, [HEAD, "query, key and value biases left out"], "LLMs-from-scratch ch04"),
    ("gpt2-small", 124_337_664, ["all biases left out"], "karpathy/nanoGPT transformer_sizing.ipynb"),
    ("gpt2-small", 123_551_232, ["all biases left out", "positions left out"], "nanoGPT get_num_params"),
    (
        "gpt2-small",
        123_570_432,
        ["biases of matrices left out", "positions left out"],
        "Megatron-LM theoretical_memory_usage.py at these sizes",
    ),
    ("gpt2-small", 124_475_904, ["vocabulary padded to 50,304"], "nanoGPT train.py: 50257 up to 50304"),
    ("llama-3.2-1b", 1_498_482_688, [HEAD], "hf-vram-calc 1.0.9"),
    ("bloom", 179_843_887_104, [HEAD], "BLOOM read as untied"),
    ("llama-3-8b", 7_504_924_672, ["token embedding left out"], "non-embedding, and LlamaModel"),
    (
        "llama-3-8b",
        6_979_321_856,
        ["token embedding left out", "head left out", "norms left out"],
        "LLM-Viewer, which has layers alone",
    ),
    ("llama-3-8b", 8_031_637_504, ["a scale for each output"], "huggingface.js, RedHatAI w4a16: one a row"),
    (
        "llama-3-8b",
        1_985_941_504,
        [
            "int4 packed in 32-bit words",
            "scales of groups of 128",
            "packed zero points of groups of 128",
            "group indices (g_idx)",
        ],
        "four readers of headers, of a GPTQ file with g_idx",
    ),
    ("llama-3-8b", 6_442_450_944, ["12·L·D² instead of the sum"], "llm-resource-planner 0.2.0: 6.44B"),
    ("llama-2-7b", 6_738_417_664, ["rotary frequencies of every layer"], "hub total of Llama-2-7b-hf"),
    (
        "zamba-7b",
        7_232_490_496 + 12 * (4 * 7424**2 - 7424**2 // 2 + 3 * 3712 * 14848 + 7424 + 3712),
        ["shared layers counted at each use"],
        "Glorioso et al. 2024: one block, which 13 layers use",
    ),
    ("mixtral-8x7b", 12_879_925_248, ["active parameters instead of all"], "llm-flops 0.0.1"),
    ("mixtral-8x7b", 46_701_744_128, ["routers left out"], "Megatron's formula"),
    ("mixtral-8x7b", 46_702_809_088, ["vocabulary of 32,002 entries, not 32,000"], "dolphin-2.5 index / 2"),
    ("qwen3-30b-a3b", 30_220_957_696, ["token embedding left out"], "LLMs-from-scratch 11_qwen3"),
    ("gpt-oss-20b", 21_511_953_984, ["MXFP4 scales of the experts"], "huggingface.js PR 2323, before it"),
    ("flan-t5-small", 60_511_616, ["head tied in memory"], "76,961,152 - 32128·512"),
    ("bert-base", 109_482_240, [], "BertModel"),
    ("bert-base", 109_514_298, ["as BertLMHeadModel"], "BertForMaskedLM of transformers 5.24"),
    ("bert-base", 110_106_428, ["as BertForPreTraining"], "BertForPreTraining of transformers 5.24"),
    (
        "bert-base",
        109_482_752,
        ["position_ids buffers"],
        "109,482,240 and its 512 position_ids",
    ),
    ("bert-base", 108_891_648, ["pooler left out"], "without 768·768 + 768; DPRContextEncoder"),
    ("deepseek-v3", 671_026_404_352, [], "sum(p.numel()) of DeepseekV3ForCausalLM"),
    ("deepseek-v3", 671_026_419_200, [ROUTER], "with e_score_correction_bias, 58·256"),
    ("deepseek-v3", 671_067_257_432, [ROUTER, SCALES], "elements of the FP8 files without layer 61"),
    ("deepseek-v3", 684_531_386_000, [MTP, *COPIES, ROUTER, SCALES], "hub total of deepseek-ai/DeepSeek-V3"),
    ("glm-4.5", 358_337_791_296, [MTP, *COPIES, ROUTER], "hub total of zai-org/GLM-4.5"),
    ("glm-4.5-air", 110_468_824_832, [MTP, *COPIES, ROUTER], "hub total of zai-org/GLM-4.5-Air"),
    ("glm-5", 753_864_139_008, [MTP, ROUTER], "hub total of zai-org/GLM-5, which repeats no table"),
    ("glm-5", 753_910_024_032, [MTP, ROUTER, SCALES], "hub total of zai-org/GLM-5-FP8"),
    ("qwen3-next-80b-a3b", 81_324_862_720, [MTP], "hub total of Qwen/Qwen3-Next-80B-A3B-Instruct"),
]


@pytest.mark.parametrize(("model", "number", "names", "source"), EXACT)
def test_a_number_of_others(sizer_cli: CLI, model: str, number: int, names: list[str], source: str) -> None:
    code, out, _ = sizer_cli("reconcile", model, f"{number:,}", "--json")
    found = json.loads(out)

    assert (code, found["ok"], found["exact"], found["residual"]) == (0, True, True, 0)
    assert sorted(term["name"] for term in found["terms"]) == sorted(names)
    assert found["total"] + sum(term["amount"] for term in found["terms"]) == number == found["target"]
    assert all(term["formula"] and term["why"] for term in found["terms"])


# model, a whole number of bytes, names of the terms, where it is from
IN_BYTES = [
    (
        "llama-3-8b",
        16_060_522_496,
        [],
        "two bytes each of 8,030,261,248",
    ),
    ("gpt2-small", 497_759_232, [], "four bytes each of 124,439,808"),
    ("bloom", 352_494_542_848, [], "total_size of bloom, as a public report gives it"),
    (
        "llama-2-7b",
        13_476_835_328,
        ["rotary frequencies of every layer"],
        "total_size of llama-7b-hf, as a public report gives it",
    ),
]


@pytest.mark.parametrize(("model", "number", "names", "source"), IN_BYTES)
def test_a_whole_number_of_bytes(
    sizer_cli: CLI, model: str, number: int, names: list[str], source: str
) -> None:
    code, out, _ = sizer_cli("reconcile", model, str(number), "--json")
    found = json.loads(out)

    assert (code, [term["name"] for term in found["terms"]]) == (0, names)
    assert "bytes a parameter" in found["reading"]


def test_files_of_a_usual_format_explain_their_size(sizer_cli: CLI) -> None:
    """4-bit files of Llama 3 8B in groups of 128, whose bytes `test_size_formats.py` adds up."""
    code, out, _ = sizer_cli("reconcile", "llama-3-8b", "5.73GB", "--json")

    found = json.loads(out)
    named = [found["terms"], *(one["terms"] for one in found["alternatives"])]
    assert code == 0
    assert "bytes of gptq-int4-g128 files, not parameters" in [t["name"] for terms in named for t in terms]


@pytest.mark.parametrize(
    ("model", "figure"),
    [
        # 16.06 GB is right; no padding of a table that is padded already, no scales without packed words.
        ("llama-3-8b", "16.07GB"),
        # 64·64 more than the rotary frequencies: no norms and 37 words that nobody added.
        ("llama-2-7b", "6738452480"),
    ],
)
def test_an_accident_is_no_explanation(sizer_cli: CLI, model: str, figure: str) -> None:
    assert sizer_cli("reconcile", model, figure, "-q")[0] == 1


# model, figure, names of the terms, how it is read
ROUNDED = [
    ("deepseek-v3", "671B", [], ""),
    ("deepseek-v3", "685B", [MTP, *COPIES, ROUTER, SCALES], ""),
    ("deepseek-v3", "37B", ["active parameters instead of all"], "cut off, not rounded"),
    ("glm-4.5", "358B", [MTP, *COPIES, ROUTER], ""),
    ("mixtral-8x7b", "46.7B", [], ""),
    ("mixtral-8x7b", "12.9B", ["active parameters instead of all"], ""),
    ("llama-3-8b", "8.03B", [], ""),
    ("llama-3-70b", "70B", [], "cut off, not rounded"),
    ("bert-base", "110M", [], "rounded to two digits"),
    ("gpt2-small", "163.04M", [HEAD], ""),
    ("llama-3-8b", "14.96GiB", [], "2 bytes a parameter (bf16, fp16)"),
    ("llama-3-8b", "16.1GB", [], "2 bytes a parameter (bf16, fp16)"),
    ("llama-3-8b", "14.96GB", [], "GiB printed as GB; 2 bytes a parameter (bf16, fp16)"),
    (
        "llama-2-7b",
        "13476835328 bytes",
        ["rotary frequencies of every layer"],
        "2 bytes a parameter (bf16, fp16)",
    ),
    (
        "llama-3-8b",
        "1.99B",
        [
            "int4 packed in 32-bit words",
            "scales of groups of 128",
            "packed zero points of groups of 128",
            "group indices (g_idx)",
        ],
        "",
    ),
]


@pytest.mark.parametrize(("model", "figure", "names", "reading"), ROUNDED)
def test_a_rounded_figure(sizer_cli: CLI, model: str, figure: str, names: list[str], reading: str) -> None:
    code, out, _ = sizer_cli("reconcile", model, figure, "--json")
    found = json.loads(out)

    assert (code, sorted(term["name"] for term in found["terms"]), found["reading"]) == (
        0,
        sorted(names),
        reading,
    )
    total = found["total"] + sum(term["amount"] for term in found["terms"])
    assert total == found["value"] == found["target"] - found["residual"]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("163037184", 163_037_184, 163_037_184),
        ("163,037,184", 163_037_184, 163_037_184),
        ("163_037_184", 163_037_184, 163_037_184),
        ("671B", 670_500_000_000, 671_500_000_000),
        ("671e9", 670_500_000_000, 671_500_000_000),
        ("1.99b", 1_985_000_000, 1_995_000_000),
        ("163.04M", 163_035_000, 163_045_000),
        ("0.124439808B", 124_439_808, 124_439_808),
        ("1.5T", 1_450_000_000_000, 1_550_000_000_000),
        # 13.45e9 to 13.55e9 bytes, two bytes each
        ("13.5GB", 6_725_000_000, 6_775_000_000),
        # 12.545·2³⁰ = 13,470,091,182.1 and 12.555·2³⁰ = 13,480,828,600.3 bytes, two bytes each
        ("12.55GiB", 6_735_045_592, 6_740_414_300),
        ("26 bytes", 13, 13),
    ],
)
def test_what_a_figure_stands_for(text: str, low: int, high: int) -> None:
    first = parse(text).readings[0]

    assert (first.low, first.high) == (low, high)


@pytest.mark.parametrize(
    ("number", "fragments"),
    [
        ("abc", ["'abc' is no number", "671B"]),
        ("", ["is no number"]),
        ("0", ["is zero"]),
        ("0.0B", ["is zero"]),
        ("NaN", ["is no number"]),
        ("inf", ["is no number"]),
        ("1,2", ["is no number"]),
        ("1.5", ["not a whole number", "1.5B"]),
        ("12 apples", ["unknown unit 'apples'"]),
        ("9" * 41, ["over 40 characters"]),
        ("9" * 30, ["beyond 10^24"]),
        ("1e99", ["beyond 10^24"]),
        ("١٢٣", ["is no number"]),
        ("7\x1b[2J", ["is no number"]),
    ],
)
def test_what_is_no_number(sizer_cli: CLI, number: str, fragments: list[str]) -> None:
    code, out, err = sizer_cli("reconcile", "gpt2-small", "--", number)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(fragment in err for fragment in fragments), err


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (("gpt2-small", "-5"), "No such option"),
        (("gpt2-small",), "name a model and a number"),
        (("gpt2-small", "124M", "--dtype", "bf16"), "a dtype goes with bytes"),
        (("gpt2-small", "1GB", "--dtype", "fp9"), "no dtype named 'fp9'"),
        (("gtp2-small", "1"), "gpt2-small"),
    ],
)
def test_a_wrong_question(sizer_cli: CLI, args: tuple[str, ...], fragment: str) -> None:
    code, _, err = sizer_cli("reconcile", *args)

    assert (code, fragment in err) == (2, True), err


def test_the_sum_for_people(sizer_cli: CLI) -> None:
    code, out, _ = sizer_cli("reconcile", "--preset", "gpt2-small", "163037184")

    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[4:7]] == [
        "sizer counts",
        "tied head counted again",
        "= 163037184",
    ]
    assert "The difference is exact: tied head counted again." in out
    rounded = sizer_cli("reconcile", "llama-3-70b", "70B", "-q")[1]
    assert rounded == "70,553,706,496 ≈ 70B (cut off, not rounded)\n"
    quiet = sizer_cli("reconcile", "gpt2-small", "163037184", "-q")[1]
    assert quiet == "124,439,808 + 38,597,376 (tied head counted again) = 163,037,184\n"


def test_explanations_of_equal_length_are_all_listed(sizer_cli: CLI) -> None:
    """LLaMA-3's head and embedding have as many elements each."""
    found = json.loads(sizer_cli("reconcile", "llama-3-8b", "7504924672", "--json")[1])

    others = [[term["name"] for term in other["terms"]] for other in found["alternatives"]]
    assert ["head left out"] in others


def test_a_number_that_nothing_explains(sizer_cli: CLI) -> None:
    code, out, _ = sizer_cli("reconcile", "deepseek-v3", "684531386001", "--json")
    found = json.loads(out)

    assert (code, found["ok"], found["residual"]) == (1, False, 1)
    total = found["total"] + sum(term["amount"] for term in found["terms"])
    assert total + found["residual"] == 684_531_386_001
    assert "No sum of known terms makes" in sizer_cli("reconcile", "gpt2-small", "999999999999")[1]


def test_terms_that_cancel_out_are_none(sizer_cli: CLI) -> None:
    _, out, _ = sizer_cli("reconcile", "gpt2-small", str(124_439_808 + 11))

    assert "the nearest is our own total, which leaves 11 (0.00 %)" in out


def test_files_of_4_bits_are_all_said(sizer_cli: CLI) -> None:
    # Both formats are within the digits of the figure; neither may hide the other.
    _, out, _ = sizer_cli("reconcile", "llama-3-8b", "5.73GB")

    assert "bytes of awq-int4-g128 files" in out
    assert "bytes of gptq-int4-g128 files" in out


def test_bytes_that_are_no_whole_elements(sizer_cli: CLI) -> None:
    code, out, _ = sizer_cli("reconcile", "gpt2-small", "3 bytes", "--dtype", "bf16", "--json")

    assert (code, json.loads(out)["ok"], json.loads(out)["terms"]) == (1, False, [])
    assert "is a number of elements" in sizer_cli("reconcile", "gpt2-small", "3bytes", "--dtype", "bf16")[1]


MODELS = (
    "gpt2-small",
    "llama-3-8b",
    "llama-3.2-1b",
    "deepseek-v3",
    "mixtral-8x7b",
    "bert-base",
    "flan-t5-small",
)


@given(st.sampled_from(MODELS), st.data())
def test_terms_that_are_added_are_found_again(name: str, data: Any) -> None:
    """A sum of a few terms has an explanation, exact and no longer than what it was made of."""
    model = sizer.load(name)
    plain = next(variants(model))
    chosen: list[Term] = []
    for i in data.draw(st.lists(st.integers(0, len(plain.pool) - 1), max_size=MOST_TERMS, unique=True)):
        if all(not term.touches & plain.pool[i].touches for term in chosen):
            chosen.append(plain.pool[i])
    number = plain.start + sum(term.amount for term in chosen)
    if number <= 0:
        return

    found = search(variants(model), parse(str(number)))

    assert found.explanations
    for one in found.explanations:
        assert one.value == number == one.start + sum(term.amount for term in one.terms)
        assert len(one.terms) <= len(chosen)


@given(
    st.lists(st.tuples(st.integers(-9, 9).filter(bool), st.integers(0, 7)), max_size=9),
    st.integers(-12, 12),
    st.integers(0, 5),
)
def test_subsets_are_those_of_a_plain_search(terms: list[tuple[int, int]], amount: int, size: int) -> None:
    pool = [Term(str(i), value, "", "", touches) for i, (value, touches) in enumerate(terms)]

    def fits(subset: tuple[Term, ...]) -> bool:
        apart = all(not a.touches & b.touches for a, b in combinations(subset, 2))
        return apart and sum(term.amount for term in subset) == amount

    plain = {frozenset(t.name for t in subset) for subset in combinations(pool, size) if fits(subset)}
    met = [frozenset(t.name for t in subset) for subset in subsets_of(pool, amount, size)]

    assert len(met) == len(set(met))
    assert set(met) == plain


@pytest.mark.parametrize("model", ["deepseek-v3", "qwen3-next-80b-a3b", "llama-4-scout", "flan-t5-small"])
@pytest.mark.parametrize("number", ["684531386001", "1", "123456789012345678901234", "13.37GB", "13.37B"])
def test_an_answer_takes_under_a_second(model: str, number: str) -> None:
    loaded = sizer.load(model)
    started = time.process_time()

    search(variants(loaded), parse(number))

    assert time.process_time() - started < 1


# A configuration, what is more than its total, and the term for it.
SMALL = [
    # 24 rows of the decoder's table are another vocabulary: 20 become 64, of 8 each.
    (
        {
            "model_type": "fsmt",
            "langs": ["de", "en"],
            "src_vocab_size": 20,
            "tgt_vocab_size": 24,
            "d_model": 8,
            **{f"{s}_{k}": n for s in ("encoder", "decoder") for k, n in (("layers", 1), ("ffn_dim", 16))},
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
        },
        44 * 8,
        "vocabulary padded to 64",
    ),
    # Three matrices of 35 · 45, an odd number, of which there is no half.
    (
        {
            "model_type": "llama",
            "hidden_size": 35,
            "intermediate_size": 45,
            "num_hidden_layers": 1,
            "num_attention_heads": 5,
            "vocab_size": 1000,
        },
        3 * 35 * 45,
        "MLP of twice the width",
    ),
]


@pytest.mark.parametrize(("config", "more", "name"), SMALL, ids=[row[2] for row in SMALL])
def test_a_small_model(sizer_cli: CLI, tmp_path: Path, config: dict[str, Any], more: int, name: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    total = int(sizer_cli("count", str(path), "-q")[1])
    out = sizer_cli("reconcile", str(path), str(total + more), "--json")[1]

    assert [term["name"] for term in json.loads(out)["terms"]] == [name]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("config", "names"),
    [
        # Each of three uses lists the block again, with the adapters of all three.
        (
            {
                "model_type": "zamba2",
                "architectures": ["Zamba2ForCausalLM"],
                "num_hidden_layers": 6,
                "layers_block_type": ["mamba", "hybrid"] * 3,
                "layer_types": ["mamba", "hybrid"] * 3,
                "hybrid_layer_ids": [1, 3, 5],
                "num_mem_blocks": 1,
                "n_mamba_heads": 4,
                "mamba_ngroups": 1,
                "mamba_d_state": 8,
                "adapter_rank": 4,
                "use_shared_mlp_adapter": True,
            },
            [HEAD, "shared layers counted at each use"],
        ),
        # Scales of every product of integers.
        (
            {"model_type": "ibert", "architectures": ["IBertModel"], "num_hidden_layers": 2},
            ["all 81 buffers"],
        ),
    ],
    ids=["shared", "buffers"],
)
def test_every_entry_of_a_state_dict(
    sizer_cli: CLI, tmp_path: Path, config: dict[str, Any], names: list[str]
) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}
    config = {**sizes, **config, "max_position_embeddings": 40}
    cls = getattr(transformers, config["architectures"][0])
    with torch.device("meta"):
        module = cls(cls.config_class.from_dict(dict(config)))
    (tmp_path / "config.json").write_text(json.dumps(config))
    number = sum(tensor.numel() for tensor in module.state_dict().values())
    out = sizer_cli("reconcile", str(tmp_path), str(number), "--json")[1]

    assert [term["name"] for term in json.loads(out)["terms"]] == names


def test_a_sweep_is_refused() -> None:
    import numpy as np

    model = sizer.load("gpt2-small").with_values(d_ff=np.array([3072, 4096]))

    with pytest.raises(sizer.SizerError, match="reconcile one model at a time"):
        search(variants(model), parse("1"))
