"""Real configurations, spoilt: each gives a count or a clean error, soon, and never a wrong total."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository import FIXTURES

import sizer
from sizer.core.walk import walk
from sizer.measures.count import count

FOLDER = FIXTURES / "configs"
CONFIGS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
TOTALS = {name: sizer.load(config).count().total for name, config in CONFIGS.items()}
# Seconds; what takes longer is a hang.
SOON = 5

names = st.sampled_from(sorted(CONFIGS))
junk: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**63, 10**15, 10**30, 10**400])
    | st.floats()
    | st.sampled_from([1e300, "4096", "", "auto", {"__float__": "Infinity"}])
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def sizes(config: dict[str, Any]) -> list[str]:
    """Keys that hold a size and no other number."""
    words = ("hidden_size", "d_model", "vocab_size", "dim", "num_hidden_layers", "num_layers", "n_layers")
    return [key for key in words if isinstance(config.get(key), int)]


def outcome(config: dict[str, Any]) -> int | None:
    """The total, or nothing where the configuration is refused."""
    start = time.process_time()
    try:
        total: int | None = sizer.load(config).count().total
    except sizer.SizerError as error:
        message = str(error)
        assert message
        assert "\n" not in message
        assert len(message) < 1200
        message.encode()
        total = None
    assert time.process_time() - start < SOON
    assert total is None or (isinstance(total, int) and total > 0)
    return total


@given(names, st.data())
def test_any_value_anywhere(name: str, data: st.DataObject) -> None:
    config = copy.deepcopy(CONFIGS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        config[data.draw(st.sampled_from(sorted(config)) | st.text(max_size=10))] = data.draw(junk)
    outcome(config)


@given(st.dictionaries(st.text(max_size=12), junk, max_size=6))
def test_any_object(config: dict[str, Any]) -> None:
    outcome(config)


@given(st.sampled_from(["llama", "bert", "t5", "jamba", "gemma3_text"]), st.data())
def test_any_object_of_a_type(model_type: str, data: st.DataObject) -> None:
    from sizer.sources.hf_config import record_of

    keys = sorted(record_of(model_type)["defaults"])
    outcome({"model_type": model_type, **data.draw(st.dictionaries(st.sampled_from(keys), junk, max_size=5))})


@given(names, st.data())
def test_a_size_of_a_wrong_kind_is_refused(name: str, data: st.DataObject) -> None:
    config = copy.deepcopy(CONFIGS[name])
    key = data.draw(st.sampled_from(sizes(config)))
    wrong = (
        st.booleans()
        | st.text(max_size=6)
        | st.floats().filter(lambda x: not x.is_integer())
        | st.just([64])
        | st.integers(max_value=0)
    ) | st.integers(min_value=10**15 + 1)
    config[key] = data.draw(wrong)
    assert outcome(config) is None


@given(names, st.data())
def test_a_misspelt_size_is_refused(name: str, data: st.DataObject) -> None:
    config = copy.deepcopy(CONFIGS[name])
    key = data.draw(st.sampled_from([key for key in sizes(config) if len(key) > 5] or ["n_layers"]))
    at = data.draw(st.integers(1, len(key) - 2))
    wrong = data.draw(st.sampled_from([key[:at] + key[at + 1 :], key[:at] + key[at] + key[at:], key.upper()]))
    if wrong in config or key not in config:
        return
    config[wrong] = config.pop(key)
    with pytest.raises(sizer.SizerError):
        sizer.load(config).count()


@given(names, st.text("abcdefghij", min_size=8, max_size=12), junk)
def test_a_harmless_key_changes_nothing(name: str, key: str, value: Any) -> None:
    model = sizer.load({**CONFIGS[name], f"zz_{key}": value})
    assert model.count().total == TOTALS[name]
    assert f"zz_{key}" in model.unknown_keys


@given(names, st.integers(1, 400_000))
def test_the_formula_follows(name: str, vocab: int) -> None:
    model = sizer.load({**CONFIGS[name], "vocab_size": vocab})
    letters = count(walk(model.symbolic_tree())).total
    assert letters.subs(model.symbolic[1]) == model.count().total
