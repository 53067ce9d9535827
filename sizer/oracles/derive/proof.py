"""Two formulas of one class: of the architecture written by hand, and of the module itself."""

from __future__ import annotations

from random import Random

from sizer.errors import SizerError
from sizer.loading import from_dict
from sizer.oracles.derive.check import REFUSALS
from sizer.oracles.derive.closed import Closed
from sizer.oracles.derive.expressions import Number, evaluate


def disagreements(
    closed: Closed, *, points: int = 20, seed: int = 7
) -> list[tuple[dict[str, int], Number, int | str]]:
    """Where sizer's own count of a class of transformers is not the derived formula's value.

    Both are formulas by now: the points are random and nothing is built at them. A module may be built
    of sizes that make no model, such as more heads than channels, so that they have none each: sizer
    refuses these, and further points are drawn. Where too few are left, the refusals are what is found.
    """
    import transformers

    cls = closed.name.rpartition(":")[2]
    kind = getattr(transformers, cls).config_class
    # What this version writes of itself: some types are built otherwise than they were published.
    head = {
        "model_type": kind.model_type,
        "architectures": [cls],
        "transformers_version": transformers.__version__,
    }
    random = Random(seed)
    found: list[tuple[dict[str, int], Number, int | str]] = []
    refused: list[tuple[dict[str, int], Number, int | str]] = []
    while len(found) < points and len(refused) < REFUSALS * points:
        point = closed.draw(random, far=(len(found) + len(refused)) % 2 == 1)
        values = closed.builder.filled(point)
        derived = evaluate(closed.total, point)
        try:
            counted = int(from_dict({**head, **values}, name=cls).count().total)
        except SizerError as error:
            refused.append((point, derived, str(error)))
            continue
        found.append((point, derived, counted))
    differing = [(point, derived, counted) for point, derived, counted in found if derived != counted]
    return differing if len(found) == points else differing + refused
