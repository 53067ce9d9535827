"""Two formulas of one class: of the architecture written by hand, and of the module itself."""

from __future__ import annotations

from random import Random

from sizer.errors import SizerError
from sizer.loading import from_dict
from sizer.oracles.derive.derive import Closed
from sizer.oracles.derive.expressions import Number, evaluate


def disagreements(
    closed: Closed, *, points: int = 20, seed: int = 7
) -> list[tuple[dict[str, int], Number, int | str]]:
    """Where sizer's own count of a class of transformers is not the derived formula's value.

    Both are formulas by now: the points are random and nothing is built at them. A configuration
    that the reader refuses is a disagreement too, with its message.
    """
    import transformers

    cls = closed.name.rpartition(":")[2]
    kind = getattr(transformers, cls).config_class
    random = Random(seed)
    found: list[tuple[dict[str, int], Number, int | str]] = []
    for _ in range(points):
        point = closed.draw(random)
        values = closed.builder.filled(point)
        values.pop("num_labels", None)
        derived = evaluate(closed.total, point)
        try:
            model = from_dict({"model_type": kind.model_type, "architectures": [cls], **values}, name=cls)
            counted: int | str = int(model.count().total)
        except SizerError as error:
            counted = str(error)
        if counted != derived:
            found.append((point, derived, counted))
    return found
