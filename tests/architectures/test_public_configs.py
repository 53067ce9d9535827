"""Configurations of public bug reports and repositories, as people have them, with the right answer.

Each is the published file without the keys that decide no size (tests/fixtures/README.md). "index":
bytes of the published index over those of an element; "meta": transformers 5.24 on the meta device;
"formula": worked out by hand in the report that is named. All were looked up on 2026-11-28.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from repository import FIXTURES

import sizer

FIXTURE = FIXTURES / "public-configs.jsonl"
CONFIGS: dict[str, Any] = {
    row["name"]: row["config"] for row in map(json.loads, FIXTURE.read_text().splitlines())
}

TOTALS = [
    # name, class or None, total, source
    ("openai-gpt-oss-20b", None, 20_914_757_184, "huggingface.js PR 2323: formula, meta"),
    ("moonshotai-Kimi-K2-Instruct", None, 1_026_408_232_448, "aiconfigurator: formula"),
    ("moonshotai-Kimi-K2.5", None, 1_026_879_376_368, "huggingface.js PR 2003: pinned revision"),
    ("mistralai-Mixtral-8x7B-v0.1", None, 46_702_792_704, "aiconfigurator: formula, index of a fine-tune"),
    ("Qwen-Qwen3-30B-A3B", None, 30_532_122_624, "LLMs-from-scratch ch. 11: formula"),
    ("repo-bloom", None, 176_247_271_424, "huggingface.js spec; index, meta"),
    # The library's default ties the head, which the published files hold.
    ("falcon-180B-chat", None, 178_557_088_768, "meta"),
    ("falcon-40b", None, 41_303_293_952, "meta"),
    ("llama4_scout_17b_16e", None, 108_641_793_536, "ome: meta, with its tower"),
    ("llama4_scout_17b_16e", "Llama4ForCausalLM", 107_769_861_120, "formula"),
    ("llama4", None, 401_583_781_376, "ome: meta, with its tower"),
    ("llama4", "Llama4ForCausalLM", 400_711_848_960, "formula"),
    # Each matrix of the MLP has half the width that the file says.
    ("Qwen-7B-Chat-Cantonese", None, 7_721_324_544, "index"),
    ("qianwen-72B", None, 72_287_920_128, "index"),
    # 12,288 becomes 8,192: two thirds, in whole multiples of 256.
    ("LiquidAI-LFM2-1.2B", None, 1_170_340_608, "meta"),
    ("Phi-2", None, 2_779_683_840, "formula"),
    ("mosaicml_mpt-7b_config", None, 6_649_286_656, "formula"),
    ("Zhuzhi-6B", None, 6_243_584_000, "formula"),
    ("config_671B", None, 671_026_419_200, "DeepSeek-V3's inference code: formula"),
    ("gpt2-xl", None, 1_557_611_200, "llm-analysis' own file of GPT-2: the published checkpoint"),
    # Edited by hand: what the file says counts, not the model whose name it has
    # (27,356,728,560 and 35,107,181,936).
    ("qwen3_5_27b", None, 18_176_980_032, "ome testdata: meta"),
    ("qwen3_5_35b_a3b", None, 22_402_981_632, "ome testdata: meta"),
    ("final_DPR", None, 108_891_648, "meta"),
    # Its tower calls itself a clip_vision_model.
    ("nvidia-MiniMax-M3-NVFP4", None, 427_040_132_864, "meta"),
]

ACTIVE = [
    ("openai-gpt-oss-20b", None, 4_187_440_704),
    ("moonshotai-Kimi-K2-Instruct", None, 32_861_500_928),
    ("mistralai-Mixtral-8x7B-v0.1", None, 12_879_925_248),
    ("Qwen-Qwen3-30B-A3B", None, 3_353_032_704),
    ("llama4_scout_17b_16e", "Llama4ForCausalLM", 17_172_894_720),
    ("llama4", "Llama4ForCausalLM", 17_184_691_200),
]

# Files that hold a head of their own: bytes of the published index over two.
SEPARATE_HEADS = [("falcon-180B-chat", 179_522_565_120), ("falcon-40b", 41_835_970_560)]


@pytest.mark.parametrize(
    ("name", "cls", "total"), [row[:3] for row in TOTALS], ids=[f"{row[0]}-{row[1]}" for row in TOTALS]
)
def test_total(name: str, cls: str | None, total: int) -> None:
    assert sizer.load(CONFIGS[name], cls=cls).count().total == total


@pytest.mark.parametrize(("name", "cls", "active"), ACTIVE, ids=[row[0] for row in ACTIVE])
def test_active(name: str, cls: str | None, active: int) -> None:
    assert sizer.load(CONFIGS[name], cls=cls).count().active == active


def test_active_without_the_table_of_tokens() -> None:
    # huggingface.js PR 2323.
    found = sizer.load(CONFIGS["openai-gpt-oss-20b"]).count()

    assert found.active - found.embedding == 3_608_307_264


@pytest.mark.parametrize(("name", "total"), SEPARATE_HEADS, ids=[row[0] for row in SEPARATE_HEADS])
def test_a_head_of_its_own(name: str, total: int) -> None:
    assert sizer.load(CONFIGS[name], tie_embeddings=False).count().total == total


@pytest.mark.parametrize("name", ["llama3-8B-eagle3", "gemma3-1b-eagle3"])
def test_a_draft_is_refused_by_name(name: str) -> None:
    with pytest.raises(sizer.SizerError, match="LlamaForCausalLMEagle3"):
        sizer.load(CONFIGS[name])
