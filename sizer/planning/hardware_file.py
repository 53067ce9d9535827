"""Accelerators of a user's own: a TOML file with the fields of the shipped ones, checked."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from sizer.errors import BadInput, clip, nearest
from sizer.planning.hardware import Accelerator, accelerators

# A file of accelerators is small; anything larger is something else.
MAX_BYTES = 2**20


def read(path: str) -> list[Accelerator]:
    """The accelerators of a file."""
    if not os.path.isfile(path):
        raise BadInput(f"{clip(path)} is no file; --hardware-file names a TOML file (presets/README.md)")
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadInput(f"{clip(path)} is larger than {MAX_BYTES:,} bytes; it is no file of accelerators")
    return parse(content, path)


def parse(content: bytes, where: str) -> list[Accelerator]:
    """The accelerators in a TOML text; `where` names it in errors."""
    import tomllib

    from pydantic import ValidationError

    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{clip(where)} is not valid TOML: {error}") from None
    except RecursionError:
        raise BadInput(f"{clip(where)} is nested too deeply to be a file of accelerators") from None
    tables = {name: value for name, value in document.items() if isinstance(value, dict)}
    shared = {name: value for name, value in document.items() if not isinstance(value, dict)}
    if not tables:
        raise BadInput(f"{clip(where)} describes no accelerator: it needs a table, [my-gpu], with memory_gb")
    checked: dict[str, Any] = {}
    for name, table in tables.items():
        try:
            entry = _schema()({**shared, **table})
        except ValidationError as error:
            raise BadInput(f"{clip(where)}: [{clip(name)}] {_first(error)}") from None
        checked[name] = {"usable_source": "the file", **entry.model_dump(exclude_none=True)}
    return accelerators(checked)


def _first(error: Any) -> str:
    """The first thing that is wrong, in a line."""
    problem = error.errors()[0]
    field = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = list(_schema().__self__.model_fields)
        guess = nearest(field, known, most=1)
        hint = f"; did you mean {guess[0]!r}?" if guess else f"; known are {', '.join(known)}"
        return f"has an unknown field {clip(field)!r}{hint}"
    if problem["type"] == "missing":
        return f"needs {field}"
    return f"{clip(field)} = {clip(repr(problem['input']))}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


@cache
def _schema() -> Any:
    """The validator of one entry: every field of presets/README.md, and no other."""
    import datetime
    from typing import Annotated, Literal

    from pydantic import BaseModel, ConfigDict, Field

    number = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False, strict=True)]
    text = Annotated[str, Field(max_length=1000, strict=True)]
    whole = Annotated[int, Field(gt=0, le=10**6, strict=True)]
    dtype = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]

    class Entry(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)

        memory_gb: number
        usable_gib: number | None = None
        usable_share: Annotated[float, Field(gt=0, le=1)] = 1.0
        usable_source: text | None = None
        memory_options: list[whole] | None = None
        bandwidth_gb_s: number | None = None
        dense_tflops: dict[dtype, number] = {}
        sparse_tflops: dict[dtype, number] = {}
        watts: number | None = None
        price_per_hour: number | None = None
        memory: text | None = None
        form: text | None = None
        vendor: text | None = None
        node_gpus: whole | None = None
        link_gb_s: number | None = None
        network_gbit_s: number | None = None
        aliases: list[text] | None = None
        source: text = "a file of the user's own"
        date: datetime.date | text | None = None
        notes: list[text] | None = None

    return Entry.model_validate
