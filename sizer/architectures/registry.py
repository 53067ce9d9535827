"""Which architectures there are, and where; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sizer.architectures.index import ARCHITECTURE_MODULES, HF_MODULES
from sizer.core.config import Config
from sizer.core.record import Record
from sizer.core.tree import Module
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


class Architecture(Record):
    """A configuration and the builder that turns it into a tree.

    `hf_type`: the `model_type` of its Hugging Face configurations, where there is one.
    """

    __slots__ = ("build", "config")

    def __init__(
        self,
        config: type[Config],
        build: Callable[[Any], Module],
    ) -> None:
        self.config = config
        self.build = build


class Reading(Record):
    """What a reader made of a Hugging Face configuration: an architecture and its fields."""

    __slots__ = ("architecture", "assumptions", "given")

    def __init__(
        self,
        architecture: str,
        given: dict[str, Any],
        assumptions: tuple[str, ...] = (),
    ) -> None:
        self.architecture = architecture
        self.given = given
        self.assumptions = assumptions


# The activations of transformers that have parameters, and the types whose readers count them.
LEARNED = {"prelu": ("uvdoc", "uvdoc_backbone"), "xielu": ("apertus", "apertus1p5_text")}
# Architectures of a program that uses sizer, beside those that ship.
REGISTERED: dict[str, Architecture] = {}


def register(name: str, added: Architecture) -> None:
    """Make an architecture of your own known by a name, for this process; a later one replaces it.

    A name that ships is refused. `docs/howto/architecture.md` has an example.
    """
    if name in ARCHITECTURE_MODULES:
        raise InvalidConfig(f"architecture = {name!r} is one that ships with sizer; choose another name")
    REGISTERED[name] = added


def architecture(name: str) -> Architecture:
    """The architecture of that name.

    >>> architecture("gpt2").config.__name__
    'GPT2Config'
    """
    if name in REGISTERED:
        return REGISTERED[name]
    if name not in ARCHITECTURE_MODULES:
        raise UnknownName("architecture", name, ARCHITECTURE_MODULES)
    found: Architecture = _module(ARCHITECTURE_MODULES[name]).ARCHITECTURES[name]
    return found


def read(hf: HFConfig) -> Reading:
    """What the reader of a configuration's model type makes of it.

    A type that is another under a name of its own is read by the other's reader, if it has none.
    """
    model_type = hf.model_type if hf.model_type in HF_MODULES else hf.read_as
    _refuse_learned(model_type, hf.values_in_file)
    return hf_reader(model_type)(hf)


def _refuse_learned(model_type: str, values: Mapping[str, Any]) -> None:
    """Refuse an activation that has parameters, but where the reader of the type has them too."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            _refuse_learned(str(value.get("model_type", model_type)), value)
        elif (
            isinstance(value, str)
            and "act" in str(key)
            and model_type not in LEARNED.get(value, (model_type,))
        ):
            raise InvalidConfig(
                f"{key} = {value} has parameters of its own, which are not described for {model_type}; "
                "--with torch counts them"
            )


def hf_reader(model_type: str) -> Callable[[HFConfig], Reading]:
    """The reader of a Hugging Face model type's configurations."""
    if model_type not in HF_MODULES:
        raise UnknownName("model type", model_type, HF_MODULES, hint="or build it with --with torch")
    found: Callable[[HFConfig], Reading] = _module(HF_MODULES[model_type]).HF_READERS[model_type]
    return found


def _module(name: str) -> Any:
    return import_module(f"sizer.architectures.{name}")
