"""`sizer.load_checkpoint`: what files of weights hold, read from their headers alone."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from sizer.errors import BadInput, SizerError, clip
from sizer.sources.checkpoints.files import exists, is_file, no_file
from sizer.sources.checkpoints.logical.weights import Helper, Logical
from sizer.sources.checkpoints.logical.weights import logical as logical_of
from sizer.sources.checkpoints.logical.weights import summary as summary_of
from sizer.sources.checkpoints.read import read
from sizer.sources.checkpoints.stored import Contents
from sizer.sources.hub.target import is_hub

if TYPE_CHECKING:
    from sizer.measures.stored import StoredCount
    from sizer.measures.tensors import Tensor
    from sizer.sources.checkpoints.stored import StoredTensor


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """A checkpoint: a file (safetensors, GGUF, PyTorch), an index of files, or a folder with either.

    `path` may be on a hub (`"hub:org/name"`, `"hub:org/name@revision/model.safetensors"`).

    Only headers are read; a pickle is parsed and never executed. What is missing or contradicts is in
    `.missing` and `.problems`, and a count is then of what is known so far.

    Raises `sizer.SizerError` with a message for people.
    """
    target = os.fspath(path)
    if not exists(target):
        raise no_file(target)
    with _collector_paused():
        contents = read(target)
    if is_hub(target):
        from sizer.sources.hub.about import source

        contents.remarks.append(f"read from {source(target)}")
    return Checkpoint(contents)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the garbage collector, which walks a hundred thousand new tensors again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class Checkpoint:
    """Stored tensors, and the weights they stand for: `sizer.load_checkpoint` makes one.

    `stored` lists the tensors as the files have them. `missing`: files that belong to it and are not
    here. `problems`: what is cut off or contradicts. `remarks`: what is worth knowing besides.
    """

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.name = contents.path
        self.format = contents.format
        self.metadata = contents.metadata
        self.missing = contents.missing
        self.stated = contents.stated

    def __repr__(self) -> str:
        return f"<sizer.Checkpoint {self.name} ({self.format}), {len(self.contents)} stored tensors>"

    @property
    def stored(self) -> list[StoredTensor]:
        """The tensors as the files have them."""
        return self.contents.stored

    @property
    def architecture(self) -> str:
        """The architecture that the files name themselves; empty where they do not."""
        named = self.metadata.get("general.architecture", "")
        return named if isinstance(named, str) else ""

    @cached_property
    def logical(self) -> Logical:
        """The weights and the helpers of quantization."""
        with _collector_paused():
            found = logical_of(self.contents)
        self._set_added_biases_apart(found)
        return found

    @cached_property
    def _summary(self) -> Logical:
        """The same for what only adds up, with one module for all that are like it."""
        if "logical" in self.__dict__:
            return self.logical
        with _collector_paused():
            found = summary_of(self.contents)
        # Biases are told apart by the names of single layers.
        return self.logical if _biases_of_packed(found) else found

    @property
    def problems(self) -> list[str]:
        """What is cut off, contradicts, or is of no known format."""
        return [*self.contents.problems, *self._summary.problems]

    @property
    def remarks(self) -> list[str]:
        """What is worth knowing, and changes no number."""
        return [*self._adapter(), *self.contents.remarks, *self._summary.remarks]

    @property
    def complete(self) -> bool:
        """Whether all of it is here, and nothing contradicts."""
        return not self.missing and not self.problems

    def count(self) -> StoredCount:
        """Logical parameters, stored elements and bytes.

        Of a checkpoint that is not `complete`, what is known so far.
        """
        from sizer.measures.stored import count

        if not len(self.contents) and self.missing:
            raise BadInput(self.contents.nothing_here())
        return count(self._summary, self._visited)

    def tensors(self) -> list[Tensor]:
        """The logical tensors by name, with shape, component, kind and tie."""
        from sizer.measures.stored import tensors

        return tensors(self.logical.weights)

    @property
    def schemes(self) -> dict[str, int]:
        """How the weights are packed: each scheme, and how many weights are packed so."""
        found: dict[str, int] = {}
        for weight in self._summary.packed:
            number = self._summary.number(weight.stored.name)
            found[weight.scheme] = found.get(weight.scheme, 0) + number
        return found

    def _adapter(self) -> list[str]:
        """What `adapter_config.json` says of a small set of weights that goes with a large one."""
        from sizer.sources.checkpoints.files import json_file

        try:
            config = json_file(os.path.join(self._folder, "adapter_config.json"))
        except SizerError as error:
            return [f"not read: {error}"]
        if config is None:
            return []
        kind, rank, base = (config.get(key) for key in ("peft_type", "r", "base_model_name_or_path"))
        rank_text = f", rank {rank}" if isinstance(rank, int) else ""
        return [f"an adapter ({clip(kind)}{rank_text}) for {clip(base)}, whose own weights are not counted"]

    @property
    def _folder(self) -> str:
        files = self.contents.files
        return os.path.dirname(files[0]) if files else self.contents.path

    def _visited(self) -> tuple[int, int] | None:
        """Routed experts a token visits, and all of them, where the files or the configuration say so."""
        if self.format == "gguf":
            values = [
                self.metadata.get(f"{self.architecture}.{key}")
                for key in ("expert_used_count", "expert_count")
            ]
        else:
            from sizer.sources.checkpoints.logical.settings import settings_of
            from sizer.sources.values import ALIASES

            config = settings_of(self.contents).config
            levels = [config, *(v for v in config.values() if isinstance(v, dict))]
            values = [
                next((level[key] for level in levels for key in ALIASES[field] if key in level), None)
                for field in ("top_k", "n_experts")
            ]
        top, experts = values
        if type(top) is int and type(experts) is int and 0 < top <= experts:
            return top, experts
        return None

    def _set_added_biases_apart(self, found: Logical) -> None:
        """Take out the zero biases that GPTQ's writers add to each packed matrix.

        They are told by the configuration beside the files: its model has no such bias.
        """
        biases = _biases_of_packed(found)
        if not biases:
            return
        known = self._known_names()
        if known is None:
            found.remarks.append(
                f"{len(biases):,} biases of packed matrices are counted; GPTQ's writers add zero biases to "
                "models that have none, and without a config.json beside them nobody can tell"
            )
            return
        added = {t.name for t in biases if t.name not in known}
        found.helpers += [Helper(t, "added biases") for t in biases if t.name in added]
        found.plain = [t for t in found.plain if t.name not in added]
        if added:
            elements = sum(t.elements for t in biases if t.name in added)
            found.remarks.append(
                f"{len(added):,} biases of {elements:,} elements are not in the model of config.json; "
                "GPTQ's writer added them, and they are not counted"
            )

    def _known_names(self) -> set[str] | None:
        """The names of the tensors of the model in the configuration beside the files."""
        from sizer.loading import from_path

        path = os.path.join(self._folder, "config.json")
        if not is_file(path):
            return None
        try:
            return {tensor.name for tensor in from_path(path).tensors()}
        except SizerError:
            return None


def _biases_of_packed(found: Logical) -> list[StoredTensor]:
    packed = {w.name for w in found.packed if w.scheme.startswith("GPTQ")}
    if not packed:
        return []
    return [t for t in found.plain if t.name.endswith(".bias") and f"{t.name[:-5]}.weight" in packed]
