"""Structured logs: one JSON object per line, from named fields only, so that prompts and secrets are never logged."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message and ``extra={"fields": {...}}``; of exceptions the class and code locations only."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["where"] = _places(record)
        return json.dumps(line, default=str)


def _places(record: logging.LogRecord) -> list[str]:
    places, step = [], record.exc_info[2] if record.exc_info else None
    while step is not None:
        places.append(f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}")
        step = step.tb_next
    return places[-8:]


def configure_logs(level: str) -> None:
    """Send the package's logs to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("bot_orch", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Set the log level."""
    logging.getLogger("bot_orch").setLevel(level.upper())
