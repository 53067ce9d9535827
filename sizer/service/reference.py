"""`/docs`: the OpenAPI document as a page of plain HTML, which needs no script and no network."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from sizer.service import openapi


def page(document: dict[str, Any]) -> str:
    """The page."""
    info = document["info"]
    base = document["servers"][0]["url"].rstrip("/")
    parts = [_operation(path, found, base) for path, found in document["paths"].items()]
    links = " · ".join(
        f'<a href="#{escape(_anchor(path))}"><code>{escape(path)}</code></a>' for path in document["paths"]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>sizer {escape(info['version'])}: the HTTP interface</title>\n"
        '<link rel="stylesheet" href="docs.css">\n'
        f"</head>\n<body>\n<main>\n<h1>sizer {escape(info['version'])}: the HTTP interface</h1>\n"
        f'<p>{_prose(info["description"])}</p>\n<p><a href="openapi.json">openapi.json</a></p>\n'
        f'<nav aria-label="Endpoints">{links}</nav>\n{"".join(parts)}</main>\n</body>\n</html>\n'
    )


def _operation(path: str, found: dict[str, Any], base: str) -> str:
    get = found["get"]
    examples = [openapi.curl(method, path, operation) for method, operation in found.items()]
    shown = "\n".join(example.replace("{base}", f"http://127.0.0.1:8000{base}") for example in examples)
    rows = "".join(map(_row, get["parameters"]))
    methods = ", ".join(method.upper() for method in found)
    return (
        f'<section aria-labelledby="{escape(_anchor(path))}">\n<h2 id="{escape(_anchor(path))}">'
        f"<code>{escape(path)}</code></h2>\n<p>{methods}. {_prose(get['summary'])}</p>\n"
        f"<p>{_prose(get['description'])}</p>\n<pre><code>{escape(shown)}</code></pre>\n"
        '<table><thead><tr><th scope="col">option</th><th scope="col">type</th>'
        f'<th scope="col">meaning</th></tr></thead><tbody>{rows}</tbody></table>\n</section>\n'
    )


def _row(parameter: dict[str, Any]) -> str:
    about = parameter["schema"]
    kind = about.get("type", "string")
    if kind == "array":
        kind = f"{about['items'].get('type', 'string')}, many"
    choices = about.get("enum") or about.get("items", {}).get("enum")
    kind = ", ".join(map(str, choices)) if choices else kind
    if "default" in about:
        kind += f"; {json.dumps(about['default'])}"
    must = " (required)" if parameter["required"] else ""
    return (
        f'<tr><th scope="row"><code>{escape(parameter["name"])}</code></th><td>{escape(kind)}</td>'
        f"<td>{_prose(parameter['description'])}{must}</td></tr>"
    )


def _prose(text: str) -> str:
    """Text with its code marked as such."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _anchor(path: str) -> str:
    return path.strip("/").replace("/", "-").replace("{", "").replace("}", "")
