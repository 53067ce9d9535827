"""The weights that stored tensors stand for, and the helpers of quantization."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sizer.core.record import Record
from sizer.errors import SizerError, clip
from sizer.sources.checkpoints.stored import Contents, StoredTensor

# Components of what is stored beside the weights, in the order they are shown.
HELPERS = (
    "scales",
    "zero points",
    "group indices",
    "codebooks",
    "quant state",
    "added biases",
    "optimizer",
    "averages",
    "training state",
    "unknown",
)


class Weight(Record):
    """A logical weight: what the stored tensors `parts` stand for, of `params` elements.

    `kind` is "param" or "buffer"; `scheme` how it is packed, empty where it is stored as it is.
    """

    __slots__ = ("component", "dtype", "kind", "name", "params", "parts", "scheme", "shape", "tied_to")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        params: int,
        dtype: str,
        scheme: str,
        parts: tuple[StoredTensor, ...],
        kind: str = "param",
        component: str = "",
        tied_to: str | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.params = params
        self.dtype = dtype
        self.scheme = scheme
        self.parts = parts
        self.kind = kind
        self.component = component
        self.tied_to = tied_to


class Helper(Record):
    """A stored tensor that is no weight: a scale, a zero point, an index."""

    __slots__ = ("component", "stored")

    def __init__(self, stored: StoredTensor, component: str) -> None:
        self.stored = stored
        self.component = component


class Logical:
    """The weights and the helpers of a checkpoint, and what remains unclear."""

    def __init__(self) -> None:
        self.weights: list[Weight] = []
        self.helpers: list[Helper] = []
        self.problems: list[str] = []
        self.remarks: list[str] = []


class Tensors:
    """The stored tensors by name, with the settings of quantization; schemes claim from it."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.by_name = {tensor.name: tensor for tensor in contents.stored}
        # The last steps of all names: which helpers there are at all.
        self.endings: set[str] = set()
        self.claimed: dict[str, str] = {}
        # Stored tensors that stand for weights: the weight under the first of its parts.
        self.taken: dict[str, Weight | None] = {}
        # What lies beside tensors of one last step, as `blocks.py` has found.
        self.beside: dict[str, list[tuple[str, str]]] = {}
        self.out = Logical()
        self._settings: Settings | None = None
        self._said: dict[str, tuple[str, int]] = {}

    @property
    def settings(self) -> Settings:
        """What the configurations beside the files say of quantization."""
        if self._settings is None:
            self._settings = settings_of(self.contents)
            self.out.remarks += self._settings.remarks
        return self._settings

    def get(self, name: str) -> StoredTensor | None:
        """The stored tensor of that name, if there is one."""
        return self.by_name.get(name)

    def claim(self, component: str, names: Iterable[str]) -> None:
        """Say that tensors, those of them that exist, are helpers."""
        for name in names:
            if name in self.by_name:
                self.claimed[name] = component

    def weight(
        self, name: str, shape: tuple[int, ...], params: int, scheme: str, *parts: StoredTensor
    ) -> None:
        """Say that stored tensors stand for a weight."""
        self.taken.update(dict.fromkeys(part.name for part in parts))
        self.taken[parts[0].name] = Weight(name, shape, params, parts[0].dtype, scheme, parts)

    def problem(self, what: str, name: str) -> None:
        """Say what is unclear of a tensor; the same of many is said once, with their number."""
        first, count = self._said.get(what, (name, 0))
        self._said[what] = (first, count + 1)

    def unknown(self, tensor: StoredTensor, why: str) -> None:
        """A tensor whose weights are unknown: kept apart, not counted."""
        self.claimed[tensor.name] = "unknown"
        self.problem(why, tensor.name)

    def finish(self) -> Logical:
        """All that was found."""
        for what, (name, count) in self._said.items():
            more = f" and {count - 1:,} more" if count > 1 else ""
            self.out.problems.append(f"{clip(name)}{more}: {what}")
        return self.out


