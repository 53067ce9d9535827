"""LoRA and DoRA in a training step, against PEFT's own modules on the CPU."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

import sizer  # noqa: E402
from sizer.oracles.memory import DTYPES, measure  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 50,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50,
    "n_embd": 48,
    "n_head": 4,
    "n_layer": 3,
    "n_positions": 64,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
SIZES = {"batch_size": 2, "seq_len": 17}


class Box:
    """A saved tensor; the graph that saved it holds it, and nothing else does."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach()


def still_saved(module: Any) -> tuple[int, int]:
    """Bytes and number of the tensors that are saved when the forward pass is over, each storage once.

    DoRA multiplies its two matrices with a graph that is gone by then.
    """
    outside = {t.untyped_storage()._cdata for t in [*module.parameters(), *module.buffers()]}
    boxes: Any = weakref.WeakSet()

    def pack(tensor: Any) -> Box:
        box = Box(tensor)
        boxes.add(box)
        return box

    ids = torch.ones((SIZES["batch_size"], SIZES["seq_len"]), dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        out = module(input_ids=ids, labels=ids, use_cache=False)
    gc.collect()
    storages = {box.tensor.untyped_storage()._cdata: box.tensor.untyped_storage() for box in boxes}
    found = sum(storage.nbytes() for key, storage in storages.items() if key not in outside), len(boxes)
    assert out.loss is not None
    return found


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(
    ("config", "targets"),
    [
        (LLAMA, ["q_proj", "v_proj"]),
        (LLAMA, ["gate_proj", "down_proj", "o_proj"]),
        (LLAMA, ["k_proj"]),
        (LLAMA, ["all-linear"]),
        (GPT2, ["c_attn"]),
        (GPT2, ["c_attn", "c_fc", "c_proj"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else value["model_type"],
)
def test_what_an_adapted_step_keeps(
    config: dict[str, Any], targets: list[str], attention: str, precision: str, dora: bool
) -> None:
    own = {key: value for key, value in config.items() if key not in ("model_type", "architectures")}
    module = getattr(transformers, config["architectures"][0])._from_config(
        transformers.AutoConfig.for_model(config["model_type"], **own),
        attn_implementation=attention,
        dtype=getattr(torch, DTYPES[precision]),
    )
    adapters = peft.LoraConfig(
        r=4,
        target_modules=targets[0] if targets == ["all-linear"] else targets,
        use_dora=dora,
        fan_in_fan_out=config is GPT2,
    )
    module = peft.get_peft_model(module, adapters)
    saved, real = still_saved(module), measure(module, precision=precision, **SIZES)

    lora = f"r=4,target={'+'.join(targets)}{',dora' if dora else ''}"
    model = sizer.load(config)
    how = {"precision": precision, "attention": attention, "lora": lora, **SIZES}
    ledger, found = model.activations(**how), model.memory(**how)

    assert (ledger.total, ledger.n_tensors) == saved
    assert found.peaks == real.peaks
