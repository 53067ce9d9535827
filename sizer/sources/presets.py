"""The presets: models whose sizes are public, one TOML file a family.

Presets that ship with the package were validated in CI, so reading one checks them no more.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from sizer.core.record import Record
from sizer.errors import BadInput, SizerError, UnknownName, clip, nearest

# What a model may be: by what its tokens see, by whether each visits all of it, by what it remembers.
KINDS = ("decoder", "encoder", "seq2seq", "vision", "multimodal", "dense", "moe", "recurrent", "hybrid")

# Names people ask for whose sizes were never published.
NOT_PUBLIC = (
    "gpt-3.5",
    "gpt-4",
    "gpt-4o",
    "gpt-5",
    "o1",
    "o3",
    "claude",
    "gemini",
    "grok-2",
    "grok-3",
    "grok-4",
    "palm-2",
    "mistral-large-latest",
    "mistral-medium",
)


class Preset(Record):
    """A model as its family's file describes it.

    Either `architecture` names one of ours and `config` holds its fields, or `model_type` names one
    of transformers; then `config` is what its `config.json` says beyond the defaults of that type, in
    our words where we have one, and `cls` is the class where it is not the type's usual one.
    """

    __slots__ = (
        "aliases",
        "architecture",
        "assumptions",
        "cls",
        "config",
        "date",
        "expect",
        "family",
        "kinds",
        "model_type",
        "name",
        "source",
    )

    def __init__(
        self,
        name: str,
        family: str,
        architecture: str,
        config: dict[str, Any],
        expect: dict[str, Any],
        source: str,
        date: str,
        assumptions: tuple[str, ...],
        aliases: tuple[str, ...],
        model_type: str = "",
        cls: str = "",
        kinds: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.family = family
        self.architecture = architecture
        self.config = config
        self.expect = expect
        self.source = source
        self.date = date
        self.assumptions = assumptions
        self.aliases = aliases
        self.model_type = model_type
        self.cls = cls
        self.kinds = kinds


def directory(kind: str = "models") -> str:
    """The folder of the presets: inside the installed package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(__file__))
    for parent in (package, os.path.dirname(package)):
        folder = os.path.join(parent, "presets", kind)
        if os.path.isdir(folder):
            return folder
    raise SizerError("the preset files are missing from this installation; install it again")


@lru_cache(maxsize=1024)
def preset(name: str) -> Preset:
    """The preset of that name, or of that alias; a process reads each once.

    >>> preset("gpt2-small").config["d_model"]
    768
    """
    # Parsing every family takes longer than a count, so look for the name in the text first.
    heading, alias = f"[{name}]\n", f'"{name}"'
    for path in _files(name):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if heading in text or alias in text:
            document = plain_toml(_excerpt(text, name))
            # The name may stand there as something else, such as a model type.
            if any(name == key or name in table.get("aliases", ()) for key, table in _tables(document)):
                return next(p for p in _presets(document, path) if name in (p.name, *p.aliases))
    raise _unknown(name)


def presets() -> list[Preset]:
    """All presets, by family and in the order of their files."""
    found = []
    for path in _files():
        with open(path, encoding="utf-8") as file:
            found += parse(file.read(), path)
    return found


