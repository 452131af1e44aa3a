"""One process among those that serve the routers of one service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bot_orch.log.events import Event
from bot_orch.log.log import Log
from bot_orch.service.cluster.directory import Assignment, Neighbour
from bot_orch.service.cluster.forwarding import Switchboard
from bot_orch.service.cluster.handing import ConnectionMail
from bot_orch.service.cluster.sharing import UsageWire
from bot_orch.service.runtime import Runtime

__all__ = ["Cluster", "FixedCluster", "RouterHost"]


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
    def switchboard(self) -> Switchboard:
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

    async def close(self) -> None:
        """End."""
        ...


class FixedCluster:
    """Workers of one machine, each with routers of its own: the locks of their files keep others out.

    Parameters
    ----------
    assignment
        Which worker serves what.
    own, sockets
        The number of this worker, and where each one takes requests of the others.
    mail
        Connections and messages from and for the others.
    switchboard
        Passes requests on.
    """

    def __init__(
        self,
        assignment: Assignment,
        own: int,
        sockets: Mapping[int, str],
        *,
        mail: ConnectionMail,
        switchboard: Switchboard,
    ) -> None:
        self._mail = mail
        self.configured: Callable[[int], tuple[int, str]] | None = None
        self.heard: Callable[[bytes], None] | None = None
        self._assignment, self._own, self._sockets, self.switchboard = assignment, own, sockets, switchboard
        self._doors: RouterHost | None = None

    def serves(self, router: str) -> bool:
        """See :class:`Cluster`."""
        names = [] if self._doors is None else [*self._doors.routers]
        owners = self._assignment.settle([*names, router])
        self._set(owners)
        return owners[router] == self._own

    async def start(self, doors: RouterHost) -> None:
        """See :class:`Cluster`."""
        self._doors, self._mail.message = doors, self._heard
        self._set(self._assignment.settle([*doors.routers]))

    def listening(self, port: int) -> None:
        """See :class:`Cluster`."""

    def has_heirs(self) -> bool:
        """No: each worker keeps its routers."""
        return False

    def bequeath(self, router: str, event: Event) -> None:
        """Do nothing: no router is left to others."""

    async def leave(self) -> None:
        """See :class:`Cluster`."""

    async def close(self) -> None:
        """See :class:`Cluster`."""
        await self.switchboard.close()

    async def tell(self, messages: Sequence[bytes]) -> None:
        """See :class:`UsageWire`."""
        for each in messages:
            self._mail.tell(each)

    def _heard(self, message: bytes) -> None:
        if self.heard is not None:
            self.heard(message)

    def _set(self, owners: Mapping[str, int]) -> None:
        others = [Neighbour(number, path, near=True) for number, path in self._sockets.items()]
        self.switchboard.directory.set(owners, others)
