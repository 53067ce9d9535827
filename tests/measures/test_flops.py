"""FLOPs against torch's counter, published numbers, and what must hold of any count."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from repository import ROOT

import sizer
from sizer.architectures.registry import HF_MODULES
from sizer.measures.closed_forms import flops_forms
from sizer.measures.compute_rules import estimate
from sizer.measures.passes import Pass
from sizer.model import Model

Run = Callable[..., tuple[int, str, str]]
FIXTURES = ROOT / "tests" / "fixtures"


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(FIXTURES / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


MEASURED = [row for row in rows("flops") if row["config"]["model_type"] in HF_MODULES]

# The stock counter has no rule for the CPU's flash kernel and counts 0 for it: the attention that is
# missing from a row, by model and batch, as the same run with a rule shows it. T5 misses its
# cross-attention alone, since the biases of its self-attention keep the kernel away; so does
# DeepSeek-V3 all of it, whose values are narrower than its keys.
NOT_COUNTED = {
    ("gpt2-1", 1): 56_623_104,
    ("gpt2-1", 2): 75_497_472,
    ("gpt2-1", 3): 75_497_472,
    ("llama-mha-0", 1): 18_874_368,
    ("llama-mha-1", 3): 75_497_472,
    ("llama-gqa-0", 3): 25_165_824,
    ("llama-gqa-1", 1): 42_467_328,
    ("qwen3-gqa-0", 1): 37_748_736,
    ("qwen3-gqa-0", 3): 50_331_648,
    ("mixtral-0", 1): 9_437_184,
    ("mixtral-0", 3): 12_582_912,
    ("qwen3moe-1", 1): 21_233_664,
    ("qwen3moe-1", 3): 28_311_552,
    ("bert-mlm-0", 1): 18_874_368,
    ("bert-mlm-1", 1): 56_623_104,
    ("t5-0", 3): 12_582_912,
    ("t5-1", 1): 14_155_776,
}


def kernel(row: dict[str, Any]) -> str:
    """The meta device decomposes sdpa into products; the CPU runs its flash kernel."""
    if row["attn"] == "eager":
        return "eager"
    return "sdpa" if row["where"] == "meta" else "flash"


def missing(row: dict[str, Any]) -> int:
    """What the counter left out of a row."""
    if row["attn"] == "eager" or row["mapped"] or row["where"] != "fakecpu":
        return 0
    return NOT_COUNTED.get((row["model"], row["batch"]), 0)


def measured_name(row: dict[str, Any]) -> str:
    parts = (row["model"], row["batch"], row["seq"], row["attn"], row["where"], row["mapped"], row["experts"])
    return "-".join(map(str, parts))


@pytest.mark.parametrize("row", MEASURED, ids=measured_name)
def test_a_measured_pass_is_equal_to_the_last_flop(row: dict[str, Any]) -> None:
    model = sizer.load(row["config"], cls=row["cls"])
    lengths = {"decoder_len": row["seq"] // 2} if row["cls"].startswith("T5") else {}

    found = model.flops(row["batch"], row["seq"], kernel(row), **lengths)

    left_out = missing(row)
    assert (found.forward, found.backward) == (row["fwd"] + left_out, row["bwd"] + 5 * left_out // 2)
    assert found.exact


def test_every_measured_pass_was_compared() -> None:
    assert len(MEASURED) + sum(row["config"]["model_type"] not in HF_MODULES for row in rows("flops")) == 164


# Backward passes with `gradient_checkpointing_enable(use_reentrant=False)` less those without, on
# torch 2.13 and transformers 5.24, without dropout, 2 sequences of 16 tokens.
_BASE = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
_MOE = {
    **_BASE,
    "num_key_value_heads": 2,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
RECOMPUTED = [
    ("LlamaForCausalLM", {**_BASE, "model_type": "llama", "num_key_value_heads": 2}, 1_376_256),
    (
        "GPT2LMHeadModel",
        {"model_type": "gpt2", "vocab_size": 100, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
        1_769_472,
    ),
    (
        "MixtralForCausalLM",
        {
            **_BASE,
            "model_type": "mixtral",
            "num_key_value_heads": 2,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
        2_580_480,
    ),
    (
        "Qwen3MoeForCausalLM",
        {**_MOE, "model_type": "qwen3_moe", "mlp_only_layers": [0], "head_dim": 8},
        1_589_248,
    ),
    (
        "Qwen2MoeForCausalLM",
        {**_MOE, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 40},
        2_439_168,
    ),
    ("BertForMaskedLM", {**_BASE, "model_type": "bert"}, 1_572_864),
    (
        "Gemma2ForCausalLM",
        {**_BASE, "model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8},
        1_671_168,
    ),
    ("OlmoForCausalLM", {**_BASE, "model_type": "olmo"}, 1_572_864),
    ("GPTNeoXForCausalLM", {**_BASE, "model_type": "gpt_neox"}, 1_277_952),
]


@pytest.mark.parametrize(("cls", "config", "extra"), RECOMPUTED, ids=[row[0] for row in RECOMPUTED])
def test_checkpointing_computes_the_blocks_anew(cls: str, config: dict[str, Any], extra: int) -> None:
    model = sizer.load(config, cls=cls)
    plain, found = model.flops(2, 16), model.flops(2, 16, checkpointing=True)

    assert found.recompute == found.backward - plain.backward == extra
    assert found.forward == plain.forward


def test_the_original_transformer_is_torchs_own() -> None:
    # torch.nn.Transformer(512, 8, 6, 6, 2048) of torch 2.13 under its counter, over 2 sequences of 10 and of
    # 7 tokens, with products for attention; read 2026-12-01. Its matrix for words is not in it.
    found = sizer.load("transformer-base").flops(batch_size=2, encoder_len=10, decoder_len=7)

    assert found.forward - found.components["head"] == 1_502_748_672
    assert found.components["head"] == 2 * 37_000 * 512 * 7 * 2


def test_nanogpts_notebook() -> None:
    # karpathy/nanoGPT, transformer_sizing.ipynb: 291,648,307,200 forward, 874,944,921,600 with backward.
    found = sizer.load("gpt2-small").flops(seq_len=1024)

    assert (found.forward, found.backward, found.training) == (291648307200, 583296614400, 874944921600)
    assert found.components == {
        "attention": 96_636_764_160,
        "mlp": 115_964_116_992,
        "head": 79_047_426_048,
    }


# rule, model, tokens of a step, what the rule says, how it is known
RULES = [
    ("6n", "gpt2-small", 1024, 6 * 124_439_808 * 1024),
    ("palm", "gpt2-small", 1024, 6 * (124_439_808 - 786_432) * 1024 + 12 * 12 * 768 * 1024 * 1024),
    ("megatron", "gpt2-small", 1024, 874_944_921_600),
]


@pytest.mark.parametrize(("rule", "name", "tokens", "expected"), RULES, ids=[row[0] for row in RULES])
def test_a_published_rule(rule: str, name: str, tokens: int, expected: int) -> None:
    model = sizer.load(name)

    assert estimate(rule, model.flops(seq_len=tokens), Pass(new=tokens), model).training == expected


def test_megatrons_trillion_parameters() -> None:
    # Narayanan et al. 2021, table 1: 128 layers of width 25,600, vocabulary 51,200, 3,072 × 2,048 tokens.
    model = sizer.load("gpt2-small", d_model=25600, n_layers=128, n_heads=160, vocab_size=51200, n_ctx=2048)
    found = model.flops(3072, 2048)
    run = Pass(3072, 2048)

    assert estimate("megatron-recompute", found, run, model).training == pytest.approx(5.139051377527358e19)
    assert found.training == estimate("megatron", found, run, model).training


def test_the_rule_of_six_takes_active_parameters() -> None:
    # Taking all of Qwen3-30B-A3B's parameters makes utilisation 9.11 times too high.
    found = sizer.load("qwen3-30b-a3b").count()

    assert found.total / found.active == pytest.approx(9.106, abs=0.01)


def test_llama_training_runs() -> None:
    # 6 · params · tokens of the model cards: 2e12 tokens of Llama-2-7B.
    model = sizer.load("llama-2-7b")

    assert 6 * model.count().active * 2 * 10**12 == pytest.approx(8.086e22, rel=1e-4)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


@pytest.fixture
def llama() -> Model:
    return sizer.load(LLAMA)


def test_steps_of_decoding_add_up(llama: Model) -> None:
    steps = [llama.flops(3, 1, past_len=past).forward for past in range(20, 30)]

    assert llama.flops(3, 20, decode=10).forward == sum(steps)


@pytest.mark.parametrize("window", [None, 7])
def test_chunks_add_up(window: int | None) -> None:
    config = {**LLAMA, "model_type": "mistral", "sliding_window": window}
    model = sizer.load(config)
    chunks = [(8, 0), (8, 8), (8, 16), (3, 24)]

    assert model.flops(2, 27, chunk=8).forward == sum(
        model.flops(2, size, past_len=past).forward for size, past in chunks
    )


def test_a_causal_count_sums_what_each_token_sees(llama: Model) -> None:
    # 2 layers of 4 heads: a pair of tokens is 2 · 4 · (16 + 16) FLOPs a layer.
    full, causal = llama.flops(1, 10), llama.flops(1, 10, causal=True)

    assert full.kinds["attention"] == 100 * 2 * 256
    assert causal.kinds["attention"] == 55 * 2 * 256
    windowed = sizer.load({**LLAMA, "model_type": "mistral", "sliding_window": 3})
    assert windowed.flops(1, 10, causal=True).kinds["attention"] == (1 + 2 + 8 * 3) * 2 * 256
    assert windowed.flops(1, 10).kinds == full.kinds


def test_a_cache_spares_the_encoder() -> None:
    model = sizer.load({"model_type": "t5", "d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4})
    whole = model.flops(1, 1, encoder_len=9)
    step = model.flops(1, 1, encoder_len=9, past_len=4)

    assert step.forward < whole.forward
    assert all(part.forward == 0 for part in step.parts if part.row.stream == "encoder")
    assert step.backward == 0


def test_latents_are_scored_as_they_are_where_the_matrix_is_absorbed() -> None:
    # DeepSeek-V2, arXiv:2405.04434, section 2.1.2: queries of 512 + 64 against the latent and its rotary
    # key, and 512 mixed, for each of 128 heads; nothing is expanded.
    model = sizer.load("deepseek-v3")
    found = model.flops(2, 1, past_len=99, latents="absorbed")

    assert found.kinds["attention"] == 2 * 61 * 100 * 2 * 128 * (512 + 64 + 512)
    assert found.kinds["matmul"] == model.flops(2, 1).kinds["matmul"]


def test_latents_in_a_cache_are_expanded_again() -> None:
    # transformers 5.24, DeepseekV3Attention: kv_b_proj [128 · (128 + 128), 512] runs over all that is cached.
    model = sizer.load("deepseek-v3")
    found, alone = model.flops(2, 1, past_len=99), model.flops(2, 1)

    assert found.kinds["matmul"] - alone.kinds["matmul"] == 2 * 61 * 99 * 2 * 128 * (128 + 128) * 512
    assert any("expanded" in text or "anew from latents" in text for text in found.assumptions)


@pytest.mark.parametrize(("args", "said"), [([], True), (["--latents", "absorbed"], False)])
def test_that_latents_are_expanded_is_said(sizer_cli: Run, args: list[str], said: bool) -> None:
    code, out, err = sizer_cli("flops", "deepseek-v3", "--past", "99", "--seq-len", "1", *args)

    assert (code, bool(out)) == (0, True)
    assert ("as transformers does; --latents absorbed counts as engines do" in err) == said
    assert err.count("warning") == said


def test_what_ends_opt_350m_reads_every_token() -> None:
    # transformers 5.24, OPTDecoder: project_out [512, 1024] runs before the last logits are picked.
    model = sizer.load(
        {"model_type": "opt", "hidden_size": 1024, "num_attention_heads": 16, "word_embed_proj_dim": 512}
    )
    spared = model.flops(1, 10).forward - model.flops(1, 10, logits_to_keep=1).forward

    assert spared == 9 * 2 * 512 * 50272


def test_only_the_last_logits(llama: Model) -> None:
    all_of_them, last = llama.flops(2, 10), llama.flops(2, 10, logits_to_keep=1)

    assert all_of_them.forward - last.forward == 2 * 9 * 2 * 64 * 100
    assert llama.flops(2, 10, logits_to_keep=99).forward == all_of_them.forward


def test_flash_with_narrow_values_needs_another_product() -> None:
    # torch's sdpa_backward_flop_count: 3·Dqk + 2·Dv a head and pair; its flash kernel wants one width.
    model = sizer.load("llama-3-8b")

    assert model.flops(1, 4, "flash").backward - model.flops(1, 4).backward == 32 * 16 * 2 * 32 * 128
    assert model.flops(1, 4, "efficient").backward == model.flops(1, 4, "flash").backward


def test_what_is_no_product_is_an_estimate() -> None:
    found = sizer.load({"model_type": "mamba2"}).flops(1, 16)

    assert not found.exact
    assert 0 < found.estimated < found.forward
    assert any(text.startswith("estimate: ssd") for text in found.assumptions)


def test_a_short_convolution_is_an_estimate() -> None:
    # transformers 5.24, Lfm2ShortConv: padded by kernel − 1 on both sides and cut off again.
    kinds = ["conv", "full_attention"]
    found = sizer.load({"model_type": "lfm2", "num_hidden_layers": 2, "layer_types": kinds}).flops(1, 16)

    assert not found.exact
    assert 0 < found.estimated < found.forward / 100


def test_an_indexer_needs_the_latent_of_queries() -> None:
    with pytest.raises(sizer.SizerError, match="give q_lora_rank"):
        sizer.load({"model_type": "deepseek_v32", "q_lora_rank": None})


def test_a_sweep_beyond_64_bits_is_exact() -> None:
    numpy = pytest.importorskip("numpy")
    widths = numpy.array([4096, 2**20])
    found = sizer.load("llama-7b", d_model=widths, n_heads=32, d_ff=11008).flops(4096, 2**20)
    one = sizer.load("llama-7b", d_model=2**20, n_heads=32, d_ff=11008).flops(4096, 2**20)

    assert int(found.forward[1]) == one.forward > 2**63


DEFAULTS = {
    (row["model_type"], row["cls"]): row
    for row in rows("transformers")
    if not row["variant"] and row["model_type"] in HF_MODULES
}


@pytest.mark.parametrize("key", DEFAULTS, ids="-".join)
def test_the_formula_is_the_number(key: tuple[str, str]) -> None:
    model = sizer.load(DEFAULTS[key]["config"], cls=key[1])
    lengths = {"batch_size": 3, "seq_len": 40, "encoder_len": 24}
    found, forms = model.flops(**lengths), flops_forms(model, **lengths)

    for name in ("forward", "backward", "training"):
        assert forms.value(name) == getattr(found, name), name
    for name, amount in found.components.items():
        assert int(forms.parts[name].value(forms.values)) == amount, name
    assert forms.exact == found.exact


def test_the_formula_of_a_flash_kernel() -> None:
    model = sizer.load("gpt2-small")

    assert flops_forms(model, attention="flash").value("backward") == model.flops(attention="flash").backward


BAD = [
    (["--seq-len", "0"], ["--seq-len 0 is zero"]),
    (["--seq-len", "-3"], ["--seq-len -3 is negative"]),
    (["--batch-size", "0"], ["--batch-size 0 is zero"]),
    (["--past", "-1"], ["--past -1 is negative"]),
    (["--attention", "flahs"], ["no attention kernel named 'flahs'", "flash", "eager, sdpa"]),
    (["--checkpointing", "ful"], ["no kind of checkpointing named 'ful'", "full"]),
    (["--latents", "absorbd"], ["no way to read latents named 'absorbd'; did you mean 'absorbed'?"]),
    (["--rule", "7n"], ["no rule named '7n'", "6n, palm, chinchilla"]),
    (["--chunk", "4", "--decode", "2"], ["give one of the two"]),
    (["--stream", "image"], ["--stream image is not NAME=TOKENS"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=lambda x: " ".join(x))
def test_bad_input(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("flops", "gpt2-small", *args)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert [text for text in fragments if text not in err] == []


def test_the_tokens_of_a_stream_are_one_or_more(sizer_cli: Run) -> None:
    code, out, err = sizer_cli("flops", "llava-1.5-7b", "--stream", "image=0")

    assert (code, out, err) == (2, "", "sizer: image = 0 is zero; it must be at least 1\n")


def test_kernels_that_an_architecture_cannot_use() -> None:
    with pytest.raises(sizer.SizerError, match="has no attention"):
        sizer.load({"model_type": "mamba"}).flops(attention="flash")
    with pytest.raises(sizer.SizerError, match="keeps no cache"):
        sizer.load("bert-base").flops(past_len=4)


def test_a_kernel_without_a_soft_cap_is_refused() -> None:
    with pytest.raises(sizer.SizerError, match="use eager or flash"):
        sizer.load({"model_type": "gemma2", "attn_logit_softcapping": 50.0}).flops(attention="sdpa")
    # Gemma2Config assumes 50 where a file says nothing; null takes it away.
    with pytest.raises(sizer.SizerError, match="use eager or flash"):
        sizer.load("gemma-2-2b").flops(attention="efficient")
    assert sizer.load({"model_type": "gemma2", "attn_logit_softcapping": None}).flops(attention="sdpa")
    assert sizer.load("gemma-3-1b").flops(attention="sdpa")


# Backward FLOPs of adapters of rank 4, everything else frozen, on torch 2.13 and transformers 5.24: a
# LLaMA of 3 layers, width 32, 4 heads of 16 and 2 KV heads, an MLP of 48, 2 sequences of 16 tokens.
ADAPTED = [
    ("q_proj+v_proj", "eager", 2957312),
    ("q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj", "eager", 3629056),
    ("q_proj", "eager", 2801664),
    ("v_proj", "eager", 2686976),
    ("k_proj+o_proj", "eager", 2899968),
    ("q_proj+v_proj", "flash", 3219456),
    ("gate_proj+up_proj", "eager", 2433024),
]


@pytest.mark.parametrize(("targets", "kernel", "backward"), ADAPTED)
def test_adapters_alone_are_trained(targets: str, kernel: str, backward: int) -> None:
    config = {**_BASE, "model_type": "llama", "num_key_value_heads": 2, "head_dim": 16}

    assert sizer.load(config).flops(2, 16, kernel, lora=f"r=4,target={targets}").backward == backward


def test_adapters_of_modules_that_are_not_there(sizer_cli: Run) -> None:
    for text, fragment in (
        ("r=8,target=q_prj", "no module to adapt named 'q_prj'"),
        ("r=0,target=c_attn", "r = '0' is not a positive whole number"),
        ("8", "no part of --lora named '8' (r=8,target=q_proj+v_proj)"),
        ("r=8,target=c_attn,dora", "leave dora out"),
    ):
        code, _, err = sizer_cli("flops", "gpt2-small", "--lora", text)
        assert (code, fragment in err) == (2, True)


def test_an_indexer_has_no_backward_pass() -> None:
    found = sizer.load({"model_type": "deepseek_v32"}).flops(1, 64)
    indexers = [part for part in found.parts if ".indexer." in part.row.name]

    assert sum(part.forward for part in indexers) > 0
    assert all(part.backward == 0 for part in indexers)


def test_a_tower_runs_when_its_tokens_are_given() -> None:
    model = sizer.load({"model_type": "audioflamingo3"})

    assert model.flops(1, 8).forward < model.flops(1, 8, encoder_len=30).forward
    assert any("the encoder tower does not run" in text for text in model.flops(1, 8).assumptions)
    with pytest.raises(sizer.SizerError, match="no stream named 'imag'"):
        model.flops(1, 8, stream_lengths={"imag": 3})


def test_a_decoder_by_itself_attends_to_no_encoder() -> None:
    model = sizer.load({"model_type": "bart"}, cls="BartForCausalLM")

    assert model.flops(1, 8).forward < model.flops(1, 8, encoder_len=1).forward


def test_a_length_beyond_the_context_is_a_warning(sizer_cli: Run) -> None:
    code, out, err = sizer_cli("flops", "gpt2-small", "--seq-len", "2048", "-q")

    assert code == 0
    assert int(out) > 0
    assert "seq_len = 2048 is beyond n_ctx = 1024, the context of gpt2-small" in err


def test_the_document(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli(
        "flops",
        "gpt2-small",
        "--batch-size",
        "2",
        "--seq-len",
        "1024",
        "--rule",
        "palm",
        "--causal",
        "--json",
    )
    found = json.loads(out)

    assert code == 0
    assert (found["forward"], found["backward"], found["training"]) == (
        583296614400,
        1166593228800,
        1749889843200,
    )
    assert found["label"] == "exact"
    assert [rule["rule"] for rule in found["rules"]] == ["causal", "palm"]
    assert found["components"][0]["formula"] == "4*L*T**2*B*D + 8*L*T*B*D**2"


def test_the_formula_of_the_command_line_reads_as_sympy(sizer_cli: Run) -> None:
    import sympy

    _, out, _ = sizer_cli("formula", "llama-3-8b", "--of", "flops", "--seq-len", "512", "--json")
    found = json.loads(out)

    value = sympy.sympify(found["forward"], locals={c: sympy.Symbol(c) for c in found["values"]}).subs(
        found["values"]
    )
    assert int(value) == sizer.load("llama-3-8b").flops(seq_len=512).forward == found["numbers"]["forward"]


def test_explain_names_every_product(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("flops", "gpt2-small", "--explain")

    assert code == 0
    assert "transformer.h.*.attn.core" in out
    assert "torch.utils.flop_counter" in out


def test_a_hundred_layers_of_experts_take_less_than_five_milliseconds() -> None:
    config = {"model_type": "mixtral", "num_hidden_layers": 100}
    model = sizer.load(config)
    model.flops(1, 128)
    times = []
    for _ in range(5):
        start = time.process_time()
        model.flops(1, 128, checkpointing=True)
        times.append(time.process_time() - start)

    assert min(times) < 0.005


def test_an_adapted_table_of_embeddings_multiplies_its_wide_half() -> None:
    # PEFT's Embedding layer: rows of A [r, V] are looked up, and B [D, r] multiplies them.
    model = sizer.load({**_BASE, "model_type": "llama", "num_key_value_heads": 2})
    found, alone = model.flops(2, 16, lora="r=4,target=embed_tokens"), model.flops(2, 16)

    assert found.forward - alone.forward == 2 * 2 * 16 * 4 * 32
    # Every frozen product passes its gradient on once; attention has that of two factors.
    assert found.backward == alone.forward + alone.kinds["attention"] + 2 * (found.forward - alone.forward)
