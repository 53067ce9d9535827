"""The console blocks of a document: what they run, what they show, and the same with today's output.

The blocks of a page run in order in one empty folder. A block with `title="NAME"` is a file. Below
a command stands what it prints, on standard error too, and `# exit 1` where its answer is no.
`<!-- needs: torch -->` says that what follows cannot do without that module.

    python tools/consoles.py README.md docs/tutorial.md     # write today's output into them
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What runs a command of sizer: exit code, standard output, standard error.
Run = Callable[..., tuple[int, str, str]]
_PIECES = re.compile(
    r"^<!-- needs: (?P<module>\w+) -->$|^```(?P<info>\S[^\n]*)\n(?P<body>.*?)^```$", re.S | re.M
)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a document: what stands behind the fence, and what is inside."""
    for piece in _PIECES.finditer(text):
        if not piece["module"]:
            yield piece["info"], piece["body"]


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with what is shown below it."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def played(
    text: str, run: Run, folder: Path, need: Callable[[str], object]
) -> Iterator[tuple[str, str, str]]:
    """Run a page in a folder, which is the current one: each command, what is shown, what is printed.

    `need` is called with the modules that the page needs where it needs them; it raises to end there.
    """
    for piece in _PIECES.finditer(text):
        if piece["module"]:
            need(piece["module"])
            continue
        if title := re.search(r'title="([^"]+)"', piece["info"]):
            file = folder / title[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(piece["body"])
        if piece["info"].split()[0] == "console":
            for command, shown in commands(piece["body"]):
                yield command, shown, printed(command, run, folder)


def printed(command: str, run: Run, folder: Path) -> str:
    """What a command of a document prints: one of sizer, or `python FILE`."""
    program, *words = shlex.split(command)
    if program == "sizer":
        code, out, err = run(*words)
    elif program == "python":
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        raise ValueError(f"a document runs sizer or python, and not {command!r}")
    return err + out + (f"# exit {code}\n" if code else "")


def _run(*words: str) -> tuple[int, str, str]:
    from sizer.cli import main

    # Streams over bytes, as those of a process: a long answer is written to the bytes below.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, *(_text(stream) for stream in (out, err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def renewed(path: Path) -> str:
    """A document with today's output below its commands."""
    text = path.read_text()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = [new for _, _, new in played(text, _run, Path(folder), __import__)]
        finally:
            os.chdir(before)
    rest = iter(outputs)

    def console(piece: re.Match[str]) -> str:
        if piece["module"] or piece["info"].split()[0] != "console":
            return piece[0]
        shown = "".join(f"$ {command}\n{next(rest)}" for command, _ in commands(piece["body"]))
        return f"```{piece['info']}\n{shown}```"

    return _PIECES.sub(console, text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for name in sys.argv[1:]:
        document = Path(name).resolve()
        document.write_text(renewed(document))
