"""The inverse of a count: shapes of published models from their totals, and bad questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sizer
from sizer.errors import InvalidConfig
from sizer.planning.solving.solve import solve
from sizer.sources.presets import preset

Run = Callable[..., tuple[int, str, str]]

# Models whose heads are together as wide as the model; totals are those of their presets' sources.
KNOWN = [
    "gpt2-small",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "opt-125m",
    "opt-1.3b",
    "opt-2.7b",
    "opt-6.7b",
    "opt-13b",
    "opt-30b",
    "opt-66b",
    "pythia-70m",
    "pythia-160m",
    "pythia-410m",
    "pythia-1b",
    "pythia-1.4b",
    "pythia-2.8b",
    "pythia-6.9b",
    "pythia-12b",
    "bloom-560m",
    "bloom-1.1b",
    "bloom-3b",
    "bloom-7.1b",
    "bloom-176b",
    "llama-7b",
    "llama-13b",
    "llama-65b",
    "llama-2-7b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-3-8b",
    "llama-3-70b",
    "mistral-7b",
    "mistral-large-2",
    "qwen2-0.5b",
    "qwen2-1.5b",
    "qwen2-7b",
    "qwen2-72b",
    "qwen2.5-3b",
    "qwen2.5-14b",
    "phi-1",
    "phi-2",
    "phi-3-mini",
    "olmo-7b",
    "olmo-2-7b",
    "olmo-2-13b",
    "smollm-135m",
    "smollm-360m",
    "smollm-1.7b",
    "baichuan-7b",
    "yi-6b",
    "yi-34b",
    "bert-base",
    "bert-large",
    "roberta-base",
    "gpt-neo-125m",
    "gpt-neo-1.3b",
    "starcoder2-3b",
    "starcoder2-7b",
    "deepseek-coder-6.7b",
    "deepseek-llm-67b",
    "codellama-34b",
    "tinyllama-1.1b",
    "stablelm-3b-4e1t",
]


@pytest.mark.parametrize("name", KNOWN)
def test_the_shape_of_a_published_model_is_among_the_answers(name: str) -> None:
    model = sizer.load(name)
    sizes: Any = model.config
    published = preset(name).expect["params"]
    constraints: dict[str, Any] = {"d_head": sizes.d_model // sizes.n_heads}
    if getattr(sizes, "n_kv_heads", None) not in (None, sizes.n_heads):
        constraints["kv_ratio"] = sizes.n_heads // sizes.n_kv_heads
    if getattr(sizes, "d_ff", None) is not None:
        constraints["ff_ratio"] = str(Fraction(sizes.d_ff, sizes.d_model))

    found = solve(model, ["d_model", "n_layers"], params=published, **constraints)

    shapes = [(a.sizes["d_model"], a.sizes["n_layers"], a.sizes["n_heads"]) for a in found.answers[:10]]
    assert (sizes.d_model, sizes.n_layers, sizes.n_heads) in shapes
    assert found.answers[0].params == published
    assert len(KNOWN) > 60


@settings(max_examples=25)
@given(
    heads=st.integers(1, 40),
    d_head=st.sampled_from([32, 64, 80, 96, 128]),
    n_layers=st.integers(1, 100),
    ratio=st.sampled_from(["4", "3.5", "8/3"]),
    name=st.sampled_from(["gpt2-small", "llama-7b", "pythia-160m"]),
)
def test_solve_is_the_inverse_of_count(heads: int, d_head: int, n_layers: int, ratio: str, name: str) -> None:
    d_model = heads * d_head
    # LLaMA's rule: the whole part, up to a multiple.
    d_ff = -(-int(Fraction(ratio) * d_model) // 256) * 256
    model = sizer.load(name)
    shape = {"d_model": d_model, "n_heads": heads, "n_layers": n_layers, "d_ff": d_ff}
    kv = {"n_kv_heads": heads} if hasattr(model.config, "n_kv_heads") else {}
    total = model.with_values(**shape, **kv).count().total

    found = solve(
        model,
        ["d_model", "n_layers"],
        params=total,
        d_head=d_head,
        ff_ratio=ratio,
        multiple={"d_ff": 256},
    )

    assert found.answers[0].params == total
    assert any(shape.items() <= answer.sizes.items() for answer in found.answers)


def test_a_sparse_model_from_total_and_active_parameters() -> None:
    # Mixtral 8x7B: 46.7B and 12.9B (arXiv:2401.04088 section 2; the checkpoint holds 46,702,792,704).
    found = solve(
        sizer.load("mixtral-8x7b"),
        ["n_layers", "d_model", "n_experts"],
        params=46702792704,
        active=12879925248,
        d_head=128,
        kv_ratio=4,
        ff_ratio="3.5",
    )

    expected = {"n_layers": 32, "d_model": 4096, "n_experts": 8, "d_ff_expert": 14336, "n_heads": 32}
    assert expected.items() <= found.answers[0].sizes.items()


def test_answers_keep_to_every_constraint() -> None:
    found = solve(
        sizer.load("llama-3-8b"),
        ["d_model", "n_layers", "d_ff"],
        params="13B",
        d_head=128,
        kv_ratio=4,
        tp=8,
        multiple={"d_model": 256, "d_ff": 512},
        where={"n_layers": "32:64:4"},
        aspect="64:160",
        pad_vocab=1000,
    )

    assert found.found
    for answer in found.answers:
        sizes = answer.sizes
        assert sizes["d_model"] % 1024 == sizes["d_ff"] % 512 == 0
        assert sizes["n_heads"] * 128 == sizes["d_model"]
        assert sizes["n_kv_heads"] * 4 == sizes["n_heads"]
        assert sizes["n_kv_heads"] % 8 == 0
        assert sizes["n_layers"] in range(32, 65, 4)
        assert 64 <= sizes["d_model"] / sizes["n_layers"] <= 160
        assert answer.model.config.vocab_size == 129_000  # type: ignore[attr-defined]
        assert answer.model.count().total == answer.params
        assert abs(answer.params - 13 * 10**9) <= 0.01 * 13 * 10**9
    assert [a.deviation for a in found.answers] == sorted(a.deviation for a in found.answers)


def test_weights_fit_the_memory_and_the_cache_the_token() -> None:
    like = sizer.load("llama-3-8b")
    found = solve(like, ["d_model", "n_layers"], memory="80GiB", d_head=128, ff_ratio="3.5")
    cache = solve(like, ["n_layers", "n_kv_heads"], params="8B", kv_per_token="128KiB", tolerance="5%")

    assert 0.99 * 80 * 2**30 <= 2 * found.answers[0].params <= 80 * 2**30
    # Llama 3 8B: 32 layers of 8 KV heads of 128, keys and values in two bytes are 128 KiB a token.
    assert cache.answers[0].sizes == {"n_layers": 32, "n_kv_heads": 8}


def test_a_budget_of_compute() -> None:
    # Hoffmann et al. 2022, table A3: 67B parameters and 1.5T tokens for 5.76e23 FLOPs, 22.4 a parameter.
    like = sizer.load("llama-3-8b")
    found = solve(
        like, ["d_model", "n_layers"], flops="5.76e23", tokens_per_param=20, d_head=128, ff_ratio="3.5"
    )

    best = found.answers[0]
    assert abs(6 * 20 * best.active**2 / 5.76e23 - 1) < 0.01
    assert 67e9 < best.params < 72e9


def test_layers_follow_where_they_repeat() -> None:
    found = solve(sizer.load("gemma-3-4b-text"), ["n_layers"], params=3880263168)

    assert found.answers[0].sizes == {"n_layers": 34}
    assert found.answers[0].deviation == 0


# Totals are those of the checkpoints, or sums that are written out.
EXACT = [
    # Layers of a kind each: Jamba's attention every eighth, its experts every second.
    ("jamba-v0.1 --params 51570323328 --for n_layers", {"n_layers": 32}),
    # Of DeepSeek-V3's 61 layers three are dense: more of those is a smaller model.
    (
        "deepseek-v3 --params 671026404352 --for n_layers,n_dense_layers",
        {"n_layers": 61, "n_dense_layers": 3},
    ),
    (
        "deepseek-v3 --params 671026404352 --for n_layers,n_dense_layers,d_ff --where n_layers=59:63",
        {"n_layers": 61, "n_dense_layers": 3, "d_ff": 18432},
    ),
    # LLaMA 7B of 6,738,415,616 whose keys and values have 8 heads of 32: 32 · 2 · 4096 · 24 · 128 fewer.
    ("llama-7b --params 5933109248 --for n_heads --set n_kv_heads=8", {"n_heads": 32}),
    # Llama 3 8B with biases of queries, keys and values: 32 · (4096 + 2 · 1024) more.
    ("llama-3-8b --params 8030457856 --for n_layers --set qkv_bias=true", {"n_layers": 32}),
    # Gemma 2 2B of 2,614,341,888, its 8 and 4 heads half as wide: 26 · 2304 · 128 · (2 · 8 + 2 · 4) fewer.
    ("gemma-2-2b --params 2430316800 --for n_layers --d-head 128", {"n_layers": 26}),
    # The Transformer of torch.nn with the sizes of its paper, by the name of the architecture alone.
    (
        "transformer --params 63082496 --for d_model,n_layers --d-head 64 --ff-ratio 4 --set V=37000",
        {"d_model": 512, "n_layers": 6, "n_heads": 8, "d_ff": 2048},
    ),
    # GPT-2: (V + C)D + L(12D² + 13D) + 2D, with 10 heads of 64 and 48 layers.
    (
        f"gpt2-small --params {51281 * 640 + 48 * (12 * 640**2 + 13 * 640) + 2 * 640} --for d_model,n_layers "
        "--d-head 64 --set n_heads=10",
        {"d_model": 640, "n_layers": 48},
    ),
    ("gpt2-small --params 124439808 --for n_layers --tolerance 0", {"n_layers": 12}),
    ("gpt2-small --params 124439808 --for n_layers --d-head 64 --set n_heads=12", {"n_layers": 12}),
    ("gpt2-small --params 124439808 --for n_layers --multiple d_model=256", {"n_layers": 12}),
    ("llama-3-8b --params 8030261248 --for n_layers --aspect 128:160", {"n_layers": 32}),
    # Padded, GPT-2's 50,257 tokens are 50,304: 47 rows of 768 more.
    (
        f"gpt2-small --params {124439808 + 47 * 768} --for vocab_size --pad-vocab 128 --multiple V=64",
        {"vocab_size": 50304},
    ),
]


@pytest.mark.parametrize(("line", "sizes"), EXACT, ids=[line[:60] for line, _ in EXACT])
def test_a_total_has_its_sizes(sizer_cli: Run, line: str, sizes: dict[str, int]) -> None:
    code, out, err = sizer_cli("solve", *line.split(), "--json")

    assert (code, err) == (0, "")
    answers = [answer for answer in json.loads(out)["answers"] if answer["exact"]]
    assert sizes in [{name: answer["sizes"][name] for name in sizes} for answer in answers]


def test_a_size_that_follows_keeps_to_where_it_may_be(sizer_cli: Run) -> None:
    args = ["--d-head", "128", "--ff-ratio", "3.5", "--where", "d_ff=8192,14336", "--json"]
    _, out, _ = sizer_cli("solve", "llama-3-8b", "--params", "8030261248", "--for", "d_model,n_layers", *args)
    _, rounded, _ = sizer_cli("solve", "llama", "--params", "8B", "--for", "d_model,vocab_size", *args[2:])

    # 14336 is 3.5 · 4096, and 8192 is 3.5 times no multiple of 128.
    first = json.loads(out)["answers"][0]
    assert first["exact"]
    assert (first["sizes"]["d_model"], first["sizes"]["n_layers"]) == (4096, 32)
    assert {a["sizes"]["d_ff"] for a in json.loads(out)["answers"]} == {14336}
    assert {a["sizes"]["d_model"] for a in json.loads(rounded)["answers"]} == {4096}


def test_a_size_that_the_others_decide_is_said(sizer_cli: Run) -> None:
    # Heads of 64 in a width of 768 are 12.
    code, out, _ = sizer_cli("solve", "gpt2-small", "--params", "124439808", "--for", "n_heads,n_layers")

    assert code == 0
    assert "- n_heads = 12 (heads as wide as before, 64)" in out


def test_no_answer_at_all_is_a_no(sizer_cli: Run) -> None:
    # Neither is a multiple of the 12 heads.
    args = ["--params", "1B", "--for", "d_model", "--where", "d_model=769,770"]
    code, out, err = sizer_cli("solve", "gpt2-small", *args)

    assert (code, err) == (1, "")
    assert "no sizes keep to all" in out
    assert "nearest" not in out


def test_a_model_type_gives_the_other_fields(sizer_cli: Run) -> None:
    args = ["--d-head", "128", "--ff-ratio", "8/3", "--multiple", "d_ff=256", "--json"]
    code, out, _ = sizer_cli("solve", "llama", "--params", "6738415616", "--for", "d_model,n_layers", *args)

    assert code == 0
    answer = json.loads(out)["answers"][0]
    assert answer["sizes"] == {
        "d_model": 4096,
        "n_layers": 32,
        "d_ff": 11008,
        "n_heads": 32,
        "n_kv_heads": 32,
    }
    assert answer["exact"]


def test_no_answer_is_a_no_with_the_nearest(sizer_cli: Run) -> None:
    code, out, err = sizer_cli("solve", "gpt2-small", "--params", "1000", "--for", "d_model,n_layers")

    assert (code, err) == (1, "")
    assert "none is within 1 %; these are the nearest" in out
    assert "10,291,200" in out


BAD = [
    (["--for", "d_modle", "--params", "7B"], "did you mean 'd_model'"),
    (["--for", "d_model", "--params", "0"], "must be positive"),
    (["--for", "d_model", "--params", "-5"], "must be positive"),
    (["--for", "d_model", "--params", "many"], "is no number"),
    (["--for", "d_model", "--params", "1e300"], "params is beyond 10^18"),
    (["--for", "d_model", "--params", "9" * 301], "params is beyond 10^18"),
    (["--for", "d_model"], "nothing to solve for"),
    (["--for", "", "--params", "7B"], "name sizes"),
    (["--for", "tie_embeddings", "--params", "7B"], "is a switch and no size"),
    (["--for", "d_model", "--params", "7B", "--set", "d_model=512"], "leave one out"),
    (["--for", "d_model", "--params", "7B", "--where", "d_model=4096:512"], "is empty"),
    (["--for", "d_model", "--params", "7B", "--where", "d_model=512:4096:0"], "never ends"),
    (
        ["--for", "d_model", "--params", "7B", "--where", "d_model=512:600", "--multiple", "d_model=1024"],
        "1024",
    ),
    (["--for", "d_model", "--params", "7B", "--d-head", "128", "--tp", "3"], "n_kv_heads = 8"),
    (["--for", "d_model", "--params", "7B", "--kv-ratio", "5"], "is no whole number"),
    (["--for", "d_model", "--params", "7B", "--active", "8B"], "is more than --params"),
    (["--for", "d_model", "--params", "7B", "--memory", "1GB"], "more than --memory"),
    (["--for", "d_model", "--flops", "1e22"], "--tokens-per-param"),
    (["--for", "d_model", "--params", "7B", "--tokens", "1T"], "give --flops"),
    (["--for", "d_model", "--params", "7B", "--aspect", "160:64"], "is empty"),
    (["--for", "d_model", "--params", "7B", "--tolerance", "200%"], "more than all"),
    (["--for", "d_model", "--params", "7B", "--top", "0"], "--top"),
    (["--for", "n_ctx", "--params", "7B"], "does not depend on n_ctx"),
    (
        ["--for", "n_layers", "--params", "7B", "--tolerance", "some"],
        "--tolerance 'some' is no positive number",
    ),
    (["--for", "n_layers", "--params", "7B", "--set", "n_heads=24", "--d-head", "128"], "3072 wide"),
    (
        [
            "--for",
            "d_model,n_layers",
            "--params",
            "7B",
            "--set",
            "n_heads=32",
            "--d-head",
            "128",
            "--where",
            "d_model=512:1024",
        ],
        "d_model is 32 heads of --d-head 128",
    ),
    (["--for", "n_layers", "--params", "7B", "--kv-ratio", "4", "--set", "n_kv_heads=8"], "--set fixes it"),
    (["--for", "n_layers", "--params", "7B", "--ff-ratio", "4", "--set", "d_ff=8192"], "--set fixes it"),
    (["--for", "n_heads", "--params", "7B", "--d-head", "128"], "every size follows from others"),
    (["--for", "d_ff", "--params", "7B", "--aspect", "64:160"], "free one of them"),
    (["--for", "n_layers", "--params", "7B", "--set", "n_heads=12"], "n_heads = 12"),
    (
        ["--for", "n_layers,d_model,d_ff,n_kv_heads,vocab_size,n_heads", "--params", "7B"],
        "the search has more than",
    ),
]


@pytest.mark.parametrize(("args", "why"), BAD, ids=lambda x: " ".join(x)[:60] if isinstance(x, list) else "")
def test_a_bad_question_is_one_line(sizer_cli: Run, args: list[str], why: str) -> None:
    code, out, err = sizer_cli("solve", "llama-3-8b", *args)

    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1


OF_OTHERS = [
    (["openelm", "--for", "d_model", "--params", "3B", "--d-head", "64"], "no heads of a width of its own"),
    (["musicgen", "--for", "n_layers", "--params", "3B", "--kv-ratio", "4"], "has no n_kv_heads"),
    (["resnet-50", "--for", "n_labels", "--params", "30M", "--aspect", "64:160"], "has not both"),
    (
        ["nemotron-h-8b", "--for", "n_layers", "--params", "8B", "--where", "n_layers=51,53"],
        "no repeating pattern",
    ),
    (
        ["nemotron-h-8b", "--for", "n_layers,d_model", "--params", "8B", "--where", "n_layers=51,53"],
        "no repeating pattern",
    ),
    (["transformer", "--for", "n_layers,d_model", "--params", "65M"], "Transformer needs n_heads"),
    (["gpt5", "--for", "n_layers", "--params", "8B"], "no preset named 'gpt5'; did you mean"),
    (["lamma", "--for", "n_layers", "--params", "8B"], "did you mean"),
]


@pytest.mark.parametrize(
    ("args", "why"), OF_OTHERS, ids=lambda x: " ".join(x)[:60] if isinstance(x, list) else ""
)
def test_a_bad_question_about_another_model_is_one_line(sizer_cli: Run, args: list[str], why: str) -> None:
    code, out, err = sizer_cli("solve", *args)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err


FROM_PYTHON: list[tuple[dict[str, Any], str]] = [
    ({"params": True}, "params = True is no whole number"),
    ({"params": 7e9}, "is no whole number"),
    ({"params": "7B", "fixed": {"d_model": 4096, "hidden_size": 2048}}, "d_model is set twice"),
    ({"params": "7B", "tp": True}, "--tp = True is no whole number"),
]


@pytest.mark.parametrize(("options", "why"), FROM_PYTHON, ids=[why for _, why in FROM_PYTHON])
def test_a_bad_question_from_python(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        solve(sizer.load("llama-3-8b"), ["n_layers"], **options)


def test_a_search_ends_after_its_steps() -> None:
    with pytest.raises(InvalidConfig, match=r"more than 10,000 steps .*--where n_layers="):
        solve(sizer.load("llama-3-8b"), ["n_layers", "d_model", "d_ff"], params="100T", most_steps=10_000)
