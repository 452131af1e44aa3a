"""Apply a changed configuration to a running service, without dropping a request in flight.

Agents, router and tokens change at one moment, between two requests. An agent whose settings did not change keeps its
guard; one that changed or went away ends the calls that it has begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from bot_orch.agents.guard import Guard
from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.reconfigure import change_to
from bot_orch.service.build import check, make_orchestrator
from bot_orch.service.config import Config
from bot_orch.service.contracts import Reloaded
from bot_orch.service.logs import set_level
from bot_orch.service.problems import StorageError
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.auth import Gate, is_loopback

__all__ = ["ADD_TOKENS", "FIXED", "Reloader", "RouterSet", "check_exposed", "kept", "retire"]

#: What a service needs that others may reach.
ADD_TOKENS = "add 'tokens: [{name: app, scopes: [admin], env: BOT_ORCH_TOKEN}]' and set that variable"
_log = logging.getLogger("bot_orch.service")
FIXED = (
    "database",
    "listen",
    "queue",
    "limits",
    "snapshots",
    "retention",
    "cache",
    "cluster",
    "access_log",
    "webhooks",
    "traces",
)  # read once, at the start
_LIVE = ("agents", "guards", "router", "judges", "audit", "tokens", "tenants", "log_level")
_OF_ROUTER = ("agents", "router")  # the rest is usually the same for all routers
_OF_ITS_OWN = ("database", "queue", "access_log")  # fixed at the start, but not the same for all routers
_LOOK_S = 0.05


class RouterSet(Protocol):
    """Adds routers to a running service and removes them."""

    async def add(self, config: Config) -> None:
        """Start a router; raises if its log cannot be used."""
        ...

    async def remove(self, name: str) -> None:
        """Take no more requests for a router; those that it has are answered."""
        ...


def check_exposed(config: Config) -> None:
    """Refuse to listen for others without tokens."""
    if not config.tokens and not is_loopback(config.listen.host):
        raise InvalidInputError(
            "config.listen.host",
            f"is {config.listen.host} and there are no tokens",
            f"{ADD_TOKENS}, or use 127.0.0.1",
        )


class Reloader:
    """Reads the configuration again and applies it.

    Parameters
    ----------
    runtime, gate
        The running service and its tokens.
    read
        Reads the configuration.
    routers
        Adds and removes routers; without it that takes a restart.
    environment
        Variables that hold tokens; by default those of the process.
    """

    def __init__(
        self,
        runtime: Runtime,
        gate: Gate,
        read: Callable[[], Config],
        *,
        routers: RouterSet | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._runtime, self._gate, self._read, self._environment = runtime, gate, read, environment
        self._routers = routers
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> Reloaded:
        """Apply the configuration as it is now, or raise and leave everything as it was."""
        async with self._one_at_a_time:
            runtime, every = self._runtime, dict(self._runtime.routers)
            for each in every.values():
                if not each.away:
                    each.check_loaded()
            wanted = (await asyncio.to_thread(self._read)).split()
            new = {name: kept(each.config, wanted[name]) for name, each in every.items() if name in wanted}
            main = new.get(runtime.config.name)
            if main is None:
                raise InvalidInputError("config.name", "is another default router", "restart the service")
            check_exposed(main)
            for name, part in new.items():
                await asyncio.to_thread(check, msgspec.structs.replace(part, name=name))
            gate = Gate(main.tokens, self._environment, main.limits, tenants=main.tenants)
            changed, after_restart = await self._change_routers(wanted, every)
            for name, part in new.items():
                prefix = "" if name == runtime.config.name else f"routers.{name}."
                after_restart += _differences(every[name].config, wanted[name], FIXED, prefix=prefix)
                found = _differences(every[name].config, part, _LIVE)
                changed += [prefix + each for each in found if each not in changed or _is_own(part, main, each)]
                if found or part.tokens != every[name].config.tokens:
                    await _apply(every[name], part)
            runtime.config = main  # the default router may be served by another process
            if changed:
                self._gate.adopt(gate)
                set_level(main.log_level)
            if runtime.access is not None:
                runtime.access.reopen()
            fields = {"changed": changed, "after_restart": sorted(set(after_restart), key=after_restart.index)}
            _log.info("reloaded", extra={"fields": fields})
            return Reloaded(**fields)

    async def _change_routers(
        self, wanted: Mapping[str, Config], every: Mapping[str, Runtime]
    ) -> tuple[list[str], list[str]]:
        """Add and remove routers; those changed, and what takes a restart. New ones first: they may be refused."""
        added, removed = wanted.keys() - every.keys(), every.keys() - wanted.keys()
        if self._routers is None:
            return [], ["routers"] if added or removed else []
        shared = {name: getattr(self._runtime.config, name) for name in FIXED if name not in _OF_ITS_OWN}
        for name in sorted(added):
            new = msgspec.structs.replace(wanted[name], **shared)
            await asyncio.to_thread(check, new)
            await self._routers.add(new)
        for name in sorted(removed):
            await self._routers.remove(name)
        return [f"routers.{name}" for name in sorted(added | removed)], []


def kept(old: Config, wanted: Config) -> Config:
    """The wanted settings, with those that only a restart changes as they are."""
    return msgspec.structs.replace(wanted, **{name: getattr(old, name) for name in FIXED})


def _is_own(part: Config, main: Config, name: str) -> bool:
    """Whether a router's setting is its own, and not that of the default router."""
    return name in _OF_ROUTER or getattr(part, name) != getattr(main, name)


def _differences(old: Config, new: Config, names: Collection[str], *, prefix: str = "") -> list[str]:
    return [prefix + name for name in names if getattr(old, name) != getattr(new, name)]


async def _apply(runtime: Runtime, new: Config) -> None:
    """Change router and agents between two requests; the change is in the log, or it is undone."""
    if runtime.away:  # the process that serves it makes the change
        runtime.config = new
        return
    old, guards = runtime.config, runtime.guards_for(new)
    change = change_to(runtime.ledger.router, make_orchestrator(new), runtime.ledger.engine)
    group = None if change is None else runtime.writer.stage(runtime.writer.stamp(), change, "")
    before = runtime.adopt(new, guards)  # no request runs between the last line and this one
    if group is not None:
        try:
            await group.durable()
        except StorageError:
            runtime.adopt(old, before)
            raise
    await runtime.note_trials()
    retire(runtime, before)


def retire(runtime: Runtime, guards: Mapping[str, Guard]) -> None:
    """Close those of these guards that are no longer used, once the rounds that began with them are over."""
    for name, guard in guards.items():
        if runtime.guards.get(name) is not guard:
            runtime.background.start(f"retired {name} {id(guard)}", _retire(runtime, guard, set(runtime.in_flight)))


async def _retire(runtime: Runtime, guard: Guard, begun: set[str]) -> None:
    """Close a guard once the rounds that may have begun with it are over, retries included."""
    try:
        while guard.view().in_flight or begun.intersection(runtime.in_flight):
            await asyncio.sleep(_LOOK_S)
    finally:
        await guard.close()
