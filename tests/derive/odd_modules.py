"""Modules that take few values, few words, or many: what a derivation has to find out by trying."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import BaseModel
from torch import nn


class Octets(nn.Module):
    """A width of whole octets, as tensor cores like it."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        if width % 8:
            raise ValueError(f"{width} is no multiple of 8")
        self.layer = nn.Linear(width, 2 * width)


class Grouped(nn.Module):
    """Groups that divide a product, and a rotation of half of each head."""

    def __init__(self, dim: int = 64, heads: int = 4, groups: int = 6, channels: int = 3) -> None:
        super().__init__()
        if (heads * channels) % groups or dim % heads or (dim // heads) % 2:
            raise ValueError("these do not divide")
        self.inner = nn.Linear(heads * channels, groups)
        self.head = nn.Linear(dim // heads, dim)


class Large(nn.Module):
    """Whoever wrote it wants no small model."""

    def __init__(self, width: int = 512, depth: int = 2) -> None:
        super().__init__()
        if width < 500:
            raise ValueError("too small")
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


class Only(nn.Module):
    """One width, which a kernel was written for."""

    def __init__(self, width: int = 48, out: int = 7) -> None:
        super().__init__()
        if str(width) != "48":
            raise ValueError("the kernel is for a width of 48")
        self.layer = nn.Linear(width, out)


class Fixed(nn.Module):
    """The same of all its sizes."""

    def __init__(self, width: int = 48, out: int = 7) -> None:
        super().__init__()
        if (str(width), str(out)) != ("48", "7"):
            raise ValueError("the kernel is for 48 and 7")
        self.layer = nn.Linear(width, out)


class Idle(nn.Module):
    """Lengths that make no tensor, and one of which may not be too long for its width."""

    def __init__(self, width: int = 512, length: int = 4096, window: int = 128) -> None:
        super().__init__()
        if length % window or window > length:
            raise ValueError("no whole number of windows")
        if int(str(length)) > 8 * int(str(width)):
            raise ValueError("too long for its width")
        self.window = window
        self.layer = nn.Linear(width, width)


class Late(nn.Module):
    """From the tenth layer on they are twice as wide."""

    def __init__(self, d: int = 16, layers: int = 11) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d, 2 * d if i >= 9 else d, bias=False) for i in range(layers))


class Triangle(nn.Module):
    """Each layer looks at all before it, as in DenseNet."""

    def __init__(self, d: int = 8, layers: int = 5) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(i + 1)) for i in range(layers)
        )


class Squares(nn.Module):
    """A width for each layer, of which there is no pattern in the list."""

    def __init__(self, d: int = 8, layers: int = 10) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d, 3 + i * i, bias=False) for i in range(layers))


class Ranks(nn.Module):
    """As many dimensions as are asked for."""

    def __init__(self, width: int = 6, dims: int = 2) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(*[width] * dims))


class Product(nn.Module):
    """A size of three factors, which leaves Python on the way."""

    def __init__(self, a: int = 3, b: int = 4, c: int = 5) -> None:
        super().__init__()
        self.layer = nn.Linear(int(str(a * b * c)), a, bias=False)


class Chance(nn.Module):
    """A width that nobody asked for."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.layer = nn.Linear(random.randint(1, 10**6), 4)


_BUILT: list[int] = []


class Once(nn.Module):
    """It registers itself, and there is one of it."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        if _BUILT:
            raise RuntimeError("registered already")
        _BUILT.append(int(width))
        self.layer = nn.Linear(width, width)


class Powers(nn.Module):
    """A width that is a power of two, as a Hadamard transform needs it."""

    def __init__(self, width: int = 64, out: int = 3) -> None:
        super().__init__()
        if int(str(width)).bit_count() != 1:
            raise ValueError("no power of two")
        self.layer = nn.Linear(width, out, bias=False)


