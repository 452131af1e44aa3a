"""Access control of a router: no calls after it is closed; with a file, only from the process that opened it."""

from __future__ import annotations

import os

from bot_orch.errors import InvalidInputError


class Access:
    """The process that owns a router, and whether it is open.

    A copy of a router in memory may go on in a child process. A file has one writer: after a fork the child holds the
    connection of its parent, and using it would damage the file.

    Examples
    --------
    >>> access = Access(durable=False)
    >>> access.close()
    >>> access.check_open()
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: router: is closed; open a new one
    """

    def __init__(self, *, durable: bool) -> None:
        self._process = os.getpid() if durable else None
        self._closed = False

    @property
    def inherited(self) -> bool:
        """Whether this process is a child of the one that opened the file."""
        return self._process is not None and self._process != os.getpid()

    def check_process(self) -> None:
        """Refuse a child of the process that opened the file."""
        if self.inherited:
            problem = f"was opened by process {self._process}, and this is process {os.getpid()}, forked from it"
            remedy = "open one Router per process, each with a file of its own, after the fork"
            raise InvalidInputError("path", problem, remedy)

    def check_open(self) -> None:
        """Refuse changes after :meth:`close`."""
        if self._closed:
            raise InvalidInputError("router", "is closed", "open a new one")

    def close(self) -> None:
        """Refuse changes from now on."""
        self._closed = True
