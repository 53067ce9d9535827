"""What commands share: the model, its overrides, and the form of the output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from sizer.cli.command import tell
from sizer.cli.complete import models
from sizer.errors import ClosedPipe, InvalidConfig
from sizer.model import Model
from sizer.report.report import Report

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sizer.checkpoint import Checkpoint
    from sizer.report.built import Built


class ModelType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions alone
    """A model as a value, or one of several: a preset or a path, `:n_layers=16` behind it overrides."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Model:
        """The model, loaded."""
        from sizer import loading
        from sizer.sources.values import split_overrides

        target, overrides = (value, {}) if os.path.exists(value) else split_overrides(value)
        found = loading.load(target, **overrides)
        if overrides:
            # Beside the model that it differs from, it goes by what was asked for.
            found.name += value[len(target) :]
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Presets, else files."""
        return models(ctx, param, incomplete)


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """MODEL, --preset, --class, --set and the letters; the command gets `model`, loaded."""
    return _options(command, _load)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `model_options`; the model may also be a `Checkpoint`, where MODEL is one."""
    return _options(command, _load_any)


def _options(command: Callable[..., Any], load: Callable[..., Any]) -> Callable[..., Any]:

    @click.argument("target", metavar="[MODEL]", required=False, shell_complete=models)
    @click.option(
        "--preset",
        metavar="NAME",
        shell_complete=models,
        help="A model known by name (sizer presets list).",
    )
    @click.option("--hub", is_flag=True, help="Look for MODEL, org/name, on the Hugging Face Hub.")
    @click.option("--class", "cls", metavar="NAME", help="The class to build, such as BertForMaskedLM.")
    @click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override a field, under any tool's name for it; in short -D 1024, -L 24, -H 16, ….",
    )
    @wraps(command)
    def wrapped(
        target: Any,
        preset: str | None,
        hub: bool,
        cls: str | None,
        assignments: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        if target is not None and not isinstance(target, str):
            # A caller in this process has the model at hand.
            return command(model=target, **rest)
        overrides = _overrides(assignments)
        if preset is not None and target is not None and rest.get("number", "") is None:
            # With --preset, the one argument that is left is not the model.
            target, rest["number"] = None, target
        if hub and target is not None:
            target = _on_hub(target)
        # `--all` stands for every preset: then no single model is named.
        unnamed = rest.get("everything") and target is None and preset is None
        chosen = _build if rest.get("builder") else load
        return command(model=None if unnamed else chosen(target, preset, cls, overrides), **rest)

    return wrapped


def form_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json, --csv, --format, -q and -v, for the command to make of them what it can."""
    options = (
        click.option("--json", "form", flag_value="json", help="Print a JSON document."),
        click.option("--csv", "form", flag_value="csv", help="Print comma-separated values."),
        click.option(
            "--format", "table_format", metavar="NAME", help="Print a table: markdown, latex, html, …"
        ),
        click.option(
            "-q", "--quiet", "form", flag_value="quiet", help="Print the one number or formula alone."
        ),
        click.option("-v", "--verbose", is_flag=True, help="Add assumptions and sources."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def output_options(command: Callable[..., Report]) -> Callable[..., Any]:
    """--json, --csv, --format, -q and -v; the command returns a `Report`, which is printed.

    A caller in this process asks for the `Report` itself with `form="report"`.
    """

    @form_options
    @wraps(command)
    def wrapped(form: str | None, table_format: str | None, verbose: bool, **rest: Any) -> int | Report:
        answer = command(**rest)
        return answer if form == "report" else answered(answer, form, table_format, verbose)

    return wrapped


def answered(answer: Report, form: str | None, table_format: str | None, verbose: bool) -> int:
    """Print an answer in its form, and say what there is to say beside it."""
    write(render(answer, form, table_format, verbose), document="json" in (form, table_format))
    for line in answer.talk:
        tell(f"sizer: {line}")
    return answer.exit_code


def model_of(target: str | None, preset: str | None, cls: str | None, assignments: tuple[str, ...]) -> Model:
    """The model that a command line names, for a command whose MODEL is one of several words."""
    return _load(target, preset, cls, _overrides(assignments))


def write(text: str, *, document: bool = False) -> None:
    """Print an answer on standard output, in ASCII where that has no other letters.

    `document`: the answer is JSON, whose letters have escapes of their own.
    """
    if not text.isascii():
        text = _shown(text, document=document)
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer goes nowhere, or Python complains of it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ClosedPipe from None


def _shown(text: str, *, document: bool) -> str:
    from sizer.cli.plain import can_show, plain_table

    if can_show(text, getattr(sys.stdout, "encoding", None)):
        return text
    if not document:
        return plain_table(text)
    from json import dumps

    return "".join(letter if letter.isascii() else dumps(letter)[1:-1] for letter in text)


def render(answer: Report, form: str | None, table_format: str | None, verbose: bool) -> str:
    """A report as the text of one form."""
    from sizer.report import report

    if form is None and table_format in ("json", "csv"):
        form, table_format = table_format, None
    if form == "quiet":
        return answer.value
    if form == "json":
        document = answer.document()
        if isinstance(document, Iterator):
            return "\n".join(report.json_line(entry) for entry in document)
        return report.json(document)
    view = answer.view()
    if form != "csv" and table_format is None:
        return report.text(view, verbose=verbose)
    if view.table is None:
        raise click.UsageError("this answer is not a table; use --json")
    return report.csv(view.table) if form == "csv" else report.formatted(view.table, str(table_format))


def _on_hub(target: str) -> str:
    """A repository as a place on a hub; a file that exists, a preset, or `-` stays what it is."""
    from sizer.sources.hub.target import PREFIX, is_repository

    here = target.startswith(PREFIX) or os.path.exists(target)
    return target if here or not is_repository(target) else f"{PREFIX}{target}"


def _overrides(assignments: tuple[str, ...]) -> dict[str, Any]:
    if not assignments:
        return {}
    from sizer.sources.values import parse_assignment

    overrides: dict[str, Any] = {}
    for key, value in map(parse_assignment, assignments):
        if key in overrides:
            raise InvalidConfig(f"{key} is set twice")
        overrides[key] = value
    return overrides


def _load(target: str | None, preset: str | None, cls: str | None, overrides: dict[str, Any]) -> Model:
    from sizer import loading

    if (target is None) == (preset is None):
        raise click.UsageError(
            "name one model: a preset, a path, hub:org/name, or - for a config on standard input"
            if target is None
            else "MODEL and --preset both name a model; give one"
        )
    if preset is not None:
        return loading.from_preset(preset, cls=cls, overrides=overrides)
    assert target is not None
    if target == "-":
        from sizer.sources.config_text import MAX_CONFIG_BYTES

        text = sys.stdin.buffer.read(MAX_CONFIG_BYTES + 1)
        return loading.from_bytes(text, name="standard input", cls=cls, overrides=overrides)
    return loading.load(target, cls=cls, **overrides)


def _build(target: str | None, preset: str | None, cls: str | None, overrides: dict[str, Any]) -> Built:
    """The module of a configuration file, built by transformers."""
    from sizer.report.built import build
    from sizer.sources.config_text import config_at

    if target is None or preset is not None:
        raise click.UsageError("--with torch needs the path of a config.json, or of a folder with one")
    return build({**config_at(target), **overrides}, cls=cls, name=target)


def _load_any(
    target: str | None, preset: str | None, cls: str | None, overrides: dict[str, Any]
) -> Model | Checkpoint:
    from sizer.sources.hub.target import is_hub

    if target is None or preset is not None or not (is_hub(target) or os.path.exists(target)):
        return _load(target, preset, cls, overrides)
    from sizer.sources.checkpoints.read import is_checkpoint

    if not is_checkpoint(target):
        return _load(target, preset, cls, overrides)
    if cls is not None or overrides:
        raise click.UsageError(
            "a checkpoint has its sizes in its files; --class and --set need a config or a preset"
        )
    from sizer.checkpoint import load_checkpoint

    return load_checkpoint(target)
