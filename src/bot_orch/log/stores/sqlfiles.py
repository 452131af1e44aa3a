"""SQL lives in ``.sql`` files: a schema per backend, and a file of named queries."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["queries", "schema"]


def schema(backend: str) -> str:
    """The script that makes the tables.

    Examples
    --------
    >>> schema("sqlite").startswith("-- Append-only")
    True
    """
    return (files("bot_orch.log.stores") / "sql" / f"{backend}_schema.sql").read_text()


def queries(backend: str) -> dict[str, str]:
    """The statements of ``{backend}_queries.sql`` by name.

    Examples
    --------
    >>> queries("sqlite")["find"]
    'SELECT seq, digest FROM keys WHERE key = ?'
    """
    text = (files("bot_orch.log.stores") / "sql" / f"{backend}_queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: statement.strip() for name, statement in zip(parts[1::2], parts[2::2], strict=True)}
