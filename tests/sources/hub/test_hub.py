"""Repositories on a hub of the test's own: what is read, what is never read, and what is said."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hub_server import COMMIT, Hub

import sizer
from sizer.errors import SizerError
from sizer.sources.hub import client, repository

for library in ("huggingface_hub", "numpy", "safetensors", "gguf"):
    pytest.importorskip(library)

GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000, "n_positions": 64}
# What transformers 5.24 builds of it: 12·64² + 13·64 a block, a norm of 2·64, 1,000 + 64 rows of 64.
GPT2_TOTAL = 168_192
CLI = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    found = Hub(tmp_path / "hub")
    for name in (
        "HF_TOKEN",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(repository, "_OPEN", type(repository._OPEN)())
    with found.running() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield found


def config(hub: Hub, name: str = "org/gpt") -> Path:
    folder = hub.root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(GPT2))
    return folder


def shards(hub: Hub, name: str = "org/two", tensors: int = 900, width: int = 512) -> dict[str, int]:
    """Two shards, whose headers are longer than a first read where there are many tensors."""
    import numpy as np
    from safetensors.numpy import save_file

    folder = hub.root / name
    folder.mkdir(parents=True)
    weight_map, headers = {}, {}
    for n, word in ((1, "up"), (2, "down")):
        file = f"model-0000{n}-of-00002.safetensors"
        names = [f"model.layers.{i}.mlp.{word}_proj.weight" for i in range(tensors)]
        save_file({name: np.zeros((8, width), np.float16) for name in names}, folder / file)
        weight_map |= dict.fromkeys(names, file)
        with (folder / file).open("rb") as opened:
            headers[file] = 8 + int.from_bytes(opened.read(8), "little")
    text = json.dumps({"metadata": {"total_size": 2 * tensors * 16 * width}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)
    return headers


def test_a_configuration_is_counted_and_no_weights_are_read(hub: Hub, sizer_cli: CLI) -> None:
    folder = config(hub)
    (folder / "model.safetensors").write_bytes(bytes(100_000))
    hub.stated = {"safetensors": {"parameters": {"F32": 168_192}, "total": 168_192}}

    code, out, err = sizer_cli("count", "hub:org/gpt", "--json")

    document = json.loads(out)
    assert (code, err, document["params"]["total"]) == (0, "", GPT2_TOTAL)
    assert document["model"] == "hub:org/gpt"
    assert document["sources"][-1] == f"hub:org/gpt at commit {COMMIT[:12]}"
    assert any("hub:org/gpt/model.safetensors" in line for line in document["assumptions"])
    assert any("store 168,192 F32" in line for line in document["assumptions"])
    assert [r.path for r in hub.log] == [
        "/api/models/org/gpt/revision/main?blobs=true",
        f"/org/gpt/resolve/{COMMIT}/config.json",
    ]


@pytest.mark.parametrize("tensors", [3, 900])
def test_of_safetensors_the_headers_are_read_and_nothing_behind_them(
    hub: Hub, sizer_cli: CLI, tensors: int
) -> None:
    headers = shards(hub, tensors=tensors)

    code, out, _ = sizer_cli("count", "hub:org/two", "-q")

    assert (code, out) == (0, f"{2 * tensors * 8 * 512}\n")
    for file, length in headers.items():
        spans = sorted(r.span for r in hub.requests(file))
        # One read of a fixed length, then the rest of the header and not a byte more.
        assert max(end for _, end in spans) <= max(length, repository.HEAD)
        assert spans[0][0] == 0
        assert all(a[1] == b[0] for a, b in pairwise(spans))
        assert sum(r.sent for r in hub.requests(file)) == max(end for _, end in spans)


def test_of_gguf_little_is_read_behind_the_header(hub: Hub, sizer_cli: CLI) -> None:
    import numpy as np
    from gguf import GGUFWriter

    folder = hub.root / "org" / "gguf"
    folder.mkdir(parents=True)
    writer = GGUFWriter(folder / "model-f16.gguf", "llama")
    writer.add_token_list([f"token {i}" for i in range(20_000)])
    for i in range(40):
        writer.add_tensor(f"blk.{i}.ffn_up.weight", np.zeros((256, 512), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    size = (folder / "model-f16.gguf").stat().st_size
    header = size - 40 * 256 * 512 * 2

    code, out, _ = sizer_cli("count", "hub:org/gguf", "-q")

    assert (code, out) == (0, f"{40 * 256 * 512}\n")
    end = max(r.span[1] for r in hub.requests(".gguf"))
    assert header < end < 2 * header + 2 * repository.HEAD < size / 4


def test_of_a_pytorch_file_the_directory_and_the_pickle_are_read(hub: Hub, sizer_cli: CLI) -> None:
    torch = pytest.importorskip("torch")
    folder = hub.root / "org" / "old"
    folder.mkdir(parents=True)
    torch.save({"h.0.mlp.c_fc.weight": torch.zeros(1024, 4096)}, folder / "pytorch_model.bin")

    code, out, _ = sizer_cli("count", "hub:org/old", "-q")

    assert (code, out) == (0, f"{1024 * 4096}\n")
    # The first read, the end of the archive with its directory, and what the pickle takes.
    assert sum(r.sent for r in hub.requests(".bin")) < 3 * 65_536 < 1024 * 4096 * 4


@pytest.mark.parametrize(
    ("target", "total"),
    [
        ("hub:org/gpt", GPT2_TOTAL),
        ("hub:org/gpt@v1.0", GPT2_TOTAL),
        ("hub:org/gpt@refs/pr/1", GPT2_TOTAL),
        (f"hub:org/gpt@{COMMIT}", GPT2_TOTAL),
        ("hub:org/gpt/config.json", GPT2_TOTAL),
        ("hub:gpt@main", GPT2_TOTAL),
        ("hub:org/two/model-00002-of-00002.safetensors", 2 * 3 * 8 * 512),
        ("hub:org/two/model.safetensors.index.json", 2 * 3 * 8 * 512),
        ("hub:org/two@v1.0/model.safetensors.index.json", 2 * 3 * 8 * 512),
        ("hub:org/parts/text", GPT2_TOTAL),
    ],
)
def test_places_on_a_hub(hub: Hub, sizer_cli: CLI, target: str, total: int) -> None:
    for name in ("org/gpt", "gpt", "org/parts/text"):
        config(hub, name)
    shards(hub, tensors=3)

    assert sizer_cli("count", target, "-q")[:2] == (0, f"{total}\n")


def test_repositories_without_sizes_in_their_list(hub: Hub, sizer_cli: CLI) -> None:
    shards(hub, tensors=900)
    hub.sizes = False

    assert sizer_cli("count", "hub:org/two", "-q")[:2] == (0, f"{2 * 900 * 8 * 512}\n")


@pytest.mark.parametrize(
    "args",
    [
        ["formula"],
        ["flops", "--seq-len", "64"],
        ["kv-cache", "--seq-len", "64"],
        ["memory", "--seq-len", "64"],
        ["tensors"],
        ["explain"],
        ["count", "--set", "n_layer=3"],
    ],
    ids=lambda args: args[0],
)
def test_every_command_takes_a_repository(hub: Hub, sizer_cli: CLI, args: list[str]) -> None:
    folder = config(hub)
    local = sizer_cli(*args, str(folder), "-q")
    assert local[0] == 0

    assert sizer_cli(*args, "hub:org/gpt", "-q") == local
    assert sizer_cli(*args, "org/gpt", "--hub", "-q") == local


def test_without_hub_nothing_is_asked(
    hub: Hub, sizer_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config(hub)
    code, out, err = sizer_cli("count", "org/gpt")
    assert (code, out, hub.log) == (2, "", [])
    assert "add --hub or write hub:org/gpt" in err

    with pytest.raises(SizerError, match="add --hub or write hub:org/gpt"):
        sizer.load("org/gpt")

    # A folder of that name goes first, with --hub too.
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "org" / "gpt"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text(json.dumps({**GPT2, "n_layer": 1}))
    assert sizer_cli("count", "org/gpt", "--hub", "-q")[1] != f"{GPT2_TOTAL}\n"
    assert hub.log == []


def test_the_python_interface(hub: Hub) -> None:
    config(hub)
    shards(hub, tensors=3)

    assert sizer.load("hub:org/gpt", n_layers=1).count().total == GPT2_TOTAL - (12 * 64**2 + 13 * 64)
    checkpoint = sizer.load_checkpoint("hub:org/two")
    assert (checkpoint.count().total, checkpoint.complete) == (2 * 3 * 8 * 512, True)
    assert f"read from hub:org/two at commit {COMMIT[:12]}" in checkpoint.remarks


def test_a_token_goes_to_the_hub_and_not_where_it_redirects(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards(hub, tensors=3)
    hub.gated = {"org/two"}
    monkeypatch.setenv("HF_TOKEN", "hf_right")

    assert sizer_cli("count", "hub:org/two", "-q")[0] == 0

    tokens = {(r.host.partition(":")[0], r.token) for r in hub.log}
    assert tokens == {("127.0.0.1", "Bearer hf_right"), ("localhost", "")}


# What is wrong -> what the one line says.
REFUSED = {
    "missing": ("hub:org/none", "has no model repository org/none, or it is private", "check the name"),
    "revision": ("hub:org/gpt@v9", "has no revision 'v9'", "/org/gpt/tree/main"),
    "gated": ("hub:org/gated", "is gated (status 401)", "accept its terms at"),
    "gated, wrong token": ("hub:org/gated", "is gated (status 403)", "set HF_TOKEN"),
    "no such file": ("hub:org/gpt/confg.json", "no file of hub:org/gpt named", "did you mean 'config.json'"),
    "no place": ("hub:org/gpt/../secret", "names no place on a hub", "write hub:org/name"),
    "no organization": ("hub:gpt", "names no place on a hub", "hub:name@main"),
    "no name": ("hub:", "names no place on a hub", "write hub:org/name"),
    "no weights": ("hub:org/empty", "without weights", "name a file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    for name in ("org/gpt", "org/gated"):
        config(hub, name)
    (hub.root / "org" / "empty").mkdir()
    (hub.root / "org" / "empty" / "README.md").write_text("nothing")
    hub.gated = {"org/gated"}
    if "token" in case:
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    target, what, next_step = REFUSED[case]

    code, out, err = sizer_cli("count", target)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err
    assert next_step in err


# How the hub behaves -> what is said; at most so many bytes of bodies are sent before that.
HOSTILE = {
    "loop": ("redirects over 5 times", 0),
    "file": ("which sizer does not follow", 0),
    "broken": ("answers with status 500", 0),
    "no list": ("answers with no list of files", 1_000),
    "other list": ("answers with no list of at most 100,000 files", 1_000),
    "few": ("sends 2 bytes of", 1_000),
    "endless list": ("lists files in over", 2 * client.MAX_LISTING),
    "compressed": ("compresses what it was asked to send as it is", 1_000),
    "other range": ("sends other bytes than it was asked for", 100_000),
    "other size": ("bytes and sends", 100_000),
    "short": ("does not answer as a hub", 1_000),
}


@pytest.mark.parametrize("behaviour", HOSTILE)
def test_hubs_that_misbehave(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr(client.time, "sleep", lambda _: None)
    shards(hub, tensors=3)
    hub.behaviour = behaviour
    what, most = HOSTILE[behaviour]

    code, out, err = sizer_cli("count", "hub:org/two/model-00001-of-00002.safetensors")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err
    small = sum(r.sent for r in hub.log if "index.json" not in r.path and "/api/" not in r.path)
    assert small <= most or "list" in behaviour
    assert sum(r.sent for r in hub.log) <= most + 30_000 + 4_000_000 * ("list" in behaviour)


@pytest.mark.parametrize("tensors", [3, 900])
@pytest.mark.parametrize("behaviour", ["no ranges", "long"])
def test_answers_longer_than_asked_for_are_cut(
    hub: Hub, sizer_cli: CLI, behaviour: str, tensors: int
) -> None:
    headers = shards(hub, tensors=tensors, width=4096)
    hub.behaviour = behaviour

    assert sizer_cli("count", "hub:org/two", "-q")[:2] == (0, f"{2 * tensors * 8 * 4096}\n")

    # The connection is closed behind the header; what had left by then stands in buffers of the system.
    for file, length in headers.items():
        size = (hub.root / "org" / "two" / file).stat().st_size
        assert all(r.sent <= min(size, length + 8_000_000) for r in hub.requests(file))


def test_of_a_hub_without_ranges_the_ends_of_files_are_not_read(hub: Hub, sizer_cli: CLI) -> None:
    torch = pytest.importorskip("torch")
    folder = hub.root / "org" / "old"
    folder.mkdir(parents=True)
    # The directory of the archive is behind two megabytes of weights.
    torch.save({"w": torch.zeros(1024, 512)}, folder / "pytorch_model.bin")
    hub.behaviour = "no ranges"

    code, out, err = sizer_cli("count", "hub:org/old", "-q")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "ignores ranges" in err


@pytest.mark.parametrize("sizes", [True, False], ids=["sizes", "no sizes"])
def test_an_answer_without_a_length_ends_where_the_file_does(hub: Hub, sizer_cli: CLI, sizes: bool) -> None:
    config(hub)
    hub.behaviour, hub.sizes = "no length", sizes

    assert sizer_cli("count", "hub:org/gpt", "-q") == (0, f"{GPT2_TOTAL}\n", "")


@pytest.mark.parametrize(
    ("behaviour", "token", "said"),
    [
        ("ghost", "", "the hub lists a file and does not have it"),
        ("bad token", "hf_wrong", "does not accept the token (status 401); check HF_TOKEN"),
        ("bad token", "", "has no model repository org/gpt, or it is private (status 401)"),
        ("", "hf_\u00e4", "HF_TOKEN holds characters that no token has"),
    ],
    ids=["ghost", "token", "no token", "characters"],
)
def test_what_a_hub_refuses(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch, behaviour: str, token: str, said: str
) -> None:
    (hub.root / "org" / "gpt").mkdir(parents=True)
    hub.behaviour = behaviour
    if token:
        monkeypatch.setenv("HF_TOKEN", token)

    code, out, err = sizer_cli("count", "hub:org/gpt")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"F32": 168_192, "BF16": "many", "F16" * 9: 1, "I8": -1}, ["store 168,192 F32"]),
        (None, []),
        ([1], []),
    ],
    ids=["some", "none", "list"],
)
def test_what_a_hub_says_of_headers_is_said_where_it_can_be(
    hub: Hub, parameters: Any, said: list[str]
) -> None:
    folder = config(hub)
    (folder / "model.safetensors").write_bytes(bytes(100))
    hub.stated = {"safetensors": {"parameters": parameters}}

    lines = [line for line in sizer.load("hub:org/gpt").assumptions if "the hub says" in line]

    assert [line.partition("files ")[2] for line in lines] == said


def test_a_folder_in_place_of_a_configuration_is_an_error(hub: Hub) -> None:
    folder = hub.root / "org" / "odd" / "config.json"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("a")

    with pytest.raises(SizerError, match=r"config\.json is a folder, not a file"):
        sizer.load("hub:org/odd")


@pytest.mark.parametrize("width", [512, 4096])
def test_a_size_that_a_hub_never_says(hub: Hub, sizer_cli: CLI, width: int) -> None:
    shards(hub, tensors=3, width=width)
    hub.behaviour, hub.sizes = "no size", False

    code, out, err = sizer_cli("count", "hub:org/two/model-00001-of-00002.safetensors", "-q")

    # A short file ends within the first read; of a longer one nobody knows where it does.
    assert (code, out) == ((0, f"{2 * 3 * 8 * 512}\n") if width == 512 else (2, ""))
    assert ("does not say how large" in err) == (width == 4096)


def test_an_empty_file_needs_no_request(hub: Hub, sizer_cli: CLI) -> None:
    (config(hub) / "config.json").write_bytes(b"")

    code, _, err = sizer_cli("count", "hub:org/gpt")

    assert (code, "config.json is empty" in err, len(hub.log)) == (2, True, 1)


def test_small_values_within_files_are_not_asked_for(hub: Hub) -> None:
    """Each of the shapes that compressed-tensors stores would be a request of its own."""
    import numpy as np
    from safetensors.numpy import save_file

    folder = hub.root / "org" / "packed"
    folder.mkdir(parents=True)
    values = {"packed": np.zeros((64, 32), np.int32), "scale": np.ones((64, 1), np.float16)}
    values["shape"] = np.array([64, 256])
    path = folder / "model.safetensors"
    save_file({f"q.weight_{name}": value for name, value in values.items()}, path)
    assert sizer.load_checkpoint(path).count().total == 64 * 256

    found = sizer.load_checkpoint("hub:org/packed")

    assert (found.count().total, found.complete) == (0, False)
    assert len(hub.requests(".safetensors")) == 1


def test_of_many_files_few_beginnings_are_kept(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    shards(hub, tensors=3)
    monkeypatch.setattr(repository, "MAX_KEPT", 500)
    files = [f"hub:org/two/model-0000{i}-of-00002.safetensors" for i in (1, 2)]

    for file in (*files, files[0]):
        assert sizer.load_checkpoint(file).count().total == 2 * 3 * 8 * 512

    # Of the numbered set both are read each time, and none is kept.
    assert len(hub.requests("00001-of-00002.safetensors")) > 1


def test_of_many_repositories_the_last_are_kept(hub: Hub) -> None:
    names = [f"org/gpt{i}" for i in range(9)]
    for name in names:
        config(hub, name)

    for name in (*names, names[8], names[0]):
        assert sizer.load(f"hub:{name}").count().total == GPT2_TOTAL

    listings = [r.path.split("/")[4] for r in hub.log if "/api/" in r.path]
    assert listings == [name.partition("/")[2] for name in (*names, names[0])]


def test_an_endless_file_is_left_behind_its_beginning(hub: Hub, sizer_cli: CLI) -> None:
    shards(hub, tensors=3)
    hub.behaviour = "endless"

    code, _, err = sizer_cli("count", "hub:org/two/model-00001-of-00002.safetensors")

    assert code == 2
    assert err.count("\n") == 1
    assert sum(r.sent for r in hub.requests(".safetensors")) < 20_000_000


def test_a_hub_that_is_too_slow_is_given_up(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch
) -> None:
    config(hub)
    monkeypatch.setattr(client, "PATIENCE", -1.0)

    code, _, err = sizer_cli("count", "hub:org/gpt")

    assert (code, "sends too slowly" in err) == (2, True)


@pytest.mark.parametrize(
    ("bound", "value", "what"),
    [("MAX_TOTAL", 20_000, "over 20,000 bytes to read"), ("MAX_REQUESTS", 3, "over 3 requests")],
)
def test_all_reads_together_are_bounded(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, what: str
) -> None:
    shards(hub, tensors=900)
    monkeypatch.setattr(client, bound, value)

    code, _, err = sizer_cli("count", "hub:org/two")

    assert (code, what in err) == (2, True)


def test_a_busy_hub_is_asked_again(hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(client.time, "sleep", waits.append)
    config(hub)
    hub.busy, hub.retry_after = 2, "3"
    assert sizer_cli("count", "hub:org/gpt", "-q")[:2] == (0, f"{GPT2_TOTAL}\n")
    assert waits == [3, 3]

    hub.busy, hub.retry_after = 9, "1"
    code, _, err = sizer_cli("count", "hub:org/gpt@v1.0")
    assert (code, "limits requests (status 429)" in err) == (2, True)

    hub.busy, hub.retry_after = 9, "86400"
    code, _, err = sizer_cli("count", f"hub:org/gpt@{COMMIT}")
    assert (code, "asks to wait 86,400 seconds" in err) == (2, True)


def cached(tmp_path: Path, name: str = "org/gpt") -> Path:
    """The layout of the cache of huggingface_hub, with one file."""
    folder = tmp_path / "home" / "hub" / f"models--{name.replace('/', '--')}"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT / "config.json").write_text(json.dumps(GPT2))
    return folder


def test_the_layout_of_the_cache_is_that_of_the_client(tmp_path: Path) -> None:
    from huggingface_hub import try_to_load_from_cache

    folder = cached(tmp_path)

    found = try_to_load_from_cache("org/gpt", "config.json", cache_dir=tmp_path / "home" / "hub")
    assert found == str(folder / "snapshots" / COMMIT / "config.json")


def test_a_file_in_the_cache_is_read_from_there(hub: Hub, sizer_cli: CLI, tmp_path: Path) -> None:
    config(hub)
    cached(tmp_path)

    assert sizer_cli("count", "hub:org/gpt", "-q")[:2] == (0, f"{GPT2_TOTAL}\n")
    assert [r.path for r in hub.log] == ["/api/models/org/gpt/revision/main?blobs=true"]


def test_the_cache_knows_the_size_that_the_hub_does_not_say(hub: Hub, sizer_cli: CLI, tmp_path: Path) -> None:
    config(hub)
    cached(tmp_path)
    hub.sizes = False

    assert sizer_cli("count", "hub:org/gpt", "-q")[:2] == (0, f"{GPT2_TOTAL}\n")
    assert len(hub.log) == 1


def test_what_the_cache_has_lost_is_not_there(
    hub: Hub, sizer_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = cached(tmp_path) / "snapshots" / COMMIT
    (snapshot / "model.safetensors").symlink_to("../../blobs/none")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert sizer_cli("count", "hub:org/gpt", "-q")[:2] == (0, f"{GPT2_TOTAL}\n")
    code, _, err = sizer_cli("count", "hub:org/gpt/model.safetensors")
    assert (code, "no file of hub:org/gpt" in err) == (2, True)

    (snapshot / "config.json").unlink()

    code, _, err = sizer_cli("count", "hub:org/gpt")
    assert (code, "HF_HUB_OFFLINE is set" in err) == (2, True)


@pytest.mark.parametrize("why", ["offline", "unreachable"])
def test_without_a_network_the_cache_answers(
    hub: Hub, sizer_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    cached(tmp_path)
    if why == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    code, out, _ = sizer_cli("count", "hub:org/gpt", "--json")
    document = json.loads(out)
    assert (code, document["params"]["total"], hub.log) == (0, GPT2_TOTAL, [])
    assert document["sources"][-1].endswith("read from the local cache alone")

    code, out, err = sizer_cli("count", "hub:org/other")
    assert (code, out, err.count("\n"), hub.log) == (2, "", 1, [])
    assert ("HF_HUB_OFFLINE is set" if why == "offline" else "check the network and HF_ENDPOINT") in err


def test_names_that_leave_the_repository_are_dropped(hub: Hub, sizer_cli: CLI, tmp_path: Path) -> None:
    config(hub)
    hub.behaviour = "traversal"
    assert sizer_cli("count", "hub:org/gpt", "-q")[0] == 0
    assert all(".." not in name for name in repository.place("hub:org/gpt")[0].sizes)


def test_without_the_extra_the_extra_is_named(sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = sizer_cli("count", "hub:org/gpt")
    assert (code, "needs the 'hub' extra" in err) == (2, True)


def test_a_bar_is_shown_on_a_terminal_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    shards(hub, tensors=3)
    sizer.load_checkpoint("hub:org/two")
    assert capfd.readouterr().err == ""

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    sizer.load_checkpoint("hub:org/two@v1.0")
    assert "headers" in capfd.readouterr().err


@pytest.mark.parametrize("endpoint", ["ftp://127.0.0.1", "nonsense", "http://[", "http://127.0.0.1:9"])
def test_endpoints_that_are_none(
    hub: Hub, sizer_cli: CLI, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    code, out, err = sizer_cli("count", "hub:org/gpt")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "HF_ENDPOINT" in err


@pytest.mark.parametrize("endpoint", ["http://[", "nonsense", "http://", "https://host:port"])
def test_an_endpoint_is_read_before_the_client_is(endpoint: str) -> None:
    """The client parses the variable as it is imported, so a process of its own is what shows it."""
    import subprocess

    command = [sys.executable, "-m", "sizer", "count", "hub:org/gpt"]
    environment = {**os.environ, "HF_ENDPOINT": endpoint}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "HF_ENDPOINT" in done.stderr


def test_nothing_of_the_client_is_imported_before_it_is_needed() -> None:
    import subprocess

    code = (
        "import sys\nfrom sizer.cli import main\nmain(['count', 'gpt2-small', '-q'])\n"
        "print([m for m in sys.modules if m.startswith(('huggingface_hub', 'httpx', 'sizer.sources.hub.c'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert os.environ.get("HF_ENDPOINT") is None or done.stderr == ""
