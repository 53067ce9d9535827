"""Many models against their public modules: one after another, in several processes, or resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from sizer.core.record import Record
from sizer.errors import BadInput, SizerError, clip
from sizer.oracles.compare import Difference

WORDS = ("equal", "differs", "no module", "error")


class Target(Record):
    """A preset by its name, or a class of a model type as transformers has it by default."""

    __slots__ = ("cls", "group", "name")

    def __init__(self, name: str, cls: str = "", group: str = "") -> None:
        self.name = name
        self.cls = cls
        # Models of one group need the same code of transformers: one process takes them all.
        self.group = group

    @property
    def label(self) -> str:
        """Its name in a list."""
        return f"{self.name} ({self.cls})" if self.cls else self.name


class Outcome(Record):
    """What became of one model: `result` is one of `WORDS`, `reason` says why nothing was compared."""

    __slots__ = ("differences", "name", "params", "reason", "result", "versions")

    def __init__(
        self,
        name: str,
        result: str,
        params: int = 0,
        differences: Iterable[Difference] = (),
        reason: str = "",
        versions: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.result = result
        self.params = params
        self.differences = tuple(differences)
        self.reason = reason
        self.versions = versions or {}

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it: equal, or nothing to compare with."""
        return self.result in ("equal", "no module")


def presets_to_verify() -> list[Target]:
    """Every preset."""
    from sizer.sources.presets import presets

    return [Target(p.name, group=p.model_type or p.architecture) for p in presets()]


def types_to_verify() -> list[Target]:
    """Every text model type of transformers, class by class."""
    from sizer.oracles.types import text_types

    return [Target(model_type, cls, group=model_type) for model_type, cls in text_types()]


def outcome(target: Target, level: str) -> Outcome:
    """One of many: an error becomes its reason."""
    from sizer import loading
    from sizer.oracles import torch as oracle
    from sizer.oracles.types import default_config
    from sizer.oracles.verify import differences

    try:
        if target.cls:
            model = loading.from_dict(
                default_config(target.name, target.cls), name=target.label, cls=target.cls
            )
        else:
            model = loading.from_preset(target.name)
        found = differences(model, level=level)
    except oracle.NoModule as error:
        return Outcome(target.label, "no module", reason=str(error))
    except SizerError as error:
        return Outcome(target.label, "error", reason=str(error))
    word = "differs" if found else "equal"
    return Outcome(target.label, word, int(model.count().total), found, versions=oracle.versions())


def verify_all(
    targets: Iterable[Target], *, level: str, jobs: int = 1, resume: str | None = None
) -> Iterator[Outcome]:
    """The outcome of each model as it is known; with `resume`, those of a file first, and the rest added.

    What the file says is equal at this level is not compared again; all else is.
    """
    if jobs < 1:
        raise BadInput(f"--jobs {jobs}: at least one process is needed")
    todo = list(targets)
    done = _read(resume, level) if resume is not None else {}
    kept = {t.label: done[t.label] for t in todo if t.label in done}
    yield from kept.values()
    groups: dict[str, list[Target]] = {}
    for target in todo:
        if target.label not in kept:
            groups.setdefault(target.group, []).append(target)
    for found in _run(list(groups.values()), level, jobs):
        if resume is not None:
            _append(resume, found, level)
        yield found


def _run(groups: list[list[Target]], level: str, jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(groups) < 2:
        for group in groups:
            for target in group:
                yield outcome(target, level)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # torch has threads, and a process with threads cannot be forked.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_quiet) as pool:
        waiting = [pool.submit(_group, group, level) for group in groups]
        try:
            for future in as_completed(waiting):
                yield from future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _group(group: list[Target], level: str) -> list[Outcome]:
    return [outcome(target, level) for target in group]


def _quiet() -> None:
    import warnings

    warnings.simplefilter("ignore")
    # Modules without values need no threads for them.
    os.environ["OMP_NUM_THREADS"] = "1"


def _read(path: str, level: str) -> dict[str, Outcome]:
    """The equal ones of a file of outcomes, if it was written at this level by these versions."""
    if not os.path.exists(path):
        return {}
    from sizer.oracles.torch import versions

    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    whole, newline, cut = text.rpartition("\n")
    if cut:
        # A run that was stopped in the middle of a line.
        with open(path, "w", encoding="utf-8") as file:
            file.write(whole + newline)
    found = {}
    now = versions()
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            same = entry["level"] == level and entry["versions"] == _stamp(now)
            if same and entry["result"] == "equal":
                found[str(entry["name"])] = Outcome(
                    str(entry["name"]), "equal", int(entry["params"]), versions=now
                )
        except (ValueError, KeyError, TypeError):
            raise BadInput(f"{clip(path)}:{number} is no outcome of sizer verify --resume") from None
    return found


def _append(path: str, found: Outcome, level: str) -> None:
    entry: dict[str, Any] = {
        "name": found.name,
        "level": level,
        "result": found.result,
        "params": found.params,
        "reason": found.reason,
        "differences": [d._asdict() for d in found.differences],
        "versions": _stamp(found.versions),
    }
    with open(path, "a+", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _stamp(versions: dict[str, str]) -> dict[str, str]:
    from sizer import __version__

    return {"sizer": __version__, **versions}
