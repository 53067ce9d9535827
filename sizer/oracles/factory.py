"""A torch module of the user's own, named as `package.module:factory`.

This is the one place where sizer imports code by name, and only a name that the user wrote in this
form, on the command line or in a `sizer.toml`, comes here. No configuration and no checkpoint does.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from sizer.errors import BadInput, UnknownName, clip, shown
from sizer.oracles.torch import import_torch

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def is_factory(text: str) -> bool:
    """Whether a text has the form of a factory's name.

    >>> is_factory("mypkg.model:build"), is_factory("gpt2-small"), is_factory("C:/models")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def module_of(name: str, *, folder: str = "", arguments: Mapping[str, Any] | None = None) -> Any:
    """The module that a factory makes, on the meta device: a function, a class, or a module itself.

    `folder` is where its package is looked for first. What a factory prints goes to standard error.
    """
    if not is_factory(name):
        raise BadInput(f"{clip(name)!r} is no factory; write it as package.module:function")
    torch = import_torch("a factory of a module")
    given = dict(arguments or {})
    with _found_in(folder or os.getcwd()):
        made = _attribute(name)
        if not isinstance(made, torch.nn.Module):
            if not callable(made):
                raise BadInput(f"{name} is {_a(made)}, and neither a torch module nor a function to make one")
            _check_arguments(name, made, given)
            with _errors(f"{name} fails"), torch.device("meta"):
                made = made(**given)
        elif given:
            raise BadInput(f"{name} is a module already and takes no arguments ({', '.join(given)})")
    if not isinstance(made, torch.nn.Module):
        raise BadInput(f"{name} makes {_a(made)}, and not a torch.nn.Module")
    return made


def _attribute(name: str) -> Any:
    path, _, steps = name.partition(":")
    with _errors(f"{name}: importing {path} fails"):
        try:
            value: Any = import_module(path)
        except ModuleNotFoundError as error:
            if error.name is not None and (path + ".").startswith(error.name + "."):
                raise BadInput(
                    f"{name}: there is no module {error.name!r} in this folder or installed"
                ) from None
            raise
    for step in steps.split("."):
        if not hasattr(value, step):
            raise UnknownName("name", step, [n for n in dir(value) if n[0] != "_"], hint=f"in {path}")
        value = getattr(value, step)
    return value


def _check_arguments(name: str, make: Any, given: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return
    named = {key: p for key, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for key in given:
            if key not in named:
                raise UnknownName("argument", key, named, hint=f"of {name}")
    lacking = [
        key
        for key, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and key not in given
    ]
    if lacking:
        raise BadInput(
            f"{name} needs {'an argument' if len(lacking) == 1 else 'arguments'}: {', '.join(lacking)}; "
            "give them as `set = { … }` in sizer.toml, or name a function that needs none"
        )


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Whatever a user's code raises, as one line."""
    from contextlib import redirect_stdout

    try:
        with redirect_stdout(sys.stderr):
            yield
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        place = _place(error)
        raise BadInput(f"{what}: {type(error).__name__}: {clip(error, 160)}{place}") from None


def _place(error: BaseException) -> str:
    """The line of the user's code that raised, or the last that is known."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path != __file__ and "importlib" not in path and "site-packages" not in path:
            found = f" ({os.path.basename(path)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


@contextmanager
def _found_in(folder: str) -> Iterator[None]:
    """Packages of a folder can be imported, as with `python -m`; afterwards the path is as before."""
    before = list(sys.path)
    sys.path.insert(0, os.path.abspath(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _a(value: object) -> str:
    return f"a {type(value).__name__} ({shown(value)})"
