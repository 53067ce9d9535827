"""How each peer is asked, and how its answer is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import Environment
from benchmarks.peers.grading import BINARY, SUFFIXES, Answers, Number, rounded
from benchmarks.peers.subjects import Subject

HOST = "https://huggingface.co"
DRIVERS = str(Path(__file__).with_name("drivers.py"))
GIB = 2**30


@dataclass(frozen=True)
class Place:
    """Where a peer runs: its environment, the folders of the models, a scratch folder."""

    environment: Environment
    models: Path
    scratch: Path

    def folder(self, subject: Subject) -> str:
        return str(self.models / subject.repo)

    def script(self, name: str) -> str:
        return self.environment.script(name)

    def driver(self, name: str, subject: Subject) -> list[str]:
        return [self.environment.python, DRIVERS, name, self.folder(subject), str(subject.tokens)]


# A command for a subject, or nothing where the peer has no way to be asked about it.
Ask = Callable[[Place, Subject], list[str] | None]
Read = Callable[[str, Subject], Answers]


def _document(text: str) -> Any:
    """The JSON object in what was printed, whatever stands around it."""
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


def from_json(read: Callable[[Any], dict[str, float | None]]) -> Read:
    """Whole numbers of a document."""

    def answers(text: str, _: Subject) -> Answers:
        found = read(_document(text))
        return {name: Number(value) for name, value in found.items() if value is not None}

    return answers


def read_hf_mem(document: Any) -> dict[str, float | None]:
    parts = document["memory"]["components"].values()
    return {"total": sum(p["param_count"] for p in parts), "kv": (document["kv_cache"] or {}).get("bytes")}


def read_vramscout(text: str, _: Subject) -> Answers:
    document = _document(text)
    found = {"kv": Number(round(document["parts_gib"]["KV cache"] * GIB))}
    if total := document["profile"]["num_params"]:
        found["total"] = Number(total)
    return found


def read_modelinfo(text: str, _: Subject) -> Answers:
    found = {}
    if total := re.search(r"Parameters:\s+([\d,]+)", text):
        found["total"] = rounded(total[1], SUFFIXES)
    if cache := re.search(r"KV Cache:\s+([\d.]+ \w+)", text):
        found["kv"] = rounded(cache[1], BINARY)
    return found


def read_mem_planner(text: str, _: Subject) -> Answers:
    found = {}
    for name, pattern in (
        ("total", r"TOTAL:\s+([\d.]+\w)"),
        ("active", r"total_including_embed:\s+([\d.]+\w)"),
        ("kv", r"kv_unique=([\d.]+ GiB)"),
    ):
        if line := re.search(pattern, text):
            found[name] = rounded(line[1], BINARY if name == "kv" else SUFFIXES)
    return found


def read_resource_planner(text: str, _: Subject) -> Answers:
    total, cache = re.search(r"Parameters: ~(\S+)", text), re.search(r"KV Cache @ 4k\): (.+)", text)
    assert total is not None, "no parameters"
    assert cache is not None, "no cache"
    kept = rounded(cache[1], BINARY)
    return {"total": rounded(total[1], SUFFIXES), "kv": Number(kept.value, kept.half, 4096)}


def read_llm_sizer(text: str, _: Subject) -> Answers:
    document = _document(text)
    kept = document["vram_gb"]["kv_cache"]
    digits = str(document["params_billions"])
    return {
        "total": rounded(f"{digits.removesuffix('.0')}B", SUFFIXES),
        "kv": rounded(f"{kept:.2f} GB", BINARY),
    }


def read_accelerate(text: str, _: Subject) -> Answers:
    row = re.search(r"float32\s*│[^│]*│([^│]*)│", text)
    assert row is not None, "no row of float32"
    return {"total": rounded(row[1], BINARY).scaled(1 / 4)}


def read_hf_vram_calc(text: str, _: Subject) -> Answers:
    document = _document(text)
    kept = document["memory_requirements"][0]["kv_cache_size_gib"]
    return {
        "total": Number(document["model"]["parameters"]),
        "kv": rounded(f"{kept:.2f} GiB", BINARY),
    }


@dataclass(frozen=True)
class Peer:
    """A public tool. `likeness` is the way in which it reads a model; sizer is timed in the same one.

    `patched`: the package whose copy asks the loopback, where the address of the hub is in the code.
    `better`: what it would take to be as quick or as small, said where it is.
    """

    name: str
    requirements: tuple[str, ...]
    likeness: str
    ask: Ask
    read: Read
    distributions: tuple[str, ...]
    environment: str = ""
    patched: str = ""
    better: str = ""

    @property
    def home(self) -> str:
        return self.environment or self.name
