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
from typing import Any, NamedTuple

import msgspec

from bot_orch.errors import InvalidInputError
from bot_orch.service.config.checks import check_config
from bot_orch.service.config.reading import load_config, parsed, placed, typed
from bot_orch.service.config.settings import Config
from bot_orch.service.config.variables import expanded
from bot_orch.strict import read_text

__all__ = [
    "LOCAL",
    "ConfigFile",
    "SettingDifference",
    "differences",
    "digest_of_document",
    "named_all",
    "revision_of",
]

#: Settings of one process; all others are shared.
LOCAL = (
    "revision",
    "listen",
    "database",
    "access_log",
    "log_level",
    "traces",
    "retention.archive",
    "cluster.address",
    "cluster.port",
)
_IDENTITY = {"agents": "id", "judges": "name", "tokens": "name"}
_RANKED = frozenset({"judges"})
_MOST_NAMED = 8
_NOWHERE = object()


class SettingDifference(NamedTuple):
    """A setting in which two configurations differ: it is ``new``, ``gone`` or ``changed``."""

    setting: str
    kind: str

    def __str__(self) -> str:
        return self.setting if self.kind == "changed" else f"{self.setting} ({self.kind})"


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
    """A short digest of the shared part of a configuration; equal settings have equal digests."""
    found = json.dumps(_canonical(_comparable(document)[0]), sort_keys=True, default=str)
    return hashlib.blake2b(found.encode(), digest_size=6).hexdigest()


def revision_of(document: str) -> int:
    """The ``revision`` of a document; a higher one is applied even if its settings were in force before."""
    found = parsed(document).get("revision", 0)
    return found if isinstance(found, int) else 0


def differences(old: str, new: str) -> list[SettingDifference]:
    r"""Shared settings in which two documents differ; values that are only written down differently are equal.

    Examples
    --------
    >>> agents = "version: 1\nagents: [{id: a, kind: simulated}]"
    >>> differences(agents, agents + "\nrouter: {floor: 0.02}\nlog_level: debug")
    []
    >>> [str(each) for each in differences(agents, "version: 1\nagents: [{id: b, kind: simulated}]")]
    ['agents.a (gone)', 'agents.b (new)']
    """
    (before, is_typed), (after, also) = _comparable(old), _comparable(new)
    if is_typed != also:
        before, after = _shared(parsed(old)), _shared(parsed(new))
    return list(_compare(before, after, ""))


def named_all(found: list[SettingDifference]) -> str:
    """The differences in one line."""
    more = len(found) - _MOST_NAMED
    return ", ".join(str(each) for each in found[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


class _AsWritten(Mapping[str, str]):
    """A mapping that leaves variables unexpanded."""

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _comparable(document: str) -> tuple[dict[str, Any], bool]:
    """The shared settings with all defaults; as written if they have no types with variables left as they are."""
    raw = parsed(document)
    try:
        return _shared(msgspec.to_builtins(typed(raw, _AsWritten()))), True
    except InvalidInputError:
        return _shared(raw), False


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


def _compare(old: Any, new: Any, where: str) -> Iterator[SettingDifference]:
    if isinstance(old, dict) and isinstance(new, dict):
        prefix = f"{where}." if where else ""
        for name in sorted(old.keys() | new.keys()):
            if name not in old:
                yield SettingDifference(prefix + name, "new")
            elif name not in new:
                yield SettingDifference(prefix + name, "gone")
            else:
                yield from _compare(old[name], new[name], prefix + name)
        return
    by = _IDENTITY.get(where.rpartition(".")[2])
    if by is not None and (one := _keyed(old, by)) is not None and (other := _keyed(new, by)) is not None:
        yield from _compare(one, other, where)
        if where.rpartition(".")[2] in _RANKED and list(one) != list(other) and one.keys() == other.keys():
            yield SettingDifference(f"{where} (order)", "changed")
    elif old != new:
        yield SettingDifference(where, "changed")


def _canonical(value: Any, name: str = "") -> Any:
    """The value with lists whose order is irrelevant converted to mappings."""
    by = None if name in _RANKED else _IDENTITY.get(name)
    if by is not None and (found := _keyed(value, by)) is not None:
        return _canonical(found)
    if isinstance(value, dict):
        return {key: _canonical(entry, key) for key, entry in value.items()}
    return [_canonical(entry) for entry in value] if isinstance(value, list | tuple) else value


def _keyed(entries: Any, by: str) -> dict[str, Any] | None:
    """A list of mappings as a mapping by name; ``None`` if a name is missing or repeated."""
    if not isinstance(entries, list | tuple) or not all(isinstance(each, dict) and by in each for each in entries):
        return None
    found = {str(each[by]): each for each in entries}
    return found if len(found) == len(entries) else None
