"""How requests become models, and models or errors become answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from mooring.backends.local.queue.store import Damaged, StoreFull
from mooring.http_api.models import ErrorAnswer, ProblemLine
from mooring.model.errors import BadInput, MooringError, Problem

log = logging.getLogger(__name__)

PREFIX = "/api/v1"
_MOST_PROBLEMS = 50
_Model = TypeVar("_Model", bound=BaseModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Query(BaseModel):
    """What may stand behind the question mark of an address."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Route:
    """One thing that the API does; the OpenAPI document is made from these."""

    method: str
    path: str
    """Below the prefix."""
    handler: Handler
    summary: str
    answer: type[BaseModel]
    query: type[Query] = Query
    body: type[BaseModel] | None = None
    status: int = 200
    listed: str = ""
    """Of a list: the field of the answer whose items `fields` may cut down."""
    streams: bool = False
    """It answers with server-sent events, each with an `answer` as its data."""


def answer(
    model: BaseModel, status: int = 200, include: dict[str, Any] | None = None
) -> web.Response:
    """`include`: of the model, as pydantic takes it. None: everything."""
    text = model.model_dump_json(by_alias=True, include=include)
    return web.Response(
        body=text.encode(errors="replace"),
        status=status,
        content_type="application/json",
        headers={"X-Content-Type-Options": "nosniff"},
    )


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal is an `ErrorAnswer`; a defect is one, too, and is in the log."""
    try:
        return await handler(request)
    except BadInput as error:
        problems = tuple(
            ProblemLine(path=one.path, found=one.found, accepted=one.accepted, line=one.line)
            for one in error.problems
        )
        said = ErrorAnswer(error=str(error), source=error.source, problems=problems)
        return answer(said, 422)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        refused = answer(ErrorAnswer(error=error.text or error.reason), error.status)
        for name in ("Allow", "WWW-Authenticate", "Retry-After"):
            if name in error.headers:
                refused.headers[name] = error.headers[name]
        return refused
    except StoreFull as error:
        return answer(ErrorAnswer(error=str(error)), 507)
    except (Damaged, MooringError) as error:
        return answer(ErrorAnswer(error=str(error)), 500)
    except ConnectionResetError:
        raise
    except Exception as error:
        log.exception("%s %s", request.method, request.path)
        return answer(ErrorAnswer(error=f"a defect: {type(error).__name__}"), 500)


async def read_body(request: web.Request, model: type[_Model]) -> _Model:
    """The request's body as a model. Raises BadInput."""
    if request.body_exists and request.content_type != "application/json":
        found = repr(request.content_type)
        raise BadInput.at("request", "Content-Type", found, "application/json")
    text = await request.read()
    try:
        return model.model_validate(json.loads(text or b"{}"))
    except ValidationError as error:
        raise BadInput("request", _problems(error, "body")) from error
    except (ValueError, RecursionError) as error:
        raise BadInput.at("request", "body", f"no JSON: {error}", "a JSON document") from error


def read_query(request: web.Request, model: type[_Model]) -> _Model:
    """What stands behind the question mark, as a model. Raises BadInput."""
    given = dict(request.query)
    if len(given) != len(request.query):
        raise BadInput.at("request", "query", "a name twice", "each name once")
    for name, text in given.items():
        if "\0" in text or not _is_text(name + text):
            raise BadInput.at("request", _printable(name), "bytes that are no text", "UTF-8 text")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise BadInput("request", _problems(error, "query")) from error


def _problems(error: ValidationError, whole: str) -> list[Problem]:
    return [
        Problem(
            _printable(".".join(map(str, one["loc"]))) or whole,
            _printable(repr(one["input"])[:200]),
            _printable(one["msg"]),
        )
        for one in error.errors(include_url=False)[:_MOST_PROBLEMS]
    ]


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _is_text(text: str) -> bool:
    return text.isascii() or not any(0xD800 <= ord(char) < 0xE000 for char in text)
