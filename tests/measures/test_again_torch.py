"""Selective checkpointing and a loss in chunks against real steps; offloading by what leaves the device."""

from __future__ import annotations

import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils import checkpoint  # noqa: E402

import sizer  # noqa: E402
from sizer.errors import SizerError  # noqa: E402
from sizer.measures.step.simulate import settings  # noqa: E402
from sizer.oracles.memory import DTYPES, measure  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


aten = torch.ops.aten
PRODUCTS = [
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
]


class Chunked(torch.nn.Module):
    """A causal model whose head and loss run for some tokens at a time, each chunk checkpointed."""

    def __init__(self, model: Any, chunks: int) -> None:
        super().__init__()
        self.model, self.chunks, self.config = model, chunks, model.config

    def forward(self, input_ids: Any, labels: Any) -> Any:
        def part(rows: Any, targets: Any) -> Any:
            logits = self.model.lm_head(rows).float()
            return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

        hidden = self.model.base_model(input_ids).last_hidden_state
        moved = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous().view(-1)
        flat, total = hidden.reshape(-1, hidden.shape[-1]), None
        for rows, targets in zip(flat.chunk(self.chunks), moved.chunk(self.chunks), strict=True):
            one = checkpoint.checkpoint(part, rows, targets, use_reentrant=False)
            total = one if total is None else total + one
        return SimpleNamespace(loss=total, hidden=hidden)


def llama(draw: random.Random) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": draw.choice([50, 211]),
        "hidden_size": 48,
        "num_hidden_layers": draw.choice([1, 4]),
        "num_attention_heads": 4,
        "num_key_value_heads": draw.choice([2, 4]),
        "intermediate_size": draw.choice([40, 64]),
        "max_position_embeddings": 64,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("what", ["selective", "matmuls", "chunks"])
def test_what_runs_again(what: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    draw = random.Random(f"{what} {seed}")
    config = llama(draw)
    precision = draw.choice(["fp32", "bf16"] if what == "chunks" else ["fp32", "bf16", "autocast"])
    attention = draw.choice(["eager", "sdpa"]) if what == "matmuls" else "eager"
    sizes = {"batch_size": draw.choice([1, 3]), "seq_len": draw.choice([7, 33])}
    own = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    module = transformers.LlamaForCausalLM._from_config(
        transformers.LlamaConfig(**own),
        attn_implementation=attention,
        dtype=getattr(torch, DTYPES[precision]),
    )
    how: dict[str, Any]
    if what == "selective":
        eager, again = modeling_llama.eager_attention_forward, checkpoint.checkpoint
        monkeypatch.setattr(
            modeling_llama,
            "eager_attention_forward",
            lambda *tensors, **rest: again(eager, *tensors, use_reentrant=False, **rest),
        )
        how = {"checkpointing": "selective"}
    elif what == "matmuls":
        contexts = partial(checkpoint.create_selective_checkpoint_contexts, PRODUCTS)
        module.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": contexts})
        how = {"checkpointing": "matmuls"}
    else:
        how = {"loss_chunks": draw.choice([2, 4])}
        module = Chunked(module, how["loss_chunks"])

    real = measure(module, precision=precision, **sizes)
    found = sizer.load(config).memory(precision=precision, attention=attention, **sizes, **how)

    # Labels moved by one stand a little longer here than in a real forward pass.
    off = {phase: found.peaks[phase] / real.peaks[phase] - 1 for phase in real.peaks}
    assert all(abs(share) < 0.001 for share in off.values()), off
    assert found.peaks["backward"] - real.peaks["backward"] == 0
    assert found.label == "exact"


def test_what_is_offloaded_leaves_the_device() -> None:
    model = sizer.load("gpt2-small")
    how: dict[str, Any] = {"batch_size": 4, "seq_len": 512, "attention": "eager"}
    plain, full = model.memory(**how), model.memory(checkpointing="full", **how)
    states = model.memory(offload="optimizer", **how)
    gradients = model.memory(offload="gradients", **how)
    inputs = model.memory(checkpointing="full", offload="activations", **how)

    # AdamW keeps two copies of 124,439,808 parameters in 16 bits, and 148 steps of 4 bytes.
    assert states.host_bytes == 2 * 2 * 124_439_808 + 4 * 148 == plain.optimizer_bytes
    assert plain.peaks["backward"] - states.peaks["backward"] == states.host_bytes
    assert states.peaks["step"] - gradients.peaks["step"] == 2 * 124_439_808
    # The inputs of twelve layers, [4, 512, 768] in 16 bits, of which the first is the embeddings' sum.
    assert full.peaks["backward"] - inputs.peaks["backward"] == 12 * 4 * 512 * 768 * 2
    assert {states.label, gradients.label, inputs.label} == {"estimate"}


BAD = [
    ({"offload": "activations"}, "add --checkpointing full"),
    ({"offload": "optimiser"}, "did you mean 'optimizer'"),
    ({"loss_chunks": 0}, "not a number from 1 to 1024"),
    ({"checkpointing": "selectiv"}, "did you mean 'selective'"),
]


@pytest.mark.parametrize(("options", "fragment"), BAD, ids=lambda value: str(value)[:30])
def test_what_cannot_run(options: dict[str, Any], fragment: str) -> None:
    with pytest.raises(SizerError, match=fragment):
        settings(**options)


def test_a_masked_loss_is_not_cut() -> None:
    with pytest.raises(SizerError, match="a masked loss is not computed in chunks"):
        sizer.load("bert-base", task="masked").memory(loss_chunks=2)


def test_a_policy_that_keeps_matrix_products_computes_none_again() -> None:
    """torch's counter sees no op whose output was kept; of experts, only the grouped product."""
    from torch.utils.flop_counter import FlopCounterMode

    config = llama(random.Random(1))
    own = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    module = transformers.LlamaForCausalLM._from_config(
        transformers.LlamaConfig(**own), attn_implementation="eager"
    ).train()
    contexts = partial(checkpoint.create_selective_checkpoint_contexts, PRODUCTS)
    module.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": contexts})
    ids = torch.ones((2, 9), dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        module(input_ids=ids, labels=ids, use_cache=False).loss.backward()

    found = sizer.load(config).flops(2, 9, "eager", "matmuls")
    experts = sizer.load("mixtral-8x7b").flops(1, 64, "eager", "matmuls")
    assert found.forward + found.backward == counter.get_total_flops()
    # Three matrices of 4096 × 14336, two experts a token, 32 layers.
    assert experts.recompute == 2 * 64 * 2 * 3 * 4096 * 14336 * 32


def test_the_ledger_of_a_policy_that_keeps_matrix_products() -> None:
    """A layer keeps its input and what each product computed, and nothing else."""
    found = sizer.load(llama(random.Random(2)), n_layers=2).activations(
        precision="fp32", attention="sdpa", checkpointing="matmuls", batch_size=1, seq_len=8
    )
    c = llama(random.Random(2))
    heads, kv, ffn = 48, 12 * c["num_key_value_heads"], c["intermediate_size"]

    # q, k, v, attention with a number for each query and head, o, gate, up, down; and the input.
    layer = 8 * (heads + 2 * kv + (heads + 4) + 48 + 2 * ffn + 48 + 48) * 4
    kept = [entry for entry in found.entries if "layers" in entry.module and entry.new]
    assert sum(entry.new * entry.layers for entry in kept) == 2 * layer
