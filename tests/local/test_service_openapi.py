"""The OpenAPI document holds of a real service, for requests that it allows and for others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks
from schemathesis.core.result import Ok

from support.moor import write_job
from support.service import Service, service_in
from support.waiting import until

#: Each request takes some milliseconds; all of them together less than a minute.
_EXAMPLES = 40
_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@dataclass(frozen=True)
class Known:
    """A service with a job that has ended and one that waits."""

    service: Service
    url: str
    headers: dict[str, str]
    paths: dict[str, str]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    folder = tmp_path_factory.mktemp("openapi")
    with service_in(folder / "home", "--listen", "127.0.0.1:0") as service:
        command = [sys.executable, "-S", "-c", "print('step 1 loss 0.5')"]
        roles = {"worker": {"replicas": 1}}
        [ended] = service.submit(
            write_job(folder, name="ended", framework="indexed", command=command, roles=roles)
        )
        run = service.until_ended(ended)["run"]
        waiting = {"worker": {"replicas": 1, "resources": {"cpu": 100_000}}}
        service.submit(
            write_job(folder, name="waits", framework="indexed", command=command, roles=waiting)
        )
        url = until(lambda: re.search(r"http://\S+:\d+", service.log.read_text()), "its address")
        token = service.home.token_file.read_text().strip()
        yield Known(
            service,
            url.group(),
            {"Authorization": f"Bearer {token}"},
            {"id": ended, "run": run},
        )


def operations(known: Known) -> list[Any]:
    """All but streams, which do not end."""
    address = f"{known.url}/api/v1/openapi.json"
    schema = schemathesis.openapi.from_url(address, headers=known.headers)
    found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    return [each for each in found if not each.path.endswith("/events")]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_is_as_the_document_says(known: Known, mode: GenerationMode) -> None:
    asked = operations(known)
    assert len(asked) > 15
    for operation in asked:
        if mode is GenerationMode.NEGATIVE and not (
            operation.query or operation.body or operation.path_parameters
        ):
            continue

        @settings(
            max_examples=_EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers(case: Any) -> None:
            whole = [*_CHECKS, checks.negative_data_rejection]
            case.call_and_validate(headers=known.headers, checks=whole, timeout=30)
            if case.path_parameters:
                case.path_parameters = known.paths
                case.call_and_validate(headers=known.headers, checks=_CHECKS, timeout=30)

        answers()


@pytest.mark.slow
def test_without_a_token_every_operation_is_refused(known: Known) -> None:
    for operation in operations(known):
        case = operation.Case(path_parameters=known.paths)
        response = case.call(headers={"Authorization": "Bearer wrong"})
        assert response.status_code == 401, operation.path


def test_every_operation_is_told(known: Known) -> None:
    from mooring.http_api.app import ROUTES

    document = known.service.client.get("/openapi.json")
    told = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert told == {(route.method, route.path) for route in ROUTES}
    assert all(one["summary"] for each in document["paths"].values() for one in each.values())
