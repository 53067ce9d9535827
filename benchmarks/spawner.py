"""Starts commands for `processes.run`: a process so small that it hides nobody's peak memory.

On Linux the peak that a child is charged with begins at that of the process that started it, before
the child's own program is loaded. This file imports next to nothing, and is run with `-I -S`.
A command, its variables and its folder arrive as a line of JSON; a line of JSON answers.
"""

import json
import os
import sys
import time

DEVNULL = os.open(os.devnull, os.O_RDWR)
SILENT = [(os.POSIX_SPAWN_DUP2, DEVNULL, stream) for stream in (0, 1, 2)]


def run(command: list[str], variables: dict[str, str] | None, folder: str) -> list[float]:
    """Exit code, seconds on the clock, on the processor, and KiB at the peak."""
    os.chdir(folder)
    start = time.perf_counter()
    process = os.posix_spawnp(
        command[0], command, os.environ if variables is None else variables, file_actions=SILENT
    )
    _, status, usage = os.wait4(process, 0)
    clock = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    return [code, clock, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            answer: object = run(*json.loads(line))
        except OSError as error:
            answer = str(error)
        print(json.dumps(answer), flush=True)
