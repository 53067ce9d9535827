"""`sizer sweep`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.complete import models
from sizer.cli.options import answered, form_options, model_of
from sizer.errors import ClosedPipe, InvalidConfig, clip
from sizer.model import Model
from sizer.planning.sweeping.registry import Registry
from sizer.planning.sweeping.sweep import MAX_POINTS, MEASURES, Sweep
from sizer.report import sweep as report
from sizer.report.report import Report


@click.command("sweep", cls=Command)
@click.argument("target", metavar="[MODEL]", required=False, shell_complete=models)
@click.argument("axes", nargs=-1, metavar="SIZE=VALUES…")
@click.option("--preset", metavar="NAME", help="A model known by name (sizer presets list).")
@click.option("--class", "cls", metavar="NAME", help="The class to build, such as BertForMaskedLM.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Override a field.")
@click.option("--models", metavar="WHICH", help="Many models: all, NAME,NAME, a folder, or a file of lines.")
@click.option("--what", default="params,active", show_default=True, help=f"{', '.join(MEASURES)}.")
@click.option("--output", metavar="FILE", help="Write FILE.csv, FILE.jsonl or FILE.parquet.")
@click.option("--plot", metavar="FILE", help="Draw FILE.svg or FILE.png.")
@click.option("--scheduler", metavar="ADDRESS", help="Spread over Dask: an address, or local:2.")
@click.option("--max-points", type=int, default=MAX_POINTS, show_default=True, help="The largest grid.")
@click.option("--explain", is_flag=True, help="The closed forms that the grid is worked out by.")
@form_options
def command(
    target: Any,
    axes: tuple[str, ...],
    preset: str | None,
    cls: str | None,
    assignments: tuple[str, ...],
    models: str | None,
    what: str,
    output: str | None,
    plot: str | None,
    scheduler: str | None,
    max_points: int,
    explain: bool,
    form: str | None,
    table_format: str | None,
    verbose: bool,
) -> int | Report:
    """Measure a model over a grid of sizes, switches and settings of the run.

    \b
    sizer sweep gpt2-small d_model=512:4096:512 n_layers=12,24
    sizer sweep llama-3-8b seq_len=1024:131072:*2 dtype=bf16,fp8 --what kv_cache
    sizer sweep --models all --what params,weights --output presets.csv
    """
    model, values = _asked(target, axes, preset, cls, assignments)
    given: dict[str, Any] = {"models": models, "what": what, "max_points": max_points}
    grid = report.job(model, values, **given)
    if form == "report":
        return report.lines(grid)
    if plot is not None:
        from sizer.report.plot import draw

        draw(grid, plot)
    if output is not None:
        return _talk(report.save(grid, output, scheduler=scheduler, progress=_progress()))
    if _is_table(grid, form, table_format):
        answer = report.report(model, values, scheduler=scheduler, explain=explain, **given)
        return answered(answer, form, table_format, verbose)
    return _talk(_streamed(grid, form, scheduler, explain=explain))


def _asked(
    target: Any, axes: tuple[str, ...], preset: str | None, cls: str | None, assignments: tuple[str, ...]
) -> tuple[Model | None, dict[str, str]]:
    """The model, unless it is many, and the values of each axis."""
    name, values = _split((target, *axes) if isinstance(target, str) else axes)
    if isinstance(target, Model):
        return target, values
    return None if name is None and preset is None else model_of(name, preset, cls, assignments), values


def _is_table(grid: Sweep | Registry, form: str | None, table_format: str | None) -> bool:
    """Whether the points are printed together, rather than each as it comes."""
    if form == "quiet" or table_format is not None:
        return True
    return form is None and (grid.size is None or grid.size <= report.FEW)


def _streamed(
    grid: Sweep | Registry, form: str | None, scheduler: str | None, *, explain: bool
) -> tuple[int, int]:
    """Write the points as they come: how many, and how many of them are wrong."""
    for line in report.explained(grid) if explain else ():
        click.echo(f"sizer: {line}", err=True)
    try:
        out: Any = getattr(sys.stdout, "buffer", None) or _Decoded()
        kind = "jsonl" if form == "json" else "csv"
        seen = report.stream(grid, kind, out, scheduler=scheduler, progress=_progress())
        out.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ClosedPipe from None
    return seen


class _Decoded:
    """Standard output where it takes text alone, as in a notebook."""

    def write(self, rows: Any) -> None:
        """Write bytes as the text that they are."""
        sys.stdout.write(bytes(rows).decode())

    def flush(self) -> None:
        """Let go of what was written."""
        sys.stdout.flush()


def _split(words: tuple[str, ...]) -> tuple[str | None, dict[str, str]]:
    """The model, and the values of each axis."""
    target: str | None = None
    axes: dict[str, str] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or os.path.exists(word):
            if target is not None:
                raise InvalidConfig(
                    f"{clip(target)} and {clip(word)} both name a model; values are SIZE=VALUES"
                )
            target = word
        elif name in axes:
            raise InvalidConfig(f"{clip(name)} is given twice")
        else:
            axes[name] = values
    return target, axes


def _talk(seen: tuple[int, int]) -> int:
    points, wrong = seen
    if wrong:
        click.echo(f"sizer: {report.told(wrong, points)}", err=True)
    return 0


def _progress() -> Any:
    """A line on a terminal that says how far it is; nothing elsewhere."""
    if not sys.stderr.isatty():
        return None
    last = 0.0

    def show(points: int, size: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 0.1 and points != size:
            return
        last = now
        share = f" {100 * points / size:3.0f} %" if size else ""
        end = "\n" if points == size else ""
        sys.stderr.write(f"\r{points:,} points{share}\x1b[K{end}")
        sys.stderr.flush()

    return show
