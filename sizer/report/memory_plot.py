"""The picture of `sizer memory`: its parts over the length or the number of sequences, stacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sizer.report import figure

# What is stacked, from the bottom up; the keys of the document.
PARTS = {
    "weights_bytes": "weights",
    "gradients_bytes": "gradients",
    "optimizer_bytes": "optimizer state",
    "kv_cache_bytes": "KV cache",
    "activations_bytes": "activations",
}
ALONG = {"seq-len": "tokens a sequence", "batch-size": "sequences"}
# Points to the left and right of the one that is asked for, each twice the one before.
BEFORE, AFTER = 3, 3
GIB = 2**30


def draw(
    path: str, along: str, at: int, document_of: Callable[[int], Mapping[str, Any]], *, title: str
) -> None:
    """Draw the parts for sizes around `at`, each of them worked out, and the peak or total as a line."""
    smaller = [at >> i for i in range(1, BEFORE + 1) if at % 2**i == 0]
    sizes = sorted([*smaller, at, *(at << i for i in range(1, AFTER + 1))])
    documents = [document_of(size) for size in sizes]
    drawing = figure.new()
    axes: Any = drawing.subplots()
    shown = [key for key in PARTS if any(document.get(key) for document in documents)]
    stacks = [[document.get(key, 0) / GIB for document in documents] for key in shown]
    whole = "peak_bytes" if "peak_bytes" in documents[0] else "total_bytes"
    line = [document[whole] / GIB for document in documents]
    label = "peak" if whole == "peak_bytes" else "total"
    # What is alive at the peak and no part of the others, such as the gradient of the logits.
    stacks.append([max(0.0, top - sum(parts)) for top, *parts in zip(line, *stacks, strict=True)])
    axes.stackplot(
        sizes,
        *stacks,
        labels=[*(PARTS[key] for key in shown), "temporaries"],
        colors=[*figure.COLOURS[: len(shown)], "#bbbbbb"],
        alpha=0.85,
    )
    axes.plot(sizes, line, color="#000000", linewidth=1.4, marker="o", markersize=4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xlim(sizes[0], sizes[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(ALONG[along])
    axes.set_ylabel("GiB")
    axes.set_title(title, fontsize=10)
    figure.plain(axes)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    figure.save(drawing, path)
