"""SQL lives in ``.sql`` files: numbered migrations per backend, and one file of named queries."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["migrations", "queries"]


def migrations(backend: str) -> list[str]:
    """Scripts in order; the n-th brings a schema from version n - 1 to n.

    Examples
    --------
    >>> migrations("sqlite")[0].startswith("-- Append-only")
    True
    """
    folder = files("bot_orch.log.stores") / "sql"
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(rf"{backend}_\d{{4}}\.sql", entry.name))
    return [(folder / name).read_text() for name in names]


def queries(backend: str) -> dict[str, str]:
    """The statements of ``{backend}_queries.sql`` by name.

    Examples
    --------
    >>> queries("sqlite")["snapshot"]
    'SELECT seq, body FROM snapshots WHERE seq < ? ORDER BY seq DESC LIMIT 1'
    """
    text = (files("bot_orch.log.stores") / "sql" / f"{backend}_queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: statement.strip() for name, statement in zip(parts[1::2], parts[2::2], strict=True)}
