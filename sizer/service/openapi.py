"""The OpenAPI document, derived from the options of the commands."""

from __future__ import annotations

import inspect
import json
from typing import Any
from urllib.parse import urlencode

import click

from sizer import __version__
from sizer.cli.options import ModelType
from sizer.service.endpoints import ENDPOINTS, Endpoint

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_ERRORS = {
    "400": "The request cannot be read.",
    "401": "The service has a token, and the request has not.",
    "404": "No preset of that name.",
    "408": "The body took too long.",
    "413": "The body is too large.",
    "415": "The body is of another type.",
    "422": "The values describe nothing, or the answer takes too long; `detail` says what and why.",
    "501": "An optional library is not installed on the server.",
    "503": "Too many requests wait.",
}
_CONFIG = {
    "type": "object",
    "description": "The contents of a config.json, of Hugging Face or another tool.",
    "additionalProperties": True,
}
_NAME = {"type": "string", "description": "The name of a preset: GET /v1/presets lists them."}
_DESCRIPTION = (
    "Parameters of a model, exactly, and all that follows from them: the documents of the command line's "
    "`--json`. Integers are exact; with `Accept: application/json; integers=both` each key with integers "
    "beyond 2^53 has a second one, `<key>_str`, with them as texts. `Sizer-Exit: 1` says that the answer "
    "is no. Errors are problem documents (RFC 9457) with a sentence in `detail`."
)


def document(root: str = "") -> dict[str, Any]:
    """The document; `root` is the prefix under which a proxy shows the service."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "sizer", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": root or "/"}],
        "paths": {f"/v1/{name}": _path(name, endpoint) for name, endpoint in ENDPOINTS.items()},
        "components": {
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail"],
                    "properties": {
                        "type": {"type": "string"},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                        "nearest": {"type": "array", "items": {"type": "string"}},
                    },
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def schema(endpoint: Endpoint) -> dict[str, Any]:
    """The JSON Schema of the options of an endpoint, its model first."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    if endpoint.has_model:
        properties |= {
            "model": {"oneOf": [_NAME, _CONFIG], "description": "A preset's name, or a config.json."},
            "set": {
                "type": "object",
                "description": "Fields to override, under any tool's name for them.",
                "additionalProperties": {"type": ["integer", "number", "boolean", "string", "null", "array"]},
            },
            "class": {"type": "string", "description": "The class to build, such as BertForMaskedLM."},
        }
        required.append("model")
    for key, param in endpoint.options.items():
        properties[key] = _option(param)
        if param.required:
            required.append(key)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _path(name: str, endpoint: Endpoint) -> dict[str, Any]:
    operation = f"{endpoint.command.name}".replace("-", "_")
    help_ = inspect.cleandoc(endpoint.command.help or "").partition("\b")[0].strip()
    summary, _, rest = help_.partition("\n\n")
    about = {"summary": " ".join(summary.split()), "description": rest.strip()}
    responses = {
        "200": {
            "description": "The document of the command's `--json`.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                **({"application/x-ndjson": {}} if endpoint.heavy else {}),
            },
        },
        **{
            status: {"description": text, "content": {"application/problem+json": {"schema": _PROBLEM}}}
            for status, text in _ERRORS.items()
        },
        "304": {"description": "The client has the answer already."},
    }
    inside = [key for key in endpoint.options if f"{{{key}}}" in name]
    whole = schema(endpoint)
    body = {
        **whole,
        "properties": {k: v for k, v in whole["properties"].items() if k not in inside},
        "required": [key for key in whole["required"] if key not in inside],
    }
    example = {key: value for key, value in endpoint.example.items() if key not in inside}
    content: dict[str, Any] = {"application/json": {"schema": body, "example": example}}
    if endpoint.has_model:
        content["multipart/form-data"] = {"schema": _form(body)}
    path = {
        "get": {
            "operationId": f"get_{operation}" if not inside else f"get_one_{operation}",
            **about,
            "parameters": _parameters(whole, endpoint, inside),
            "responses": responses,
        },
    }
    if not inside:
        path["post"] = {
            "operationId": f"post_{operation}",
            **about,
            "requestBody": {"required": bool(body["required"]), "content": content},
            "responses": responses,
        }
    return path


def _form(body: dict[str, Any]) -> dict[str, Any]:
    properties = {key: value for key, value in body["properties"].items() if key not in ("model", "set")}
    return {
        "type": "object",
        "properties": {
            "file": {
                "type": "string",
                "format": "binary",
                "description": "A config.json; for counts and tensors also a safetensors or GGUF file, of "
                "which the header is enough.",
            },
            "size": {
                "type": "integer",
                "minimum": 1,
                "description": "Bytes of the whole file, to be told where it was cut off.",
            },
            "set": {"type": "array", "items": {"type": "string"}, "description": "`n_layers=24`"},
            **properties,
        },
        "required": ["file"],
    }


def _parameters(whole: dict[str, Any], endpoint: Endpoint, inside: list[str]) -> list[dict[str, Any]]:
    found = []
    for key, about in whole["properties"].items():
        shown = dict(about)
        if key == "model":
            shown = dict(_NAME)
        elif key == "set":
            shown = {"type": "array", "items": {"type": "string", "examples": ["n_layers=24"]}}
        example = endpoint.example.get(key)
        if key == "set" and isinstance(example, dict):
            example = [f"{field}={value}" for field, value in example.items()]
        found.append(
            {
                "name": key,
                "in": "path" if key in inside else "query",
                "required": key in whole["required"],
                "description": about.get("description", ""),
                "schema": shown,
                **({"example": example} if example is not None else {}),
            }
        )
    return found


def _option(param: click.Parameter) -> dict[str, Any]:
    """The schema of one option: its type, its choices, its default, its help."""
    about: dict[str, Any] = {}
    if isinstance(param, click.Option):
        about["description"] = param.help or ""
        if param.metavar and not param.is_flag:
            about["description"] += f" ({param.metavar})"
    flag = isinstance(param, click.Option) and param.is_flag
    kind: dict[str, Any]
    if flag:
        kind = {"type": "boolean"}
    elif isinstance(param.type, ModelType):
        kind = {"oneOf": [_NAME, _CONFIG]}
    elif isinstance(param.type, click.Choice):
        kind = {"type": "string", "enum": list(param.type.choices)}
    elif isinstance(param.type, click.types.IntParamType):
        kind = {"type": "integer"}
        if isinstance(param.type, click.IntRange):
            bounds = {"minimum": param.type.min, "maximum": param.type.max}
            kind |= {name: bound for name, bound in bounds.items() if bound is not None}
    elif isinstance(param.type, click.types.FloatParamType):
        kind = {"type": "number"}
    else:
        kind = {"type": "string"}
    if param.nargs == -1 or (isinstance(param, click.Option) and param.multiple):
        return {"type": "array", "items": kind, **about}
    default = param.to_info_dict().get("default")
    if not flag and isinstance(default, str | int | float) and not isinstance(default, bool):
        kind["default"] = default
    return {**kind, **about}


def curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """A request to try, as a command."""
    if method == "post":
        example = operation["requestBody"]["content"]["application/json"]["example"]
        return f"curl {{base}}{path} -H 'content-type: application/json' -d '{json.dumps(example)}'"
    pairs: list[tuple[str, str]] = []
    for parameter in operation["parameters"]:
        value = parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(value))
        elif value is not None:
            texts = value if isinstance(value, list) else [value]
            pairs += [(parameter["name"], str(text).lower() if text is True else str(text)) for text in texts]
    query = f"?{urlencode(pairs)}" if pairs else ""
    return f"curl '{{base}}{path}{query}'"
