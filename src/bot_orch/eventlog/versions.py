"""Versions of a configuration that the processes of a service share, and how one is adopted.

A version is proposed. Every living process prepares it and says so, or says why it cannot. Once all living ones are
prepared it is adopted; one that cannot prepare it refuses it for all, and nothing changes. A process that has not been
heard of within ``lease_s`` is not waited for: when it comes back, the log tells it that it has missed a version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from bot_orch.errors import BotOrchError

__all__ = [
    "ADOPTED",
    "PATIENCE_S",
    "PROPOSED",
    "REFUSED",
    "ConfigStore",
    "ConfigVersion",
    "Decide",
    "ProcessSeen",
    "ProcessSelf",
    "ProposalPendingError",
    "ProposalVerdict",
    "living",
    "verdict",
]

PROPOSED, ADOPTED, REFUSED = "proposed", "adopted", "refused"
PATIENCE_S = 30.0


class ProposalPendingError(BotOrchError):
    """Another version is being proposed."""


class ConfigVersion(NamedTuple):
    """One version: its document as it was written, and what became of it.

    ``age_s`` is how long ago it was proposed, by the clock of the store; ``at`` is when, as text.
    """

    number: int
    document: str
    digest: str
    status: str
    by: str = ""
    age_s: float = 0.0
    problem: str = ""
    at: str = ""


class ProcessSelf(NamedTuple):
    """What a process says of itself: the version that it runs and the one that it has prepared.

    With a ``problem`` it has tried to prepare that version, and cannot.
    """

    config: int
    prepared: int
    problem: str = ""


class ProcessSeen(NamedTuple):
    """A process of the service, as the others see it; it was silent for ``silent_s``."""

    id: int
    name: str
    said: ProcessSelf
    silent_s: float


class ProposalVerdict(NamedTuple):
    """What becomes of a proposal, with the reason of a refusal; ``waits_for`` names those that have not answered."""

    status: str
    problem: str = ""
    waits_for: tuple[str, ...] = ()


Decide = Callable[[ConfigVersion, Sequence[ProcessSeen]], ProposalVerdict]


class ConfigStore(Protocol):
    """Where versions are kept, with the processes that run them. One change at a time; none runs beside another."""

    def current(self) -> ConfigVersion | None:
        """The version in force: the newest that was adopted."""
        ...

    def first(self, document: str, digest: str, by: str) -> ConfigVersion:
        """Adopt this document if there is no version; the one in force."""
        ...

    def propose(self, document: str, digest: str, by: str) -> ConfigVersion:
        """Propose a version; raises :class:`ProposalPendingError` while another one is."""
        ...

    def join(self, name: str, known: int) -> tuple[int, ConfigVersion | None]:
        """Become one of the processes with version ``known``; its number, and the version in force.

        If another one is in force nothing is written and the number is 0.
        """
        ...

    def beat(self, process: int, said: ProcessSelf, known: int, *, name: str) -> list[ConfigVersion]:
        """Say that a process lives, and what it runs; versions after ``known`` that are adopted or proposed."""
        ...

    def settle(self, decide: Decide) -> ProposalVerdict | None:
        """Decide the open proposal, if there is one, by what all processes say."""
        ...

    def processes(self) -> list[ProcessSeen]:
        """All processes that have joined and not left."""
        ...

    def leave(self, process: int) -> None:
        """Forget a process, and close."""
        ...

    def abort(self) -> None:
        """Let a query that waits for an answer fail, and all later ones; may be called from any thread."""
        ...


def living(processes: Sequence[ProcessSeen], lease_s: float) -> list[ProcessSeen]:
    """Those that were heard of within ``lease_s``."""
    return [each for each in processes if each.silent_s <= lease_s]


def verdict(
    proposal: ConfigVersion,
    processes: Sequence[ProcessSeen],
    lease_s: float,
    *,
    patience_s: float = PATIENCE_S,
) -> ProposalVerdict:
    """Decide a proposal by what the processes say.

    Examples
    --------
    >>> two = ConfigVersion(2, "", "", PROPOSED)
    >>> prepared = ProcessSeen(1, "one", ProcessSelf(1, 2), 0.1)
    >>> verdict(two, [prepared, ProcessSeen(2, "two", ProcessSelf(1, 1), 0.1)], 10.0)
    ProposalVerdict(status='proposed', problem='', waits_for=('two',))
    >>> verdict(two, [prepared, ProcessSeen(2, "two", ProcessSelf(1, 1), 11.0)], 10.0).status
    'adopted'
    >>> verdict(two, [prepared, ProcessSeen(2, "two", ProcessSelf(1, 2, "needs KEY"), 0.1)], 10.0)
    ProposalVerdict(status='refused', problem='two: needs KEY', waits_for=())
    """
    number, here = proposal.number, living(processes, lease_s)
    refusing = [
        f"{each.name}: {each.said.problem}" for each in here if each.said.prepared == number and each.said.problem
    ]
    if refusing:
        return ProposalVerdict(REFUSED, "; ".join(refusing))
    waits_for = tuple(each.name for each in here if each.said.prepared != number)
    if not waits_for:
        return ProposalVerdict(ADOPTED)
    if proposal.age_s > patience_s:
        return ProposalVerdict(REFUSED, f"{', '.join(waits_for)} did not prepare it within {patience_s:g} s")
    return ProposalVerdict(PROPOSED, waits_for=waits_for)
