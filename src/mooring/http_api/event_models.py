"""What streams tell."""

from __future__ import annotations

from pydantic import Field, JsonValue

from mooring.http_api.models import ApiModel


class QueueEvent(ApiModel):
    """Something that happened in the queue."""

    place: int = Field(description="In the queue's journal; also the event's id.")
    at_s: float
    kind: str
    job: str = Field(description="The job's id; empty: of the queue as a whole.")
    fields: dict[str, JsonValue]


class RunEvent(ApiModel):
    """A line of a run's journal."""

    place: int = Field(description="Behind the line in the journal; also the event's id.")
    kind: str
    fields: dict[str, JsonValue] = Field(description="All that the line says.")


class Gap(ApiModel):
    """What a client missed and cannot be told any more: it should look at everything anew."""

    missed: str


class StreamEnd(ApiModel):
    """Nothing follows."""

    reason: str
