"""The models that all are asked about, and the right answers with who says so.

None of the numbers comes from sizer. `python -m benchmarks.peers.truth`, in an environment with
torch and transformers, works the totals and the active parameters out again from real modules.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parent / "configs"
TORCH = "module of transformers 5.24 on the meta device"


@dataclass(frozen=True)
class Subject:
    """A model and what is true of it.

    `caches` lists a token's bytes in 16 bits over some layers, and the window of those layers.
    `kept_apart` are elements that some count and others do not, with good reasons on both sides.
    """

    key: str
    title: str
    repo: str
    total: int
    active: int
    input_embedding: int
    caches: tuple[tuple[int, int | None], ...]
    sources: dict[str, str]
    layout: str = "plain"
    tokens: int = 8192
    kept_apart: int = 0

    @cached_property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((CONFIGS / f"{self.key}.json").read_text())
        return found

    def kv_cache(self, tokens: int) -> int:
        """Bytes of one sequence's cache: of all its tokens, or of the last ones in a window."""
        return sum(each * min(tokens, window or tokens) for each, window in self.caches)

    def right(self, quantity: str, tokens: int | None = None) -> tuple[int, ...]:
        """The answers that are right; the first is the one printed."""
        if quantity == "total":
            return (self.total, *([self.total + self.kept_apart] if self.kept_apart else []))
        if quantity == "active":
            return (self.active, self.active - self.input_embedding)
        return (self.kv_cache(tokens or self.tokens),)


def _keys_and_values(layers: int, kv_heads: int, head: int) -> int:
    """Bytes a token of keys and values in 16 bits."""
    return layers * 2 * kv_heads * head * 2


_LLAMA_3 = "index of the published bf16 files: total_size 16,060,522,496 bytes / 2"
_CACHE = "2 · layers · KV heads · head width · 2 bytes · tokens, sizes of the published config.json"

SUBJECTS = (
    Subject(
        "gpt2",
        "gpt2",
        "openai-community/gpt2",
        total=124_439_808,
        active=124_439_808,
        input_embedding=0,
        caches=((_keys_and_values(12, 12, 64), None),),
        tokens=1024,
        layout="gpt2",
        sources={
            "total": f"{TORCH}; the file's 137,022,720 elements less 12 masks of 1024²",
            "kv": _CACHE,
        },
    ),
    Subject(
        "llama-3-8b",
        "Llama-3-8B",
        "meta-llama/Meta-Llama-3-8B",
        total=8_030_261_248,
        active=8_030_261_248,
        input_embedding=0,
        caches=((_keys_and_values(32, 8, 128), None),),
        sources={"total": _LLAMA_3, "kv": _CACHE},
    ),
    Subject(
        "mixtral-8x7b",
        "Mixtral-8x7B",
        "mistralai/Mixtral-8x7B-v0.1",
        total=46_702_792_704,
        active=12_879_925_248,
        input_embedding=32_000 * 4096,
        caches=((_keys_and_values(32, 8, 128), None),),
        sources={
            "total": f"index of the published bf16 files: total_size 93,405,585,408 bytes / 2; {TORCH}",
            "active": f"{TORCH}, experts × 2/8",
            "kv": _CACHE,
        },
    ),
    Subject(
        "deepseek-v3",
        "DeepSeek-V3",
        "deepseek-ai/DeepSeek-V3",
        total=671_026_404_352,
        active=37_552_282_624,
        input_embedding=129_280 * 7168,
        caches=((61 * (512 + 64) * 2, None),),
        layout="fp8",
        kept_apart=58 * 256,
        sources={
            "total": f"{TORCH}; 671,026,419,200 with the 58 · 256 routing corrections, which DeepSeek's own "
            "code declares as parameters",
            "active": f"{TORCH}, routed experts × 8/256",
            "kv": "(512 + 64) · 61 layers · 2 bytes · tokens: the latent and the rotary key, table 1 of "
            "DeepSeek-V2",
        },
    ),
    Subject(
        "llama-3.2-1b",
        "Llama-3.2-1B (tied)",
        "meta-llama/Llama-3.2-1B",
        total=1_235_814_400,
        active=1_235_814_400,
        input_embedding=0,
        caches=((_keys_and_values(16, 8, 64), None),),
        sources={"total": f"{TORCH}; the hub's own figure for the file", "kv": _CACHE},
    ),
    Subject(
        "llama-3-8b-gptq",
        "Llama-3-8B in 4-bit GPTQ",
        "peer/Meta-Llama-3-8B-GPTQ",
        total=8_030_261_248,
        active=8_030_261_248,
        input_embedding=0,
        caches=((_keys_and_values(32, 8, 128), None),),
        layout="gptq",
        sources={"total": f"the weights that it packs: {_LLAMA_3}", "kv": _CACHE},
    ),
    Subject(
        "gpt-oss-20b",
        "gpt-oss-20b",
        "openai/gpt-oss-20b",
        total=20_914_757_184,
        active=4_187_440_704,
        input_embedding=201_088 * 2880,
        caches=((_keys_and_values(12, 8, 64), None), (_keys_and_values(12, 8, 64), 128)),
        layout="mxfp4",
        sources={
            "total": f"{TORCH}; model card: 20.91B",
            "active": f"{TORCH}, experts × 4/32; model card, without the input embedding: 3.61B",
            "kv": "as above, every other layer keeps its window of 128 tokens (model card)",
        },
    ),
    Subject(
        "gpt-oss-120b",
        "gpt-oss-120b",
        "openai/gpt-oss-120b",
        total=116_829_156_672,
        active=5_711_982_912,
        input_embedding=201_088 * 2880,
        caches=((_keys_and_values(18, 8, 64), None), (_keys_and_values(18, 8, 64), 128)),
        layout="mxfp4",
        sources={
            "total": f"{TORCH}; model card: 116.83B",
            "active": f"{TORCH}, experts × 4/128; model card, without the input embedding: 5.13B",
            "kv": "as for gpt-oss-20b",
        },
    ),
)
