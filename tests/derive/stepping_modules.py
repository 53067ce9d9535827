"""Modules whose sizes step: what small sizes do not show, and a formula that fits them is wrong elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn as nn


class Feed(nn.Module):
    """LLaMA's feed-forward width: two thirds, a multiplier, and the next multiple."""

    def __init__(
        self, dim: int = 512, hidden: int = 2048, multiple_of: int = 256, factor: float = 1.3
    ) -> None:
        super().__init__()
        hidden = int(factor * int(2 * hidden / 3))
        hidden = multiple_of * ((hidden + multiple_of - 1) // multiple_of)
        self.w1 = nn.Linear(dim, hidden, bias=False)


class Coarse(nn.Module):
    """The same with the multiplier in the code, so that the formula is lost, and one step at small sizes."""

    def __init__(self, dim: int = 512, hidden: int = 2048) -> None:
        super().__init__()
        hidden = int(1.3 * int(2 * hidden / 3))
        self.w1 = nn.Linear(dim, 256 * ((hidden + 255) // 256), bias=False)


class Divisible(nn.Module):
    """MobileNet's widths: a multiple of eight, and the next one where it would lose over a tenth."""

    def __init__(self, base: int = 32, times: int = 6, factor: float = 1.0) -> None:
        super().__init__()
        wanted = base * factor
        width = max(8, int(wanted + 4) // 8 * 8)
        if width < 0.9 * wanted:
            width += 8
        self.conv = nn.Conv2d(width, width * times, 1, bias=False)


class Ranked(nn.Module):
    """A rank of nothing, which adds no tensor."""

    def __init__(self, dim: int = 64, rank: int = 0) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, dim, bias=False)
        self.low = nn.Linear(dim, rank, bias=False) if rank else nn.Identity()


class Thirds(nn.Module):
    """Every third layer is twice as wide."""

    def __init__(self, d: int = 48, layers: int = 12, every: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(d, 2 * d if (i + 1) % every == 0 else d, bias=False) for i in range(layers)
        )


class Staged(nn.Module):
    """Stages one after the other in a single list, each twice as wide as the one before."""

    def __init__(self, width: int = 16, depths: Sequence[int] = (3, 3, 9)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width * 2**stage, width * 2**stage, bias=False)
            for stage, depth in enumerate(depths)
            for _ in range(depth)
        )


class Nearly(nn.Module):
    """A slope of 2.667 is 8/3 up to a width of 3,000, as of the feed-forward of xLSTM."""

    def __init__(self, dim: int = 4096) -> None:
        super().__init__()
        self.up = nn.Linear(dim, int((dim * 2.667 + 63) // 64) * 64, bias=False)
