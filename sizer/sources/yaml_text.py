"""YAML from outside: one mapping of settings, no aliases, no key twice, within bounds."""

from __future__ import annotations

import re
from typing import Any

from sizer.errors import BadInput, MissingExtra, clip
from sizer.sources.json_text import checked_object

# PyYAML reads about a megabyte a second; a configuration has a few kilobytes.
MAX_YAML_BYTES = 1_000_000

_ENTRY = re.compile(r"(--)?[\w./-]+\s*:(\s|$)")


def looks_like_yaml(text: str, name: str) -> bool:
    """Whether a text is YAML rather than JSON: by its name, or else by its first line.

    >>> looks_like_yaml("# sizes\\nn_layer: 12", "-"), looks_like_yaml('{"n_layer": 12}', "-")
    (True, False)
    """
    if name.lower().endswith((".yaml", ".yml")):
        return True
    if name.lower().endswith(".json"):
        return False
    for line in text[:10_000].removeprefix("\ufeff").splitlines():
        start = line.strip()
        if start and not start.startswith(("#", "---", "%")):
            return _ENTRY.match(start) is not None
    return False


def parse_mapping(text: str, name: str) -> dict[str, Any]:
    """The settings in a YAML text; `name` says in errors where the text came from."""
    if len(text) > MAX_YAML_BYTES:
        raise BadInput(f"{clip(name)} is over {MAX_YAML_BYTES:,} characters, too large for YAML settings")
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("yaml", f"reading YAML ({clip(name)})") from None
    try:
        value = yaml.load(text.removeprefix("\ufeff"), Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadInput(f"{clip(name)} is not valid YAML: {clip(error.problem)}{at}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{clip(name)} is not valid YAML: {clip(str(error).splitlines()[0])}") from None
    except RecursionError:
        raise BadInput(f"{clip(name)} is nested too deeply") from None
    except (ValueError, OverflowError, AttributeError):
        # A number or a date that Python cannot hold.
        raise BadInput(f"{clip(name)} holds a number or a date that cannot be read") from None
    return checked_object(value, name)


def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """PyYAML's safe loader without aliases, by which a small file can hold a huge value."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.get_event()
                raise yaml.MarkedYAMLError(
                    problem="an alias; write the value out", problem_mark=event.start_mark
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                word = str(key.value)
                if word in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {clip(word)!r} twice", problem_mark=key.start_mark
                    )
                seen.add(word)
            return super().construct_mapping(node, deep)

    return Loader
