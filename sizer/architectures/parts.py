"""Models made of other models: an encoder and a decoder, or a tower beside a language model."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from sizer.architectures.registry import architecture, read
from sizer.core.config import Config, symbolic
from sizer.core.record import Record
from sizer.core.tree import Buffer, Leaf, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


class Part(Record):
    """A whole architecture as one field of another's configuration.

    In formulas its letters end in the letter of that field: `D_enc`, `D_dec`.
    """

    __slots__ = ("architecture", "given")

    def __init__(self, architecture: str, given: Mapping[str, Any]) -> None:
        self.architecture = architecture
        self.given = given

    @property
    def kind(self) -> type[Config]:
        """The class of the part's own configuration."""
        return architecture(self.architecture).config

    @property
    def config(self) -> Config:
        """The part's own configuration."""
        return self.kind(**self.given)

    def symbolic(self, letter: str) -> tuple[Part, dict[str, int]]:
        """The part over letters, and what each letter stands for."""
        symbols, values = symbolic(self.kind, self.given, suffix=f"_{letter}")
        return self._replace(given=symbols), values

    def module(self, name: str, *, layout: str, inside: str = "", stream: str = "") -> Module:
        """The part's tree as a module of that name; `inside` is the name of what is around it."""
        found = architecture(self.architecture)
        tree = found.build(found.config(**{**self.given, "layout": layout}))
        prefix = f"{inside}.{name}." if inside else f"{name}."
        return Module(name, (placed(tree, prefix),), stream=stream)


def part_of(hf: HFConfig) -> Part:
    """The part that a nested configuration describes, read by the reader of its own type."""
    reading = read(hf)
    return Part(reading.architecture, reading.given)


def inside(name: str, module: Module) -> Module:
    """A whole model as a module of that name."""
    return Module(name, (placed(module, f"{name}."),))


def frozen(module: Module, kept: Container[str] = ()) -> Module:
    """The same tree, not trained, but for the kinds of modules that are kept in training."""
    trained = module.kind in kept
    children = (
        frozen(child, kept)
        if isinstance(child, Module)
        else child._replace(trainable=trained)
        if isinstance(child, Param)
        else child
        for child in module.children
    )
    return module._replace(children=tuple(children))


def placed(module: Module, prefix: str) -> Module:
    """The same tree with the names of its ties moved to where it stands."""
    return module._replace(children=tuple(_moved(child, prefix) for child in module.children))


def _moved(child: Module | Leaf, prefix: str) -> Module | Leaf:
    if isinstance(child, Module):
        return placed(child, prefix)
    if isinstance(child, Param | Buffer) and child.tied_to is not None:
        return child._replace(tied_to=prefix + child.tied_to)
    return child