class Many(nn.Module):
    """More tensors than any model has."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        one = nn.Parameter(torch.zeros(width))
        for i in range(10**6):
            self.register_parameter(f"p{i}", one)


class Arithmetic(nn.Module):
    """Numbers in the ways that constructors have them."""

    def __init__(
        self,
        width: int = 48,
        heads: int = 4,
        extra: int = 1,
        gated: bool = True,
        mode: str = "plain",
        most: float = math.inf,
        rate: float = 0.25,
    ) -> None:
        super().__init__()
        self.scale = (width // heads) ** -0.5
        self.std = round(2 / (5 * width), 3)
        self.budget = width * most + width / (heads + extra)
        self.names = ["head"] * heads
        self.whole = nn.Parameter(torch.zeros(math.ceil(width * 2.0)))
        size = width + width * gated if mode != 3 else 0
        self.up = nn.Linear(min(size, math.inf), round(width * 1.5), bias=False)
        self.part = nn.Linear(int(width / heads), 1 + round(rate * width), bias=False)
        self.odd = nn.Linear(width // (heads + extra) + 1, width % 7 + 1, bias=False)
        self.square = nn.Parameter(torch.zeros(width**2, 2**heads))
        if width + heads == 53:
            self.budget = 0.0


class Numbered(nn.Module):
    """Layers with their number in their name, norms of both kinds, and a list of tensors."""

    def __init__(self, d: int = 8, depth: int = 3) -> None:
        super().__init__()
        for i in range(depth):
            setattr(self, f"layer{i}", nn.Linear(d, d))
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(d)) for _ in range(depth)])
        self.norm, self.other, self.batch = nn.LayerNorm(d), nn.RMSNorm(d), nn.BatchNorm1d(d)
        self.pair = nn.Bilinear(d, d, 2)
        self.absent = None
        self.register_parameter("none", None)
        self.register_module("nothing", None)


class Shared(nn.Module):
    """Stages in one list, whose layers are all one tensor."""

    def __init__(self, width: int = 4, depths: tuple[int, ...] = (2, 3)) -> None:
        super().__init__()
        layers = []
        for stage, depth in enumerate(depths):
            one = nn.Linear(width * 2**stage, width * 2**stage, bias=False)
            for _ in range(depth):
                layer = nn.Linear(1, 1, bias=False)
                layer.weight = one.weight
                layers.append(layer)
        self.layers = nn.ModuleList(layers)


class Padded(nn.Module):
    """Padding that nobody has written yet."""

    def __init__(self, width: int = 8, pad: int = 0) -> None:
        super().__init__()
        if str(pad) != "0":
            raise NotImplementedError("padding")
        self.scale = nn.Parameter(torch.ones(width))


class Special(nn.Module):
    """The published depth has three numbers more."""

    def __init__(self, width: int = 30, layers: int = 12) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)
        self.extra = nn.ParameterList(
            nn.Parameter(torch.ones(1)) for _ in range(3 if str(layers) == "12" else min(layers, 1))
        )


class Given(nn.Module):
    """The published width has a bias."""

    def __init__(self, width: int = 100) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width, bias=str(width) == "100")


class Even(nn.Module):
    """Two widths whose sum is even."""

    def __init__(self, a: int = 30, b: int = 40) -> None:
        super().__init__()
        if (int(str(a)) + int(str(b))) % 2:
            raise ValueError("the sum is odd")
        self.layer = nn.Linear(a, b, bias=False)


class Pairs(nn.Module):
    """Two of its three widths are as published."""

    def __init__(self, a: int = 30, b: int = 40, c: int = 50) -> None:
        super().__init__()
        if (str(a) == "30") + (str(b) == "40") + (str(c) == "50") < 2:
            raise ValueError("two of the three are 30, 40 and 50")
        self.layer = nn.Linear(a, b, bias=False)
        self.other = nn.Linear(b, c, bias=False)


class Stuck(nn.Module):
    """It waits for something that does not come."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        while width:
            pass


class Slow(nn.Module):
    """It reads a table each time."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        time.sleep(0.3)
        self.layer = nn.Linear(width, width)


class _Leaving:
    def __del__(self) -> None:
        end = time.monotonic() + 1.3
        while time.monotonic() < end:
            pass


class Clinging(nn.Module):
    """It takes long where it throws away, and has more to do after that."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        time.sleep(0.9)
        _Leaving()
        while width:
            pass


@dataclass
class Inner:
    width: int
    rank: int = 2


@dataclass
class Outer:
    inner: Inner
    other: Inner = field(default_factory=lambda: Inner(5))
    depth: int = 2
    head: int = field(init=False, default=3)


class Nested(nn.Module):
    """Two objects in one, of which one has to be given."""

    def __init__(self, config: Outer) -> None:
        super().__init__()
        inner, other = config.inner, config.other
        self.layers = nn.ModuleList(
            nn.Linear(inner.width, inner.rank, bias=False) for _ in range(config.depth)
        )
        self.other = nn.Linear(other.width, config.head, bias=False)


class Checked(BaseModel):
    width: int
    depth: int = 2


class Pydantic(nn.Module):
    def __init__(self, cfg: Checked) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(cfg.width, 1, bias=False) for _ in range(cfg.depth))


class Holder(BaseModel):
    inner: Checked = Checked(width=9)


class Held(nn.Module):
    def __init__(self, cfg: Holder) -> None:
        super().__init__()
        self.layer = nn.Linear(cfg.inner.width, cfg.inner.depth, bias=False)


class Plain:
    """A configuration as transformers' were before they were dataclasses."""

    model_type = "plain"

    def __init__(self, width: int, depth: int = 2, **rest: Any) -> None:
        self.width, self.depth, self.rest = width, depth, rest

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class Configured(nn.Module):
    def __init__(self, cfg: Plain) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(cfg.width, 1, bias=False) for _ in range(cfg.depth))


def positional(width: int, /, options: dict[str, int] = {"out": 3}) -> nn.Module:  # noqa: B006
    return nn.Linear(width, options["out"], bias=False)


def namesakes(a: list[int] = [4, 5], a_0: int = 6) -> nn.Module:  # noqa: B006
    return nn.Sequential(nn.Linear(a[0], a[1], bias=False), nn.Linear(a_0, 1, bias=False))


def flags(**options: bool) -> nn.Module:
    return nn.Linear(4, 4, bias=any(options.values()))


@dataclass
class Maybe:
    width: int = 4
    extra: Inner = None  # type: ignore[assignment]


class Without(nn.Module):
    """A part that is absent unless it is given."""

    def __init__(self, config: Maybe) -> None:
        super().__init__()
        self.layer = nn.Linear(config.width, config.width, bias=False)
        if config.extra is not None:
            self.extra = nn.Linear(config.extra.width, config.extra.rank, bias=False)