class Settings:
    """What the files beside the weights say of quantization.

    `methods` are the objects found, outermost first: `quantization_config` of `config.json`, also one
    nested in `text_config`; `hf_quant_config.json` of ModelOpt; older files of GPTQ and AWQ; MLX's
    `quantization`.
    """

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.methods: list[dict[str, Any]] = []
        self.remarks: list[str] = []

    @property
    def method(self) -> str:
        """The name of the method, empty where none is said."""
        for found in self.methods:
            name = found.get("quant_method") or found.get("quant_algo")
            if isinstance(name, str):
                return name.lower()
        return ""

    def number(self, *keys: str) -> int | None:
        """The first whole number under one of some keys."""
        for found in self.methods:
            for key in keys:
                value = found.get(key)
                if type(value) is int and value > 0:
                    return value
        return None

    def word(self, key: str) -> str:
        """The first text under a key."""
        for found in self.methods:
            value = found.get(key)
            if isinstance(value, str):
                return value.lower()
        return ""


_FILES = ("quantize_config.json", "quant_config.json")


def settings_of(contents: Contents) -> Settings:
    """Read the configurations beside the files of a checkpoint."""
    import os

    from sizer.sources.checkpoints.files import json_file

    found = Settings()
    folder = os.path.dirname(contents.files[0]) if contents.files else contents.path

    def file(name: str) -> dict[str, Any]:
        try:
            return json_file(os.path.join(folder, name)) or {}
        except SizerError as error:
            found.remarks.append(f"not read: {error}")
            return {}

    found.config = file("config.json")
    nested = [v for v in found.config.values() if isinstance(v, dict)]
    for values in (found.config, *nested):
        for key in ("quantization_config", "compression_config", "quantization"):
            settings = values.get(key)
            if isinstance(settings, dict):
                found.methods.append(settings)
    modelopt = file("hf_quant_config.json").get("quantization")
    if isinstance(modelopt, dict):
        found.methods.append(modelopt)
    found.methods += [settings for name in _FILES if (settings := file(name))]
    return found


Scheme = Callable[[Tensors, StoredTensor], bool]


def logical(contents: Contents) -> Logical:
    """The weights that the tensors of a checkpoint stand for.

    A stored tensor ends as a weight, as a part of one, or as a helper; none is dropped.
    """
    from sizer.sources.checkpoints.logical.names import classify
    from sizer.sources.checkpoints.logical.schemes import PLAIN_DTYPES, by_ending, of_dtype

    tensors = Tensors(contents)
    carriers = _carriers(tensors, PLAIN_DTYPES)
    left = [tensor for tensor in carriers if not by_ending(tensors, tensor)]
    claimed, taken, out = tensors.claimed, tensors.taken, tensors.out
    for tensor in left:
        name = tensor.name
        if name not in claimed and name not in taken and tensor.dtype not in PLAIN_DTYPES:
            of_dtype(tensors, tensor)
    is_gguf = contents.format == "gguf"
    for tensor in contents.stored:
        name = tensor.name
        if name in taken:
            weight = taken[name]
            if weight is None:
                continue
            component, kind = classify(weight.name, tensor, is_gguf)
            weight.component, weight.kind = component, kind
            out.weights.append(weight)
        elif name in claimed:
            out.helpers.append(Helper(tensor, claimed[name]))
        else:
            component, kind = classify(name, tensor, is_gguf)
            out.weights.append(
                Weight(
                    name,
                    tensor.shape,
                    tensor.elements,
                    tensor.dtype,
                    "",
                    (tensor,),
                    kind,
                    component,
                    tensor.tied_to,
                )
            )
    return tensors.finish()


def _carriers(tensors: Tensors, plain: frozenset[str]) -> list[StoredTensor]:
    """The tensors that a scheme may read: those of a telling name, or of a small type."""
    from sizer.sources.checkpoints.logical import names
    from sizer.sources.checkpoints.logical.schemes import BY_ENDING

    found = []
    # last step of a name -> the component of a helper, "" for no helper, "?" for a scheme to say
    roles: dict[str, str] = {}
    for tensor in tensors.contents.stored:
        name = tensor.name
        ending = name[name.rfind(".") + 1 :]
        role = roles.get(ending)
        if role is None:
            named = ending in BY_ENDING or ending.endswith(("_blocks", "_packed", "_qdata"))
            role = roles[ending] = "?" if named else names.HELPERS.get(ending, "")
        if name.startswith("<"):
            tensors.claimed[name] = names.apart(name)
        elif role == "?" or (role == "" and tensor.dtype not in plain):
            found.append(tensor)
        elif role:
            tensors.claimed[name] = role
    tensors.endings = set(roles)
    return found
