"""The operator's own log: one line a record, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from mooring.report.printable import printable, printable_lines


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Text(logging.Formatter):
    """A record is one line but for its trace: what jobs are called, and say, is text."""

    def format(self, record: logging.LogRecord) -> str:
        at = self.formatTime(record)
        head = f"{at} {record.levelname} {printable(record.getMessage())}"
        if not record.exc_info:
            return head
        return f"{head}\n{printable_lines(self.formatException(record.exc_info))}"


def set_up(form: str) -> None:
    """Send everything of ours to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger("mooring")
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False
