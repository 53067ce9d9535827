"""Files as people have them, and as they should not be: what is answered, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import Entry, raw, safetensors, sharded
from repository import ROOT

import sizer
from sizer.sources.checkpoints import files

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints"
Run = Callable[..., tuple[int, str, str]]

# fixture, exit code, the number on stdout, what stderr must say
CASES: list[tuple[str, int, str, list[str]]] = [
    ("duplicate_key.safetensors", 2, "", ["'w' twice"]),
    ("empty.safetensors", 2, "", ["is empty", "download it again"]),
    ("negative_dim.safetensors", 2, "", ["-1", "negative"]),
    ("gguf_dims_wrap.gguf", 2, "", ["over 2^63 elements"]),
    ("gguf_empty_key.gguf", 2, "", ["key is empty"]),
    ("gguf_kv_5e8.gguf", 2, "", ["500,000,000 metadata keys"]),
    ("gguf_ndims_9.gguf", 2, "", ["9 dimensions"]),
    ("gguf_zero_dim.gguf", 2, "", ["dimension of zero"]),
    ("gguf_split_0of2.gguf", 1, "6400", ["missing: part 2 of 2", "cut off", "known so far"]),
    # What a file states of itself is not counted.
    ("inflated_total_parameters.safetensors", 0, "200", []),
    ("metadata_null.safetensors", 0, "6", []),
    ("metadata_empty.safetensors", 0, "6", []),
]


@pytest.mark.parametrize(("name", "code", "number", "said"), CASES, ids=[case[0] for case in CASES])
def test_fixtures(sizer_cli: Run, name: str, code: int, number: str, said: list[str]) -> None:
    found, out, err = sizer_cli("count", str(FIXTURES / name), "-q")

    assert (code, number) == (found, out.strip())
    assert all(fragment in err for fragment in said)
    if code == 2:
        assert err.count("\n") == 1


# what is wrong, the bytes of a file, what the error says
HOSTILE_SAFETENSORS: list[tuple[str, bytes, str]] = [
    ("too short", b"\0" * 9, "9 bytes, too few"),
    ("header beyond the file", (1000).to_bytes(8, "little") + b"{}", "cut off within its header"),
    ("header of 2^64-1", b"\xff" * 8 + b"{}", "18,446,744,073,709,551,615 bytes"),
    ("no object", raw(b"[1,2,3]    "), "not a JSON object"),
    ("broken object", raw(b'{"a":'), "not valid JSON"),
    ("text behind", raw(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}x', 1), "text follows"),
    ("text between", raw(b'{x"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1), "not valid JSON"),
    ("nested deeply", raw(b'{"a":' + b"[" * 200_000 + b"}"), "nested too deeply"),
    ("unknown dtype", raw(b'{"a":{"dtype":"F23","shape":[1],"data_offsets":[0,4]}}', 4), "dtype named 'F23'"),
    ("no shape", raw(b'{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4), "dtype, shape and data_offsets"),
    ("shape of text", raw(b'{"a":{"dtype":"F32","shape":"x","data_offsets":[0,4]}}', 4), "whole numbers"),
    (
        "shape of booleans",
        raw(b'{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', 1),
        "whole numbers",
    ),
    ("huge shape", raw(b'{"a":{"dtype":"U8","shape":[9999999999,9999999999],"data_offsets":[0,1]}}'), "2^63"),
    ("wrong span", raw(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', 4), "takes 8 bytes"),
    ("end before begin", raw(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}', 4), "span -4"),
    (
        "half a byte",
        raw(b'{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}', 2),
        "no whole number of bytes",
    ),
    ("text behind nothing", raw(b"{}   x", 0), "text follows the header's object"),
    (
        "twice, in another order",
        raw(
            b'{"a":{"shape":[1],"dtype":"U8","data_offsets":[0,1]},'
            b'"a":{"shape":[1],"dtype":"U8","data_offsets":[1,2]}}',
            2,
        ),
        "the key 'a' twice",
    ),
    (
        "wrong span, in another order",
        raw(b'{"a":{"shape":[2],"dtype":"F32","data_offsets":[0,4]}}', 4),
        "takes 8 bytes",
    ),
    (
        "overlap",
        raw(
            b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
            b'"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}',
            3,
        ),
        "overlaps the tensor before it",
    ),
    (
        "hole",
        raw(
            b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
            b'"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}',
            5,
        ),
        "leaves a hole",
    ),
    ("data nobody has", raw(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', 9), "7 bytes follow"),
    ("metadata of numbers", raw(b'{"__metadata__":{"a":1}}'), "no pair of two texts"),
    (
        "name that is no text",
        raw(b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "not UTF-8",
    ),
]


@pytest.mark.parametrize(
    ("data", "message"), [row[1:] for row in HOSTILE_SAFETENSORS], ids=[row[0] for row in HOSTILE_SAFETENSORS]
)
def test_hostile_safetensors(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)

    with pytest.raises(sizer.SizerError, match=r"model\.safetensors") as caught:
        sizer.load_checkpoint(path).count()
    assert message in str(caught.value)


def test_spaces_order_and_escapes_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    text = '{ "a\\u00e9" : {"shape" : [2, 3], "data_offsets":[0, 24], "dtype":"F32"},\n'
    text += ' "__metadata__":{"k":"v"}}'
    path.write_bytes(raw(text.encode(), 24))

    found = sizer.load_checkpoint(path)

    assert [(t.name, t.shape, t.dtype, t.bytes) for t in found.stored] == [("aé", (2, 3), "fp32", 24)]
    assert found.metadata == {"k": "v"}


def test_cut_off_data_is_said_and_the_header_counted(tmp_path: Path, sizer_cli: Run) -> None:
    path = safetensors(tmp_path / "model.safetensors", {"w": ("F32", [10, 10])})
    path.write_bytes(path.read_bytes()[:-4])

    code, out, err = sizer_cli("count", str(path), "--json")

    document = json.loads(out)
    assert (code, document["params"]["total"], document["complete"]) == (1, 100, False)
    assert "cut off" in err
    assert "cut off" in document["problems"][0]


SHARDS: list[dict[str, Entry]] = [
    {"model.embed_tokens.weight": ("BF16", [100, 8])},
    {"model.layers.0.mlp.up_proj.weight": ("BF16", [32, 8]), "model.norm.weight": ("BF16", [8])},
]


@pytest.mark.parametrize(
    "name",
    ["", "model.safetensors.index.json", "model-00001-of-00002.safetensors"],
    ids=lambda n: n or "folder",
)
def test_shards_are_one_checkpoint(tmp_path: Path, sizer_cli: Run, name: str) -> None:
    sharded(tmp_path / "m", list(SHARDS))

    assert sizer_cli("count", str(tmp_path / "m" / name), "-q") == (0, f"{100 * 8 + 32 * 8 + 8}\n", "")


def test_a_missing_shard_is_named_with_what_the_index_knows(tmp_path: Path, sizer_cli: Run) -> None:
    sharded(tmp_path / "m", list(SHARDS))
    (tmp_path / "m" / "model-00002-of-00002.safetensors").unlink()

    code, out, err = sizer_cli("count", str(tmp_path / "m"), "--json")

    document = json.loads(out)
    assert (code, document["params"]["total"]) == (1, 800)
    assert document["missing"] == [{"file": "model-00002-of-00002.safetensors", "tensors": 2, "bytes": None}]
    assert "missing: model-00002-of-00002.safetensors, with 2 of the tensors" in err


def test_numbered_shards_without_an_index_name_the_missing_one(tmp_path: Path, sizer_cli: Run) -> None:
    sharded(tmp_path / "m", list(SHARDS)).unlink()
    (tmp_path / "m" / "model-00001-of-00002.safetensors").unlink()

    code, out, err = sizer_cli("count", str(tmp_path / "m"), "-q")

    assert (code, out) == (1, f"{32 * 8 + 8}\n")
    assert "missing: model-00001-of-00002.safetensors" in err


def test_a_pointer_of_git_lfs_is_told_from_the_file(tmp_path: Path, sizer_cli: Run) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n"
    (tmp_path / "model.safetensors").write_bytes(pointer)

    code, out, err = sizer_cli("count", str(tmp_path / "model.safetensors"))

    assert (code, out) == (2, "")
    assert "548,105,171 bytes" in err
    assert "git lfs pull" in err


def test_a_shard_that_is_a_pointer_is_missing(tmp_path: Path, sizer_cli: Run) -> None:
    sharded(tmp_path / "m", list(SHARDS))
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 528\n"
    (tmp_path / "m" / "model-00002-of-00002.safetensors").write_bytes(pointer)

    code, _, err = sizer_cli("count", str(tmp_path / "m"))

    assert code == 1
    assert "of 528 bytes, a Git LFS pointer" in err


def test_an_index_alone_says_what_it_states(tmp_path: Path, sizer_cli: Run) -> None:
    index = sharded(tmp_path / "m", list(SHARDS), total_parameters=1064)
    for shard in (tmp_path / "m").glob("*.safetensors"):
        shard.unlink()

    code, out, err = sizer_cli("count", str(index), "--json")

    document = json.loads(out)
    assert (code, document["params"]["total"], document["stored"]["bytes"]) == (1, None, 2128)
    assert {"reading": "2 bytes each", "params": 1064} in document["readings"]
    assert document["stated"]["total_parameters"] == 1064
    assert "missing" in err


@pytest.mark.parametrize(
    ("metadata", "known"),
    [({"total_size": 2128}, "3 tensors and 2,128 bytes"), ({}, "3 tensors")],
    ids=["size", "no size"],
)
def test_an_index_alone_has_no_count_in_python(tmp_path: Path, metadata: dict[str, int], known: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    weight_map = {f"{name}.weight": "model.safetensors" for name in "abc"}
    path.write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))

    with pytest.raises(sizer.SizerError, match=rf"missing: model\.safetensors, of {known}$"):
        sizer.load_checkpoint(path).count()


def test_numbered_shards_alone_have_no_count_in_python(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 500\n"
    for i in (1, 2):
        (tmp_path / f"m-0000{i}-of-00003.safetensors").write_bytes(pointer)

    found = sizer.load_checkpoint(tmp_path / "m-00001-of-00003.safetensors")

    with pytest.raises(sizer.SizerError, match=r"m-00001-of-00003\.safetensors and 2 more, of 1,000 bytes"):
        found.count()


@pytest.mark.parametrize("name", ["m-00003-of-00002.safetensors", "m-00001-of-00000.safetensors"])
def test_a_number_beyond_the_set_is_a_file_of_its_own(tmp_path: Path, sizer_cli: Run, name: str) -> None:
    safetensors(tmp_path / name, {"w": ("F32", [4])})

    assert sizer_cli("count", str(tmp_path / name), "-q") == (0, "4\n", "")


def test_an_index_of_any_name_stands_for_the_files_beside_it(tmp_path: Path, sizer_cli: Run) -> None:
    sharded(tmp_path / "m", list(SHARDS))
    for path in list((tmp_path / "m").iterdir()):
        text = path.read_bytes().replace(b"model-0", b"other-0")
        path.with_name(path.name.replace("model", "other")).write_bytes(text)
        path.unlink()

    assert sizer_cli("count", str(tmp_path / "m"), "-q") == (0, f"{100 * 8 + 32 * 8 + 8}\n", "")


def test_a_folder_of_very_many_files_asks_for_one(
    tmp_path: Path, sizer_cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LISTED", 3)
    for i in range(4):
        safetensors(tmp_path / f"{i}.safetensors", {"w": ("F32", [4])})

    code, out, err = sizer_cli("count", str(tmp_path))
    assert (code, out) == (2, "")
    assert "over 3 files; name the one to read" in err
    code, out, err = sizer_cli("count", str(tmp_path / "4.safetensors"))
    assert (code, "there is no file" in err, "did you mean" in err) == (2, True, False)


def test_a_configuration_too_large_to_be_one_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"{" + b" " * 8_000_000 + b"}")
    tensors: dict[str, Entry] = {
        "q.qweight": ("I32", [8, 64]), "q.scales": ("F16", [1, 64]), "q.g_idx": ("I32", [64])
    }  # fmt: skip

    found = sizer.load_checkpoint(safetensors(tmp_path / "m.safetensors", tensors))

    assert found.count().total == 64 * 64
    assert "not read" in found.remarks[0]
    assert "over 8,000,000 bytes, too large for a configuration" in found.remarks[0]


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras); convert it"),
        (b"tjgg\3\0\0\0", "from before GGUF"),
        (b"\x93NUMPY\1\0", "a numpy file"),
    ],
    ids=["hdf5", "ggjt", "numpy"],
)
@pytest.mark.parametrize("name", ["weights.h5", "model.bin", "model"])
def test_formats_that_are_known_and_not_read(
    tmp_path: Path, sizer_cli: Run, start: bytes, said: str, name: str
) -> None:
    (tmp_path / name).write_bytes(start + bytes(100))

    code, out, err = sizer_cli("count", str(tmp_path / name))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def _changed(index: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    values = json.loads(index.read_text())
    change(values)
    index.write_text(json.dumps(values))
    return index


CONTRADICTIONS: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    (
        "lists what no file has",
        lambda v: v["weight_map"].update(x=next(iter(v["weight_map"].values()))),
        "lists x",
    ),
    ("leaves out", lambda v: v["weight_map"].pop("model.norm.weight"), "leaves out model.norm.weight"),
    (
        "lists under another file",
        lambda v: v["weight_map"].update({"model.norm.weight": "model-00001-of-00002.safetensors"}),
        "model.norm.weight",
    ),
]


@pytest.mark.parametrize(
    ("change", "said"), [row[1:] for row in CONTRADICTIONS], ids=[row[0] for row in CONTRADICTIONS]
)
def test_an_index_that_contradicts_is_said(
    tmp_path: Path, sizer_cli: Run, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    index = _changed(sharded(tmp_path / "m", list(SHARDS)), change)

    code, _, err = sizer_cli("count", str(index))

    assert code == 1
    assert said in err


def test_an_index_names_only_files_beside_it(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"w": "../../etc/passwd"}}')

    with pytest.raises(sizer.SizerError, match="not beside it"):
        sizer.load_checkpoint(index)


def test_a_tensor_in_two_files_is_counted_once_and_said(tmp_path: Path) -> None:
    safetensors(tmp_path / "m-00001-of-00002.safetensors", {"w": ("F32", [4])})
    safetensors(tmp_path / "m-00002-of-00002.safetensors", {"w": ("F32", [4]), "v": ("F32", [2])})

    found = sizer.load_checkpoint(tmp_path)

    assert found.count().total == 6
    assert "counted once" in found.problems[0]


def test_a_folder_of_several_models_asks_for_one(tmp_path: Path) -> None:
    safetensors(tmp_path / "one.safetensors", {"w": ("F32", [4])})
    safetensors(tmp_path / "two.safetensors", {"w": ("F32", [4])})

    with pytest.raises(sizer.SizerError, match=r"2 checkpoints \(one.safetensors, two.safetensors\)"):
        sizer.load_checkpoint(tmp_path)


def test_a_folder_takes_one_format_and_says_the_others(tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors", {"w": ("F32", [4])})
    safetensors(tmp_path / "consolidated.safetensors", {"w": ("F32", [4])})
    (tmp_path / "pytorch_model.bin").write_bytes(b"")

    found = sizer.load_checkpoint(tmp_path)

    assert (found.count().total, found.complete) == (4, True)
    assert "consolidated.safetensors, pytorch_model.bin" in found.remarks[0]


def test_a_folder_with_a_config_is_counted_by_its_config(tmp_path: Path, sizer_cli: Run) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_layer": 1}')
    safetensors(tmp_path / "model.safetensors", {"w": ("F32", [4])})

    assert sizer_cli("count", str(tmp_path), "-q")[1] != "4\n"
    assert sizer_cli("count", str(tmp_path / "model.safetensors"), "-q") == (0, "4\n", "")


def test_an_adapter_is_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "r": 8, "base_model_name_or_path": "org/big"}'
    )
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    safetensors(
        tmp_path / "adapter_model.safetensors",
        {f"{stem}A.weight": ("F32", [8, 64]), f"{stem}B.weight": ("F32", [64, 8])},
    )

    adapter = sizer.load_checkpoint(tmp_path)
    found = adapter.count()

    assert (found.total, found.components) == (1024, {"adapter": 1024})
    assert adapter.remarks == ["an adapter (LORA, rank 8) for org/big, whose own weights are not counted"]


META_SHARDS: dict[str, list[Entry]] = {
    # tensor, its slice on each of two ranks; Llama 2 splits the embedding by width
    "tok_embeddings.weight": [("BF16", [32, 8])] * 2,
    "layers.0.attention.wq.weight": [("BF16", [8, 16])] * 2,
    "layers.0.attention.wo.weight": [("BF16", [16, 8])] * 2,
    "layers.0.attention_norm.weight": [("BF16", [16])] * 2,
    "rope.freqs": [("F32", [4])] * 2,
}


def test_ranks_of_meta_are_joined(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"dim": 16, "n_layers": 1}')
    for rank in range(2):
        tensors = {name: entries[rank] for name, entries in META_SHARDS.items()}
        safetensors(tmp_path / f"consolidated.{rank:02d}.safetensors", tensors)

    found = sizer.load_checkpoint(tmp_path)

    assert {t.name: t.shape for t in found.tensors()} == {
        "tok_embeddings.weight": (32, 16),
        "layers.0.attention.wq.weight": (16, 16),
        "layers.0.attention.wo.weight": (16, 16),
        "layers.0.attention_norm.weight": (16,),
        "rope.freqs": (4,),
    }
    assert (found.count().total, found.count().buffers) == (32 * 16 + 2 * 256 + 16, 4)


CONSOLIDATED: list[tuple[str, dict[str, dict[str, Entry]], int, str]] = [
    ("one file of Mistral's", {"": {"tok_embeddings.weight": ("BF16", [32, 8])}}, 256, ""),
    ("one rank", {".00": {"layers.0.attention.wq.weight": ("BF16", [8, 16])}}, 128, ""),
    (
        "files of other tensors",
        {".00": {"a.weight": ("BF16", [8])}, ".01": {"b.weight": ("BF16", [3])}},
        11,
        "",
    ),
    (
        "ranks that differ",
        {
            ".00": {"norm.weight": ("BF16", [8]), "x.wq.weight": ("BF16", [2, 4])},
            ".01": {"norm.weight": ("BF16", [9])},
        },
        16,
        "the ranks differ in norm.weight and 1 more",
    ),
    (
        "a rank that is not here",
        {".00": {"x.wq.weight": ("BF16", [2, 4])}, ".02": {"x.wq.weight": ("BF16", [2, 4])}},
        16,
        "consolidated.01.safetensors",
    ),
]


@pytest.mark.parametrize(
    ("ranks", "total", "said"), [row[1:] for row in CONSOLIDATED], ids=[row[0] for row in CONSOLIDATED]
)
def test_consolidated_files(
    tmp_path: Path, sizer_cli: Run, ranks: dict[str, dict[str, Entry]], total: int, said: str
) -> None:
    for number, tensors in ranks.items():
        safetensors(tmp_path / f"consolidated{number}.safetensors", tensors)

    code, out, err = sizer_cli("count", str(tmp_path), "-q")

    assert (code, out) == (1 if said else 0, f"{total}\n")
    assert said in err
    assert bool(err) == bool(said)


@pytest.mark.parametrize("command", ["formula", "explain", "verify"])
def test_other_commands_say_what_a_checkpoint_is_good_for(sizer_cli: Run, command: str) -> None:
    code, out, err = sizer_cli(command, str(FIXTURES / "metadata_empty.safetensors"))

    assert (code, out) == (2, "")
    assert "sizer count" in err


def test_overrides_need_a_config(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("count", str(FIXTURES / "metadata_empty.safetensors"), "-D", "7")

    assert code == 2
    assert "--set" in err


def test_tensors_lists_one_object_a_line(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("tensors", str(FIXTURES / "metadata_empty.safetensors"), "--expand", "--json")

    assert code == 0
    assert json.loads(out) == {
        "name": "w",
        "shape": [2, 3],
        "formula": None,
        "dtype": "fp32",
        "component": "other",
        "params": 6,
        "kind": "param",
        "tied_to": None,
        "scheme": None,
        "bytes": 24,
        "file": "metadata_empty.safetensors",
    }


@pytest.mark.parametrize("by", ["component", "module", "layer", "tensor"])
def test_every_grouping_adds_up(tmp_path: Path, sizer_cli: Run, by: str) -> None:
    sharded(tmp_path / "m", list(SHARDS))

    code, out, _ = sizer_cli("count", str(tmp_path / "m"), "--json", "--by", by)

    document = json.loads(out)
    assert code == 0
    assert sum(row["params"] for row in document[f"{by}s"]) == document["params"]["total"] == 1064


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").mkdir()
    with pytest.raises(sizer.SizerError, match="without weights"):
        sizer.load_checkpoint(tmp_path / "x.safetensors")
    with pytest.raises(sizer.SizerError, match="there is no file"):
        sizer.load_checkpoint(tmp_path / "none.gguf")
    (tmp_path / "link.bin").symlink_to("/dev/zero")
    with pytest.raises(sizer.SizerError, match="a device or a pipe"):
        sizer.load_checkpoint(tmp_path / "link.bin")


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path, sizer_cli: Run) -> None:
    path = tmp_path / "x.safetensors"
    entry = b'{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    path.write_bytes(raw(b'{"a\\n\\u001b[2J.weight":' + entry + b"}", 1))

    _, out, err = sizer_cli("tensors", str(path))

    assert "\x1b" not in out + err
    assert r"a\n\x1b[2J.weight" in err


def test_an_index_that_lists_a_tensor_under_two_files_is_refused(tmp_path: Path) -> None:
    """Both files hold it, so that each line of the index is true, and the two contradict."""
    tensors: dict[str, Entry] = {"a.weight": ("BF16", [4])}
    path = sharded(tmp_path / "m", [tensors, tensors])
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    lines = ",\n    ".join(f'"a.weight": "{file}"' for file in files)
    path.write_text(f'{{\n  "weight_map": {{\n    {lines}\n  }}\n}}\n')

    with pytest.raises(sizer.SizerError, match=r"the key 'a\.weight' twice"):
        sizer.load_checkpoint(path)
