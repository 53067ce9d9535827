"""Against real torch modules; needs the torch extra."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sizer  # noqa: E402
from sizer.oracles import torch as oracle  # noqa: E402
from sizer.report.config_json import config_json  # noqa: E402
from sizer.report.verify import compare_with, differences  # noqa: E402
from sizer.sources.presets import preset  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
nn = torch.nn
Run = Callable[..., tuple[int, str, str]]

SMALL = {"d_model": 48, "n_layers": 2, "n_heads": 4, "vocab_size": 50}
MODELS = [
    ("gpt2-small", {}),
    ("gpt2-small", {"n_inner": 100}),
    ("gpt2-small", {"tie_embeddings": False}),
    ("gpt2-xl", {}),
    ("llama-3-8b", {}),
    ("llama-3.2-1b", {}),
    ("llama-7b", {**SMALL, "d_ff": 100, "n_kv_heads": 2, "qkv_bias": True, "o_bias": True, "mlp_bias": True}),
    ("bert-base", {}),
    ("bert-base", {"task": "pretraining"}),
    ("transformer-base", {}),
    ("transformer-base", {"embeddings": False}),
    ("transformer-base", {"shared_embeddings": False, "n_decoder_layers": 3, "bias": False}),
]


# One of each way in which a preset may say its sizes.
WRITTEN = [
    "gpt2-small",
    "llama-3.2-1b",
    "bert-large",
    "t5-small",
    "pythia-70m",
    "opt-350m",
    "gemma-3-270m",
    "granite-4.0-h-tiny",
    "mamba2-130m",
    "lfm2-350m",
    "bart-base",
    "deberta-v2-xlarge",
    "xlnet-base-cased",
    "dbrx",
]


@pytest.mark.parametrize("name", WRITTEN)
def test_transformers_reads_a_written_config_json_to_the_same_model(tmp_path: Path, name: str) -> None:
    from transformers import AutoConfig

    written = config_json(preset(name))
    (tmp_path / "config.json").write_text(json.dumps(written))
    config = AutoConfig.from_pretrained(tmp_path)
    with torch.device("meta"):
        module = getattr(transformers, config.architectures[0])(config)

    assert config.architectures == written["architectures"]
    assert preset(name).expect["params"] == sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("name", "overrides"), MODELS)
def test_a_preset_is_the_real_module(name: str, overrides: dict[str, Any]) -> None:
    assert differences(sizer.load(name, **overrides)) == []


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torch_nn_transformer() -> None:
    model = sizer.load("transformer-base", embeddings=False, final_norm=True)
    with torch.device("meta"):
        module = nn.Transformer(512, 8, 6, 6, 2048)

    assert compare_with(model, oracle.tensors(module)) == []
    assert model.count().total == sum(p.numel() for p in module.parameters())


class Norm(nn.Module):
    """LayerNorm with the names of the book."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))


class Attention(nn.Module):
    def __init__(self, width: int, context: int, qkv_bias: bool) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(width, width, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.triu(torch.ones(context, context), diagonal=1))


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Block(nn.Module):
    def __init__(self, width: int, context: int, qkv_bias: bool) -> None:
        super().__init__()
        self.att = Attention(width, context, qkv_bias)
        self.ff = FeedForward(width)
        self.norm1, self.norm2 = Norm(width), Norm(width)


class BookGPT(nn.Module):
    """The parameters of `GPTModel` of LLMs-from-scratch, chapter 4, written from its description."""

    def __init__(self, vocab: int, context: int, width: int, layers: int, qkv_bias: bool) -> None:
        super().__init__()
        self.tok_emb = nn.Embedding(vocab, width)
        self.pos_emb = nn.Embedding(context, width)
        self.trf_blocks = nn.Sequential(*(Block(width, context, qkv_bias) for _ in range(layers)))
        self.final_norm = Norm(width)
        self.out_head = nn.Linear(width, vocab, bias=False)


@pytest.mark.parametrize("qkv_bias", [False, True])
def test_llms_from_scratch(qkv_bias: bool) -> None:
    model = sizer.load(
        "llms-from-scratch-124m", vocab_size=50, n_ctx=10, d_model=8, n_heads=2, n_layers=3, qkv_bias=qkv_bias
    )

    assert compare_with(model, oracle.tensors(BookGPT(50, 10, 8, 3, qkv_bias))) == []


def tiny() -> tuple[sizer.Model, Any]:
    model = sizer.load(
        {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "vocab_size": 11, "n_positions": 5}
    )
    return model, oracle.build(model)


def test_an_equal_copy_is_no_tie() -> None:
    model, module = tiny()
    module.lm_head.weight = nn.Parameter(module.transformer.wte.weight.detach().clone())

    assert [d.kind for d in compare_with(model, oracle.tensors(module))] == ["tie"]


def drop_bias(module: Any) -> None:
    module.transformer.h[1].mlp.c_fc.bias = None


def transpose(module: Any) -> None:
    layer = module.transformer.h[0].attn.c_attn
    layer.weight = nn.Parameter(layer.weight.detach().T)


def freeze(module: Any) -> None:
    module.transformer.ln_f.weight.requires_grad = False


