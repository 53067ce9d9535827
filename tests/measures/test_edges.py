"""The ends of what measures take: sizes below a byte, ranks beyond heads, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sizer
from sizer.measures.activations import activations, activations_formula
from sizer.measures.formula import formula
from sizer.measures.inference import inference_formula
from sizer.measures.published import published
from sizer.measures.step.simulate import settings
from sizer.report.flops import report as flops_report

GPT2, LLAMA, MAMBA = (sizer.load(name) for name in ("gpt2-small", "llama-3-8b", "mamba-130m"))
RESNET = sizer.load({"model_type": "resnet"})
NARROW = sizer.load("llama-3-8b", n_kv_heads=2, d_head=5)


def test_weights_of_half_a_byte() -> None:
    found = GPT2.memory("infer", dtype="int4", seq_len=8)
    odd = sizer.load("gpt2-small", vocab_size=50256 + 1, d_model=12 * 7, n_layers=1, n_ctx=3)
    params = 50257 * 84 + 3 * 84 + 12 * 84**2 + 13 * 84 + 2 * 84  # 12D² + 13D of a block, by hand

    assert found.weights_bytes == 124_439_808 // 2
    assert odd.count().total == params
    assert odd.memory("infer", dtype="int4", seq_len=3).weights_bytes == -(-params // 2)
    letters = inference_formula(GPT2, dtype="int4")
    cache = 2 * 12 * 768 * 8 * 2  # keys and values of 12 layers, bf16
    values = {**GPT2.symbolic[1], "B": 1, "T": 8}
    assert letters.value(values) == 124_439_808 // 2 + cache


def test_ranks_that_share_heads_and_states() -> None:
    whole = 2 * 32 * 8 * 128 * 64 * 2  # K and V, layers, heads, width, tokens, bytes

    assert [LLAMA.kv_cache(1, 64, tp=tp).bytes for tp in (1, 2, 8, 16, 32)] == [
        whole // ranks for ranks in (1, 2, 8, 8, 8)
    ]
    assert 2 * MAMBA.kv_cache(1, 64, tp=2).bytes == MAMBA.kv_cache(1, 64).bytes


def test_the_published_activations_of_a_step() -> None:
    # Korthikanti et al. 2022, arXiv:2205.05198, equations 2 and 6: sbhL(34 + 5as/h), 34sbhL, 2sbhL.
    s, h, layers, heads, b = 1024, 768, 12, 12, 3
    expected = {
        "none": s * b * h * layers * 34 + 5 * heads * s * s * b * layers,
        "selective": 34 * s * b * h * layers,
        "full": 2 * s * b * h * layers,
    }

    for checkpointing, number in expected.items():
        found = published(GPT2, "korthikanti", batch_size=b, seq_len=s, checkpointing=checkpointing)
        assert found.n_bytes == number


def test_the_flops_of_chinchilla_as_its_appendix_counts_them() -> None:
    # Hoffmann et al. 2022, arXiv:2203.15556, appendix F, for the sizes of GPT-2.
    T, V, D, H, K, F, L = 1024, 50257, 768, 12, 64, 3072, 12
    attention = (
        2 * 3 * T * D * K * H + 2 * T * T * K * H + 3 * H * T * T + 2 * T * T * K * H + 2 * T * K * H * D
    )
    forward = 2 * T * V * D + L * (attention + 2 * T * (D * F + F * D)) + 2 * T * D * V

    (found,) = flops_report(GPT2, seq_len=T, rules=("chinchilla",)).document()["rules"]
    assert found["training"] == 3 * forward


@pytest.mark.parametrize("T", [64, 100])
def test_a_selective_scan_as_vmamba_counts_it(T: int) -> None:
    # VMamba, arXiv:2401.10166: 9·B·L·D·N a layer; mamba-130m has 24 of D = 1536 and N = 16.
    found = MAMBA.flops(3, T)

    assert found.kinds["scan"] == 9 * 3 * T * 1536 * 16 * 24


def test_a_causal_mask_leaves_half_of_the_pairs_and_the_diagonal() -> None:
    # 1 + 2 + … + T pairs, 4 FLOPs an element of the width, 12 layers.
    for T in (1, 4, 5):
        found = GPT2.flops(1, T, causal=True)
        assert found.kinds["attention"] == T * (T + 1) // 2 * 4 * 768 * 12


def test_a_tower_that_does_not_run_costs_nothing() -> None:
    # LLaVA 1.5 without an image is its Vicuna, a LLaMA 2 of 32,064 words.
    text = sizer.load("llama-2-7b", vocab_size=32064)

    assert sizer.load("llava-1.5-7b").flops(1, 64).forward == text.flops(1, 64).forward


def test_a_decoder_alone_skips_its_cross_attention() -> None:
    # BartForCausalLM without an encoder's states, by hand: projections, scores and mix, MLP; the head.
    T, D, F, V, L = 64, 1024, 4096, 50265, 12
    found = sizer.load({"model_type": "bart"}, cls="BartForCausalLM").flops(1, T)

    assert found.forward == L * (8 * T * D * D + 4 * T * T * D + 4 * T * D * F) + 2 * T * V * D


def test_the_legend_has_the_letters_of_the_formula() -> None:
    for name in ("gpt2-small", "gemma-2-2b"):
        found = formula(sizer.load(name))
        assert set(found.legend) == {str(letter) for letter in found.total.free_symbols}


def test_packed_weights_are_noted() -> None:
    llama = sizer.load("llama-3-8b", n_layers=1)
    plain, packed = (
        llama.memory(seq_len=16, lora="r=8,target=q_proj", **how) for how in ({}, {"quant": "nf4"})
    )

    assert not any("frozen weights in" in note for note in plain.assumptions)
    assert any("frozen weights in nf4" in note for note in packed.assumptions)


def test_adam_takes_what_adamw_takes() -> None:
    # torch 2.13, optim/adamw.py: AdamW is Adam with decoupled weight decay, one implementation.
    adam, adamw = (GPT2.memory(seq_len=64, optimizer=name) for name in ("adam", "adamw"))

    assert adam.optimizer_bytes == adamw.optimizer_bytes
    assert adam.peaks == adamw.peaks


def test_selective_checkpointing_runs_the_attention_again() -> None:
    # Korthikanti et al. 2022: the scores and the mix of values, 4·T²·D a layer; full: every block.
    T, D, L = 512, 768, 12
    none, some, full = (
        GPT2.flops(1, T, checkpointing=mode).training for mode in ("none", "selective", "full")
    )

    assert some - none == 4 * T * T * D * L
    assert some < full <= none + GPT2.flops(1, T).forward


def test_vllm_fills_up_groups_of_layers() -> None:
    # vLLM, kv_cache_utils.py: groups have as many layers as the rarest kind has, and the last is padded.
    # Of 26 layers every sixth is full: 4 full ones, and 22 with a window in 6 groups of 4.
    sizes = {"num_hidden_layers": 26, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512}
    found = sizer.load({"model_type": "gemma3_text", **sizes}).kv_cache(1, 32000, policy="vllm")
    a_layer = 2 * 1 * 256 * 2  # keys and values of a token in bf16
    reserved = {one.kept.window: one.reserved for one in found.layers}

    assert reserved == {None: 32000, 512: reserved[512]}
    assert found.bytes == a_layer * (4 * 32000 + 24 * reserved[512])


def test_one_cache_for_all_sequences_is_shared_by_them() -> None:
    # llama.cpp, --kv-unified: PAD(min(context, window · sequences + ubatch), 256) cells for all of them.
    gemma = sizer.load({"model_type": "gemma3_text", "sliding_window": 1024, "num_hidden_layers": 6})
    found = gemma.kv_cache(4, 32000, policy="llama.cpp", unified=True, ubatch=512)

    windowed = next(one for one in found.layers if one.kept.window == 1024)
    assert windowed.reserved == -(-min(32000 * 4, 1024 * 4 + 512) // 256) * 256 // 4


def test_the_notes_say_what_was_assumed_of_a_step() -> None:
    mixtral = sizer.load("mixtral-8x7b", n_layers=2)
    turns = mixtral.memory(seq_len=32, experts="loop")
    chunks = GPT2.memory(seq_len=2048, loss_chunks=4)

    assert any("experts run in turn" in note for note in turns.assumptions)
    assert any("the loss in 4 chunks" in note for note in chunks.assumptions)
    assert any("seq_len = 2048 is beyond the context of 1024" in note for note in chunks.assumptions)
    assert chunks.peak_bytes < GPT2.memory(seq_len=2048).peak_bytes


def test_a_rule_of_layers_needs_layers(sizer_cli: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = sizer_cli("flops", "resnet-18", "--rule", "megatron")

    assert (code, out) == (2, "")
    assert "megatron rule needs layers, a width and a vocabulary, which resnet-18 lacks" in err


def test_shampoo_keeps_a_square_a_side() -> None:
    """Gupta et al. 2018, algorithm 1: L of m·m and R of n·n a matrix, here in fp32; a vector its diagonal."""
    model = sizer.load("gpt2-small", n_layers=1, d_model=48, n_heads=3, vocab_size=100, n_ctx=16)
    # c_attn, c_proj, c_fc, c_proj of the MLP, the embedding and the positions.
    sides = ((48, 144), (48, 48), (48, 192), (192, 48), (100, 48), (16, 48))
    # Norms of two vectors each, and the biases.
    vectors = 3 * 2 * 48 + 144 + 48 + 192 + 48

    found = model.memory(seq_len=8, optimizer="shampoo", precision="fp32")
    assert found.optimizer_bytes == 4 * (sum(m * m + n * n for m, n in sides) + vectors)


def test_chunks_of_letters_are_chunks_of_numbers() -> None:
    run = settings(batch_size=2, seq_len=64, loss_chunks=4)
    values = {**GPT2.symbolic[1], "B": 2, "T": 64}

    assert activations_formula(GPT2, run).value(values) == activations(GPT2, run).total


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: MAMBA.kv_cache(1, 8, tp=7), "tp = 7 does not divide a state of"),
    (lambda: LLAMA.kv_cache(1, 8, tp=3), "tp = 3 and n_kv_heads = 8 do not divide each other"),
    (lambda: RESNET.memory("infer", seq_len=8), "a model without linear layers has no activations"),
    (lambda: GPT2.flops(1, 8, lora="r=8,target=c_attn", checkpointing="full"), "not counted together"),
    (lambda: GPT2.shards("megatron", tp=2).of(5), "rank = 5 is none of the 2 ranks, 0 to 1"),
    (
        lambda: sizer.load("mixtral-8x7b").shards("vllm", tp=2, ep=3),
        "vLLM spreads experts over all tp · dp = 2",
    ),
    (
        lambda: sizer.load("t5-small").shards("megatron", pp=2),
        "are in 2 stacks (decoder.block, encoder.block)",
    ),
    (lambda: published(GPT2, "korthikani"), "no published formula named 'korthikani'; did you mean"),
    (lambda: published(RESNET, "korthikanti"), "the formula is of transformer layers, and there are none"),
    (lambda: published(RESNET, "megatron"), "the formula is of transformer layers, and there are none"),
    (
        lambda: published(GPT2, "korthikanti", checkpointing="matmuls"),
        "no policy that keeps matrix products; take selective or full",
    ),
    (
        lambda: NARROW.shards("megatron", tp=4).of(0),
        "tp = 4 does not divide the 10 rows of n_kv_heads = 2 heads",
    ),
    (lambda: LLAMA.flops(1, 8, lora="r=8,target=c_attn"), "c_attn"),
    (lambda: GPT2.memory(seq_len=9, offload="activations"), "add --checkpointing full or selective"),
    (lambda: GPT2.memory(seq_len=9, offload="weights"), "no thing to offload named 'weights'"),
    (lambda: GPT2.memory(seq_len=9, loss_chunks=0), "loss_chunks = 0 is not a number from 1 to 1024"),
    (lambda: GPT2.memory(seq_len=9, loss_chunks=True), "loss_chunks = True is not a number"),
    (lambda: GPT2.memory(seq_len=9, checkpointing="half"), "no kind of checkpointing named 'half'"),
    (
        lambda: sizer.load("bert-base", task="masked").memory(seq_len=9, loss_chunks=2),
        "loss_chunks = 2: a masked loss is not computed in chunks",
    ),
]


@pytest.mark.parametrize(("attempt", "words"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_refused(attempt: Callable[[], Any], words: str) -> None:
    with pytest.raises(sizer.SizerError) as error:
        attempt()

    assert words in str(error.value)
    assert "\n" not in str(error.value)
