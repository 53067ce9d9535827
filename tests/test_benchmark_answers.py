"""What the benchmarks read off the peers, and what is right; no peer is installed here."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from benchmarks.peers import asking, hub, layouts
from benchmarks.peers.grading import BINARY, SUFFIXES, Number, grade, rounded
from benchmarks.peers.measuring import Asked
from benchmarks.peers.page import QUANTITIES, Row
from benchmarks.peers.subjects import SUBJECTS, Subject

BY_KEY = {subject.key: subject for subject in SUBJECTS}
LLAMA, DEEPSEEK = BY_KEY["llama-3-8b"], BY_KEY["deepseek-v3"]


@pytest.mark.parametrize(
    ("text", "units", "value", "half"),
    [
        ("8.03B", SUFFIXES, 8.03e9, 5e6),
        ("671.0254B", SUFFIXES, 671.0254e9, 5e4),
        ("8,030,261,248", SUFFIXES, 8030261248, 0),
        ("1.0 GB", BINARY, 2**30, 0.05 * 2**30),
        ("0.536 GiB", BINARY, 0.536 * 2**30, 0.0005 * 2**30),
        (" 474.7 MB ", BINARY, 474.7 * 2**20, 0.05 * 2**20),
        ("46B", SUFFIXES, 46e9, 0.5e9),
    ],
)
def test_a_printed_number_says_how_exact_it_is(
    text: str, units: dict[str, int], value: float, half: float
) -> None:
    found = rounded(text, units)

    assert (found.value, found.half) == (pytest.approx(value), pytest.approx(half))


@pytest.mark.parametrize("text", ["", "about 8B", "8.03 parsecs", "1.2.3B"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        rounded(text, SUFFIXES)


# The marks are those that the numbers of public tools have got by hand.
@pytest.mark.parametrize(
    ("number", "right", "text", "kind"),
    [
        (Number(8030261248), (8030261248,), "✓", True),
        (Number(671026419200), (671026404352, 671026419200), "✓", True),
        (Number(8.03e9, 5e6), (8030261248,), "≈", True),
        (Number(8.02e9, 5e6), (8030261248,), "✗ -0.13 %", False),
        (Number(1985941504), (8030261248,), "✗ 0.25 ×", False),
        (Number(163037184), (124439808,), "✗ 1.31 ×", False),
        (Number(14_330_000_000), (575668224,), "✗ 24.9 ×", False),
        (Number(671067257432), (671026404352, 671026419200), "✗ +40,838,232", False),
        (Number(0), (5,), "✗ 0.00 ×", False),
        (None, (5,), "–", None),
    ],
)
def test_an_answer_gets_its_mark(
    number: Number | None, right: tuple[int, ...], text: str, kind: bool | None
) -> None:
    cell = grade(number, right)

    assert (cell.text, cell.right) == (text, kind)


# Cut from what the tools print.
MODELINFO = """Parameters:      8,030,261,248 (8.0B)
                   ├─ Weights:    14.96 GB
                   ├─ KV Cache:   1.0 GB (8192 tokens)
