"""The points at which a module is built: within their windows, and far ones only where they are asked for."""

from __future__ import annotations

from random import Random

from sizer.oracles.derive.points import Space
from sizer.oracles.derive.trace import Record


def drawn(space: Space, *, far: bool) -> list[int]:
    random = Random(1)
    points = [space.draw(random, ["width"], far=far) for _ in range(200)]
    return [point["width"] for point in points if point is not None]


def test_a_point_is_far_only_where_it_is_asked_for() -> None:
    space = Space({"width": 64}, {"width": (8, 16)}, Record())
    space.far["width"] = 128

    near, far = drawn(space, far=False), drawn(space, far=True)

    assert min(near) >= 8
    assert max(near) <= 16
    assert 16 < max(far) <= 128


def test_a_probe_does_not_change_what_is_drawn_next() -> None:
    """Whoever asks for a far point gets one, however many near ones were drawn in between."""
    space = Space({"width": 64}, {"width": (8, 16)}, Record())
    space.far["width"] = 10**6

    for probes in range(3):
        for _ in range(probes):
            space.draw(Random(0), ["width"])
        point = space.draw(Random(0), ["width"], far=True)
        assert point is not None
        assert point["width"] > 16
