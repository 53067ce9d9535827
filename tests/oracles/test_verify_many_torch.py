"""`sizer verify` beyond one preset: checkpoints, modules of one's own, all at once; needs torch."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

import sizer  # noqa: E402
from sizer.oracles import torch as oracle  # noqa: E402
from sizer.oracles.compare import compare  # noqa: E402
from sizer.oracles.many import Target  # noqa: E402
from sizer.oracles.types import text_types  # noqa: E402
from sizer.oracles.verify import compare_with, own_module  # noqa: E402
from sizer.report import verify_all  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
nn = torch.nn
Run = Callable[..., tuple[int, str, str]]

GPT2 = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "vocab_size": 11, "n_positions": 5}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_local_experts": 4,
    "vocab_size": 11,
}


def weight(layer: Any, name: str, value: Any) -> None:
    setattr(layer, name, nn.Parameter(value))


def flip_bias(m: Any) -> None:
    m.model.layers[1].self_attn.q_proj.bias = nn.Parameter(torch.zeros(8))


def untie_by_value(m: Any) -> None:
    weight(m.lm_head, "weight", m.model.embed_tokens.weight.detach().clone())


def transpose(m: Any) -> None:
    weight(m.lm_head, "weight", m.lm_head.weight.detach().T)


def buffer_into_parameter(m: Any) -> None:
    value = m.model.rotary_emb.inv_freq
    del m.model.rotary_emb.inv_freq
    weight(m.model.rotary_emb, "inv_freq", value)


def drop_layer(m: Any) -> None:
    m.model.layers = m.model.layers[:1]


def router_twice(m: Any) -> None:
    gate = m.model.layers[0].mlp.gate
    weight(gate, "weight_again", gate.weight.detach().clone())


def change_dtype(m: Any) -> None:
    weight(m.model.norm, "weight", m.model.norm.weight.detach().to(torch.bfloat16))


def cast(m: Any) -> None:
    m.to(torch.bfloat16)


# What is done to a module, on what configuration, and the differences it makes at each level:
# (kinds at "names", whether "component" and "total" see it).
BREAKS = [
    (flip_bias, {}, {"missing here"}, True),
    (untie_by_value, {"tie_word_embeddings": True}, {"tie"}, True),
    (transpose, {}, {"shape"}, False),
    (buffer_into_parameter, {}, {"kind"}, True),
    (drop_layer, {}, {"only here"}, True),
    (router_twice, {}, {"missing here"}, True),
    (change_dtype, {}, {"dtype"}, False),
    (cast, {}, set(), False),
]


@pytest.mark.parametrize(
    ("breaking", "extra", "kinds", "in_total"), BREAKS, ids=lambda x: getattr(x, "__name__", None)
)
def test_what_is_broken_on_purpose_is_caught(
    breaking: Callable[[Any], None], extra: dict[str, Any], kinds: set[str], in_total: bool
) -> None:
    model = sizer.load({**MIXTRAL, **extra})
    module = oracle.build(model)
    assert compare_with(model, oracle.tensors(module)) == []

    breaking(module)
    found = oracle.tensors(module)
    assert {d.kind for d in compare_with(model, found)} == kinds
    assert {d.kind for d in own_module(model, "theirs", found).differences} == kinds
    assert bool(compare_with(model, found, level="total")) == in_total
    assert bool(compare_with(model, found, level="component")) == in_total


def test_a_router_that_we_count_twice_is_caught() -> None:
    model = sizer.load(MIXTRAL)
    found = oracle.tensors(oracle.build(model))
    ours = model.tensors(layout="transformers")
    router = next(t for t in ours if t.component == "router")

    twice = compare([*ours, router], found)
    assert [(d.kind, d.name, d.ours) for d in twice] == [("twice", router.name, "2 times")]
    assert [d.kind for d in compare([*ours, router], found, level="total")] == ["total"]


# -- checkpoints ------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, and the file that transformers' module makes of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    module = transformers.GPT2LMHeadModel(transformers.GPT2Config.from_dict(dict(GPT2)))
    safetensors.save_model(module, "model.safetensors")
    torch.save(module.state_dict(), "model.pt")
    return tmp_path


def edited(change: Callable[[dict[str, Any]], None]) -> None:
    tensors = safetensors.load_file("model.safetensors")
    change(tensors)
    safetensors.save_file(tensors, "model.safetensors")


@pytest.mark.parametrize("file", ["model.safetensors", "model.pt"])
@pytest.mark.parametrize("level", ["total", "component", "names"])
def test_formula_module_and_file_are_equal(sizer_cli: Run, saved: Path, file: str, level: str) -> None:
    code, out, err = sizer_cli("verify", "config.json", "--checkpoint", file, "--level", level, "--json")
    document = json.loads(out)

    assert (code, err, document["differences"]) == (0, "", [])
    assert document["compared_with"] == ["torch", file]


def test_names_of_the_base_model_alone(sizer_cli: Run, saved: Path) -> None:
    def strip(tensors: dict[str, Any]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)

    edited(strip)
    code, out, _ = sizer_cli("verify", "config.json", "--checkpoint", "model.safetensors")
    assert code == 0
    assert "read under transformer." in out


def both_names(t: dict[str, Any]) -> None:
    for stored, other in (("lm_head", "transformer.wte"), ("transformer.wte", "lm_head")):
        if f"{stored}.weight" in t:
            t[f"{other}.weight"] = t[f"{stored}.weight"].clone()


def masks(t: dict[str, Any]) -> None:
    for i in range(2):
        t[f"transformer.h.{i}.attn.bias"] = torch.ones(1, 1, 5, 5)
        t[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)


def half(t: dict[str, Any]) -> None:
    for name in t:
        t[name] = t[name].to(torch.bfloat16)


@pytest.mark.parametrize("change", [both_names, masks, half])
def test_what_may_be_in_a_file(sizer_cli: Run, saved: Path, change: Callable[[Any], None]) -> None:
    edited(change)
    code, out, _ = sizer_cli("verify", "config.json", "--checkpoint", "model.safetensors")
    assert code == 0, out


C_FC = "transformer.h.1.mlp.c_fc"


def file_without_bias(t: dict[str, Any]) -> None:
    del t[f"{C_FC}.bias"]


def file_transposed(t: dict[str, Any]) -> None:
    t[f"{C_FC}.weight"] = t[f"{C_FC}.weight"].T.contiguous()


def file_without_layer(t: dict[str, Any]) -> None:
    for name in [n for n in t if n.startswith("transformer.h.1.")]:
        del t[name]


def file_with_more(t: dict[str, Any]) -> None:
    t["transformer.h.2.ln_1.weight"] = torch.ones(8)


def file_padded_head(t: dict[str, Any]) -> None:
    for name in ("transformer.wte.weight", "lm_head.weight"):
        t[name] = torch.zeros(11, 8)
    t["lm_head.weight"] = torch.zeros(16, 8)


def file_dtype(t: dict[str, Any]) -> None:
    t[f"{C_FC}.weight"] = t[f"{C_FC}.weight"].to(torch.float16)


FILES = [
    (file_without_bias, "only here", True),
    (file_transposed, "shape", False),
    (file_without_layer, "only here", True),
    (file_with_more, "missing here", True),
    (file_padded_head, "missing here", True),
    (file_dtype, "dtype", False),
]


@pytest.mark.parametrize(("change", "kind", "in_total"), FILES, ids=[f[0].__name__ for f in FILES])
def test_a_file_that_differs(
    sizer_cli: Run, saved: Path, change: Callable[[Any], None], kind: str, in_total: bool
) -> None:
    edited(change)
    command = ("verify", "config.json", "--checkpoint", "model.safetensors", "--json")
    code, out, err = sizer_cli(*command)

    assert (code, err) == (1, "")
    assert {(d["kind"], d["against"]) for d in json.loads(out)["differences"]} == {
        (kind, "model.safetensors")
    }
    assert sizer_cli(*command, "--level", "total")[0] == int(in_total)


def test_an_untied_head_that_is_not_in_the_file(sizer_cli: Run, saved: Path) -> None:
    (saved / "config.json").write_text(json.dumps({**GPT2, "tie_word_embeddings": False}))
    code, out, _ = sizer_cli("verify", "config.json", "--checkpoint", "model.safetensors", "--json")

    assert code == 1
    assert {d["kind"] for d in json.loads(out)["differences"]} == {"only here"}


def test_names_of_the_module_in_memory(sizer_cli: Run, tmp_path: Path) -> None:
    """transformers 5 keeps a block's experts in two tensors, and `torch.save` writes them so."""
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig.from_dict(dict(MIXTRAL)))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL))
    code, out, _ = sizer_cli(
        "verify", str(tmp_path / "config.json"), "--checkpoint", str(tmp_path / "model.pt")
    )

    assert code == 0, out
    assert "the names of the module in memory" in out


