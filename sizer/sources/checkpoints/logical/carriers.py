"""Which stored tensors a scheme may have to read: those of a telling name, or of a small type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sizer.sources.checkpoints.columns import Columns
    from sizer.sources.checkpoints.logical.weights import Tensors
    from sizer.sources.checkpoints.stored import StoredTensor


def are_plain(columns: list[Columns], plain: frozenset[str]) -> bool:
    """Whether no tensor has a telling name or a small type."""
    if any(kind.dtype not in plain for one in columns for kind in set(one.kinds)):
        return False
    groups = [tensor for one in columns for tensor, _ in one.groups]
    endings = {tensor.name[tensor.name.rfind(".") + 1 :] for tensor in groups}
    return not (_roles(endings) or any(tensor.name.startswith("<") for tensor in groups))


def _roles(endings: set[str]) -> dict[str, str]:
    """The last step of a name -> the component of a helper, or "?" for a scheme to say."""
    from sizer.sources.checkpoints.logical import names
    from sizer.sources.checkpoints.logical.schemes import BY_ENDING

    roles = {ending: names.HELPERS[ending] for ending in endings if ending in names.HELPERS}
    for ending in endings:
        if ending in BY_ENDING or ending.endswith(("_blocks", "_packed", "_qdata")):
            roles[ending] = "?"
    return roles


def carriers_of(tensors: Tensors, plain: frozenset[str]) -> list[StoredTensor]:
    """The tensors that a scheme may read: those of a telling name, or of a small type."""
    from sizer.sources.checkpoints.logical import names

    stored = tensors.contents.stored
    endings = {tensor.name[tensor.name.rfind(".") + 1 :] for tensor in stored}
    tensors.endings = endings
    roles = _roles(endings)
    apart = any(tensor.name.startswith("<") for tensor in stored)
    if not roles and not apart and plain.issuperset({tensor.dtype for tensor in stored}):
        return []
    found = []
    for tensor in stored:
        name = tensor.name
        if name in tensors.taken or name in tensors.claimed:
            continue
        role = roles.get(name[name.rfind(".") + 1 :])
        if apart and name.startswith("<"):
            tensors.claimed[name] = names.apart(name)
        elif role == "?" or (role is None and tensor.dtype not in plain):
            found.append(tensor)
        elif role is not None:
            tensors.claimed[name] = role
    return found
