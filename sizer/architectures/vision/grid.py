"""The size of an image, and of what is left of it at each depth of a network."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sizer.core.config import Config, check_sizes, configuration, is_symbolic
from sizer.core.dims import Dim, divide, round_up
from sizer.core.record import Record
from sizer.core.tree import Places
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The side of ImageNet's images, for configurations that do not say one.
IMAGENET = 224
# No kernel, step or margin of a convolution over an image is as wide.
MOST_PIXELS = 10_000


class Grid(Record):
    """Pixels, or what stands for squares of them: so many rows and columns.

    Sizes that are letters shrink by exact quotients, which numbers in their place must have too.
    """

    __slots__ = ("columns", "rows")

    def __init__(self, rows: Dim, columns: Dim) -> None:
        self.rows = rows
        self.columns = columns

    @property
    def places(self) -> Places:
        """A place for each."""
        return Places(fixed=self.rows * self.columns)

    def convolved(self, kernel: int, stride: int, padding: int) -> Grid:
        """What a convolution, or a pooling, leaves.

        >>> Grid(224, 224).convolved(7, 2, 3)
        Grid(columns=112, rows=112)
        """

        def one(side: Dim) -> Dim:
            if is_symbolic(side):
                return side if stride == 1 else _quotient(side, stride)
            return (side + 2 * padding - kernel) // stride + 1

        return Grid(one(self.rows), one(self.columns))

    def patched(self, side: Dim) -> Grid:
        """Squares of that side; what does not fill one is left out.

        >>> Grid(225, 224).patched(4)
        Grid(columns=56, rows=56)
        """

        def one(pixels: Dim) -> Dim:
            return _quotient(pixels, side) if is_symbolic(pixels) or is_symbolic(side) else pixels // side

        return Grid(one(self.rows), one(self.columns))

    def covered(self, side: Dim) -> Grid:
        """The same grid, enlarged until squares of that side fill it.

        >>> Grid(50, 56).covered(7)
        Grid(columns=56, rows=56)
        """

        def one(pixels: Dim) -> Dim:
            if is_symbolic(pixels) or is_symbolic(side):
                return _quotient(pixels, side) * side
            return round_up(pixels, side)

        return Grid(one(self.rows), one(self.columns))


def _quotient(side: Dim, by: Dim) -> Dim:
    return divide(side, by, names="image_size / what it shrinks by")


@configuration
class ImageConfig(Config):
    """A model of images of `image_size` pixels a side; `image_width`, where they are not square.

    `grids`: what is left of an image at each depth, of which parameters do not depend.
    """

    image_size: Dim = IMAGENET
    image_width: Dim | None = None

    letters = {"image_size": "Si", "image_width": "Sw"}
    meanings = {"image_size": "side of an image in pixels", "image_width": "width of an image in pixels"}

    def __post_init__(self) -> None:
        check_sizes(self)
        # Quotients are taken while a configuration is made.
        _ = self.grids

    @property
    def image(self) -> Grid:
        """An image."""
        return Grid(self.image_size, self.image_size if self.image_width is None else self.image_width)

    @cached_property
    def grids(self) -> list[Grid]:
        """An image, and what is left of it after each step."""
        raise NotImplementedError


def image_sides(hf: HFConfig) -> dict[str, Any]:
    """The sides that a configuration says, or those of ImageNet's images."""
    value = hf.get("image_size")
    if value is None:
        return {"image_size": IMAGENET}
    sides = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(sides) != 2 or any(not isinstance(side, int) or isinstance(side, bool) for side in sides):
        raise InvalidConfig(f"image_size = {clip(repr(value))} is neither a side nor a height and a width")
    height, width = sides
    return {"image_size": height, "image_width": None if width == height else width}


def steps(
    hf: HFConfig, kernels: str, strides: str, padding: str | None = None
) -> tuple[tuple[int, int, int], ...]:
    """Kernel, step and padding of each stage, of lists under these keys; without padding, half the kernel."""
    keys = [kernels, strides, *([padding] if padding else [])]
    lists = [hf[key] for key in keys]
    for key, values in zip(keys, lists, strict=True):
        fine = isinstance(values, list | tuple) and len(values) == len(lists[0])
        if not fine or any(not isinstance(v, int) or not 0 <= v <= MOST_PIXELS for v in values):
            raise InvalidConfig(
                f"{key} = {clip(repr(values))} does not list a number of pixels for each stage"
            )
    if any(step < 1 for step in lists[1]):
        raise InvalidConfig(f"{strides} = {clip(repr(lists[1]))} has a step of no pixel")
    return tuple((k, step, *(rest or (k // 2,))) for k, step, *rest in zip(*lists, strict=True))
