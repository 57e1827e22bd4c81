"""The description of the API is what the server does: schemathesis asks it everything that it describes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error

from poseidon_reconciler.observe.web.openapi import openapi_document
from tests.core.builders import runner
from tests.observe.web.serving import TOKEN, Background, eventful, pool

# The stream of events does not end; its own tests read it.
schema = schemathesis.openapi.from_dict(openapi_document()).exclude(path="/v1/events")


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    token_file: Path = tmp_path_factory.mktemp("token") / "token"
    token_file.write_text(TOKEN)
    served = pool(token_file=token_file, metrics=lambda: (b"up 1\n", "text/plain; version=1.0.0; charset=utf-8"))
    with served.in_background() as background:
        background.call(served.lose, 0, index=500)
        yield background


@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_server_does_what_is_described(case: Case[Any], background: Background) -> None:
    response = case.call(base_url=background.served.address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)
    case.validate_response(response)


@pytest.mark.parametrize("subject", ["10", "template-10", runner(0), runner(1)])
def test_explanations_are_as_described(background: Background, subject: str) -> None:
    case = schema["/v1/explain/{subject}"]["GET"].Case(path_parameters={"subject": subject})
    response = case.call(base_url=background.served.address)
    assert response.status_code == 200
    case.validate_response(response, excluded_checks=[not_a_server_error])


def test_a_runner_that_was_only_ordered_is_explained_as_described(background: Background) -> None:
    (ordered,) = [each.job_id for each in background.served.bench.actions if each.kind == "create-runner"]
    case = schema["/v1/explain/{subject}"]["GET"].Case(path_parameters={"subject": ordered})
    response = case.call(base_url=background.served.address)
    assert (response.status_code, response.json()["kind"]) == (200, "order")
    case.validate_response(response, excluded_checks=[not_a_server_error])


@pytest.mark.parametrize("path", ["/v1/status", "/v1/journal", "/v1/history"])
def test_what_is_told_of_a_loss_is_as_described(background: Background, path: str) -> None:
    case = schema[path]["GET"].Case()
    response = case.call(base_url=background.served.address)
    assert runner(0) in response.text or path == "/v1/history"
    case.validate_response(response)


def test_a_status_in_which_everything_happened_is_as_described() -> None:
    with eventful().in_background() as background:
        case = schema["/v1/status"]["GET"].Case()
        response = case.call(base_url=background.served.address)
        document = response.json()
        for name in ("blame", "surplus", "shadow", "losses", "actions"):
            assert document[name], name
        assert document["poseidon"]["environments"]
        case.validate_response(response)


def test_everything_that_is_served_is_described() -> None:
    """But for what is made for eyes."""
    routes = pool().server.application("127.0.0.1").router.routes()
    served = {(route.method, route.resource.canonical) for route in routes if route.resource is not None}
    pages = {"/", "/explain/{subject}", "/page.css", "/page.js"}
    described = {
        (method.upper(), path)
        for path, methods in openapi_document()["paths"].items()
        for method in methods
        if method in ("get", "post")
    }
    assert {(method, path) for method, path in served if method != "HEAD" and path not in pages} == described
