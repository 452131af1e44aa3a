"""A running service whose configuration is a version that all its processes share.

Everything that a version needs (settings, agents behind their guards, tokens) is made before it is adopted. It takes
effect in a router at the row of its log that says so: the owner of the router writes it, and changes at that moment,
between two requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from bot_orch.agents.guard import Guard
from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.events import Noted
from bot_orch.eventlog.reconfigure import change_to
from bot_orch.eventlog.rollout import CONFIG_REF, CONFIG_VERSION
from bot_orch.eventlog.versions import ConfigVersion
from bot_orch.service.build import check, make_orchestrator
from bot_orch.service.config import Config
from bot_orch.service.config.documents import ConfigFile, differences, differs
from bot_orch.service.configuring.keeper import ConfigKeeper
from bot_orch.service.contracts import Reloaded
from bot_orch.service.logs import set_level
from bot_orch.service.problems import StorageError
from bot_orch.service.reloading import FIXED, RouterSet, check_exposed, kept, retire
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.writer import Group
from bot_orch.service.web.auth import Gate

__all__ = ["ConfiguredService"]

_log = logging.getLogger("bot_orch.config")
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything that a version needs; ``guards`` by router and agent are those that it changes."""

    version: ConfigVersion
    config: Config
    _: KW_ONLY
    gate: Gate
    parts: Mapping[str, Config]
    guards: dict[str, dict[str, Guard]] = field(default_factory=dict)


