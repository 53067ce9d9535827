"""Modules as users write them, for the tests of `sizer derive`."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, make_dataclass
from itertools import pairwise

import torch
from pydantic import BaseModel
from torch import nn


class SwiGLU(nn.Module):
    """A width of two thirds, rounded up to a multiple of 256, as LLaMA's reference code has it."""

    def __init__(self, dim: int = 4096, multiple_of: int = 256) -> None:
        super().__init__()
        hidden = int(2 * (4 * dim) / 3)
        hidden = multiple_of * ((hidden + multiple_of - 1) // multiple_of)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)


class Rounded(nn.Module):
    """The same with a constant multiple, and with a call that hides the arithmetic from Python."""

    def __init__(self, d: int = 512) -> None:
        super().__init__()
        self.up = nn.Linear(d, 256 * math.ceil(8 * d / 3 / 256), bias=False)
        self.hidden = nn.Linear(d, 64 * math.ceil(float(str(3 * d)) / 64), bias=False)


def mlp(sizes: list[int] = [784, 256, 128, 10], bias: bool = True) -> nn.Module:  # noqa: B006
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def deep(width: int = 32, depth: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(3, width), *(nn.Linear(width, width) for _ in range(depth)))


class Double(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1),
            nn.BatchNorm2d(b),
            nn.ReLU(),
            nn.Conv2d(b, b, 3, padding=1),
            nn.BatchNorm2d(b),
        )


class UNet(nn.Module):
    """Three levels down and up; the way up sees the way down beside it."""

    def __init__(self, in_channels: int = 3, classes: int = 2, base: int = 16) -> None:
        super().__init__()
        widths = [base * 2**i for i in range(3)]
        self.stem = Double(in_channels, widths[0])
        self.down = nn.ModuleList(Double(a, b) for a, b in pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths))
        self.join = nn.ModuleList(Double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], classes, 1)


