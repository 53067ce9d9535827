"""Which names a pickle of weights may call, though nothing is ever called."""

from __future__ import annotations

import sys

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.pickles import Global

_PLAIN_BUILTINS = {
    *("set", "frozenset", "dict", "list", "tuple", "slice", "object", "getattr"),
    *("complex", "bytearray", "bytes", "int", "float", "str", "bool"),
}
# Functions and classes of the standard library that make plain data.
_PLAIN = {
    "collections": {"OrderedDict", "defaultdict", "Counter", "deque", "namedtuple"},
    "builtins": _PLAIN_BUILTINS,
    "__builtin__": _PLAIN_BUILTINS | {"unicode", "long"},
    "copyreg": {"_reconstructor", "__newobj__"},
    "copy_reg": {"_reconstructor", "__newobj__"},
    "argparse": {"Namespace"},
    "types": {"SimpleNamespace", "MappingProxyType"},
    "pathlib": {"Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath", "PurePath"},
    "datetime": {"datetime", "date", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID"},
    "_codecs": {"encode"},
    "functools": {"partial"},
    "enum": {"Enum", "IntEnum"},
    "random": {"Random"},
}
_TORCH_PLAIN = ("torch.Size", "torch.device", "torch.dtype", "torch.serialization._get_layout")


def is_plain(callee: Global) -> bool:
    """Whether a call makes plain data, which is not worth a word."""
    return callee.module in _PLAIN or callee.path in _TORCH_PLAIN


def check_harmless(callee: Global, where: str) -> None:
    """Refuse a call that a file of weights has no need of."""
    top = callee.module.split(".")[0]
    plain = callee.name in _PLAIN.get(callee.module, ())
    if not plain and (top in sys.stdlib_module_names or top in ("__builtin__", "copy_reg", "nt", "posix")):
        raise BadInput(
            f"{clip(where)} is refused: its pickle calls {clip(callee.path)}, which no file of weights needs "
            "(sizer runs nothing; do not load this file)"
        )
