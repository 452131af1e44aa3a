"""The configuration of a running process: how a changed file takes effect.

A start, SIGHUP and ``POST /v1/admin/reload`` all end here: the file is read and checked, then the router changes
between two requests, at a row of its log. An agent whose settings did not change keeps its guard; one that changed or
went away ends the calls that it has begun. A file with a mistake changes nothing.

Every process reads its own file. The one that owns the router logs what the file changes for the router; the others
use theirs for what they do themselves, and for the router once they own it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

import msgspec

from bot_orch.agents.guard import Guard
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check, make_orchestrator
from bot_orch.service.cluster.serving import ServedRouter
from bot_orch.service.config import Config
from bot_orch.service.config.reading import ConfigFile
from bot_orch.service.logs import set_level
from bot_orch.service.problems import StorageError
from bot_orch.service.runtime import Reloaded, Runtime
from bot_orch.service.web.auth import Gate, is_loopback

#: What a service needs that others may reach.
ADD_TOKENS = "add 'tokens: [{name: app, scopes: [admin], env: BOT_ORCH_TOKEN}]' and set that variable"
_log = logging.getLogger("bot_orch.config")
_FIXED = (
    "database",
    "listen",
    "limits",
    "retention",
    "cluster",
    "access_log",
)  # read once, at the start
_LIVE = ("revision", "agents", "router", "judges", "audit", "passthrough", "tokens", "log_level")
_LOOK_S = 0.05


def check_exposed(config: Config) -> None:
    """Refuse to listen on a public address without tokens."""
    if not config.tokens and not is_loopback(config.listen.host):
        raise InvalidInputError(
            "config.listen.host",
            f"is {config.listen.host} and there are no tokens",
            f"{ADD_TOKENS}, or use 127.0.0.1",
        )


def check_file(file: ConfigFile) -> Config:
    """Read and check the settings of a file."""
    config = file.read()
    check(config)
    check_exposed(config)
    Gate(config.tokens, file.environment)
    return config


class LiveConfig:
    """Puts a configuration into effect in a running process.

    Parameters
    ----------
    router, gate
        The router of the process, and the tokens of the service.
    read
        Reads the file.
    environment
        Variables that hold tokens; by default those of the process.
    """

    def __init__(
        self,
        router: ServedRouter,
        gate: Gate,
        read: Callable[[], Config],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._router, self._gate, self._read, self._environment = router, gate, read, environment

    async def reload(self) -> Reloaded:
        """Apply the current file, or raise an error and change nothing."""
        async with self._router.changing:
            runtime = self._router.runtime
            if not runtime.away:
                runtime.check_loaded()
            return await self._install(await asyncio.to_thread(self._read))

    async def _install(self, wanted: Config) -> Reloaded:
        old = self._router.runtime.config
        new = kept(old, wanted)
        check_exposed(new)
        await asyncio.to_thread(check, new)
        gate = Gate(new.tokens, self._environment, new.limits)
        changed, after_restart = _differences(old, new, _LIVE), _differences(old, wanted, _FIXED)
        await self._apply(new)
        self._gate.adopt(gate)
        set_level(new.log_level)
        _log.info("reloaded", extra={"fields": {"changed": changed, "after_restart": after_restart}})
        return Reloaded(changed, after_restart)

    async def _apply(self, new: Config) -> None:
        """Change router and agents between two requests; the change is logged, or undone."""
        wanted = await asyncio.to_thread(make_orchestrator, new)
        runtime = self._router.runtime
        if runtime.away:  # the process that owns the router logs the change
            runtime.config = new
            return
        runtime.check_revision(new)
        old, guards = runtime.config, runtime.guards_for(new)
        group = runtime.log_settings(new, wanted)
        before = runtime.adopt(new, guards)  # no request runs between the last line and this one
        if group is not None:
            try:
                await group.durable()
            except StorageError:
                _retire(runtime, runtime.adopt(old, before))
                raise
        _retire(runtime, before)


def kept(old: Config, wanted: Config) -> Config:
    """The wanted settings, except those that only a restart changes."""
    return msgspec.structs.replace(wanted, **{name: getattr(old, name) for name in _FIXED})


def _differences(old: Config, new: Config, names: Collection[str]) -> list[str]:
    return [name for name in names if getattr(old, name) != getattr(new, name)]


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
