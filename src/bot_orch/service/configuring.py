"""The configuration of a running process: its source, and how changes take effect.

A start, SIGHUP, ``POST /v1/admin/reload`` and ``bot-orch apply`` all end here: the settings are read and checked, then
every router that this process owns changes between two requests, at a row of its log. An agent whose settings did not
change keeps its guard; one that changed or went away ends the calls that it has begun.

On PostgreSQL the document is stored as a version, and the newest version is in force. Each process reads it when a
heartbeat shows its number, and puts it into effect in the routers that it owns; no process waits for another one.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing, suppress

import msgspec

from bot_orch.agents.guard import Guard
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import is_url
from bot_orch.log.stores.postgres.configs import ConfigVersion, PostgresConfigs
from bot_orch.log.stores.postgres.connect import prepare
from bot_orch.service.build import check, make_orchestrator
from bot_orch.service.config import Config
from bot_orch.service.config.documents import ConfigFile, digest_of_document, revision_of
from bot_orch.service.logs import LastingProblem, set_level
from bot_orch.service.problems import StorageError
from bot_orch.service.runtime import Reloaded, Runtime
from bot_orch.service.web.auth import Gate, is_loopback

#: What a service needs that others may reach.
ADD_TOKENS = "add 'tokens: [{name: app, scopes: [admin], env: BOT_ORCH_TOKEN}]' and set that variable"
_log = logging.getLogger("bot_orch.config")
FIXED = (
    "database",
    "listen",
    "limits",
    "retention",
    "cluster",
    "access_log",
)  # read once, at the start
_LIVE = ("agents", "router", "judges", "audit", "passthrough", "tokens", "log_level")
_OF_ROUTER = ("agents", "router")  # the rest is usually the same for all routers
_OF_ITS_OWN = ("database", "access_log")  # fixed at the start, but not the same for all routers
_LOOK_S, _AGAIN_S = 0.05, 5.0


def check_exposed(config: Config) -> None:
    """Refuse to listen on a public address without tokens."""
    if not config.tokens and not is_loopback(config.listen.host):
        raise InvalidInputError(
            "config.listen.host",
            f"is {config.listen.host} and there are no tokens",
            f"{ADD_TOKENS}, or use 127.0.0.1",
        )


def check_file(file: ConfigFile, document: str | None = None) -> Config:
    """Read and check the settings of a file, or of a document with the file's local settings."""
    config = file.read() if document is None else file.around(document)
    check(config)
    check_exposed(config)
    Gate(config.tokens, file.environment)
    return config


def whoami() -> str:
    """The user and host that apply a version, as ``user@host``."""
    user = str(os.getuid())
    with suppress(KeyError, OSError):  # a container may have no name for its user
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"


class StoredConfig:
    """The versions of a configuration on PostgreSQL, as used by one process.

    Parameters
    ----------
    file
        The file of the process, for the settings that are its own.
    version
        The version that it starts with.
    stored
        Whether the file contains only settings of this process.
    """

    def __init__(self, file: ConfigFile, version: ConfigVersion, *, stored: bool = False) -> None:
        self.file, self.version, self.stored = file, version, stored
        self._url, self._local = file.database(), file.local()

    @property
    def notice(self) -> str:
        """A message if the process runs another configuration than its file; else empty."""
        if self.stored or digest_of_document(self.file.text()) == self.version.digest:
            return ""
        return superseded_by(self.file, self.version)

    def config(self, version: ConfigVersion) -> Config:
        """The settings of a version combined with those of this process."""
        return self.file.around(version.document, self._local)

    def newest(self) -> ConfigVersion:
        """The version in force."""
        with closing(PostgresConfigs(self._url)) as store:
            return store.current() or self.version

    def offered(self) -> ConfigVersion:
        """Apply the current file; returns the version in force, or raises an error if that has replaced the file's."""
        local = self.file.local()
        if self.stored:
            self._local = local
            return self.newest()
        check_file(self.file)
        self._local = local
        version = _offer(self.file, self._url)
        if version.digest != digest_of_document(self.file.text()):
            raise InvalidInputError("config", *superseded_by(self.file, version).split("; "))
        return version


def superseded_by(file: ConfigFile, version: ConfigVersion) -> str:
    """The message about a file that is an earlier version."""
    applied = f"version {version.number}, applied {version.at} by {version.by}"
    remedy = f"raise its revision above {version.revision}, or use 'bot-orch apply {file.path}'"
    return f"{file.path} is an earlier version of the configuration, and {applied} is in force; to apply it {remedy}"