def test_a_file_of_another_model(sizer_cli: Run, saved: Path) -> None:
    safetensors.save_file({"wt.weight": torch.zeros(3)}, "model.safetensors")
    code, out, _ = sizer_cli("verify", "config.json", "--checkpoint", "model.safetensors")

    assert code == 1
    assert "read under" not in out
    assert "wt.weight" in out


def test_a_dtype_that_is_asked_for(sizer_cli: Run, saved: Path) -> None:
    command = ("verify", "config.json", "--checkpoint", "model.safetensors", "--dtype")

    assert sizer_cli(*command, "fp32")[0] == 0
    assert sizer_cli(*command, "bf16")[0] == 1
    assert sizer_cli(*command, "bf61")[0] == 2


def test_a_checkpoint_is_enough_where_there_is_no_public_module(sizer_cli: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "palm.safetensors")
    model = sizer.load("palm-8b", n_layers=1, d_model=8, n_heads=2, vocab_size=11)
    safetensors.save_file({t.name: torch.zeros(t.shape) for t in model.tensors() if t.tied_to is None}, path)
    sizes = [f"--set={s}" for s in ("n_layers=1", "d_model=8", "n_heads=2", "vocab_size=11")]
    code, out, _ = sizer_cli("verify", "palm-8b", *sizes, "--checkpoint", path)

    assert code == 0, out
    assert "not compared with torch" in out


