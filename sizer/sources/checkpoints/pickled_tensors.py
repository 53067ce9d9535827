"""The tensors in what a pickle of PyTorch would build.

PyTorch writes a tensor as a call of `torch._utils._rebuild_tensor_v2` on a reference to its storage.
Only those calls are read. A call of anything in the standard library that does not make plain data
is refused; objects of other packages are passed over, and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.harmless import check_harmless, is_plain
from sizer.sources.checkpoints.pickles import Call, Dict, Global, Persistent
from sizer.sources.checkpoints.stored import StoredTensor, check_number, elements_of

# Things visited in one pickle: containers may hold each other many times over.
MAX_VISITED = 1_000_000
MAX_DEPTH = 64

# torch's names for storages and dtypes -> ours, and bytes of an element
DTYPES = {
    "DoubleStorage": ("fp64", 8),
    "FloatStorage": ("fp32", 4),
    "HalfStorage": ("fp16", 2),
    "BFloat16Storage": ("bf16", 2),
    "LongStorage": ("int64", 8),
    "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2),
    "CharStorage": ("int8", 1),
    "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1),
    "ComplexFloatStorage": ("complex64", 8),
    "ComplexDoubleStorage": ("complex128", 16),
    "QInt8Storage": ("qint8", 1),
    "QUInt8Storage": ("quint8", 1),
    "QInt32Storage": ("qint32", 4),
    "UntypedStorage": ("uint8", 1),
    "float64": ("fp64", 8),
    "double": ("fp64", 8),
    "float32": ("fp32", 4),
    "float": ("fp32", 4),
    "float16": ("fp16", 2),
    "half": ("fp16", 2),
    "bfloat16": ("bf16", 2),
    "float8_e4m3fn": ("fp8_e4m3", 1),
    "float8_e5m2": ("fp8_e5m2", 1),
    "float8_e4m3fnuz": ("fp8_e4m3fnuz", 1),
    "float8_e5m2fnuz": ("fp8_e5m2fnuz", 1),
    "float8_e8m0fnu": ("fp8_e8m0", 1),
    "float4_e2m1fn_x2": ("uint8", 1),
    "int64": ("int64", 8),
    "int32": ("int32", 4),
    "int16": ("int16", 2),
    "int8": ("int8", 1),
    "uint64": ("uint64", 8),
    "uint32": ("uint32", 4),
    "uint16": ("uint16", 2),
    "uint8": ("uint8", 1),
    "bool": ("bool", 1),
    "complex64": ("complex64", 8),
    "complex128": ("complex128", 16),
}


class Storage:
    """A storage: its dtype, its elements, where its bytes are and how many are there."""

    __slots__ = ("bytes", "dtype", "elements", "key", "offset", "width")

    def __init__(
        self, key: str, dtype: str, width: int, elements: int, offset: int | None, bytes: int
    ) -> None:
        self.key = key
        self.dtype = dtype
        self.width = width
        self.elements = elements
        self.offset = offset
        self.bytes = bytes


def storage_of(ref: Persistent, where: str) -> Storage:
    """The storage that a reference names: `("storage", type, key, place, elements)`."""
    found = ref.id
    if not (isinstance(found, tuple) and len(found) >= 5 and found[0] == "storage"):
        raise BadInput(f"{clip(where)}: a reference in its pickle is not to a storage")
    kind, key, elements = found[1], found[2], found[4]
    name = kind.name if isinstance(kind, Global) else ""
    if name not in DTYPES or not isinstance(elements, int) or not 0 <= elements < 2**63:
        raise BadInput(
            f"{clip(where)}: storage {clip(key)} of {clip(name or kind)} is of no type that torch has"
        )
    dtype, width = DTYPES[name]
    return Storage(str(key), dtype, width, elements, None, elements * width)


class Found:
    """A tensor in a pickle: the path of keys to it, and how it lies in its storage."""

    __slots__ = ("dtype", "elements", "offset", "path", "shape", "storage", "stored", "width")

    def __init__(
        self, path: tuple[str, ...], storage: Storage | None, dtype: str, width: int, offset: int, shape: Any,
        stride: Any, where: str,
    ) -> None:  # fmt: skip
        what = f"{clip(where)}: {clip('.'.join(path))}"
        if not _sizes(shape) or not _sizes(stride) or len(shape) != len(stride) or not _sizes((offset,)):
            raise BadInput(f"{what} has a shape or a stride that is no list of whole numbers")
        self.path = path
        self.storage = storage
        self.dtype = dtype
        self.width = width
        self.offset = offset
        self.shape = tuple(shape)
        self.elements = elements_of(self.shape, what)
        # A stride of zero repeats one element over a whole axis.
        self.stored = elements_of((n for n, s in zip(shape, stride, strict=True) if s), what)
        if self.elements == 0:
            self.stored = 0
        end = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if self.stored else 0
        room = storage.bytes // width if storage is not None else end
        if end > room or self.stored > max(room, 0):
            raise BadInput(
                f"{what} of shape {list(shape)} reaches element {max(end, self.stored):,} "
                f"of a storage of {room:,}"
            )


def _sizes(values: Any) -> bool:
    return isinstance(values, tuple | list) and all(
        type(value) is int and 0 <= value < 2**63 for value in values
    )


class Walk:
    """Finds the tensors in what a pickle would build."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.visited = 0
        self.found: list[Found] = []
        self.passed_over: dict[str, int] = {}
        # Tensors made of others: the path, the class, the shape.
        self.made_of_tensors: list[tuple[tuple[str, ...], str, tuple[int, ...]]] = []
        self._storages: dict[int, Storage] = {}

    def storages(self) -> Iterator[Storage]:
        """All storages referred to."""
        return iter(self._storages.values())

    def visit(self, thing: Any, path: tuple[str, ...] = (), depth: int = 0) -> None:
        """Find the tensors in a thing under a path of keys."""
        self.visited += 1
        if self.visited > MAX_VISITED or depth > MAX_DEPTH:
            raise BadInput(
                f"{clip(self.where)} is a pickle nested too deeply, or of too many things, to read"
            )
        if isinstance(thing, Dict):
            self._pairs(thing.items, path, depth)
        elif isinstance(thing, list | tuple):
            self._pairs(enumerate(thing), path, depth)
        elif isinstance(thing, Call):
            self._call(thing, path, depth)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], path: tuple[str, ...], depth: int) -> None:
        for key, value in pairs:
            if isinstance(value, Dict | list | tuple | Call):
                name = str(key) if isinstance(key, str | int) else "*"
                self.visit(value, (*path, name), depth + 1)
            elif not isinstance(key, str | int | float | type(None)):
                self.visit(key, path, depth + 1)

    def _call(self, call: Call, path: tuple[str, ...], depth: int) -> None:
        callee = call.callee
        if not isinstance(callee, Global):
            raise BadInput(f"{clip(self.where)}: its pickle calls the result of a call, so it is not read")
        name = callee.name
        if callee.module in ("torch._utils", "torch._tensor") and name.startswith("_rebuild"):
            self._tensor(name, call, path, depth)
            return
        check_harmless(callee, self.where)
        if not is_plain(callee):
            self.passed_over[callee.path] = self.passed_over.get(callee.path, 0) + 1
        self.visit(call.args, path, depth + 1)
        self._pairs(call.items, path, depth)
        self.visit(call.state, path, depth + 1)

    def _tensor(self, name: str, call: Call, path: tuple[str, ...], depth: int) -> None:
        args = call.args if isinstance(call.args, tuple) else ()
        if name in ("_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_from_type_v2") and args:
            # A parameter around a tensor; a subclass, whose arguments hold the function to rebuild it.
            inner = args[0]
            if name == "_rebuild_from_type_v2" and len(args) >= 4:
                inner = Call(args[0], args[2])
                inner.state = args[3]
            self.visit(inner, path, depth + 1)
            return
        if name == "_rebuild_wrapper_subclass":
            # A tensor made of tensors, as TorchAO writes: they are in its state.
            if len(args) >= 3 and isinstance(args[0], Global) and _sizes(args[2]):
                self.made_of_tensors.append((path, args[0].name, tuple(args[2])))
            self.visit(call.state, path, depth + 1)
            return
        if name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor"):
            if len(args) < 4 or not isinstance(args[0], Persistent):
                raise BadInput(f"{clip(self.where)}: {clip('.'.join(path))} is a tensor without a storage")
            storage = self._storage(args[0])
            dtype, width = storage.dtype, storage.width
            if name == "_rebuild_tensor_v3" and len(args) > 6 and isinstance(args[6], Global):
                dtype, width = DTYPES.get(args[6].name, ("", 0))
                if not width:
                    raise BadInput(f"{clip(self.where)}: {clip(args[6].name)} is no dtype that sizer knows")
            self._keep(Found(path, storage, dtype, width, args[1], args[2], args[3], self.where))
            return
        if name == "_rebuild_meta_tensor_no_storage" and len(args) >= 3 and isinstance(args[0], Global):
            raise BadInput(
                f"{clip(self.where)}: {clip('.'.join(path))} is on the meta device, so no weights were saved"
            )
        if name == "_rebuild_sparse_tensor":
            self.visit(args, path, depth + 1)
            return
        raise BadInput(
            f"{clip(self.where)}: {clip('.'.join(path))} is rebuilt by {name}, which sizer does not read"
        )

    def _storage(self, ref: Persistent) -> Storage:
        found = self._storages.get(id(ref))
        if found is None:
            found = self._storages[id(ref)] = storage_of(ref, self.where)
        return found

    def _keep(self, tensor: Found) -> None:
        self.found.append(tensor)
        check_number(len(self.found), self.where)


Made = dict[str, tuple[str, tuple[int, ...]]]


def stored_tensors(walk: Walk, places: Mapping[str, Storage], file: str) -> tuple[list[StoredTensor], Made]:
    """The tensors found, as stored ones, and those made of them by name.

    Those on the same piece of a storage are tied.
    """
    from sizer.sources.checkpoints.wrappers import named

    stored: list[StoredTensor] = []
    first: dict[tuple[str, int, tuple[int, ...]], str] = {}
    names = named([f.path for f in walk.found] + [path for path, _, _ in walk.made_of_tensors])
    count = len(walk.found)
    for found, name in zip(walk.found, names[:count], strict=True):
        assert found.storage is not None
        key = (found.storage.key, found.offset, found.shape)
        owner = first.setdefault(key, name)
        place = places.get(found.storage.key)
        begin = place.offset if place is not None else None
        stored.append(
            StoredTensor(
                name,
                found.shape,
                found.dtype,
                found.stored,
                found.stored * found.width,
                file,
                None if begin is None else begin + found.offset * found.width,
                owner if owner != name else None,
            )
        )
    made = zip(names[count:], walk.made_of_tensors, strict=True)
    return stored, {name: (kind, shape) for name, (_, kind, shape) in made}
