"""The isoFLOP picture: loss over size, a curve a budget, its lowest point marked."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

from sizer.errors import InvalidConfig
from sizer.planning.scaling import FLOPS, Loss, Optimum
from sizer.report import figure

# Budgets below the one asked for, and how far from the best size a curve is drawn.
BUDGETS = (1e-3, 1e-2, 1e-1, 1.0)
REACH = 12.0
POINTS = 121


def draw(best: Sequence[Optimum], path: str, *, params: int | None = None, tokens: int | None = None) -> None:
    """One panel a law that has a loss; the run that was asked about is a cross."""
    if not best:
        raise InvalidConfig(
            "--plot draws losses, and these laws have none; add --law chinchilla-3 or --law epoch"
        )
    drawing = figure.new(height=3.8 * len(best) + 0.4)
    panels: Any = drawing.subplots(len(best), 1, squeeze=False)[:, 0]
    for panel, one in zip(panels, best, strict=True):
        rule = one.law.rule
        assert isinstance(rule, Loss)
        minima = []
        for i, share in enumerate(BUDGETS):
            flops = one.flops * share
            least = rule.best(flops)
            sizes = [least * REACH ** (2 * j / (POINTS - 1) - 1) for j in range(POINTS)]
            losses = [rule.at(n, flops / (FLOPS * n)) for n in sizes]
            panel.plot(sizes, losses, color=figure.COLOURS[i], linewidth=1.6, label=f"{flops:.3g} FLOPs")
            minima.append((least, rule.at(least, flops / (FLOPS * least))))
        panel.plot(
            *zip(*minima, strict=True), color="#444444", linestyle=":", marker="o", markersize=5, label="best"
        )
        if params is not None and tokens is not None:
            panel.plot(
                [params], [rule.at(params, tokens)], "X", color="#000000", markersize=9, label="this run"
            )
        panel.set_xscale("log")
        panel.set_ylabel("loss (nats a token)")
        panel.set_title(f"{one.name}: {one.law.formula}", fontsize=10)
        panel.xaxis.set_major_formatter(figure.numbers())
        panel.set_xlim(10 ** (log10(minima[0][0]) - 1.2), 10 ** (log10(minima[-1][0]) + 1.2))
        panel.legend(frameon=False, fontsize=9)
        figure.plain(panel)
    panels[-1].set_xlabel("parameters")
    figure.save(drawing, path)