# -- modules of one's own ---------------------------------------------------------------------

MODULE = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

def build():
    print("hello")
    return GPT2LMHeadModel(GPT2Config(n_embd=8, n_head=2, n_layer=2, vocab_size=11, n_positions=5))

def untied():
    model = build()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model

class Small(torch.nn.Linear):
    def __init__(self, width, height=3, *, bias):
        super().__init__(width, height, bias)

class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.up = torch.nn.Linear(4, 4, bias=False)
        self.up.weight.requires_grad = False
        self.head = torch.nn.Linear(4, 4, bias=False)
        self.head.weight = self.up.weight
        self.register_buffer("table", torch.zeros(3), persistent=False)

def unshaped():
    return torch.nn.LazyLinear(4)

def anything(**options):
    return torch.nn.Linear(options["width"], 3)

def wrong():
    return 7

def failing():
    return build() and {}["lost"]

def leaving():
    raise SystemExit("bye")

net = torch.nn.Linear(2, 3, device="meta")
number = 7
"""


@pytest.fixture
def own(saved: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of the user's in the folder where sizer is called; its name is new each time."""
    name = f"pkg_{abs(hash(str(saved))):x}"
    (saved / name).mkdir()
    (saved / name / "__init__.py").write_text("")
    (saved / name / "model.py").write_text(MODULE)
    (saved / name / "broken.py").write_text("import nonsense_library\n")
    return f"{name}.model"


def test_a_module_of_ones_own(sizer_cli: Run, own: str) -> None:
    before = list(sys.path)
    code, out, err = sizer_cli("verify", "config.json", "--module", f"{own}:build")
    assert code == 0, out
    assert f"equal with {own}:build" in out
    assert (err, sys.path) == ("hello\n", before)

    code, out, _ = sizer_cli("verify", "config.json", "--module", f"{own}:untied", "--json")
    assert code == 1
    assert [d["kind"] for d in json.loads(out)["differences"]] == ["tie"]

    code, out, _ = sizer_cli(
        "verify", "config.json", "--module", f"{own}:untied", "--level", "total", "--json"
    )
    # The head once more: 11 rows of 8.
    total = 2 * (12 * 64 + 13 * 8) + 16 * 8 + 2 * 8
    (found,) = json.loads(out)["differences"]
    assert (code, found["ours"], found["theirs"]) == (1, f"{total:,}", f"{total + 88:,}")


FACTORIES = [
    ("{}:bild", ["no name named 'bild'", "'build'"]),
    ("{}:Small", ["needs arguments: width, bias", "set = "]),
    ("{}:wrong", ["makes a int", "torch.nn.Module"]),
    ("{}:number", ["is a int", "neither"]),
    ("{}:failing", ["fails: KeyError: 'lost'", "model.py:"]),
    ("{}:leaving", ["fails: SystemExit: bye"]),
    ("{}s:build", ["there is no module"]),
    ("{1}.broken:build", ["importing", "ModuleNotFoundError", "'nonsense_library'", "broken.py:1"]),
    ("nonsense_package.model:build", ["there is no module 'nonsense_package'"]),
    ("model.build", ["package.module:function"]),
    ("os; print():x", ["package.module:function"]),
]


