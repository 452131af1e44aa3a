"""What a worker shares with the others behind the same port; its parent keeps it when a worker is replaced."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from bot_orch.service.cluster.directory import Assignment
from bot_orch.service.cluster.handing import ConnectionMail

__all__ = ["WorkerPost"]


@dataclass(frozen=True, slots=True)
class WorkerPost:
    """The post of one worker.

    Parameters
    ----------
    number, shared
        Its number, and the socket of clients, at which all of them listen.
    listening, sockets
        Where the others reach this one, and their addresses by number, its own among them.
    mail
        Connections from and for the others.
    folder
        Of all workers.
    reach
        Where processes of other machines reach this one, if they do.
    ready, parent
        Descriptors: it says when it has started, and sees when its parent is gone.
    """

    number: int
    shared: socket.socket
    _: KW_ONLY
    listening: socket.socket
    sockets: Mapping[int, str]
    mail: ConnectionMail
    folder: Path
    ready: int
    parent: int
    reach: socket.socket | None = None

    def assignment(self) -> Assignment:
        """Which worker serves which router."""
        return Assignment(self.folder / "routers.json", len(self.sockets))

    def started(self) -> None:
        """Tell the parent that this worker serves."""
        os.write(self.ready, bytes([self.number]))
