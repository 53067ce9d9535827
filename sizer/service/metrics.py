"""Counters of the service in the text format of Prometheus.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/. Each worker writes what it has
counted into a file of a shared folder, and whichever is asked adds them up.
"""

from __future__ import annotations

import contextlib
import json
import os
from bisect import bisect_left

from sizer import __version__

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    """What one worker has counted."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder
        self.requests: dict[str, int] = {}
        # path -> how many took up to each bound, and one more for those beyond; then their seconds.
        self.times: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = {}
        self.counters = {"hits": 0, "misses": 0, "refused": 0}
        self.in_flight = 0
        self.kept = 0

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        label = f"{path} {status}"
        self.requests[label] = self.requests.get(label, 0) + 1
        times = self.times.get(path)
        if times is None:
            times = self.times[path] = [0] * (len(BUCKETS) + 1)
        times[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[path] = self.seconds.get(path, 0.0) + seconds

    def save(self) -> None:
        """Write what is counted where the other workers see it."""
        if not self.folder:
            return
        path = os.path.join(self.folder, f"{os.getpid()}.json")
        with contextlib.suppress(OSError):
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(self._state(), file)
            os.replace(f"{path}.new", path)

    def forget_gauges(self) -> None:
        """Leave only what stays true after this worker has ended."""
        self.in_flight = self.kept = 0
        self.save()

    def _state(self) -> dict[str, object]:
        names = ("requests", "times", "seconds", "counters", "in_flight", "kept")
        return {name: getattr(self, name) for name in names}

    def _everywhere(self) -> Metrics:
        """The sum over all workers."""
        total = Metrics()
        total.add(self._state())
        own = f"{os.getpid()}.json"
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder) if self.folder else ():
                if name.endswith(".json") and name != own:
                    with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                        total.add(json.load(file))
        return total

    def add(self, state: dict[str, object]) -> None:
        """Add what another worker has counted."""
        other = Metrics()
        for name, value in state.items():
            setattr(other, name, value)
        for label, number in other.requests.items():
            self.requests[label] = self.requests.get(label, 0) + number
        for path, times in other.times.items():
            mine = self.times.setdefault(path, [0] * len(times))
            self.times[path] = [a + b for a, b in zip(mine, times, strict=True)]
            self.seconds[path] = self.seconds.get(path, 0.0) + other.seconds[path]
        for name, number in other.counters.items():
            self.counters[name] += number
        self.in_flight += other.in_flight
        self.kept += other.kept

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        all_ = self._everywhere()
        lines = [
            *_about("sizer_build_info", "gauge", "The version."),
            f'sizer_build_info{{version="{__version__}"}} 1',
            *_about("sizer_requests_total", "counter", "Requests by path and status."),
        ]
        for label, number in sorted(all_.requests.items()):
            path, _, status = label.rpartition(" ")
            lines.append(f'sizer_requests_total{{path="{path}",status="{status}"}} {number}')
        lines += _about("sizer_request_seconds", "histogram", "Time from a request to the end of its answer.")
        for path, times in sorted(all_.times.items()):
            passed = 0
            for bound, number in zip((*map(str, BUCKETS), "+Inf"), times, strict=True):
                passed += number
                lines.append(f'sizer_request_seconds_bucket{{path="{path}",le="{bound}"}} {passed}')
            lines.append(f'sizer_request_seconds_sum{{path="{path}"}} {all_.seconds[path]:.6f}')
            lines.append(f'sizer_request_seconds_count{{path="{path}"}} {passed}')
        for name, help_ in (
            ("hits", "Answers that were kept from before."),
            ("misses", "Answers that were worked out."),
            ("refused", "Requests refused because too many waited."),
        ):
            lines += [
                *_about(f"sizer_answers_{name}_total", "counter", help_),
                f"sizer_answers_{name}_total {all_.counters[name]}",
            ]
        return "\n".join(
            [
                *lines,
                *_about("sizer_requests_in_flight", "gauge", "Requests that are being answered."),
                f"sizer_requests_in_flight {all_.in_flight}",
                *_about("sizer_answers_kept_bytes", "gauge", "Bytes of the answers that are kept."),
                f"sizer_answers_kept_bytes {all_.kept}",
                "",
            ]
        )


def _about(name: str, kind: str, help_: str) -> list[str]:
    return [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