def starting(file: ConfigFile, *, stored: bool = False) -> tuple[Config, StoredConfig | None]:
    """The checked settings to start with; on PostgreSQL those of the version in force.

    A file that is unknown there becomes the next version. An earlier one does not, unless its revision is higher: the
    process starts with the version in force. With ``stored`` the file only has the settings of this process alone.
    """
    config = None if stored else check_file(file)
    database = file.database()
    if config is not None and not is_url(database):
        return config, None
    if not is_url(database):
        raise InvalidInputError("--stored", "needs a log on PostgreSQL", "name it as database in the file")
    prepare(database)
    if stored:
        with closing(PostgresConfigs(database)) as store:
            version = store.current()
        if version is None:
            remedy = f"apply the first one: bot-orch apply {file.path}"
            raise InvalidInputError("--stored", "there is no stored configuration", remedy)
    else:
        version = _offer(file, database)
    if config is None or version.digest != digest_of_document(file.text()):
        config = check_file(file, version.document)
    return config, StoredConfig(file, version, stored=stored)


def _offer(file: ConfigFile, database: str) -> ConfigVersion:
    text = file.text()
    with closing(PostgresConfigs(database)) as store:
        return store.offer(text, digest_of_document(text), revision_of(text), by=whoami())


class LiveConfig:
    """Puts a configuration into effect in the routers of a running process.

    Parameters
    ----------
    runtime, gate
        The default router and the tokens of the service.
    read
        Reads the file, without versions.
    stored
        The versions on PostgreSQL.
    add, remove
        Start and end a router of the service.
    environment
        Variables that hold tokens; by default those of the process.
    """

    def __init__(
        self,
        runtime: Runtime,
        gate: Gate,
        *,
        read: Callable[[], Config] | None,
        stored: StoredConfig | None,
        add: Callable[[Config], Awaitable[None]],
        remove: Callable[[str], Awaitable[None]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._runtime, self._gate, self._read, self._environment = runtime, gate, read, environment
        self._stored, self._add, self._remove = stored, add, remove
        self._config = runtime.config
        if stored is not None:
            self._config = stored.config(stored.version)
        self.number = 0 if stored is None else stored.version.number
        self.problem = ""
        self._lock = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._tried, self._tried_at = 0, 0.0
        self._unknown = LastingProblem(_log, "configuration not applied yet")
        for each in runtime.routers.values():
            each.reload, each.version = self.reload, self.number
            each.prepare = None if stored is None else self.prepare

    async def reload(self) -> Reloaded:
        """Apply the current file, or raise an error and change nothing."""
        async with self._lock:
            for each in self._runtime.routers.values():
                if not each.away:
                    each.check_loaded()
            if self._stored is None:
                if self._read is None:
                    raise InvalidInputError("config", "was not read from a file", "restart the service")
                return await self._install(await asyncio.to_thread(self._read), 0)
            return await self._take(await asyncio.to_thread(self._stored.offered))

    async def prepare(self, runtime: Runtime) -> None:
        """Apply the newest version's settings to a router being loaded; raises an error if they cannot be used here."""
        if runtime.ledger.rollout.config > self.number:
            async with self._lock:
                await self._follow()
        name = runtime.config.name
        parts = self._config.split()
        if name not in parts:
            raise InvalidInputError("config.routers", f"has no router {name!r} any more", "none is needed")
        runtime.config, runtime.version = _kept(runtime.config, parts[name]), self.number

    def seen(self, newest: int) -> tuple[int, str]:
        """Note the number of the newest version; returns the version in effect here, and why it is not the newest."""
        here = [each for each in self._runtime.routers.values() if each.loaded and not each.away]
        running = min([self.number, *(each.version for each in here)])
        if self._following is not None and not self._following.done():
            return running, self.problem
        now = asyncio.get_running_loop().time()
        if newest <= self.number and running == self.number:
            self.problem = ""
        elif not self.problem or newest != self._tried or now - self._tried_at >= _AGAIN_S:
            self._tried, self._tried_at = newest, now
            self._following = asyncio.create_task(self._try_to_follow(), name="config")
        return running, self.problem

    async def close(self) -> None:
        """End."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _try_to_follow(self) -> None:
        try:
            async with self._lock:
                await self._follow()
        except Exception as error:  # an agent of kind python may raise anything; the routers go on as they are
            self.problem = str(error) or type(error).__name__
            self._unknown.tell(error)
        else:
            self.problem = ""
            self._unknown.over()

    async def _follow(self) -> None:
        if self._stored is not None:
            await self._take(await asyncio.to_thread(self._stored.newest))

    async def _take(self, version: ConfigVersion) -> Reloaded:
        """Put a version into effect unless it is older than the current one."""
        if self._stored is None or version.number < self.number:
            return Reloaded([], [])
        return await self._install(await asyncio.to_thread(self._stored.config, version), version.number)

    async def _install(self, config: Config, number: int) -> Reloaded:
        runtime, every = self._runtime, dict(self._runtime.routers)
        wanted = config.split()
        new = {name: _kept(each.config, wanted[name]) for name, each in every.items() if name in wanted}
        main = new.get(runtime.config.name)
        if main is None:
            raise InvalidInputError("config.name", "is another default router", "restart the service")
        check_exposed(main)
        for name, part in new.items():
            await asyncio.to_thread(check, msgspec.structs.replace(part, name=name))
        gate = Gate(main.tokens, self._environment, main.limits)
        changed, after_restart = await self._change_routers(wanted, every), []
        for name, part in new.items():
            prefix = "" if name == runtime.config.name else f"routers.{name}."
            after_restart += _differences(every[name].config, wanted[name], FIXED, prefix=prefix)
            found = _differences(every[name].config, part, _LIVE)
            changed += [prefix + each for each in found if each not in changed or _is_own(part, main, each)]
            if found or every[name].version != number:
                await _apply(every[name], part, number)
        runtime.config = main  # the default router may be served by another process
        self._config, self.number = config, number
        self._gate.adopt(gate)
        set_level(main.log_level)
        fields = {"changed": changed, "after_restart": sorted(set(after_restart), key=after_restart.index)}
        _log.info("reloaded", extra={"fields": {**({"version": number} if number else {}), **fields}})
        return Reloaded(**fields)

    async def _change_routers(self, wanted: Mapping[str, Config], every: Mapping[str, Runtime]) -> list[str]:
        """Add and remove routers, new ones first as they may be refused; returns the names of changed settings."""
        added, removed = wanted.keys() - every.keys(), every.keys() - wanted.keys()
        shared = {name: getattr(self._runtime.config, name) for name in FIXED if name not in _OF_ITS_OWN}
        for name in sorted(added):
            new = msgspec.structs.replace(wanted[name], **shared)
            await asyncio.to_thread(check, new)
            await self._add(new)
        for name in sorted(removed):
            await self._remove(name)
        return [f"routers.{name}" for name in sorted(added | removed)]


def _kept(old: Config, wanted: Config) -> Config:
    """The wanted settings, except those that only a restart changes."""
    return msgspec.structs.replace(wanted, **{name: getattr(old, name) for name in FIXED})


def _is_own(part: Config, main: Config, name: str) -> bool:
    """Whether a setting belongs to the router itself, not to the default router."""
    return name in _OF_ROUTER or getattr(part, name) != getattr(main, name)


def _differences(old: Config, new: Config, names: Collection[str], *, prefix: str = "") -> list[str]:
    return [prefix + name for name in names if getattr(old, name) != getattr(new, name)]


async def _apply(runtime: Runtime, new: Config, number: int) -> None:
    """Change router and agents between two requests; the change is logged, or undone.

    A version that is stored is not undone: it is logged again once the log can be written.
    """
    if runtime.away:  # the process that serves it makes the change
        runtime.config, runtime.version = new, number
        return
    wanted = await asyncio.to_thread(make_orchestrator, new)
    old, guards = runtime.config, runtime.guards_for(new)
    runtime.version = number
    group = runtime.log_settings(wanted)
    before = runtime.adopt(new, guards)  # no request runs between the last line and this one
    if group is not None:
        try:
            await group.durable()
        except StorageError:
            if not number:
                _retire(runtime, runtime.adopt(old, before))
            raise
    _retire(runtime, before)


def _retire(runtime: Runtime, guards: Mapping[str, Guard]) -> None:
    """Close the guards that are no longer used, after the rounds that began with them."""
    for name, guard in guards.items():
        if runtime.guards.get(name) is not guard:
            runtime.background.start(f"retired {name} {id(guard)}", _close(runtime, guard, set(runtime.in_flight)))


async def _close(runtime: Runtime, guard: Guard, begun: set[str]) -> None:
    """Close a guard after the rounds that may have begun with it, retries included."""
    try:
        while guard.view().in_flight or begun.intersection(runtime.in_flight):
            await asyncio.sleep(_LOOK_S)
    finally:
        await guard.close()
