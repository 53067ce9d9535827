"""The limits of the service; they reach its workers through one variable of the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from sizer.errors import BadInput, clip

VARIABLE = "SIZER_SERVICE"
TOKEN_VARIABLE = "SIZER_TOKEN"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits in bytes and seconds.

    >>> Settings(max_body=1_000).client_timeout
    20.0
    """

    root_path: str = ""
    cors_origins: tuple[str, ...] = ()
    token_file: str = ""
    # Of a body: a configuration, or the header of a file of weights.
    max_body: int = 16_000_000
    # Of one process; below the open files that it usually may have.
    connections: int = 500
    # For a client to send its headers, and then its body.
    client_timeout: float = 20.0
    # To read an answer.
    send_timeout: float = 60.0
    # To work out an answer: a usual one, and a heavy one.
    deadline: float = 10.0
    heavy_deadline: float = 60.0
    # Memory of one calculator.
    memory: int = 2_000_000_000
    # Processes of each of the three lanes, and the requests that may wait for one.
    calculators: int = 2
    queue: int = 200
    # Answers that are kept.
    cache: int = 64_000_000
    access_log: bool = True
    metrics_folder: str = ""

    def to_environment(self) -> str:
        """As the text of the variable."""
        return json.dumps(asdict(self))


def from_environment() -> Settings:
    """The settings that `sizer serve` left for its workers, or the usual ones."""
    values = json.loads(os.environ.get(VARIABLE) or "{}")
    return Settings(**{**values, "cors_origins": tuple(values.get("cors_origins", ()))})


def token(settings: Settings) -> bytes | None:
    """The bearer token that requests must carry, if any: of a file, or of the environment."""
    text = os.environ.get(TOKEN_VARIABLE, "")
    if settings.token_file:
        try:
            with open(settings.token_file, encoding="utf-8") as file:
                text = file.read(4_096)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read the token in {clip(settings.token_file)}: {error}") from None
        if not text.strip():
            raise BadInput(f"{clip(settings.token_file)} holds no token; write one line into it")
    return text.strip().encode() or None
