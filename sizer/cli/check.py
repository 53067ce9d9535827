"""`sizer check`."""

from __future__ import annotations

import click

from sizer.cli.command import Command, tell
from sizer.cli.options import write


@click.command("check", cls=Command)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--config", metavar="FILE", help="A sizer.toml, or a pyproject.toml with [tool.sizer].")
@click.option("--update", is_flag=True, help="Write the totals that are found; comments and layout stay.")
@click.option("--format", "form", metavar="NAME", help="text, json, github, junit.")
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("-q", "--quiet", is_flag=True, help="Print one word alone: ok, or how many differ.")
def command(names: tuple[str, ...], config: str | None, update: bool, form: str | None, quiet: bool) -> int:
    """Check the totals that a repository expects of its models, for CI.

    The models and their totals stand in sizer.toml (docs/ci.md), and sizer.lock lists their tensors.
    Exit 1 where a total, a component, a tensor or a limit is not as expected, with what changed.

    \b
    sizer check
    sizer check our-7b --format github
    sizer check --update
    """
    from sizer.report import check

    shown, answer = check.rendered(config, names, update=update, form=form or "text")
    write(answer.value if quiet else shown)
    for line in answer.talk:
        tell(f"sizer: {line}")
    return answer.exit_code