def parse(text: str, where: str) -> list[Preset]:
    """The presets in the text of a TOML file; `where` names it in errors."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{where} is not valid TOML: {error}") from None
    except RecursionError:
        raise BadInput(f"{where} is nested too deeply to be a preset") from None
    return _presets(document, where)


def plain_toml(text: str) -> dict[str, Any]:
    """The shipped files, which keep to what a line of Python says too: a key, `=`, and a number,
    a text, a list or an inline table on the same line. (Importing tomllib takes longer than a count;
    a test holds that both read the same.)

    >>> plain_toml("[tiny]\\nconfig = { d_model = 1_024, bias = true }")
    {'tiny': {'config': {'d_model': 1024, 'bias': True}}}
    """
    import ast

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            return {keyword.arg: value(keyword.value) for keyword in node.keywords}
        if isinstance(node, ast.List):
            return [value(item) for item in node.elts]
        if isinstance(node, ast.Name):
            return {"true": True, "false": False}[node.id]
        return ast.literal_eval(node)

    document: dict[str, Any] = {}
    table = document
    for line in text.splitlines():
        if line.startswith("["):
            table = document[line[1:-1].strip('"')] = {}
        elif line and not line.startswith("#"):
            key, _, right = line.partition(" = ")
            if key == "date":
                table[key] = right
            else:
                python = right.replace("{", "dict(").replace("}", ")") if right.startswith("{") else right
                table[key] = value(ast.parse(python, mode="eval").body)
    return document


def _excerpt(text: str, name: str) -> str:
    """What a file says of all its models, and its table of one of them."""
    head, *tables = text.split("\n[")
    wanted = ("defaults]", f"{name}]", f'"{name}"]')
    return "\n[".join([head, *(t for t in tables if t.startswith(wanted) or f'"{name}"' in t)])


def _presets(document: dict[str, Any], where: str) -> list[Preset]:
    family = os.path.splitext(os.path.basename(where))[0]
    defaults = document.get("defaults", {})
    shared = {key: value for key, value in document.items() if not isinstance(value, dict)}
    tables = dict(_tables(document))
    if "config" in document:
        tables = {family: {"config": document["config"], **shared}}
    if not tables:
        raise BadInput(
            f"{where} describes no model: it needs `architecture = …` and a table of sizes, "
            "as the files of `sizer presets show gpt2-small -q`"
        )
    return [_preset(name, family, {**shared, **table}, defaults, where) for name, table in tables.items()]


def _tables(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The tables of a file that each describe a model."""
    return [(k, v) for k, v in document.items() if isinstance(v, dict) and k not in ("defaults", "config")]


def _preset(name: str, family: str, table: dict[str, Any], defaults: dict[str, Any], where: str) -> Preset:
    known = {
        "architecture",
        "model_type",
        "cls",
        "kinds",
        "source",
        "date",
        "assumptions",
        "aliases",
        "config",
        "expect",
    }
    for key in table:
        if key not in known:
            raise BadInput(
                f"{where}: [{name}] has an unknown key {key!r}; known are {', '.join(sorted(known))}"
            )
    architecture, model_type = table.get("architecture", ""), table.get("model_type", "")
    if not (isinstance(architecture, str) and isinstance(model_type, str)) or not (
        architecture or model_type
    ):
        raise BadInput(
            f"{where}: [{name}] needs `architecture`, one of those in `sizer presets list`, "
            "or `model_type`, one of transformers"
        )
    if architecture and model_type:
        raise BadInput(f"{where}: [{name}] has both `architecture` and `model_type`; give one")
    config = table.get("config", {})
    if not isinstance(config, dict):
        raise BadInput(f"{where}: [{name}] `config` is not a table of sizes")
    return Preset(
        name,
        family,
        architecture,
        {**defaults, **config},
        table.get("expect", {}),
        str(table.get("source", "")),
        str(table.get("date", "")),
        tuple(table.get("assumptions", ())),
        tuple(table.get("aliases", ())),
        model_type,
        str(table.get("cls", "")),
        tuple(table.get("kinds", ())),
    )


def _files(model: str = "") -> list[str]:
    """The files of the families; the one whose name begins the model's comes first."""
    folder = directory()
    names = sorted(name for name in os.listdir(folder) if name.endswith(".toml"))
    names.sort(key=lambda name: not model.replace("-", "_").startswith(name[:-5]))
    return [os.path.join(folder, name) for name in names]


def _unknown(name: str) -> SizerError:
    lower = name.lower()
    if any(lower == secret or lower.startswith(secret + "-") for secret in NOT_PUBLIC):
        return SizerError(
            f"the sizes of {name!r} are not public, so nobody can count it; "
            "`sizer presets list` shows the models that can be counted"
        )
    from sizer.sources.hub.target import is_repository

    known = [known_name for p in presets() for known_name in (p.name, *p.aliases)]
    if is_repository(name):
        hint = f"to look for it on the Hugging Face Hub, add --hub or write hub:{clip(name)}"
        near = nearest(name.rpartition("/")[2], known, 1)
        if near:
            hint = f"the preset {near[0]!r} is near; {hint}"
        return UnknownName("preset", name, (), hint=hint)
    return UnknownName("preset", name, known, hint="sizer presets list")