@pytest.mark.parametrize(("name", "fragments"), FACTORIES)
def test_a_factory_that_is_none(sizer_cli: Run, own: str, name: str, fragments: list[str]) -> None:
    code, out, err = sizer_cli("verify", "config.json", "--module", name.format(own, own.partition(".")[0]))

    assert (code, out) == (2, "")
    message = err.removeprefix("hello\n")
    assert message.count("\n") == 1
    assert all(fragment in message for fragment in fragments), message


def test_a_factory_in_a_file_of_totals(sizer_cli: Run, saved: Path, own: str) -> None:
    # 3 · 2 weights, and 3 biases: what torch.nn.Linear has.
    (saved / "sizer.toml").write_text(
        f'[[model]]\nfactory = "{own}:Small"\nset = {{ width = 2, bias = true }}\nparams = 9\n'
        "limits = ['weights <= 36 bytes']\n"
        f'[[model]]\nfactory = "{own}:net"\nparams = 9\ntrainable = 9\nweights = {{ bytes = 36 }}\n'
        f'[[model]]\nfactory = "{own}:untied"\nparams = 1\n'
        f'[[model]]\nfactory = "{own}:anything"\nset = {{ width = 2 }}\nparams = 9\n'
    )
    code, out, _ = sizer_cli("check")
    # GPT-2 of width 8: 12D²+13D a block, 11 + 5 rows, a last norm, and the head once more.
    total = 2 * (12 * 64 + 13 * 8) + 16 * 8 + 2 * 8 + 11 * 8

    assert code == 1
    assert "3 of 4 models as expected" in out
    assert f"{total:,}" in out

    (saved / "sizer.toml").write_text(
        f'[[model]]\nfactory = "{own}:Small"\nset = {{ widht = 2 }}\nparams = 9\n'
        f'[[model]]\nfactory = "{own}:failing"\nparams = 9\n'
        f'[[model]]\nfactory = "{own}:unshaped"\nparams = 9\n'
        f'[[model]]\nfactory = "{own}:net"\nset = {{ width = 2 }}\nparams = 9\n'
    )
    code, _, err = sizer_cli("check")
    lines = err.removeprefix("hello\n").splitlines()
    assert code == 2
    assert len(lines) == 4
    assert "'widht'" in lines[0]
    assert "did you mean 'width'" in lines[0]
    assert "KeyError" in lines[1]
    assert "2 parameters have no shape before the module has run once" in lines[2]
    assert "is a module already and takes no arguments (width)" in lines[3]


def test_the_lock_of_a_factory(sizer_cli: Run, saved: Path, own: str) -> None:
    """Whether a tensor is learned, stored, and another's, as the module of the text above has it."""
    (saved / "sizer.toml").write_text(f'[[model]]\nname = "mixed"\nfactory = "{own}:Mixed"\n')
    assert sizer_cli("check", "--update")[0] == 0

    assert json.loads((saved / "sizer.lock").read_text())["models"]["mixed"] == {
        "components": {"norm": 8, "other": 16},
        "tensors": {
            "table": "[3] float32 other buffer, not stored",
            "norm.weight": "[4] float32 norm",
            "norm.bias": "[4] float32 norm",
            "norm.running_mean": "[4] float32 norm buffer",
            "norm.running_var": "[4] float32 norm buffer",
            "norm.num_batches_tracked": "[] int64 norm buffer",
            "up.weight": "[4, 4] float32 other frozen",
            "head.weight": "[4, 4] float32 other frozen = up.weight",
        },
    }


def test_neither_a_config_nor_a_checkpoint_leads_to_an_import(sizer_cli: Run, saved: Path) -> None:
    (saved / "evil.py").write_text("open('imported', 'w')\n")
    code_of_its_own = {
        "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil:Model"},
        "attn_implementation": "evil/kernel",
        "_attn_implementation": "evil/kernel",
        "experts_implementation": "evil/kernel",
    }
    (saved / "config.json").write_text(json.dumps({**GPT2, **code_of_its_own}))
    tensors = safetensors.load_file("model.safetensors")
    safetensors.save_file(tensors, "model.safetensors", metadata={"factory": "evil:Model", "format": "pt"})
    code, out, err = sizer_cli("verify", "config.json", "--checkpoint", "model.safetensors")

    assert (code, err) == (0, ""), out
    assert not (saved / "imported").exists()
    # The name of a factory is no model: it is not imported where a model is expected.
    assert sizer_cli("verify", "evil:Model")[0] == 2
    assert sizer_cli("count", "evil:Model")[0] == 2
    assert not (saved / "imported").exists()


