"""The OpenAPI document: what it says is so, and nothing that it allows breaks the service."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from service.conftest import Server

from sizer.service import openapi


def test_the_examples_are_answered(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    asked = 0
    for path, methods in document["paths"].items():
        if "post" in methods:
            example = methods["post"]["requestBody"]["content"]["application/json"]["example"]
            assert server.client.post(path, json=example).status_code == 200, path
        url = openapi.curl("get", path, methods["get"]).split("'")[1].removeprefix("{base}")
        assert server.client.get(url).status_code == 200, url
        asked += 1

    assert asked == len(document["paths"]) >= 10


SCHEMA = schemathesis.openapi.from_dict(openapi.document())
CASES = st.one_of([found.ok().as_strategy() for found in SCHEMA.get_all_operations()])


@given(case=CASES)
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    derandomize=True,
)
def test_nothing_that_the_document_allows_breaks_it(server: Server, case: schemathesis.Case) -> None:
    case.call_and_validate(
        base_url=server.base,
        checks=[not_a_server_error, status_code_conformance, content_type_conformance],
    )
