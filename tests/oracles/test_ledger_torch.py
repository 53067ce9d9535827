"""`sizer.testing.count_module` and `sizer.summary` on live modules; needs torch."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sizer  # noqa: E402
from sizer.testing import assert_params, count_module  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
nn = torch.nn


def llama() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    )
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(config)


def gpt2() -> Any:
    with torch.device("meta"):
        return transformers.GPT2LMHeadModel(transformers.GPT2Config())


def test_a_live_8b_module_is_counted_in_50_ms() -> None:
    module = llama()
    times = []
    for _ in range(5):
        start = time.process_time()
        found = count_module(module)
        times.append(time.process_time() - start)

    assert found.total == 8_030_261_248
    assert min(times) < 0.05


def test_equal_blocks_are_one_row() -> None:
    found = count_module(llama())
    blocks = [(name, part.copies, part.params) for name, part in found.parts.items() if "{" in name]

    # A block: 41,943,040 of attention, 176,160,768 of the MLP and two norms of 4,096.
    assert blocks[0] == ("model.layers.{0-31}", 32, 218_112_000)
    assert found.parts["model.layers.{0-31}.self_attn"].params == 41_943_040
    assert sum(name.endswith("self_attn") for name in found.parts) == 1
    assert len(found.tensors) == 32 * 9 + 3 + 2


def test_a_tie_is_counted_once_and_named() -> None:
    found = count_module(gpt2())
    ties = {t.name: t.tied_to for t in found.tensors if t.tied_to}

    assert (found.total, found.tied, found.trainable) == (124_439_808, 38_597_376, 124_439_808)
    assert ties == {"lm_head.weight": "transformer.wte.weight"}


def test_a_block_that_differs_stands_apart() -> None:
    module = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    module[2].bias = None
    for p in module[4].parameters():
        p.requires_grad = False
    found = count_module(module)

    assert {name: (p.copies, p.params, p.trainable) for name, p in found.parts.items()} == {
        "{0-1,3,5}": (4, 20, 20),
        "2": (1, 16, 16),
        "4": (1, 20, 0),
    }
    assert (found.total, found.frozen) == (116, 20)


def test_one_module_under_many_names() -> None:
    one = nn.Linear(3, 3)
    found = count_module(nn.Sequential(one, nn.ReLU(), one, one))

    assert (found.total, found.tied) == (12, 24)


def test_buffers_and_bytes() -> None:
    # 2 · 6 parameters and 2 · 6 elements of running statistics of 4 bytes, and a counter of 8.
    found = count_module(nn.BatchNorm1d(6))

    assert (found.total, found.buffers, found.bytes) == (12, 13, 24 * 4 + 8)


def test_lazy_parameters_are_said() -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
    found = count_module(module)

    assert (found.total, found.lazy) == (10, ["0.weight", "0.bias"])
    text = str(sizer.summary(module))
    assert "2 parameters have no shape before the module has run once" in text
    assert "not initialised" in text
    with pytest.raises(sizer.SizerError, match="run the module once"):
        assert_params(module, 10)

    module(torch.zeros(1, 3))
    assert count_module(module).total == 3 * 4 + 4 + 10


SUMMARY = """\
module           class            copies         each       params    share
───────────────  ───────────────  ──────  ───────────  ───────────  ───────  ────────────────────────────────
GPT2LMHeadModel  GPT2LMHeadModel          124,439,808  124,439,808  100.0 %
  transformer    GPT2Model                124,439,808  124,439,808  100.0 %
    wte          Embedding                 38,597,376   38,597,376   31.0 %
    wpe          Embedding                    786,432      786,432    0.6 %
    h.{0-11}     GPT2Block          × 12    7,087,872   85,054,464   68.3 %
    ln_f         LayerNorm                      1,536        1,536    0.0 %
  lm_head        Linear                             0            0    0.0 %  weight is transformer.wte.weight

total      124,439,808  (124M)
trainable  124,439,808
tied        38,597,376  not in the total: lm_head.weight is transformer.wte.weight
memory     497,759,232  bytes (498 MB), parameters and buffers"""


def test_summary_as_text() -> None:
    module = gpt2()

    assert str(sizer.summary(module, depth=2)) == SUMMARY
    assert "Embedding" not in str(sizer.summary(module, depth=1))
    assert "c_attn" in str(sizer.summary(module, depth=None))
    with pytest.raises(sizer.SizerError, match="depth"):
        sizer.summary(module, depth=0)


def test_summary_as_html_escapes_names() -> None:
    class Odd(nn.Module):
        pass

    Odd.__name__ = "<script>"
    module = Odd()
    module.add_module("a&b", nn.Linear(2, 2))
    html = sizer.summary(module)._repr_html_()

    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a&amp;b" in html
    assert html.count("<tr>") == 3


def test_assert_params_says_what_there_is() -> None:
    module = gpt2()
    assert_params(module, 124_439_808, trainable=124_439_808, components={"transformer.h": 85_054_464})
    with pytest.raises(AssertionError) as caught:
        assert_params(module, 163_037_184)

    assert "expected 163,037,184, found 124,439,808 (-38,597,376)" in str(caught.value)
    assert "transformer.h.{0-11}: 7,087,872" in str(caught.value)
    with pytest.raises(sizer.SizerError, match="no part 'head'"):
        assert_params(module, 124_439_808, components={"head": 1})


@pytest.mark.parametrize("model", ["gpt2-small", {"model_type": "gpt2"}])
def test_assert_params_of_a_model(model: Any) -> None:
    assert_params(model, 124_439_808, components={"norm": 38_400})
    assert_params(sizer.load(model), 124_439_808)
    with pytest.raises(AssertionError, match=r"norm: expected 1, found 38,400 \(\+38,399\)"):
        assert_params(model, 124_439_808, components={"norm": 1})


@pytest.mark.parametrize("value", [7, "gpt2", None])
def test_what_is_no_module(value: object) -> None:
    with pytest.raises(sizer.SizerError, match=r"torch\.nn\.Module"):
        count_module(value)


@pytest.mark.parametrize(
    "code",
    [
        "import sizer.testing",
        "from sizer.testing import count_module, assert_params; assert_params('gpt2-small', 124439808)",
        "import sizer.testing.plugin",
        "import sizer; sizer.summary",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(code: str) -> None:
    script = f"import sys\n{code}\nassert 'torch' not in sys.modules and 'sympy' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