class Residual(nn.Module):
    """A shortcut has weights where widths differ."""

    def __init__(self, widths: tuple[int, ...] = (8, 8, 16), kernel: int = 3, groups: int = 1) -> None:
        super().__init__()
        self.convs = nn.ModuleList()
        self.shortcuts = nn.ModuleList()
        for a, b in pairwise(widths):
            self.convs.append(nn.Conv2d(a, b, kernel, padding=kernel // 2, groups=groups, bias=False))
            if a != b:
                self.shortcuts.append(nn.Conv2d(a, b, 1, bias=False))


class Attention(nn.Module):
    def __init__(
        self, embed_dim: int = 64, num_heads: int = 4, kdim: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, kdim=kdim, vdim=kdim, bias=bias)


class Tagger(nn.Module):
    """Recurrent, in one of two kinds."""

    def __init__(
        self,
        vocab: int = 1000,
        width: int = 32,
        hidden: int = 64,
        layers: int = 2,
        tags: int = 9,
        cell: str = "lstm",
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.rnn = kind(width, hidden, layers, bidirectional=bidirectional)
        self.out = nn.Linear(hidden * (2 if bidirectional else 1), tags)


class Tied(nn.Module):
    def __init__(self, vocab: int = 100, width: int = 16, factor: int = 4, tie: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.ff = nn.Linear(width, factor * width)
        self.head = nn.Linear(width, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight


class Scales(nn.Module):
    """Tensors of its own: a list, a table, and a scalar."""

    def __init__(self, d: int = 24, count: int = 3, context: int = 50) -> None:
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(d)) for _ in range(count)])
        self.positions = nn.Parameter(torch.zeros(1, context + 1, d))
        self.temperature = nn.Parameter(torch.tensor(1.0))


class Kind(enum.Enum):
    PLAIN = "plain"
    GATED = "gated"


@dataclass
class NetConfig:
    d_model: int = 64
    n_layers: int = 3
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_ff: int | None = None
    kind: Kind = Kind.PLAIN
    vocab: int = 500
    extra: tuple[int, ...] = (8, 4)
    options: dict[str, int] = field(default_factory=dict)


class Net(nn.Module):
    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        d, head = config.d_model, config.d_model // config.n_heads
        kv = head * (config.n_kv_heads or config.n_heads)
        ff = config.d_ff or 4 * d
        self.embed = nn.Embedding(config.vocab, d)
        self.layers = nn.ModuleList()
        for _ in range(config.n_layers):
            layer = nn.ModuleDict({"q": nn.Linear(d, d), "kv": nn.Linear(d, 2 * kv), "up": nn.Linear(d, ff)})
            if config.kind is Kind.GATED:
                layer["gate"] = nn.Linear(d, ff)
            layer["down"] = nn.Linear(ff, d)
            self.layers.append(layer)


class Wide(BaseModel):
    width: int = 40
    depth: int = 2


class Pydantic(nn.Module):
    def __init__(self, cfg: Wide) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(cfg.width, cfg.width // 2) for _ in range(cfg.depth))


class Untyped(nn.Module):
    def __init__(self, args) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(args.width, args.width) for _ in range(args.depth))


class Book(nn.Module):
    """A dictionary of settings without an annotation."""

    def __init__(self, cfg) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.tok_emb = nn.Embedding(cfg["vocab_size"], cfg["emb_dim"])
        self.out_head = nn.Linear(cfg.emb_dim, cfg.vocab_size, bias=cfg["qkv_bias"])


class Sparse(nn.Module):
    """The first layers dense, the others of experts, every second of them with a norm."""

    def __init__(
        self, d: int = 32, layers: int = 12, dense: int = 2, experts: int = 8, d_ff: int = 48
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(layers):
            if i < dense:
                self.layers.append(nn.ModuleDict({"mlp": nn.Linear(d, d_ff, bias=False)}))
                continue
            layer = nn.ModuleDict(
                {"experts": nn.ModuleList(nn.Linear(d, d_ff, bias=False) for _ in range(experts))}
            )
            layer["router"] = nn.Linear(d, experts, bias=False)
            self.layers.append(layer)
        self.norms = nn.ModuleDict({str(i): nn.LayerNorm(d, bias=False) for i in range(layers) if i % 2 == 1})


class Needs(nn.Module):
    def __init__(self, width: int, depth: int, rate: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


class Reads(nn.Module):
    """Looks at the value of a tensor, which the meta device has none of."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layer = nn.Linear(width, int(torch.ones(1).item()))


class Endless(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        while True:
            self.layer = nn.Linear(width, width)


class Hungry(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(10**9))


class Lazy(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(width)


class Stages(nn.Module):
    """Widths that double from stage to stage: the number of stages is in no polynomial."""

    def __init__(self, base: int = 4, stages: int = 3) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Linear(base * 2**i, base * 2 ** (i + 1), bias=False) for i in range(stages)
        )


class Every(nn.Module):
    """One kind of layer every so many, whose tensors are those of the others."""

    def __init__(self, d: int = 20, layers: int = 12, period: int = 6) -> None:
        super().__init__()
        self.full = [i % period == 0 for i in range(layers)]
        self.layers = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(layers))


class Noisy(nn.Module):
    def __init__(self, width: int = 8, least: int = 20) -> None:
        super().__init__()
        print("building")
        self.layer = nn.Linear(max(width, least), min(width, 16), bias=False)


def keywords(**options: int) -> nn.Module:
    return nn.Linear(options["a"], options.get("b", 3))


def number(width: int = 8) -> int:
    return width


CONSTANT = 3


FLAGS = tuple(f"bias_{i}" for i in range(85))
Flagged = make_dataclass("Flagged", [("width", int, 12), *((name, bool, False) for name in FLAGS)])


class Many(nn.Module):
    """85 layers, each with a switch for its bias; the first may not have one."""

    def __init__(self, config: Flagged) -> None:  # type: ignore[valid-type]
        super().__init__()
        biases = [getattr(config, name) for name in FLAGS]
        if biases[0]:
            raise ValueError("the first layer has no bias")
        width = config.width  # type: ignore[attr-defined]
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=bias) for bias in biases)