"""
PLANNER = """TOTAL:            671.0254B params
total_including_embed: 37.5513B params
seq_len=8192 (local_seq_len≈8192): kv_unique=0.536 GiB, kv_per_rank=0.536 GiB
"""
LLM_PLAN = """--- Analyzing meta-llama/Meta-Llama-3-8B ---
Estimated Parameters: ~6.44B
Memory (KV Cache @ 4k): 2.00 GB
"""
ACCELERATE = "│ float32 │   250.0 MB    │  474.7 MB  │      1.85 GB      │"
SIZED = 'a word\n{"params_billions": 46.7, "vram_gb": {"kv_cache": 4.0}}'
SCOUT = '{"profile": {"num_params": 8030261248}, "parts_gib": {"KV cache": 1.0}}'
MEM = {
    "memory": {"components": {"Transformer": {"param_count": 8030261248}}},
    "kv_cache": {"bytes": 1073741824},
}
VRAM = '{"model": {"parameters": 163037184}, "memory_requirements": [{"kv_cache_size_gib": 0.04}]}\n💾 saved'


@pytest.mark.parametrize(
    ("read", "text", "subject", "marks"),
    [
        (asking.read_modelinfo, MODELINFO, LLAMA, {"total": "✓", "kv": "≈"}),
        (
            asking.read_mem_planner,
            PLANNER,
            DEEPSEEK,
            {"total": "✗ -1,004,352", "active": "✗ -982,624", "kv": "≈"},
        ),
        (asking.read_resource_planner, LLM_PLAN, LLAMA, {"total": "✗ 0.80 ×", "kv": "✗ 4.00 ×"}),
        (asking.read_accelerate, ACCELERATE, BY_KEY["gpt2"], {"total": "≈"}),
        (asking.read_llm_sizer, SIZED, BY_KEY["mixtral-8x7b"], {"total": "≈", "kv": "✗ 4.00 ×"}),
        (asking.read_vramscout, SCOUT, LLAMA, {"total": "✓", "kv": "✓"}),
        (asking.from_json(asking.read_hf_mem), json.dumps(MEM), LLAMA, {"total": "✓", "kv": "✓"}),
        (asking.read_hf_vram_calc, VRAM, BY_KEY["gpt2"], {"total": "✗ 1.31 ×", "kv": "≈"}),
    ],
)
def test_the_output_of_a_peer_is_read(
    read: asking.Read, text: str, subject: Subject, marks: dict[str, str]
) -> None:
    row = Row("peer", "1", "config", asked={subject.key: Asked(read(text, subject))})

    assert {name: row.cell(name, subject).text for name in QUANTITIES if row.answers(name)} == marks


# Elements that the published files hold: by the hub's own figures, and by hand for the packed ones.
@pytest.mark.parametrize(
    ("key", "elements"),
    [
        ("gpt2", 137_022_720),
        ("llama-3-8b-gptq", 1_985_941_504),
        ("gpt-oss-20b", 1_804_459_584 + 9_555_148_800 + 597_196_800),
    ],
)
def test_files_hold_what_the_published_ones_do(tmp_path: Path, key: str, elements: int) -> None:
    subject = BY_KEY[key]
    folder = tmp_path / subject.repo
    layouts.write(folder, subject)

    assert sum(layouts.stored(folder).values()) == elements
    assert layouts.weights_file(folder).exists()
    assert sum(f.stat().st_blocks * 512 for f in folder.iterdir()) < 10_000_000

    with hub.running(tmp_path) as address:
        said = json.load(urllib.request.urlopen(f"{address}/api/models/{subject.repo}"))
        first = next(entry for entry in said["siblings"] if entry["rfilename"].endswith(".safetensors"))
        asked = urllib.request.Request(
            f"{address}/{subject.repo}/resolve/main/{first['rfilename']}", headers={"range": "bytes=0-7"}
        )
        length = int.from_bytes(urllib.request.urlopen(asked).read(), "little")

    assert said["safetensors"]["total"] == elements
    assert 8 < length < first["size"]


def test_files_that_do_not_add_up_are_refused() -> None:
    wrong_total = Subject("gpt2", "", "a/b", 124_439_809, 1, 0, (), {}, layout="gpt2")

    with pytest.raises(SystemExit, match="124,439,808, the published total is 124,439,809"):
        layouts.tensors(wrong_total)


# Config sizes by hand: MLA keeps 512 + 64 elements a layer; a window keeps its last 128 tokens.
@pytest.mark.parametrize(
    ("key", "tokens", "cache"),
    [
        ("llama-3-8b", 8192, 2**30),
        ("deepseek-v3", 8192, 575_668_224),
        ("deepseek-v3", 4096, 287_834_112),
        ("gpt-oss-20b", 100, 24 * 2 * 8 * 64 * 2 * 100),
        ("gpt-oss-20b", 8192, 12 * 2048 * (8192 + 128)),
    ],
)
def test_the_right_cache(key: str, tokens: int, cache: int) -> None:
    assert BY_KEY[key].kv_cache(tokens) == cache
