"""What is known of a model's variables, wherever it was read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mooring.sharding import LEAST_PARTED_BYTES

#: Rows for each byte of a row: kernels have about as many rows as columns, tables thousands more.
_LONG = 4


class Maker(StrEnum):
    """Whose variable it is: what can be done with it depends on that."""

    TENSORFLOW = "tensorflow"
    KERAS_2 = "keras-2"
    KERAS_3 = "keras-3"


@dataclass(frozen=True)
class PartFacts:
    """A variable, or the part of it that one server holds.

    server: None where the source does not say. looked_up: rows are taken from it; None: not known.
    whole: a lookup pulls all of it. written_whole: an update touches every row of it.
    keras_layer, keras_adam: its layer or its optimizer is that of Keras, which a job can change.
    step_bytes: moved in a step, where the source says so itself. maker: None where nobody says.
    trainable: part of the model, not of its optimizer.
    """

    variable: str
    shape: tuple[int, ...]
    size_bytes: int
    server: int | None = None
    part: int = 0
    looked_up: bool | None = None
    whole: bool = False
    step_bytes: float | None = None
    written_whole: bool = False
    keras_layer: bool = False
    keras_adam: bool = False
    maker: Maker | None = None
    trainable: bool = True

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def row_bytes(self) -> float:
        return self.size_bytes / max(1, self.rows)

    @property
    def by_rows(self) -> bool:
        """Whether workers move rows of it. Where nobody says: if it is large and has many rows."""
        if self.looked_up is not None:
            return self.looked_up
        return self.size_bytes >= LEAST_PARTED_BYTES and self.rows > _LONG * self.row_bytes


@dataclass(frozen=True)
class Facts:
    """Everything about one model. server_bytes: moved by each server in a step, if measured.

    holders: names of the servers, or of the ranks that hold parts of tables; `ps-0`... if empty.
    """

    source: str
    servers: int
    parts: tuple[PartFacts, ...]
    server_bytes: tuple[float, ...] | None = None
    steps: int | None = None
    holders: tuple[str, ...] = ()
    placed: bool = True
    """Whether the source says which server holds what."""
