"""What a shell completes: names of models and of accelerators, else files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def models(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets that begin so; files, where none does."""
    from click.shell_completion import CompletionItem

    from sizer.sources.presets import presets

    names = [name for entry in presets() for name in (entry.name, *entry.aliases)]
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def accelerators(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Accelerators that begin so."""
    from click.shell_completion import CompletionItem

    from sizer.planning.hardware import hardwares

    names = [name for entry in hardwares() for name in (entry.name, *entry.aliases)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