class ConfiguredService:
    """The versions of the configuration in one process; see :class:`bot_orch.service.runtime.ConfigVersions`.

    Parameters
    ----------
    file
        The file of the process, for the settings that are its own.
    version, config
        What it starts with.
    stored
        Whether it starts from the stored version: its file holds settings of its own alone.
    """

    def __init__(self, file: ConfigFile, version: ConfigVersion, config: Config, *, stored: bool = False) -> None:
        self.file, self._local, self.stored = file, file.local(), stored
        self.keeper: ConfigKeeper | None = None
        self.version, self.config = version, config
        gate = _gate(config, file)
        self._ready = {version.number: _Ready(version, config, gate=gate, parts=config.split())}
        self._newest = version.number
        self._main: Runtime | None = None
        self._gate = gate
        self._routers: RouterSet | None = None

    def attach(self, runtime: Runtime, gate: Gate, routers: RouterSet) -> None:
        """Take charge of a service before it starts: its default router, its tokens, and who adds routers to it."""
        self._main, self._gate, self._routers = runtime, gate, routers
        for each in runtime.routers.values():
            each.versions, each.version, each.reload = self, self._newest, self.reload

    async def join(self) -> None:
        """Become one of the processes of the service, before the log is opened; refused if the version has changed."""
        if self.keeper is None:
            return
        other = await self.keeper.join()
        if other is not None:
            found = differences(other.document, self.version.document)
            raise differs(self.file, other, found)
        self.keeper.start()

    async def leave(self) -> None:
        """End: others do not wait for this process any more."""
        if self.keeper is not None:
            await self.keeper.leave()

    @property
    def running(self) -> int:
        """See :class:`bot_orch.service.configuring.keeper.VersionedProcess`."""
        parts = self._ready[self._newest].parts
        found = [each.version for each in self._runtimes.values() if not each.away]
        whole = self._runtimes.keys() == parts.keys()
        return min([*found, self._newest if whole else self.version.number])

    @property
    def _runtimes(self) -> Mapping[str, Runtime]:
        if self._main is None:
            raise RuntimeError("the service has not been attached")
        return self._main.routers

    async def prepare(self, version: ConfigVersion) -> None:
        """See :class:`bot_orch.service.configuring.keeper.VersionedProcess`."""
        if version.number in self._ready:
            return
        config = await asyncio.to_thread(self.file.around, version.document, self._local)
        if config.name != self.config.name:
            raise InvalidInputError("config.name", "is another default router", "keep it, or start another service")
        check_exposed(config)
        await asyncio.to_thread(check, config)
        gate, parts = _gate(config, self.file), config.split()
        ready = _Ready(version, config, gate=gate, parts=parts)
        for name, runtime in self._runtimes.items():
            if runtime.loaded and name in parts:
                made = runtime.guards_for(kept(runtime.config, parts[name]))
                current = set(map(id, runtime.guards.values()))
                ready.guards[name] = {agent: guard for agent, guard in made.items() if id(guard) not in current}
        self._ready[version.number] = ready

    def drop(self, number: int) -> None:
        """See :class:`bot_orch.service.configuring.keeper.VersionedProcess`; one that the log has reached stays."""
        if number == self._newest or any(each.version == number for each in self._runtimes.values()):
            return
        ready = self._ready.pop(number, None)
        if ready is not None:
            for name, guards in ready.guards.items():
                self._close(name, guards)

    async def install(self, number: int) -> None:
        """See :class:`bot_orch.service.configuring.keeper.VersionedProcess`."""
        self._begin(number)
        await self._change_routers(self._ready[number])
        for name in self._ready[number].parts:
            runtime = self._runtimes.get(name)
            if runtime is not None and runtime.away:  # another process serves it
                runtime.config, runtime.version = self._part(runtime, number), number
            elif runtime is not None and runtime.loaded and runtime.version != number:
                if runtime.ledger.rollout.config == number:
                    self._resync(runtime)
                else:
                    await self._write(runtime, number)
        if self.running == number != self.version.number:
            self._finish(number)

    async def settle_in(self, runtime: Runtime) -> None:
        """See :class:`bot_orch.service.runtime.ConfigVersions`."""
        runtime.version, foreign = runtime.version or self._newest, 0
        while True:
            logged = runtime.ledger.rollout.config
            if logged <= runtime.version or logged == foreign or logged in self._ready:
                break
            if logged > await self._latest():
                foreign = logged  # the log comes from elsewhere, with versions of its own
            else:
                await asyncio.sleep(_LOOK_S)  # adopted, and not prepared here yet
        if logged > runtime.version and logged in self._ready:
            runtime.config, runtime.version = self._part(runtime, logged), logged
        runtime.writer.rebuilt.subscribe(lambda: self._resync(runtime))

    def sign(self, runtime: Runtime) -> Group | None:
        """See :class:`bot_orch.service.runtime.ConfigVersions`."""
        if runtime.ledger.rollout.config == runtime.version:
            return None
        note = Noted(CONFIG_VERSION, CONFIG_REF, {"version": runtime.version})
        return runtime.writer.stage(runtime.writer.stamp(), note, CONFIG_REF)

    async def reload(self) -> Reloaded:
        """Read the settings of this process alone again; those that are shared change by ``bot-orch apply``."""
        text, local = await asyncio.to_thread(self.file.text), await asyncio.to_thread(self.file.local)
        found = [] if self.stored else differences(self.version.document, text)
        if found:
            raise differs(self.file, self.version, found)
        config = await asyncio.to_thread(self.file.around, self.version.document, local)
        gate = _gate(config, self.file)
        old = msgspec.structs.asdict(self.config)
        changed = [name for name, value in msgspec.structs.asdict(config).items() if value != old[name]]
        self._local, self.config = local, config
        self._gate.adopt(gate)
        set_level(config.log_level)
        for runtime in self._runtimes.values():
            if runtime.access is not None:
                runtime.access.reopen()
        now = [name for name in changed if name == "log_level"]
        return Reloaded(now, [name for name in changed if name not in now])

    def _part(self, runtime: Runtime, number: int) -> Config:
        """The settings of a router in a version, with those that only a restart changes as they are."""
        return kept(runtime.config, self._ready[number].parts[runtime.config.name])

    def _begin(self, number: int) -> None:
        """Change what is not the matter of one router: the tokens."""
        if number > self._newest:
            self._newest = number
            self._gate.adopt(self._ready[number].gate)

    def _finish(self, number: int) -> None:
        """All routers run a version: forget those before the last one."""
        before, ready = self.version.number, self._ready[number]
        found = differences(self.version.document, ready.version.document)
        self.version, self.config = ready.version, ready.config
        if self._main is not None and self._main not in self._runtimes.values():
            self._main.config = self._part(self._main, number)  # another process serves the default router
        for each in [each for each in self._ready if each not in (before, number)]:
            self.drop(each)
        for name, guards in ready.guards.items():
            self._close(name, guards)
        ready.guards.clear()
        after_restart = sorted({each.setting.partition(".")[0] for each in found} & set(FIXED))
        fields = {"version": number, "changed": [str(each) for each in found], "after_restart": after_restart}
        _log.info("adopted a configuration", extra={"fields": fields})

    async def _change_routers(self, ready: _Ready) -> None:
        """Add and remove routers; new ones first: they may fail."""
        if self._main is None or self._routers is None:
            return
        of_its_own = ("database", "queue", "access_log")
        shared = {name: getattr(self._main.config, name) for name in FIXED if name not in of_its_own}
        for name in sorted(ready.parts.keys() - self._runtimes.keys()):
            await self._routers.add(msgspec.structs.replace(ready.parts[name], **shared))
        for name in sorted(self._runtimes.keys() - ready.parts.keys()):
            await self._routers.remove(name)

    async def _write(self, runtime: Runtime, number: int) -> None:
        """Log that a version takes effect, unless the log names it already, and change at that moment."""
        part = self._part(runtime, number)
        wanted = await asyncio.to_thread(make_orchestrator, part)
        logged = runtime.ledger.rollout.config
        if logged >= number:
            self._resync(runtime)
            return
        guards = runtime.guards_for(part, self._ready[number].guards.get(part.name))
        old, old_version = runtime.config, runtime.version
        change = change_to(runtime.ledger.router, wanted, runtime.ledger.engine)
        if change is not None:
            runtime.writer.stage(runtime.writer.stamp(), change, "")
        runtime.version = number
        group = self.sign(runtime)
        before = runtime.adopt(part, guards)  # no request runs between the last line and this one
        try:
            if group is not None:
                await group.durable()
        except StorageError:
            if runtime.version == number != runtime.ledger.rollout.config:
                guards = runtime.adopt(old, before)
                runtime.version = old_version
                self._ready[number].guards.setdefault(part.name, {}).update(
                    {name: guard for name, guard in guards.items() if before.get(name) is not guard}
                )
            raise
        retire(runtime, before)
        await runtime.note_trials()

    def _resync(self, runtime: Runtime) -> None:
        """Run the version that the log names, from now on."""
        logged = runtime.ledger.rollout.config
        if logged == runtime.version or (logged < runtime.version and logged not in self._ready):
            return
        ready = self._ready.get(logged)
        if ready is None or runtime.config.name not in ready.parts:
            return  # the next beat prepares it, or removes the router
        self._begin(logged)
        part = self._part(runtime, logged)
        if runtime.loaded:
            guards = runtime.guards_for(part, ready.guards.get(part.name))
            retire(runtime, runtime.adopt(part, guards))
        else:
            runtime.config = part
        runtime.version = logged

    def _close(self, name: str, guards: Mapping[str, Guard]) -> None:
        """Close guards that were made for nothing."""
        runtime = self._runtimes.get(name)
        if runtime is not None:
            retire(runtime, guards)

    async def _latest(self) -> int:
        """The newest version in the store."""
        return self._newest if self.keeper is None else await self.keeper.latest()


def _gate(config: Config, file: ConfigFile) -> Gate:
    return Gate(config.tokens, file.environment, config.limits, tenants=config.tenants)
