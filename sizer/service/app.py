"""The service as an ASGI application: `uvicorn --factory sizer.service.app:create`.

FastAPI has the routes; the door before it has what concerns every request: the token, the bounds, the
answers that are kept, metrics and logs. A request whose answer is kept goes no further than the door.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from sizer import __version__
from sizer.service import openapi, pages, problems, reference
from sizer.service.door import Door, Sent
from sizer.service.endpoints import ENDPOINTS, Endpoint
from sizer.service.lanes import Lane
from sizer.service.metrics import Metrics
from sizer.service.settings import Settings, from_environment, token

# How often, in seconds, a worker writes down what it has counted.
SAVE_EVERY = 1.0
# Heavy answers give way to the others on a machine with few cores.
NICE = 10


def create(settings: Settings | None = None) -> Any:
    """The application, with the settings given or those in the environment."""
    settings = settings or from_environment()
    metrics = Metrics(settings.metrics_folder)
    lanes = {
        "quick": Lane(settings.calculators, settings.queue, settings.deadline, settings.memory),
        "config": Lane(settings.calculators, settings.queue, settings.deadline, settings.memory),
        "heavy": Lane(
            settings.calculators, settings.queue, settings.heavy_deadline, settings.memory, nice=NICE
        ),
    }
    ready = {"ready": False}

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await lanes["quick"].start()
        ready["ready"] = True
        tasks = [asyncio.create_task(_watch(metrics))]
        tasks += [asyncio.create_task(lanes[name].start()) for name in ("config", "heavy")]
        yield
        ready["ready"] = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        metrics.forget_gauges()
        door.log.flush()
        await asyncio.gather(*(lane.close() for lane in lanes.values()))

    app = FastAPI(
        title="sizer",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    door = Door(app, settings, token(settings), lanes, metrics)
    _add_endpoints(app, door)
    _add_about(app, door, ready, metrics)
    app.add_exception_handler(HTTPException, _problem)
    if settings.cors_origins:
        from starlette.middleware.cors import CORSMiddleware

        return CORSMiddleware(
            door,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "accept"],
            expose_headers=["etag", "sizer-exit"],
        )
    return door


async def _watch(metrics: Metrics) -> None:
    """Write down what is counted; end where the supervisor has, which can no longer say so."""
    supervisor = multiprocessing.parent_process()
    while True:
        await asyncio.sleep(SAVE_EVERY)
        metrics.save()
        if supervisor is not None and not supervisor.is_alive():
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _add_endpoints(app: FastAPI, door: Door) -> None:
    for name, endpoint in ENDPOINTS.items():
        app.add_api_route(f"/v1/{name}", _endpoint(door, name, endpoint), methods=["GET", "HEAD", "POST"])


def _endpoint(door: Door, name: str, endpoint: Endpoint) -> Any:
    async def respond(request: Request) -> Response:
        return await door.respond(request.scope, request.receive, name, endpoint)

    return respond


def _add_about(app: FastAPI, door: Door, ready: dict[str, bool], metrics: Metrics) -> None:
    async def healthz() -> Response:
        return JSONResponse({"status": "ok", "sizer_version": __version__})

    async def readyz() -> Response:
        if ready["ready"]:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready"}, 503)

    async def show_metrics() -> Response:
        metrics.kept = door.cache.size
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    described = openapi.document(door.root)
    files = {
        **pages.files(door.control),
        "/openapi.json": pages.file("openapi.json", json.dumps(described).encode(), door.control),
        "/docs": pages.file("docs.html", reference.page(described).encode(), door.control),
    }

    async def page(request: Request, path: str) -> Response:
        found = files.get(f"/{path}")
        if found is None:
            raise HTTPException(404, "there is no such page; /docs describes the endpoints")
        return Sent(found, request.scope)

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": show_metrics, "/{path:path}": page}
    for path, function in routes.items():
        app.add_api_route(path, function, methods=["GET", "HEAD"])


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = error.detail
    if error.status_code == 405:
        text = f"{request.scope['path'][:80]!a} takes no {request.method[:16]}; /docs describes the endpoints"
    return Response(
        problems.document(error.status_code, text),
        error.status_code,
        dict(error.headers or {}),
        problems.MEDIA_TYPE,
    )
