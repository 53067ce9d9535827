"""The files of `deploy/` name options that there are, and one port."""

from __future__ import annotations

import configparser
import json
import re
import shlex

import pytest
import yaml
from service.conftest import ROOT

from sizer.cli.serve import command

DEPLOY = ROOT / "deploy"


def _dockerfile(instruction: str) -> list[str]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return list(json.loads(re.findall(rf"^{instruction} (\[.*\])$", text, flags=re.M)[-1]))


def _unit() -> list[str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read(DEPLOY / "sizer.service")
    return shlex.split(parser["Service"]["ExecStart"])


COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["sizer"]
WORDS = {
    "Dockerfile": _dockerfile("ENTRYPOINT") + _dockerfile("CMD"),
    "compose.yaml": _dockerfile("ENTRYPOINT") + COMPOSE["command"],
    "sizer.service": _unit(),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_command_is_one_that_sizer_takes(name: str, tmp_path: object) -> None:
    token = f"{tmp_path}/token"
    with open(token, "w") as file:
        file.write("t\n")
    words = [token if word.endswith("/token") else word for word in WORDS[name]]

    assert words[0].endswith("/bin/sizer")
    assert words[1] == "serve"
    with command.make_context("serve", words[2:]) as ctx:
        assert ctx.params["workers"] == 2
        # A container has an address of its own; beside systemd it is this machine's.
        assert ctx.params["host"] == ("127.0.0.1" if name == "sizer.service" else "0.0.0.0")
        assert ctx.params["port"] == 8000
        assert (ctx.params["token_file"] is None) == (name == "Dockerfile")


def test_what_the_image_copies_is_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, flags=re.M):
        assert all((ROOT / name).exists() for name in line.split()[:-1]), line