# -- all at once ------------------------------------------------------------------------------

FEW = [
    Target("gpt2-small", group="gpt2"),
    Target("palm-8b", group="palm"),
    Target("gpt2", "GPT2Model", "gpt2"),
]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verify_all, "targets", lambda which: FEW)
    return tmp_path


def test_all_in_two_processes_saved_and_resumed(sizer_cli: Run, few: Path) -> None:
    command = ("verify", "--all", "--resume", "done.jsonl")
    code, out, _ = sizer_cli(*command, "--jobs", "2", "--save", "report.xml")
    assert code == 0, out
    assert "2 equal, 0 differ, 1 without a public module" in out
    suite = ET.parse("report.xml").getroot()[0]
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == ["3", "0", "1"]

    # Those that are equal are not compared again, and a line that a stop cut off is no harm.
    lines = (few / "done.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["name"] for line in lines) == ["gpt2 (GPT2Model)", "gpt2-small", "palm-8b"]
    lines = [json.dumps({**json.loads(line), "params": 42}) for line in lines]
    (few / "done.jsonl").write_text("\n".join(lines) + '\n{"name": "gp')
    code, out, _ = sizer_cli(*command, "--save", "report.json", "--json")
    assert code == 0
    assert [m["params"] for m in json.loads(out)["models"]] == [42, 0, 42]
    assert json.loads((few / "report.json").read_text()) == json.loads(out)
    # Another level is compared anew.
    code, out, _ = sizer_cli(*command, "--level", "total", "--json")
    assert [m["params"] for m in json.loads(out)["models"]] == [124_439_808, 0, 124_439_808]


def test_all_where_one_differs(sizer_cli: Run, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = oracle.build

    def build(model: Any) -> Any:
        module = real(model)
        if model.name == "gpt2-small":
            for block in module.transformer.h:
                block.mlp.c_fc.bias = None
        return module

    monkeypatch.setattr(oracle, "build", build)
    code, out, _ = sizer_cli("verify", "--all", "--save", "report.md")
    assert code == 1
    row = "only here transformer.h.{0-11}.mlp.c_fc.bias: [3072] / –"
    assert row in out
    assert row in (few / "report.md").read_text()


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (("--all", "--only", "preset"), "did you mean 'presets'"),
        (("--all", "--jobs", "0"), "at least one process"),
        (("--all", "--save", "x.txt"), ".json, .md or .xml"),
        (("--all", "--what", "flops"), "name one model"),
        (("--all", "--checkpoint", "x"), "name one model for --checkpoint"),
        (("gpt2-small", "--jobs", "2"), "go with it"),
        (("gpt2-small", "--all"), "--all names no model"),
        (("gpt2-small", "--what", "flops", "--save", "x.json"), "do not go with"),
        (("gpt2-small", "--checkpoint", "nope"), "there is no file 'nope'"),
    ],
)
def test_what_cannot_be_asked(sizer_cli: Run, args: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli("verify", *args)

    assert (code, out) == (2, "")
    assert fragment in err
    assert err.count("\n") == 1


def test_a_resume_file_that_is_none(sizer_cli: Run, few: Path) -> None:
    (few / "done.jsonl").write_text("[]\n")
    code, _, err = sizer_cli("verify", "--all", "--resume", "done.jsonl")

    assert code == 2
    assert "done.jsonl:1 is no outcome" in err


def test_every_required_text_type_is_among_all() -> None:
    types = {model_type for model_type, _ in text_types()}

    # docs/coverage.md: the text model types of transformers 5.24.
    assert len(types) == 253
    assert {"llama", "bert", "t5", "mamba2", "deepseek_v3", "encoder-decoder"} <= types


# Types whose defaults transformers leaves unfinished, and composites whose head has a part's configuration.
HARD = ["dbrx", "encoder-decoder", "gemma4_assistant", "llama4", "longcat_flash", "lfm2_moe", "reformer"]


@pytest.mark.parametrize("model_type", HARD)
def test_types_with_defaults_that_need_more(model_type: str) -> None:
    from sizer.oracles.many import outcome

    for name, cls in text_types():
        if name == model_type:
            found = outcome(Target(name, cls), "names")
            assert (found.result, found.reason) == ("equal", "")
