"""`sizer mcp`: the same answers as tools of the Model Context Protocol, over standard input and output.

The tools are the endpoints of the table that say so; their schemas are those of the HTTP interface.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from sizer import __version__
from sizer.service import openapi
from sizer.service.endpoints import ENDPOINTS
from sizer.service.lanes import Busy, Failed, Job, Lane
from sizer.service.settings import Settings

# Tool -> the path below /v1/ that answers it.
TOOLS = {name.replace("-", "_"): name for name, endpoint in ENDPOINTS.items() if endpoint.tool}

INSTRUCTIONS = (
    "Exact parameter counts of neural networks and what follows from them. `model` is the name of a preset "
    "(the tool `presets` lists them) or the contents of a config.json; `set` overrides fields."
)


def tools() -> list[types.Tool]:
    """The tools, each with the help of its command."""
    found = []
    for tool, path in TOOLS.items():
        endpoint = ENDPOINTS[path]
        help_ = inspect.cleandoc(endpoint.command.help or "").partition("\b")[0].strip()
        found.append(
            types.Tool(
                name=tool,
                description=help_,
                input_schema=openapi.schema(endpoint),
                annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )
        )
    return found


def server(lanes: dict[bool, Lane]) -> Server[Any]:
    """The server; `lanes` are for heavy tools and for the others."""

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools())

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        path = TOOLS.get(params.name)
        if path is None:
            return _failure(f"no tool named {params.name!r}; there are {', '.join(TOOLS)}")
        body = json.dumps(params.arguments or {}).encode()
        job = Job(path, "", "application/json", body, both=False, gzip=False)
        try:
            found = await lanes[ENDPOINTS[path].heavy].answer(job)
        except (Busy, Failed) as error:
            return _failure(str(error) or "too many calls wait for an answer")
        # No tool has an answer that is streamed.
        text = found.data.decode()
        if found.status != 200:
            return _failure(json.loads(text)["detail"])
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server(
        "sizer",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _failure(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], is_error=True)


async def serve() -> None:
    """Answer until standard input ends."""
    limits = Settings()
    lanes = {
        heavy: Lane(1, limits.queue, limits.heavy_deadline if heavy else limits.deadline, limits.memory)
        for heavy in (False, True)
    }
    tool_server = server(lanes)
    try:
        async with stdio_server() as (source, sink):
            await tool_server.run(source, sink, tool_server.create_initialization_options())
    finally:
        await asyncio.gather(*(lane.close() for lane in lanes.values()))


def run() -> int:
    """Serve, and answer the exit code."""
    asyncio.run(serve())
    return 0
