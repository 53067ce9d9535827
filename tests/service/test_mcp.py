"""`sizer mcp`, asked by the client of the protocol's own library."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, ClientSession, StdioServerParameters, stdio_client
from service.conftest import ROOT

from sizer.service.lanes import Job, Lane
from sizer.service.mcp import server

Run = Callable[..., tuple[int, str, str]]

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("count", {"model": "gpt2-small", "set": {"n_layers": 24}}, "count gpt2-small -L24"),
    ("formula", {"model": "llama-3-8b", "keep": "D,L"}, "formula llama-3-8b --keep D,L"),
    ("memory", {"model": "gpt2-small", "batch_size": 8}, "memory gpt2-small --batch-size 8"),
    ("kv_cache", {"model": "llama-3-8b", "seq_len": 8192}, "kv-cache llama-3-8b --seq-len 8192"),
    ("flops", {"model": "gpt2-small", "rule": ["6n"]}, "flops gpt2-small --rule 6n"),
    ("presets", {"family": "gpt2"}, "presets list --family gpt2"),
]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("count", {"model": "gpt2-smal"}, "did you mean 'gpt2-small'"),
    ("count", {"model": "/etc/passwd"}, "no preset named '/etc/passwd'"),
    ("count", {"model": "gpt2-small", "dept": 3}, "no option named 'dept'"),
    ("shout", {}, "no tool named 'shout'"),
]


async def _asked() -> tuple[list[types.Tool], list[types.CallToolResult]]:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "sizer", "mcp"], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    async with stdio_client(parameters) as (source, sink), ClientSession(source, sink) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        results = [await session.call_tool(name, given) for name, given, _ in (*CALLS, *WRONG)]
    return tools, results


def test_tools_answer_as_the_commands(sizer_cli: Run) -> None:
    tools, results = asyncio.run(_asked())

    assert {tool.name for tool in tools} >= {"count", "formula", "memory", "kv_cache", "flops"}
    assert all(tool.description and tool.input_schema["properties"] for tool in tools)
    for (_, _, words), result in zip(CALLS, results, strict=False):
        content = result.content[0]
        assert isinstance(content, types.TextContent)
        assert (result.is_error, content.text) == (False, sizer_cli(*words.split(), "--json")[1])
    for (_, _, part), result in zip(WRONG, results[len(CALLS) :], strict=True):
        content = result.content[0]
        assert isinstance(content, types.TextContent)
        assert result.is_error
        assert part in content.text


def test_more_calls_than_may_wait() -> None:
    async def run() -> list[types.CallToolResult]:
        lanes = {heavy: Lane(1, 0, 60.0, 2_000_000_000) for heavy in (False, True)}
        # More than is sent at once, so it holds the only calculator until it is closed.
        query = "model=gpt2-small&expand=true&set=n_layers%3D1500"
        held = await lanes[False].answer(Job("tensors", query, "", b"", both=False, gzip=False))
        assert held.parts is not None
        async with Client(server(lanes)) as client:
            refused = await client.call_tool("count", {"model": "gpt2-xl"})
            await held.parts.aclose()
            answered = await client.call_tool("count", {"model": "gpt2-small"})
        await lanes[False].close()
        return [refused, answered]

    refused, answered = asyncio.run(run())

    assert refused.is_error
    assert "too many calls wait" in str(refused.content[0])
    assert not answered.is_error


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, sizer_cli: Run) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "sizer.service.mcp", raising=False)

    code, out, err = sizer_cli("mcp")

    assert (code, out) == (2, "")
    assert "model-sizer[mcp]" in err