def into_buffer(module: Any) -> None:
    value = module.transformer.ln_f.weight.detach()
    del module.transformer.ln_f.weight
    module.transformer.ln_f.register_buffer("weight", value)


def drop_layer(module: Any) -> None:
    module.transformer.h = module.transformer.h[:1]


@pytest.mark.parametrize(
    ("breaking", "kind", "levels"),
    [
        (drop_bias, "only here", ("total", "component", "names")),
        (transpose, "shape", ("names",)),
        (freeze, "trainable", ("names",)),
        (into_buffer, "kind", ("total", "component", "names")),
        (drop_layer, "only here", ("total", "component", "names")),
    ],
)
def test_breaking_a_thing_is_caught(
    breaking: Callable[[Any], None], kind: str, levels: tuple[str, ...]
) -> None:
    model, module = tiny()
    breaking(module)
    found = oracle.tensors(module)

    assert {d.kind for d in compare_with(model, found)} == {kind}
    caught = tuple(
        level for level in ("total", "component", "names") if compare_with(model, found, level=level)
    )
    assert caught == levels


def test_verify_on_the_command_line(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("verify", "gpt2-small", "--json")
    document = json.loads(out)

    assert (code, document["ok"], document["differences"]) == (0, True, [])
    assert set(document["versions"]) == {"python", "torch", "transformers"}


def test_verify_says_no_with_exit_1(sizer_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, module = tiny()
    monkeypatch.setattr(oracle, "build", lambda model: module)
    code, out, err = sizer_cli("verify", "gpt2-small")

    assert (code, err) == (1, "")
    assert "transformer.wte.weight" in out
    assert "differences" in out


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (["palm-8b"], "so there is nothing to compare with"),
        (["palm-8b", "--what", "activations"], "no public torch module is known"),
        (["gpt2-small", "--set", "qkv_bias=false"], "transformers' GPT-2 always has its biases"),
        (["chatglm2-6b"], "code of their own repository, which sizer never runs"),
        (["transformer-base", "--what", "flops"], "cannot be run by itself"),
        (["gpt2-medium", "--what", "flops", "--attention", "flash"], "too many for real weights"),
        (["bert-base", "--what", "shards", "--framework", "dtensor"], "has no tensor-parallel plan"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_what_has_no_module_to_compare_with(sizer_cli: Run, args: list[str], fragment: str) -> None:
    code, out, err = sizer_cli("verify", *args)

    assert (code, out) == (2, "")
    assert fragment in err


LLAMA = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 16,
}


@pytest.mark.parametrize(
    ("config", "fragment"),
    [
        # A class of one's own.
        ({"model_type": "llama", "architectures": ["OurModel"]}, "is no class of transformers"),
        ({"model_type": "mixtral", "num_local_experts": 4}, "splits its experts with code of its own"),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, ""),
    ],
)
def test_shards_of_tensor_parallelism(
    sizer_cli: Run, tmp_path: Path, config: dict[str, Any], fragment: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "num_key_value_heads": 2, **config}))
    run = ("--what", "shards", "--framework", "dtensor", "--ranks", "2")
    code, _, err = sizer_cli("verify", str(tmp_path), *run)

    # The plan of transformers does not name the head of a classifier, so each rank has all of it.
    assert code == (2 if fragment else 0)
    assert fragment in err


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("t5-small", ("n_layers=1", "n_decoder_layers=1", "vocab_size=400_000")),
        ("gpt2-small", ("n_layers=1", "vocab_size=300_000")),
    ],
)
def test_flops_of_a_model_that_is_too_large_for_weights(
    sizer_cli: Run, name: str, sizes: tuple[str, ...]
) -> None:
    """Over 200 million parameters, torch's counter runs it on the meta device."""
    assert sizer_cli("verify", name, *(f"--set={s}" for s in sizes), "--what", "flops")[0] == 0


def test_levels_have_names() -> None:
    from sizer.oracles.diff import diff
    from sizer.oracles.sides import side
    from sizer.oracles.verify import verify

    with pytest.raises(sizer.SizerError, match="did you mean 'names'"):
        verify(sizer.load("gpt2-small"), level="name")
    with pytest.raises(sizer.SizerError, match="did you mean 'names'"):
        diff(side("gpt2-small"), side("gpt2-small"), level="name")


def test_counting_on_the_module_where_there_is_no_formula(sizer_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "univnet"}')

    code, out, err = sizer_cli("count", str(path))
    assert (code, out) == (2, "")
    assert "--with torch" in err

    # UnivNetModel of transformers 5.24 with its defaults.
    assert sizer_cli("count", str(path), "--with", "torch", "-q") == (0, "14789153\n", "")
    code, out, _ = sizer_cli("count", str(path), "--with", "torch")
    assert "no formulas" in out


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('{"model_type": "gpt9"}', "no model type named 'gpt9'"),
        ('{"model_type": "gpt2", "architectures": ["Trainer"]}', "no class named 'Trainer'"),
        ('{"model_type": "gpt2", "n_embd": "wide"}', "refuses this configuration"),
    ],
)
def test_what_transformers_cannot_build(sizer_cli: Run, tmp_path: Path, text: str, fragment: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    code, out, err = sizer_cli("count", str(path), "--with", "torch")

    assert (code, out) == (2, "")
    assert fragment in err
    assert err.count("\n") == 1
