"""What is worth saying of a repository besides the answer."""

from __future__ import annotations

from sizer.errors import printable
from sizer.sources.hub.repository import place


def source(path: str) -> str:
    """Where the answer comes from: the repository and its commit."""
    repository, _ = place(path)
    note = f", {repository.note}" if repository.note else ""
    return printable(f"{repository.where} at commit {repository.commit[:12]}{note}")


def weights(path: str) -> list[str]:
    """The files of weights beside a configuration, how to count them, and what the hub says they hold."""
    from sizer.sources.checkpoints.read import ENDINGS

    repository, _ = place(path)
    files = {name: size for name, size in repository.sizes.items() if name.endswith(ENDINGS)}
    if not files:
        return []
    beside = next((n for n in sorted(repository.sizes) if n.endswith(".index.json")), min(files))
    size = sum(size or 0 for size in files.values())
    said = [
        f"by its configuration; the repository has {len(files):,} files of weights, {size:,} bytes: count "
        f"{repository.where}/{beside} to read their headers"
    ]
    if repository.stated:
        dtypes = ", ".join(f"{elements:,} {dtype}" for dtype, elements in repository.stated.items())
        said.append(f"the hub says of itself that its safetensors files store {dtypes}")
    return [printable(line) for line in said]
