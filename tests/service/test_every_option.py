"""Every option of every endpoint, as a request and on the command line: the same document."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from lines import LINES, request

from sizer.service import answers
from sizer.service.endpoints import ENDPOINTS, find

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("line", LINES)
def test_a_request_is_its_command_line(sizer_cli: Run, line: str) -> None:
    path, fields = request(line)
    code, out, err = sizer_cli(*shlex.split(line), "--json")
    found = answers.answer(path, urlencode(fields), "", b"")
    text = found.text if isinstance(found.text, bytes) else b"".join(found.text)

    assert code in (0, 1), err
    assert (found.status, found.exit_code) == (200, code)
    assert text.decode() == out


def test_no_option_is_left_out() -> None:
    asked = {name: set() for name in ENDPOINTS}
    for path, fields in map(request, LINES):
        found = find(path)
        assert found is not None
        asked[found[0]] |= {key for key, _ in fields} | set(found[2])

    left = {name: set(one.options) - asked[name] for name, one in ENDPOINTS.items()}
    assert {name: keys for name, keys in left.items() if keys} == {}
