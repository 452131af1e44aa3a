"""One process among those that serve the routers of one service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from bot_orch.log.events import Event
from bot_orch.log.log import Log
from bot_orch.service.cluster.forwarding import Forwarder
from bot_orch.service.cluster.sharing import UsageWire
from bot_orch.service.runtime import Runtime

__all__ = ["Cluster", "RouterHost"]


class RouterHost(Protocol):
    """The routers of this process."""

    @property
    def routers(self) -> Mapping[str, Runtime]:
        """All routers by name, those of other processes too."""
        ...

    async def take(self, name: str, log: Log, holds: Callable[[], bool]) -> Runtime:
        """Serve a router; ``holds`` says whether it is still ours."""
        ...

    async def give(self, name: str) -> None:
        """Serve a router no more, once its state is saved."""
        ...


class Cluster(UsageWire, Protocol):
    """The processes of a service, as the application needs them.

    ``configured`` takes the number of the newest configuration; the one that this process runs, and why it is not that.
    """

    configured: Callable[[int], tuple[int, str]] | None

    @property
    def forwarder(self) -> Forwarder:
        """Passes requests on."""
        ...

    def serves(self, router: str) -> bool:
        """Whether a router that is new in the configuration starts in this process at once."""
        ...

    async def start(self, doors: RouterHost) -> None:
        """Take part."""
        ...

    def listening(self, port: int) -> None:
        """Others reach this process at its port from now on."""
        ...

    def has_heirs(self) -> bool:
        """Whether another process could serve the routers of this one."""
        ...

    def bequeath(self, router: str, event: Event) -> None:
        """Let the next owner of a router log what a call has come to that was under way when it was left."""
        ...

    async def leave(self) -> None:
        """Leave the routers to others; requests are still passed on."""
        ...

    async def drained(self) -> None:
        """Wait for chats of routers that stay here and that fronts carry, but not beyond the grace after leaving."""
        ...

    async def close(self) -> None:
        """End."""
        ...
