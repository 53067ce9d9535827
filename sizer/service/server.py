"""`sizer serve`: uvicorn with the bounds and the exit codes of the service."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from dataclasses import replace

from sizer.errors import SizerError
from sizer.service import logs
from sizer.service.settings import VARIABLE, Settings, token

KEEP_ALIVE = 15


def run(settings: Settings, *, host: str, port: int, workers: int, grace: int, proxy: str = "") -> int:
    """Serve until a signal says to stop, and answer the exit code.

    SIGTERM: no new connections, what is being answered is finished within `grace` seconds, exit 0.
    """
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    token(settings)
    folder = tempfile.mkdtemp(prefix="sizer-metrics-")
    os.environ[VARIABLE] = replace(settings, metrics_folder=folder).to_environment()
    config = uvicorn.Config(
        "sizer.service.app:create",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        http="sizer.service.protocol:Protocol",
        ws="none",
        loop="auto",
        limit_concurrency=settings.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=grace,
        h11_max_incomplete_event_size=32_768,
        log_config=logs.CONFIG,
        server_header=False,
        proxy_headers=bool(proxy),
        forwarded_allow_ips=proxy or None,
    )
    # uvicorn raises the signals it got once more when it has finished; to stop when asked is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    try:
        try:
            socket = config.bind_socket()
        except SystemExit:
            raise SizerError(
                f"cannot listen on {host}:{port}; is the port in use? --port names another"
            ) from None
        if workers > 1:
            Multiprocess(config, sockets=[socket]).run()
            return 0
        server = uvicorn.Server(config)
        server.run(sockets=[socket])
        return 0 if server.started else 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
