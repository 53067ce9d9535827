"""Which commands are served, and how a request becomes a command line.

A request is read by the command's own options and answered by its own function, so the service and
the command line cannot differ. Options that name files, and those about the form of the output, are no
part of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

import click

from sizer.cli.options import ModelType
from sizer.errors import BadInput, UnknownName, shown
from sizer.report.report import Report

# What the service sees to itself: the model, the form of the answer, and the help.
_OWN = frozenset(("target", "preset", "hub", "cls", "assignments", "form", "table_format", "verbose", "help"))
# Keys of a request about its model.
MODEL_KEYS = ("model", "set", "class")

# None of them is read where there are more; the commands say how many they take.
MOST_MODELS = 100

Loader = Callable[[object], Any]


class Endpoint:
    """A command under a path.

    `command` is its place below `sizer.cli`, a subcommand after a colon. `heavy` answers may take
    long, and are worked out beside the others. `without` are options that are not for clients:
    those that name files, or import much. `example` is a request that shows what it is for.
    """

    def __init__(
        self,
        command: str,
        example: Mapping[str, Any],
        *,
        heavy: bool = False,
        without: tuple[str, ...] = (),
        tool: bool = False,
    ) -> None:
        self.place = command
        self.example = example
        self.heavy = heavy
        self.without = without
        self.tool = tool

    @cached_property
    def command(self) -> click.Command:
        """The command of the command line."""
        module, _, name = self.place.partition(":")
        found = import_module(f"sizer.cli.{module}").command
        return found.commands[name] if name else found  # type: ignore[no-any-return]

    @cached_property
    def options(self) -> dict[str, click.Parameter]:
        """The options of a request by their key: `--seq-len` is `seq_len`."""
        return {
            _key(param): param
            for param in self.command.params
            if param.name not in _OWN
            and param.name not in self.without
            and not isinstance(param.type, click.Path | click.File)
        }

    @cached_property
    def has_model(self) -> bool:
        """Whether the command is about one model."""
        return any(param.name == "target" for param in self.command.params)

    def report(self, values: Mapping[str, Any], model: Any, load: Loader) -> Report:
        """The answer to the options in a request, about a model; `load` reads those that are models."""
        words: list[str] = []
        # What is no option comes last, after the model, where nothing that begins with a dash is one.
        rest: list[str] = []
        models: dict[str, Any] = {}
        given: set[str | None] = set()
        for key, value in values.items():
            param = self.options.get(key) or self.options.get(key.replace("-", "_"))
            if param is None:
                raise UnknownName("option", key, [*self.options, *(MODEL_KEYS if self.has_model else ())])
            if isinstance(param.type, ModelType):
                if value is not None:
                    named = value if isinstance(value, list) and _many(param) else [value]
                    if len(named) > MOST_MODELS:
                        raise BadInput(f"{key} has {len(named):,} models; at most {MOST_MODELS} are taken")
                    found = tuple(map(load, named))
                    models[param.name or ""] = found if _many(param) else found[0]
                continue
            if isinstance(value, dict) and _many(param):
                # `{"d_model": "512:4096:512"}` are the words `d_model=512:4096:512`.
                value = [f"{name}={_text(key, each)}" for name, each in value.items()]
            said = _words(param, key, value)
            if said and param.name in given:
                raise BadInput(f"{key!r} contradicts another option, or is given twice")
            given |= {param.name} if said else set()
            (words if isinstance(param, click.Option) else rest).extend(said)
        first = ["the model at hand"] if self.has_model else []
        with self.command.make_context(self.command.name, [*words, "--", *first, *rest]) as ctx:
            own: dict[str, Any] = {"form": "report", "table_format": None, "verbose": False}
            unset = {"preset": None, "hub": False, "cls": None, "assignments": (), "target": model}
            own |= {name: value for name, value in unset.items() if name in ctx.params}
            own |= dict.fromkeys(name for name in self.without if name in ctx.params)
            assert self.command.callback is not None
            answer = self.command.callback(**{**ctx.params, **models, **own})
            assert isinstance(answer, Report)
            return answer


def _key(param: click.Parameter) -> str:
    """`--with` of the parameter `builder` is `with`; an argument has its own name."""
    long = [name for name in param.opts if name.startswith("--")]
    return (long[0].removeprefix("--") if long else param.name or "").replace("-", "_")


def _words(param: click.Parameter, key: str, value: object) -> list[str]:
    """A value as the words of a command line."""
    if value is None:
        return []
    name = max(param.opts, key=len)
    if isinstance(param, click.Option) and param.is_flag:
        # `--tied` has an opposite, which is not the same as to say nothing.
        return [name] if _flag(key, value) else param.secondary_opts[:1]
    if isinstance(value, list) and not _many(param):
        raise BadInput(f"{key} has {len(value):,} values and takes one")
    texts = [_text(key, each) for each in (value if isinstance(value, list) else [value])]
    return [f"{name}={text}" for text in texts] if isinstance(param, click.Option) else texts


def _many(param: click.Parameter) -> bool:
    return param.nargs == -1 or (isinstance(param, click.Option) and param.multiple)


def _text(key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadInput(f"{key} = {shown(value)} is neither a number nor a word")
    try:
        return value if isinstance(value, str) else repr(value)
    except ValueError:
        raise BadInput(f"{key} is a number with too many digits") from None


_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "": True}
_FLAGS |= {"false": False, "0": False, "no": False, "off": False}


def _flag(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower() if isinstance(value, str | int) else "-"
    if word not in _FLAGS:
        raise BadInput(f"{key} = {shown(value)} is not true or false")
    return _FLAGS[word]


# A file of accelerators is the operator's, not a client's.
_OWN_HARDWARE = ("hardware_file",)
_GPT2 = {"model": "gpt2-small"}
_LLAMA = {"model": "llama-3-8b"}

# Path below /v1/ -> the command that answers it. A new command is one line here.
ENDPOINTS = {
    "count": Endpoint("count", {**_GPT2, "set": {"n_layers": 24}}, without=("builder",), tool=True),
    "formula": Endpoint("formula", {**_LLAMA, "keep": "D,L"}, tool=True),
    "explain": Endpoint("explain", _GPT2),
    "tensors": Endpoint("tensors", {**_GPT2, "expand": True}, heavy=True),
    "flops": Endpoint("flops", {**_LLAMA, "batch_size": 8, "seq_len": 8192, "rule": ["6n"]}, tool=True),
    "kv-cache": Endpoint("kv_cache", {**_LLAMA, "batch_size": 4, "seq_len": 8192}, tool=True),
    "memory": Endpoint("memory", {**_GPT2, "batch_size": 8, "seq_len": 1024}, without=("plot",), tool=True),
    "shard": Endpoint("shard", {**_LLAMA, "tp": 8}, without=("plot",)),
    "size": Endpoint("size", {**_LLAMA, "quant": "q4_k_m"}),
    "fit": Endpoint(
        "fit", {**_LLAMA, "on": "h100", "gpus": 1, "engine": "vllm"}, without=_OWN_HARDWARE, tool=True
    ),
    "plan": Endpoint(
        "plan", {**_LLAMA, "on": "h100", "gpus": 8, "mode": "train"}, heavy=True, without=_OWN_HARDWARE
    ),
    "train": Endpoint(
        "train",
        {**_LLAMA, "tokens": "15T", "on": "h100", "gpus": 2048, "mfu": 0.4},
        without=_OWN_HARDWARE,
        tool=True,
    ),
    "roofline": Endpoint("roofline", {**_LLAMA, "on": "h100", "batch_size": 32}, without=_OWN_HARDWARE),
    "solve": Endpoint(
        "solve", {**_LLAMA, "params": "13B", "for": "d_model,n_layers", "d_head": 128}, heavy=True, tool=True
    ),
    "sweep": Endpoint(
        "sweep",
        {**_GPT2, "axes": ["d_model=512:2048:512", "n_layers=12,24"]},
        heavy=True,
        without=("models", "output", "plot", "scheduler"),
    ),
    "compare": Endpoint("compare", {"models": ["llama-2-7b", "llama-3-8b"]}, without=("plot",)),
    "scaling": Endpoint("scaling", {"flops": "5.76e23"}, without=("plot",)),
    "reconcile": Endpoint("reconcile", {**_GPT2, "number": 163_037_184}, heavy=True, tool=True),
    "hardware": Endpoint("hardware:list", {"vendor": "nvidia"}, without=_OWN_HARDWARE),
    "hardware/{name}": Endpoint("hardware:show", {"name": "h100-sxm"}, without=_OWN_HARDWARE),
    "presets": Endpoint("presets:list", {"family": "qwen3", "kind": ["moe"]}, tool=True),
    "presets/{name}": Endpoint("presets:show", {"name": "llama-3-8b"}),
}


def find(path: str) -> tuple[str, Endpoint, dict[str, str]] | None:
    """The endpoint of a path below /v1/, by its name in the table, with the values in the path.

    >>> find("presets/gpt2-small")[0], find("presets/gpt2-small")[2]
    ('presets/{name}', {'name': 'gpt2-small'})
    """
    if path in ENDPOINTS and "{" not in path:
        return path, ENDPOINTS[path], {}
    parent, slash, last = path.rpartition("/")
    for name, endpoint in ENDPOINTS.items():
        before, brace, inside = name.partition("/{")
        if brace and slash and last and before == parent:
            return name, endpoint, {inside.removesuffix("}"): last}
    return None
