"""What is recorded of one history: what clients asked and were told, what was done to the replicas, what is in the log.

Times are seconds on one monotonic clock, that of the process that records; rows of the log carry wall time.
"""

import json
from dataclasses import asdict, dataclass, field

WRITES = ("decide", "chat", "report")


@dataclass
class Try:
    """One request of an operation, at one replica."""

    replica: int
    begun: float
    ended: float
    status: int  # 0 without an answer


@dataclass
class Op:
    """One operation of a client; it may be tried at several replicas under one key or id.

    ``outcome`` is ``ok`` (acknowledged), ``unknown`` (no answer, or 503: it may have happened) or ``wrong``.
    """

    client: str
    router: str
    kind: str  # decide, chat, report, read
    begun: float
    ended: float = 0.0
    outcome: str = "unknown"
    id: str = ""  # of the decision, or of the report
    task: str = ""
    key: str = ""
    about: str = ""  # the decision that is reported on or read
    agent: str = ""
    propensity: float = 0.0
    pending: bool = False
    detail: str = ""
    tries: list[Try] = field(default_factory=list)


@dataclass
class Fault:
    """Something done to a replica, or to PostgreSQL (replica -1)."""

    kind: str
    replica: int
    begun: float
    ended: float
    detail: str = ""


@dataclass
class Change:
    """One ``bot-orch apply``; ``status`` is its exit status, -1 if it was killed or did not say."""

    kind: str  # the configuration, or "rollback"
    begun: float
    ended: float
    status: int = -1
    version: int = 0  # that it said was applied
    detail: str = ""


@dataclass
class Version:
    """One version of the configuration, as it is stored: the agents of each router."""

    number: int
    agents: dict[str, list[str]]


@dataclass
class Fact:
    """One row of a log, as far as the checks look."""

    seq: int
    time_us: int
    kind: str
    id: str = ""
    task: str = ""
    about: str = ""
    agent: str = ""
    propensity: float = 0.0
    effect: str = ""
    agents: list[str] = field(default_factory=list)  # between which was decided
    version: int = 0  # of the configuration, that takes effect here


@dataclass
class Stream:
    """The log of one router; ``derived`` is what replay finds wrong; ``states`` are (seq, fingerprint) by replica.

    ``owners`` is how often it got an owner.
    """

    router: str
    facts: list[Fact]
    derived: str = ""
    fingerprint: str = ""
    states: dict[str, tuple[int, str]] = field(default_factory=dict)
    owners: int = 0


@dataclass
class History:
    """All of it. ``begun`` and ``ended`` bound the faults; ``last_us`` is the wall time when the log was read.

    ``running`` is the version of the configuration that each replica runs at the end.
    """

    seed: int
    replicas: int
    begun: float = 0.0
    ended: float = 0.0
    first_us: int = 0
    last_us: int = 0
    ops: list[Op] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # a replica that does not end, does not start, ...

    def dump(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))


def load(path):
    """A history that was dumped."""
    found = json.loads(path.read_text())
    kinds = {"ops": Op, "faults": Fault, "changes": Change, "versions": Version, "streams": Stream}
    for name, kind in kinds.items():
        found[name] = [kind(**each) for each in found[name]]
    for op in found["ops"]:
        op.tries = [Try(**each) for each in op.tries]
    for stream in found["streams"]:
        stream.facts = [Fact(**each) for each in stream.facts]
        stream.states = {name: tuple(state) for name, state in stream.states.items()}
    return History(**found)
