"""`sizer serve`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import click

from sizer.cli.command import Command
from sizer.errors import MissingExtra


@click.command("serve", cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option("--root-path", default="", metavar="/PREFIX", help="The prefix under which a proxy shows it.")
@click.option("--proxy", default="", metavar="ADDRESS", help="Believe X-Forwarded-For of these addresses.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Ask for the bearer token in this file; or that in SIZER_TOKEN.",
)
@click.option(
    "--cors",
    "cors_origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages from there ask; none unless given.",
)
@click.option("--max-body", type=click.IntRange(min=1), default=16_000_000, show_default=True, help="Bytes.")
@click.option("--deadline", type=click.FloatRange(0.1, 600), default=10, show_default=True, help="Seconds.")
@click.option(
    "--heavy-deadline",
    type=click.FloatRange(0.1, 3600),
    default=60,
    show_default=True,
    help="Seconds for a sweep, a plan, a list of tensors.",
)
@click.option(
    "--client-timeout",
    type=click.FloatRange(0.1, 600),
    default=20,
    show_default=True,
    help="Seconds that a client has to send a request.",
)
@click.option(
    "--connections",
    type=click.IntRange(2, 100_000),
    default=500,
    show_default=True,
    help="Of each process at once; for another, one that sends nothing is closed.",
)
@click.option("--memory", default="2GB", show_default=True, help="Memory of one calculation.")
@click.option("--cache", default="64MB", show_default=True, help="Answers to keep, in each process.")
@click.option(
    "--calculators",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Calculations at once, in each process and each of three lanes.",
)
@click.option("--grace", type=click.IntRange(1, 600), default=20, show_default=True, help="Seconds to end.")
@click.option("--access-log/--no-access-log", default=True, show_default=True, help="A line a request.")
def command(
    host: str,
    port: int,
    workers: int,
    proxy: str,
    grace: int,
    token_file: str | None,
    memory: str,
    cache: str,
    **settings: Any,
) -> None:
    """Answer over HTTP what the commands answer here: /v1/count, /v1/memory, …; /docs says how.

    Serves this machine alone unless --host says otherwise; then give it a token, or a proxy that
    asks for one.

    \b
    sizer serve --port 8000
    curl 'http://127.0.0.1:8000/v1/count?model=gpt2-small'
    """
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise MissingExtra("serve", "sizer serve")
    from sizer.cli.run_options import byte_count
    from sizer.service import server
    from sizer.service.settings import Settings

    found = Settings(
        token_file=token_file or "",
        memory=byte_count(memory, "--memory") or 0,
        cache=byte_count(cache, "--cache") or 0,
        **settings,
    )
    sys.exit(server.run(found, host=host, port=port, workers=workers, grace=grace, proxy=proxy))
