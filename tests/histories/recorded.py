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
class Version:
    """One revision of the configuration file, written to all replicas at ``begun``: its agents."""

    revision: int
    agents: list[str]
    begun: float = 0.0


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
    revision: int = 0  # of the configuration file, that takes effect here


@dataclass
class Stream:
    """The log; ``derived`` is what replay finds wrong; ``states`` are (seq, fingerprint) by replica.

    ``owners`` is how often it got an owner.
    """

    facts: list[Fact]
    derived: str = ""
    fingerprint: str = ""
    states: dict[str, tuple[int, str]] = field(default_factory=dict)
    owners: int = 0


@dataclass
class History:
    """All of it. ``begun`` and ``ended`` bound the faults; ``last_us`` is the wall time when the log was read."""

    seed: int
    replicas: int
    begun: float = 0.0
    ended: float = 0.0
    first_us: int = 0
    last_us: int = 0
    ops: list[Op] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    stream: Stream = field(default_factory=lambda: Stream([]))
    problems: list[str] = field(default_factory=list)  # a replica that does not end, does not start, ...

    def dump(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))


def load(path):
    """A history that was dumped."""
    found = json.loads(path.read_text())
    kinds = {"ops": Op, "faults": Fault, "versions": Version}
    for name, kind in kinds.items():
        found[name] = [kind(**each) for each in found[name]]
    for op in found["ops"]:
        op.tries = [Try(**each) for each in op.tries]
    found["stream"] = stream = Stream(**found["stream"])
    stream.facts = [Fact(**each) for each in stream.facts]
    stream.states = {name: tuple(state) for name, state in stream.states.items()}
    return History(**found)
