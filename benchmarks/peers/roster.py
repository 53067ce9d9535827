"""The peers, and sizer itself: what is installed, asked, and what a quicker one does differently."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.asking import (
    Peer,
    Place,
    from_json,
    read_accelerate,
    read_hf_mem,
    read_hf_vram_calc,
    read_llm_sizer,
    read_mem_planner,
    read_modelinfo,
    read_resource_planner,
    read_vramscout,
)
from benchmarks.peers.environments import ROOT
from benchmarks.peers.layouts import weights_file
from benchmarks.peers.subjects import SUBJECTS, Subject

# A build for the processor alone: the one for GPUs is 5 GB, and none of the peers asks for one.
TORCH = "torch==2.13.0+cpu"
ON_TORCH = (
    TORCH,
    "transformers==5.24.0",
    "numpy",
    "calflops==0.3.2",
    "torchinfo==1.8.0",
    "accelerate==1.15.0",
    "hf-vram-calc==1.0.9",
)


def weights(place: Place, subject: Subject) -> str:
    return str(weights_file(place.models / subject.repo))


def named(names: dict[str, str], command: Any) -> Any:
    """Asks by the name that a tool's own table has, where it has one."""

    def ask(place: Place, subject: Subject) -> list[str] | None:
        return command(place, names[subject.key]) if subject.key in names else None

    return ask


def _json(total: str, kv: str | None = None, active: str | None = None) -> Any:
    """Reads whole numbers at paths such as `model.params`."""

    def at(document: Any, path: str | None) -> Any:
        for part in path.split(".") if path else ():
            document = document[part]
        return document if path else None

    return from_json(lambda d: {"total": at(d, total), "active": at(d, active), "kv": at(d, kv)})


def vramcalc_answers(document: Any) -> dict[str, float | None]:
    found = document["estimate"]
    return {"total": found["weights"] / 2, "kv": found["kv_cache"]}


PEERS = (
    Peer(
        "llm-flops",
        ("llm-flops==0.0.1",),
        "config",
        lambda place, s: [
            *(place.script("llm-flops"), "estimate", s.repo, "-s", str(s.tokens), "--gpu", "none"),
            *("--no-backward", "--json"),
        ],
        _json("parameters", "kv_cache", "active_parameters"),
        ("llm-flops",),
        patched="llmflops",
        better="a built-in table of configurations and arithmetic on them, with nothing imported but "
        "the standard library; sizer reads any configuration and checks it, and would have to parse its "
        "command line without click",
    ),
    Peer(
        "ridgepoint",
        ("ridgepoint==0.1.2",),
        "hub headers",
        lambda place, s: [place.script("ridgepoint"), "fit", s.repo, "--ctx", str(s.tokens), "--json"],
        _json("model.params", "capacity.bytes_per_seq"),
        ("ridgepoint",),
        patched="ridgepoint",
        better="its arithmetic is compiled Rust over a handful of fields; sizer would have to give up "
        "checking an index against its shards and telling packed tensors apart",
    ),
    Peer(
        "vramcalc",
        ("vramcalc==0.1.2",),
        "config",
        lambda place, s: [place.script("vramcalc"), place.folder(s), "--seq", str(s.tokens), "--json"],
        from_json(vramcalc_answers),
        ("vramcalc",),
        better="five dense families as one formula on argparse, without dependencies; sizer builds a tree of "
        "tensors, from a table of several hundred model types, and starts click",
    ),
    Peer(
        "hf-mem",
        ("hf-mem==0.5.6",),
        "hub headers",
        lambda place, s: [
            *(place.script("hf-mem"), "--model-id", s.repo, "--experimental", "--json-output", "--details"),
            *("--max-model-len", str(s.tokens), "--kv-cache-dtype", "bfloat16"),
        ],
        from_json(read_hf_mem),
        ("hf-mem",),
        patched="hf_mem",
        better="it asks for the headers of all shards at once over HTTP/2 and adds up what they hold; sizer "
        "would have to ask side by side and leave the hub's official client",
    ),
    Peer(
        "modelinfo-cli",
        ("modelinfo-cli==1.4.4",),
        "files",
        lambda place, s: [
            *(place.script("modelinfo"), weights(place, s), "--context", str(s.tokens)),
        ],
        read_modelinfo,
        ("modelinfo-cli",),
        better="it adds up element counts without looking at what packs what",
    ),
    Peer(
        "llm-mem-planner",
        ("llm-mem-planner==0.2.2",),
        "config",
        lambda place, s: [
            *(place.script("llm-mem"), "--config", f"{place.folder(s)}/config.json"),
            *("--seq-len", str(s.tokens)),
        ],
        read_mem_planner,
        ("llm-mem-planner",),
        better="one family, DeepSeek's, on argparse, without dependencies",
    ),
    Peer(
        "llm-resource-planner",
        ("llm-resource-planner==0.2.0",),
        "config",
        lambda place, s: [place.script("llm-plan"), place.folder(s)],
        read_resource_planner,
        ("llm-resource-planner",),
    ),
    Peer(
        "llm-sizer",
        ("llm-sizer==0.1.0",),
        "name",
        named(
            {"llama-3-8b": "llama-3-8b", "mixtral-8x7b": "mixtral-8x7b", "deepseek-v3": "deepseek-v3"},
            lambda place, name: [
                *(place.script("llm-sizer"), "--model", name, "--context", "8192", "--json"),
            ],
        ),
        read_llm_sizer,
        ("llm-sizer",),
    ),
    Peer(
        "vramscout",
        ("vramscout==0.7.0",),
        "hub",
        lambda place, s: [
            *(place.script("vramscout"), s.repo, "--context", str(s.tokens), "--kv-dtype", "bf16"),
            # Room for all of them: it exits 1 where a model does not fit.
            *("--vram-gib", "100000", "--json"),
        ],
        read_vramscout,
        ("vramscout",),
        better="it takes the total that the hub states and opens no header",
    ),
    Peer(
        "llm-analysis",
        ("llm-analysis==0.2.2", "transformers==4.31.0"),
        "config",
        lambda place, s: place.driver("llm_analysis", s),
        _json("total", "kv"),
        ("llm-analysis",),
    ),
    Peer(
        "torchinfo",
        ON_TORCH,
        "config",
        lambda place, s: place.driver("torchinfo", s),
        _json("total"),
        ("torchinfo", "torch", "transformers"),
        environment="torch",
    ),
    Peer(
        "calflops",
        ON_TORCH,
        "config",
        lambda place, s: place.driver("calflops", s),
        _json("total"),
        ("calflops", "transformers"),
        environment="torch",
    ),
    Peer(
        "accelerate",
        ON_TORCH,
        "hub",
        lambda place, s: [
            *(place.script("accelerate"), "estimate-memory", s.repo, "--dtypes", "float32"),
            *("--library_name", "transformers"),
        ],
        read_accelerate,
        ("accelerate", "transformers"),
        environment="torch",
    ),
    Peer(
        "hf-vram-calc",
        ON_TORCH,
        "config",
        lambda place, s: [
            *(place.script("hf-vram-calc"), "--model", s.repo, "--model_path", place.folder(s)),
            *("--dtype", "bf16", "--max_seq_len", str(s.tokens), "--output_json", "/dev/stdout"),
        ],
        read_hf_vram_calc,
        ("hf-vram-calc",),
        environment="torch",
    ),
)


