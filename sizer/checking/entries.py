"""`sizer.toml`: the models a repository watches, and what it expects of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.checking.limits import COUNTS, PARTS, VALUES, Limit, parse_limit
from sizer.core.record import Record
from sizer.errors import BadInput, SizerError, UnknownName, shown

SOURCES = ("preset", "config", "checkpoint", "factory")
# Group -> what describes a run, beside the values that are expected of it.
_RUN = ("batch_size", "seq_len")
SETTINGS: dict[str, tuple[str, ...]] = {
    "flops": (*_RUN, "attention", "checkpointing", "encoder_len"),
    "kv_cache": (*_RUN, "dtype", "policy"),
    "memory": (
        *(*_RUN, "mode", "precision", "optimizer", "attention", "checkpointing"),
        *("foreach", "master_weights", "lora", "dtype", "kv_dtype"),
    ),
    "weights": ("dtype",),
}
KEYS = (*SOURCES, "name", "class", "set", "components", "limits", *COUNTS, *VALUES)


class Entry(Record):
    """A model and what is expected of it.

    `source`: which of `SOURCES` says where it is, and `target` what it says. `expected`: quantity ->
    number. `settings`: group -> how its run is described. `line`: where it stands in its file.
    """

    __slots__ = ("cls", "expected", "given", "limits", "line", "name", "settings", "source", "target")

    def __init__(
        self,
        name: str,
        source: str,
        target: str,
        cls: str | None,
        given: Mapping[str, Any],
        expected: dict[str, int],
        settings: dict[str, dict[str, Any]],
        limits: tuple[Limit, ...],
        line: int,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.cls = cls
        self.given = given
        self.expected = expected
        self.settings = settings
        self.limits = limits
        self.line = line


def entry_of(table: object, line: int) -> Entry:
    """An entry from its table; whatever is wrong with it is an error that names the key."""
    if not isinstance(table, dict):
        raise BadInput(f"a model is a table of keys, not {shown(table)}")
    for key in table:
        if key not in KEYS:
            raise UnknownName("key", key, KEYS, hint="of a [[model]]")
    sources = [key for key in SOURCES if key in table]
    if len(sources) != 1:
        many = f"{' and '.join(sources)} contradict; " if sources else ""
        raise BadInput(f"{many}a model has one of preset, config, checkpoint, factory")
    source = sources[0]
    target = _text(table, source)
    name = _text(table, "name") if "name" in table else target
    try:
        return _entry(table, line, source, target, name)
    except SizerError as error:
        raise BadInput(f"{name}: {error}") from None


def _entry(table: dict[str, Any], line: int, source: str, target: str, name: str) -> Entry:
    cls = _text(table, "class") if "class" in table else None
    given = table.get("set", {})
    if not isinstance(given, dict):
        raise BadInput(f"set is {shown(given)}, and not a table such as {{ n_layers = 16 }}")
    for key, stands in (("class", cls is not None), ("set", bool(given))):
        if stands and (source == "checkpoint" or (source == "factory" and key == "class")):
            raise BadInput(f"{key} contradicts {source}, which has its sizes already")
    expected = {key: _number(table[key], key) for key in COUNTS if key in table}
    settings: dict[str, dict[str, Any]] = {}
    for group in VALUES:
        if group in table:
            values, settings[group] = _group(table[group], group, source)
            expected |= values
    components = table.get("components", {})
    if not isinstance(components, dict):
        raise BadInput(f"components is {shown(components)}, and not a table such as {{ norm = 38_400 }}")
    for key in components:
        if key not in PARTS:
            raise UnknownName("component", key, PARTS, hint=", ".join(PARTS))
    expected |= {
        f"components.{key}": _number(value, f"components.{key}") for key, value in components.items()
    }
    limits = table.get("limits", [])
    if not isinstance(limits, list):
        raise BadInput(f"limits is {shown(limits)}, and not a list such as ['params <= 8e9']")
    found = Entry(name, source, target, cls, given, expected, settings, tuple(map(parse_limit, limits)), line)
    _check_settings(found)
    _check_sums(found)
    return found


def _group(table: object, group: str, source: str) -> tuple[dict[str, int], dict[str, Any]]:
    if not isinstance(table, dict):
        raise BadInput(f"{group} is {shown(table)}, and not a table such as {{ seq_len = 1024 }}")
    if source in ("checkpoint", "factory") and group != "weights":
        raise BadInput(f"{group} follows from an architecture, which a {source} does not have")
    known = (*SETTINGS[group], *VALUES[group])
    for key in table:
        if key not in known:
            raise UnknownName("key", key, known, hint=f"of {group}")
    if group == "weights":
        if source in ("preset", "config") and "dtype" not in table:
            raise BadInput('weights needs the type they are kept in, such as dtype = "bf16"')
        if source in ("checkpoint", "factory") and "dtype" in table:
            raise BadInput(f"weights.dtype contradicts {source}, whose tensors have their types")
    elif "seq_len" not in table:
        raise BadInput(f"{group} needs the length of its run, such as seq_len = 1024")
    for key in SETTINGS[group]:
        if key in table:
            _check_setting(f"{group}.{key}", key, table[key])
    values = {f"{group}.{k}": _number(v, f"{group}.{k}") for k, v in table.items() if k in VALUES[group]}
    return values, {k: v for k, v in table.items() if k in SETTINGS[group]}


def _check_setting(name: str, key: str, value: object) -> None:
    """A setting of a run is a length, a switch, or a word that the measure knows."""
    lengths = ("batch_size", "seq_len", "encoder_len")
    switches = ("foreach", "master_weights", "checkpointing")
    fits = {
        int: key in lengths and isinstance(value, int) and value > 0,
        bool: key in switches,
        str: key not in lengths and key not in ("foreach", "master_weights"),
    }
    if not fits.get(type(value), False):
        kind = (
            "a whole number above 0" if key in lengths else "true or false" if key in switches else "a word"
        )
        raise BadInput(f"{name} is {shown(value)}, and not {kind}")


def _check_settings(entry: Entry) -> None:
    """A limit on what follows from a run needs the run."""
    for limit in entry.limits:
        group = limit.quantity.partition(".")[0]
        if group in VALUES and group not in entry.settings:
            example = 'dtype = "bf16"' if group == "weights" else "seq_len = 8192"
            if group == "weights" and entry.source in ("checkpoint", "factory"):
                continue
            raise BadInput(f"the limit {limit.text!r} needs its run: {group} = {{ {example} }}")


def _check_sums(entry: Entry) -> None:
    """What an entry expects must be possible."""
    expected = entry.expected
    total = expected.get("params")
    if total is not None:
        for key in ("active", "trainable", "embedding", "non_embedding"):
            if expected.get(key, 0) > total:
                raise BadInput(f"{key} = {expected[key]:,} contradicts params = {total:,}")
        parts = sum(value for key, value in expected.items() if key.startswith("components."))
        if parts > total:
            raise BadInput(f"components of {parts:,} in all contradict params = {total:,}")
        halves = [expected.get(key) for key in ("embedding", "non_embedding")]
        if None not in halves and sum(h for h in halves if h is not None) != total:
            raise BadInput(f"embedding and non_embedding contradict params = {total:,}")


def _number(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"{key} is {shown(value)}, and not a whole number such as 124_439_808")
    return value


def _text(table: dict[str, Any], key: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{key} is {shown(value)}, and not a name in quotes")
    return value
