"""Configuration documents: the part that processes share, differences between two, the version that a process runs.

The processes of a service on PostgreSQL share a document; variables in it (``${NAME}``) are those of each process.
Some settings belong to one process alone (:data:`LOCAL`) and come from its own file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bot_orch.codec import read_text
from bot_orch.service.config.checks import check_config
from bot_orch.service.config.reading import expanded, load_config, parsed, placed, typed
from bot_orch.service.config.settings import Config

#: Settings of one process; all others are shared.
LOCAL = (
    "revision",
    "listen",
    "database",
    "access_log",
    "log_level",
    "retention.archive",
    "cluster.address",
    "cluster.port",
)
_IDENTITY = {"agents": "id", "tokens": "name"}
_MOST_NAMED = 8
_NOWHERE = object()


class ConfigFile:
    """The file of a process.

    Parameters
    ----------
    path, environment
        Where it is, and the variables that it may name; by default those of the process.
    host, port
        Override the file's values.
    """

    def __init__(
        self,
        path: str | Path,
        environment: Mapping[str, str] | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
    ) -> None:
        self.path, self.host, self.port = Path(path), host, port
        self.environment = os.environ if environment is None else environment

    def text(self) -> str:
        """The current text of the file."""
        return read_text(self.path)

    def read(self) -> Config:
        """The current settings of the file."""
        return load_config(self.path, self.environment, host=self.host, port=self.port)

    def local(self) -> dict[str, Any]:
        """The file's settings for this process only; a process that starts from a stored version reads nothing else."""
        return _local(parsed(self.text(), str(self.path)))

    def database(self) -> str:
        """The configured database, with variables expanded."""
        where = self.local().get("database", "")
        return str(expanded(where, "config.database", self.environment))

    def around(self, document: str, local: dict[str, Any] | None = None) -> Config:
        """The settings of a shared document combined with those of this process (``local`` if already read)."""
        merged = _merged(_shared(parsed(document)), self.local() if local is None else local)
        config = typed(merged, self.environment)
        check_config(config)
        return placed(config, self.path, host=self.host, port=self.port)


def digest_of_document(document: str) -> str:
    """A short digest of the shared part of a configuration, as it is written."""
    found = json.dumps(_named(_shared(parsed(document))), sort_keys=True, default=str)
    return hashlib.blake2b(found.encode(), digest_size=6).hexdigest()


def revision_of(document: str) -> int:
    """The ``revision`` of a document; a higher one is applied even if its settings were in force before."""
    found = parsed(document).get("revision", 0)
    return found if isinstance(found, int) else 0


def differences(old: str, new: str) -> list[str]:
    r"""Shared settings in which two documents differ, as they are written.

    Examples
    --------
    >>> agents = "version: 1\nagents: [{id: a, kind: simulated}]"
    >>> differences(agents, agents + "\nlog_level: debug")
    []
    >>> differences(agents, "version: 1\nagents: [{id: b, kind: simulated}]")
    ['agents.a (gone)', 'agents.b (new)']
    """
    return list(_compare(_named(_shared(parsed(old))), _named(_shared(parsed(new))), ""))


def named_all(found: list[str]) -> str:
    """The differences in one line."""
    more = len(found) - _MOST_NAMED
    return ", ".join(found[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _local(document: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in LOCAL:
        first, _, second = name.partition(".")
        part = document.get(first, _NOWHERE)
        if not second and part is not _NOWHERE:
            found[first] = part
        elif isinstance(part, dict) and second in part:
            found.setdefault(first, {})[second] = part[second]
    return found


def _shared(document: Mapping[str, Any]) -> dict[str, Any]:
    whole = {name for name in LOCAL if "." not in name}
    found = {name: value for name, value in document.items() if name not in whole}
    for first, _, second in (name.partition(".") for name in LOCAL if "." in name):
        if isinstance(found.get(first), dict):
            found[first] = {name: value for name, value in found[first].items() if name != second}
            if not found[first]:
                del found[first]
    return found


def _merged(shared: dict[str, Any], local: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(shared)
    for name, value in local.items():
        part = found.get(name)
        found[name] = {**part, **value} if isinstance(part, dict) and isinstance(value, dict) else value
    return found


def _named(value: Any, name: str = "") -> Any:
    """The value with lists of entries with names, whose order is irrelevant, as mappings by name."""
    by = _IDENTITY.get(name)
    if by is not None and isinstance(value, list) and all(isinstance(each, dict) and by in each for each in value):
        value = {str(each[by]): each for each in value}
    return {key: _named(entry, key) for key, entry in value.items()} if isinstance(value, dict) else value


def _compare(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            at = f"{where}.{name}" if where else name
            yield from _compare(old.get(name, _NOWHERE), new.get(name, _NOWHERE), at)
    elif old is _NOWHERE:
        yield f"{where} (new)"
    elif new is _NOWHERE:
        yield f"{where} (gone)"
    elif old != new:
        yield where
