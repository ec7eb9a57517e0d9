"""Lists in pages: how many, where to go on, and which fields of each item."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, Field

from mooring.http_api.answering import Query, answer
from mooring.model.errors import BadInput

DEFAULT_LIMIT = 100
MOST_LIMIT = 1000


class Page(Query):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=MOST_LIMIT)] = Field(
        DEFAULT_LIMIT, description="How many at most."
    )
    next: Annotated[str, Field(max_length=300)] = Field(
        "", description="Where to go on: `next` of the answer before."
    )
    fields: Annotated[str, Field(max_length=1000)] = Field(
        "", description="Only these fields of each item, such as `id,state`. Not given: all."
    )


def answer_list(model: BaseModel, listed: str, fields: str) -> web.Response:
    """The list, each item with the chosen fields alone. Raises BadInput for an unknown field."""
    names = {name.strip() for name in fields.split(",")} - {""}
    if not names:
        return answer(model)
    items: tuple[BaseModel, ...] = getattr(model, listed)
    known = _item_model(type(model), listed).model_fields
    unknown = sorted(names - set(known))
    if unknown:
        raise BadInput.at("request", "fields", repr(unknown[0]), f"some of {', '.join(known)}")
    everything = {name: True for name in type(model).model_fields if name != listed}
    chosen: dict[str, object] = {**everything, listed: {"__all__": names}}
    return answer(model, include=chosen if items else None)


def place_after(cursor: str) -> int:
    """The number that `next` of an answer is; 0 without one. Raises BadInput."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
        raise BadInput.at("request", "next", repr(cursor), "`next` of the answer before")
    return int(cursor)


def part_of(asked: Page, count: int) -> tuple[int, int, str | None]:
    """Of a list of so many whose order stays: begin, end, and `next`. Raises BadInput."""
    begin = place_after(asked.next)
    end = begin + asked.limit
    return begin, end, str(end) if end < count else None


def _item_model(model: type[BaseModel], listed: str) -> type[BaseModel]:
    """`tuple[Item, ...]` -> Item."""
    item: type[BaseModel] = model.model_fields[listed].annotation.__args__[0]  # type: ignore[union-attr]
    return item
