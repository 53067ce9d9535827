"""Accelerators by name, in every spelling, with their sources; files of a user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from repository import ROOT

from sizer.errors import SizerError
from sizer.planning.hardware import accelerators, hardware, hardwares, key
from sizer.planning.hardware_file import parse, read
from sizer.sources.presets import plain_toml

Run = Callable[..., tuple[int, str, str]]
FILES = sorted((ROOT / "presets" / "hardware").glob("*.toml"))
GIB = 2**30

# name as somebody writes it -> ours. The long ones are what nvidia-smi and PyTorch print.
SPELLINGS = [
    ("h100", "h100-sxm5-80gb"),
    ("H100-SXM5-80GB", "h100-sxm5-80gb"),
    ("h100-sxm", "h100-sxm5-80gb"),
    ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
    ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
    ("NVIDIA H100 NVL", "h100-nvl-94gb"),
    ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
    ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
    ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
    ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
    ("Tesla T4", "t4"),
    ("NVIDIA GeForce RTX 4090", "rtx-4090"),
    ("rtx_4090", "rtx-4090"),
    ("4090", "rtx-4090"),
    ("A100-80GB-SXM", "a100-sxm4-80gb"),
    ("A100-40GB-PCIe", "a100-pcie-40gb"),
    ("A800 80GB", "a800-sxm4-80gb"),
    ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
    ("NVIDIA H200", "h200-sxm5-141gb"),
    ("NVIDIA B200", "b200-sxm-180gb"),
    ("NVIDIA B300 SXM6", "b300-sxm-288gb"),
    ("AMD Instinct MI300X", "mi300x"),
    ("Cloud TPU v5e", "tpu-v5e"),
    ("ironwood", "tpu7x"),
    ("Intel Gaudi 3", "gaudi3"),
    ("Apple M4 Max", "m4-max"),
    ("m4-max-64gb", "m4-max-64gb"),
]


@pytest.mark.parametrize(("written", "name"), SPELLINGS)
def test_a_name_is_known_in_every_spelling(written: str, name: str) -> None:
    assert hardware(written).name == name


# Values as other public tables have them: servcalc 0.1.0 and llm-flops 0.0.1 (GB/s, dense 16-bit
# TFLOP/s), gpu-specs (winston-zhang-orz/gpu-specs, specs.md); TPUs: Google's documentation.
VALUES = [
    ("t4", 320, 65),
    ("v100-sxm2-16gb", 900, 125),
    ("a10", 600, 125),
    ("a40", 696, 149.7),
    ("rtx-a6000", 768, 154.8),
    ("rtx-6000-ada", 960, 364.2),
    ("a100-sxm4-40gb", 1555, 312),
    ("a100-sxm4-80gb", 2039, 312),
    ("a100-pcie-80gb", 1935, 312),
    ("h100-sxm", 3350, 989),
    ("h200", 4800, 989),
    ("l4", 300, 121),
    ("l40s", 864, 362),
    ("rtx-3090", 936, 71),
    ("rtx-4090", 1008, 165.2),
    ("rtx-5090", 1792, 209.5),
    ("tpu-v5e", 819, 197),
    ("tpu-v5p", 2765, 459),
    ("tpu-v6e", 1638, 918),
    ("gaudi3", 3700, 1835),
    ("mi300x", 5300, 1307.4),
]


@pytest.mark.parametrize(("name", "gb_s", "tflops"), VALUES)
def test_bandwidth_and_peak(name: str, gb_s: float, tflops: float) -> None:
    one = hardware(name)

    assert one.bandwidth_bytes_per_s == gb_s * 10**9
    assert (one.peak.get("bf16") or one.peak["fp16"]) == pytest.approx(tflops * 10**12)


# nvidia-smi's totals in MiB, as public logs show them, are an upper bound of what PyTorch sees.
@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("h100-sxm", 81559),
        ("h100-nvl", 95830),
        ("a100-80gb", 81920),
        ("a100-40gb", 40960),
        ("h200", 143771),
        ("b200", 183359),
        ("b300", 275040),
        ("l40s", 46068),
        ("l4", 23034),
        ("a10", 23028),
        ("t4", 15360),
        ("rtx-4090", 24564),
        ("rtx-5090", 32607),
        ("rtx-a6000", 49140),
        ("rtx-pro-6000", 97887),
    ],
)
def test_usable_memory_is_a_little_below_what_nvidia_smi_shows(name: str, mib: int) -> None:
    usable = hardware(name).usable_bytes / 2**20

    assert 0.94 * mib < usable < mib


def test_marketing_and_usable_memory_stand_apart() -> None:
    one = hardware("h100")

    assert (one.memory_gb, one.memory_bytes, one.usable_bytes) == (80, 80 * GIB, int(79.1 * GIB))
    assert (one.usable_label, hardware("a40").usable_label) == ("measured", "estimate")


def test_dense_and_sparse_stand_apart() -> None:
    for one in hardwares():
        for dtype, number in one.sparse.items():
            if dtype in one.peak:
                # B300's FP4 has 1.33: its dense rate was raised and its sparse one was not.
                assert 1.3 < number / one.peak[dtype] < 2.03, (one.name, dtype)


def test_every_entry_has_source_and_date_and_no_name_is_there_twice() -> None:
    found = hardwares()
    spellings = [
        key(name) for one in found for name in {key(n): n for n in (one.name, *one.aliases)}.values()
    ]

    assert len(found) >= 100
    assert {one.vendor for one in found} == {"NVIDIA", "AMD", "Google", "Intel", "Apple"}
    assert [one.name for one in found if not one.sources or not one.sources[0] or not one.date] == []
    assert sorted(name for name in set(spellings) if spellings.count(name) > 1) == []
    assert [one.name for one in found if one.usable_bytes > 1.01 * one.memory_bytes] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_shipped_file_obeys_the_rules_of_a_users_own(path: Path) -> None:
    assert read(str(path)) == accelerators(plain_toml(path.read_text()))


BAD = [
    (b"[x]\nmemory_gb = -1", ["[x]", "memory_gb = -1", "greater than 0"]),
    (b"[x]\nmemory_gb = inf", ["memory_gb = inf"]),
    (b"[x]\nmemory_gb = true", ["memory_gb = True"]),
    (b"[x]\nmemory_gb = 8\nbandwith_gb_s = 3", ["'bandwith_gb_s'", "did you mean 'bandwidth_gb_s'"]),
    (b"[x]\nmemory_gb = 8\ndense_tflops = { bf17 = 1 }", ["bf17"]),
    (b"[x]\nmemory_gb = 8\nusable_share = 1.5", ["usable_share = 1.5"]),
    (b"[x]\nwatts = 300", ["[x] needs memory_gb"]),
    (b"vendor = 'me'", ["describes no accelerator"]),
    (b"[x", ["not valid TOML"]),
    (b"\xff", ["not valid TOML"]),
    (b"x = " + b"[" * 10_000, ["nested too deeply"]),
]


@pytest.mark.parametrize(("text", "fragments"), BAD, ids=lambda x: str(x)[:30])
def test_a_bad_file_is_refused_in_a_line(text: bytes, fragments: list[str]) -> None:
    with pytest.raises(SizerError) as error:
        parse(text, "own.toml")

    assert all(fragment in str(error.value) for fragment in fragments), str(error.value)
    assert "\n" not in str(error.value)


def test_an_accelerator_of_ones_own_comes_first(tmp_path: Path, sizer_cli: Run) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[h100]\nmemory_gb = 80\nusable_gib = 70\n[mine]\nmemory_gb = 10\naliases = ["my card"]\n')

    assert hardware("h100", file=str(own)).usable_bytes == 70 * GIB
    assert hardware("MY-CARD", file=str(own)).usable_bytes == 10 * GIB
    # What is not in it is ours.
    assert hardware("h200", file=str(own)) == hardware("h200")
    code, out, _ = sizer_cli("hardware", "list", "--search", "mine", "--hardware-file", str(own), "-q")
    assert (code, out) == (0, "mine\n")


def test_a_file_that_is_none_of_accelerators(tmp_path: Path) -> None:
    large = tmp_path / "weights.toml"
    large.write_bytes(b"#" * 2_000_000)
    for path, why in ((large, "is larger than"), (tmp_path, "is no file")):
        with pytest.raises(SizerError, match=why):
            hardware("h100", file=str(path))


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(
        SizerError, match=r"rtx-4070-ti-super: its dense peak for bf16 is not known \(known: fp32\)"
    ):
        hardware("rtx-4070-ti-super").flops_per_s("bf16")
    with pytest.raises(SizerError, match="rtx-4090: link_bytes_per_s is not known"):
        hardware("rtx-4090").need("link_bytes_per_s")
    with pytest.raises(SizerError, match="no accelerator named 'h101'; did you mean 'h100'"):
        hardware("h101")


def test_hardware_on_the_command_line(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("hardware", "show", "h100", "--json")
    document = json.loads(out)

    assert code == 0
    assert document["peak_flops_per_s"]["bf16"] == 989 * 10**12
    assert document["sparse_flops_per_s"]["bf16"] == 1979 * 10**12
    assert document["link_bytes_per_s"] == 450 * 10**9
    assert any("3,072" in line for line in document["notes"])
    code, out, _ = sizer_cli("hardware", "list", "--vendor", "google", "-q")
    assert (code, out.split()[0]) == (0, "tpu-v2")
    assert sizer_cli("hardware", "list", "--vendor", "cray")[0] == 2
    assert sizer_cli("hardware", "list", "--search", "h9000")[:2] == (0, "no accelerator matches\n")
    assert sizer_cli("hardware", "show", "nothing")[0] == 2


def test_each_value_says_where_it_is_from(sizer_cli: Run) -> None:
    code, text, _ = sizer_cli("hardware", "show", "h100", "--explain")
    document = json.loads(sizer_cli("hardware", "show", "h100", "--json")[1])
    values = {value["field"]: value for value in document["values"]}

    assert code == 0
    assert all(value["source"] and value["date"] for value in values.values())
    assert "data sheet" in values["bandwidth"]["source"]
    assert "PyTorch" in values["usable"]["source"]
    # The white paper's first edition has 3,072 GB/s where the data sheet has 3.35 TB/s.
    assert values["bandwidth"]["value"] == 3_350 * 10**9
    assert any("3,072" in other for other in values["bandwidth"]["otherwise"])
    assert values["power"]["otherwise"] == []
    for part in (
        "3,350,000,000,000",
        "1, and others differ",
        "1: H100 data sheet",
        "2: PyTorch",
        "2026-11-30",
    ):
        assert part in text
    assert "H100 data sheet" in sizer_cli("hardware", "list", "--search", "h100", "--explain")[1]


def test_every_note_that_names_a_value_is_found_beside_it() -> None:
    from sizer.report.hardware import explained

    for one in hardwares():
        beside = [note for value in explained(one) for note in value["otherwise"]]
        named = [note for note in one.notes if note.partition(":")[0] in ("bandwidth", "memory", "usable")]
        assert set(named) <= set(beside), one.name
