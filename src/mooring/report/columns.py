"""Tables that fit the width of a terminal without cutting a cell.

Where there is no room for all columns, either the least important ones give way (a live view), or
they go into further blocks below, each with the first column again (a report).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = 2
#: A detail narrower than this is not worth a column: it goes into a line of its own.
_DETAIL_LEAST = 30
_INDENT = 4
_NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """`gives_way`: the highest goes first, 0 never. Columns of one `group` stay side by side.
    `least`: cells that it takes at least, for what changes while it is looked at.
    """

    name: str
    cells: Sequence[str | Text]
    right: bool = False
    gives_way: int = 0
    group: int = 0
    least: int = 0

    @property
    def width(self) -> int:
        cells = (cell.plain if isinstance(cell, Text) else cell for cell in self.cells)
        return max(self.least, cell_len(self.name), *map(cell_len, cells), 0)


@dataclass(frozen=True)
class Columns:
    """A table. `detail` is a last column of sentences, which wrap, or stand below their rows."""

    columns: Sequence[Column]
    detail: Column | None = None

    @classmethod
    def of_rows(
        cls,
        names: Sequence[str],
        rows: Sequence[Sequence[str | Text]],
        *,
        right: Collection[str] = (),
        gives_way: Mapping[str, int] | None = None,
        detail: str = "",
    ) -> Columns:
        """A table from rows; with `detail` they have one more cell, for the column of that name."""
        ways = gives_way or {}
        columns = [
            Column(name, [row[index] for row in rows], name in right, ways.get(name, 0))
            for index, name in enumerate(names)
        ]
        return cls(columns, Column(detail, [row[-1] for row in rows]) if detail else None)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        blocks = fit(self.columns, width)
        for number, block in enumerate(blocks):
            if number:
                yield Text()
            yield from self._block(console, block, width, last=number == len(blocks) - 1)

    def _block(
        self, console: Console, block: Sequence[Column], width: int, *, last: bool
    ) -> Iterator[Text]:
        detail = self.detail if last else None
        widths = [column.width for column in block]
        used = sum(widths) + _GAP * len(widths)
        room = width - used
        beside = detail is not None and room >= min(detail.width, _DETAIL_LEAST)
        head = [Text(column.name, style="bold") for column in block]
        if detail is not None and beside:
            head.append(Text(detail.name, style="bold"))
        yield _line(head, block, widths)
        for row in range(len(block[0].cells)):
            line = _line([_text(column.cells[row]) for column in block], block, widths)
            said = _text(detail.cells[row]) if detail is not None else Text()
            if not said or (said.plain == _NOTHING and not beside):
                yield line
            elif beside:
                first, *more = _wrapped(said, console, room)
                line.pad_right(used - cell_len(line.plain))
                yield line.append_text(first)
                for rest in more:
                    yield Text(" " * used).append_text(rest)
            else:
                yield line
                for rest in _wrapped(said, console, max(1, width - _INDENT)):
                    yield Text(" " * _INDENT).append_text(rest)


def fit(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns in blocks that are no wider than `width`; the first column begins each."""
    if any(column.gives_way for column in columns):
        return [_yield(columns, width)]
    key, *others = columns
    blocks = [[key]]
    for _, group in groupby(others, lambda column: column.group):
        together = list(group)
        if _width([*blocks[-1], *together]) > width and len(blocks[-1]) > 1:
            blocks.append([key])
        for column in together:
            if _width([*blocks[-1], column]) > width and len(blocks[-1]) > 1:
                blocks.append([key])
            blocks[-1].append(column)
    return blocks


def _yield(columns: Sequence[Column], width: int) -> list[Column]:
    kept = list(columns)
    while _width(kept) > width:
        least = max(kept, key=lambda column: column.gives_way)
        if not least.gives_way:
            break
        kept.remove(least)
    return kept


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _wrapped(text: Text, console: Console, width: int) -> list[Text]:
    lines = list(text.wrap(console, width))
    for line in lines:
        line.rstrip()
    return lines


def _text(cell: str | Text) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(cell)


def _line(cells: Sequence[Text], block: Sequence[Column], widths: Sequence[int]) -> Text:
    line = Text(overflow="fold")
    for index, cell in enumerate(cells):
        if index < len(block):
            missing = widths[index] - cell_len(cell.plain)
            if block[index].right:
                cell.pad_left(missing)
            elif index < len(cells) - 1:
                cell.pad_right(missing)
        line.append_text(cell)
        if index < len(cells) - 1:
            line.append(" " * _GAP)
    return line
