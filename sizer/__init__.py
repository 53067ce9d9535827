"""How big is it? Parameters of a model, exactly, and all that follows from them.

>>> import sizer
>>> sizer.load("gpt2-small").count().total
124439808
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint, load_checkpoint
    from sizer.errors import SizerError
    from sizer.loading import load
    from sizer.model import Model
    from sizer.report.summary import summary
    from sizer.sources.presets import presets

__all__ = [
    "Checkpoint",
    "Model",
    "SizerError",
    "__version__",
    "load",
    "load_checkpoint",
    "presets",
    "summary",
]

_HOMES = {
    "Checkpoint": "sizer.checkpoint",
    "Model": "sizer.model",
    "SizerError": "sizer.errors",
    "load": "sizer.loading",
    "load_checkpoint": "sizer.checkpoint",
    "presets": "sizer.sources.presets",
    "summary": "sizer.report.summary",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: `import sizer` itself costs nothing.
    if name not in _HOMES:
        raise AttributeError(f"module 'sizer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