def _sizer(name: str, likeness: str, *words: str, read: Any = None, hub: bool = False) -> Peer:
    """sizer asked in one way, with `{config}`, `{weights}`, `{repo}`, `{file}` and `{tokens}` filled in."""

    def ask(place: Place, subject: Subject) -> list[str]:
        known = {
            "config": f"{place.folder(subject)}/config.json",
            "weights": weights(place, subject),
            "repo": subject.repo,
            "file": weights_file(place.models / subject.repo).name,
            "tokens": subject.tokens,
        }
        return [place.script("sizer"), *(word.format(**known) for word in words), "--json"]

    return Peer(
        name,
        (f"{ROOT}[hub]" if hub else str(ROOT),),
        likeness,
        ask,
        read or _json("params.total", active="params.active"),
        ("model-sizer", "huggingface-hub") if hub else ("model-sizer",),
        "sizer-hub" if hub else "sizer",
    )


# The presets of the models, where they have one.
PRESETS = {s.key: s.key for s in SUBJECTS if s.layout != "gptq"} | {"gpt2": "gpt2-small"}
OURS = (
    Peer(
        "sizer count PRESET",
        (str(ROOT),),
        "name",
        named(PRESETS, lambda place, name: [place.script("sizer"), "count", name, "--json"]),
        _json("params.total", active="params.active"),
        ("model-sizer",),
        "sizer",
    ),
    _sizer("sizer count CONFIG", "config", "count", "{config}"),
    _sizer(
        "sizer kv-cache CONFIG",
        "cache",
        *("kv-cache", "{config}", "--seq-len", "{tokens}"),
        read=from_json(lambda document: {"kv": document["bytes"]}),
    ),
    _sizer("sizer count WEIGHTS", "files", "count", "{weights}"),
    _sizer("sizer count hub:NAME", "hub", "count", "hub:{repo}", hub=True),
    _sizer("sizer count hub:NAME/WEIGHTS", "hub headers", "count", "hub:{repo}/{file}", hub=True),
)
