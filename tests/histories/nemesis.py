"""The schedule of a history: which faults happen when, drawn from its seed."""

import random
from dataclasses import dataclass

POSTGRES = -1
KINDS = {  # and how often, beside each other
    "kill": 2,
    "stop": 2,
    "freeze": 3,
    "clock": 2,
    "drop": 2,
    "delay": 2,
    "half-open": 2,
    "orphan": 2,
    "swallow": 3,
    "postgres-kill": 1,
    "postgres-restart": 1,
}
QUIET_S = 2.5  # at every moment one replica has had no fault for so long


@dataclass(frozen=True)
class Planned:
    """A fault to come, in seconds from the beginning."""

    begin: float
    end: float
    kind: str
    replica: int
    detail: str = ""
    number: float = 0.0


@dataclass(frozen=True)
class PlannedChange:
    """A configuration to write to the files of all replicas, which are told to read them again."""

    begin: float
    what: str


def changes(seed, *, seconds, variants, pause_s=(2.0, 5.0)):
    """Configurations in order."""
    rng = random.Random(f"changes-{seed}")  # noqa: S311
    found, at = [], rng.uniform(0.3, 2.0)
    while at < seconds - 1.0:
        found.append(PlannedChange(at, rng.choice(variants)))
        at += rng.uniform(*pause_s)
    return found


def plan(seed, *, replicas, seconds, kinds=KINDS, least_s=0.4, pause_s=(0.2, 1.5)):
    """Faults in order; the same for the same arguments."""
    rng = random.Random(seed)  # noqa: S311
    found, at = [], rng.uniform(0.3, 1.0)
    while at < seconds - 0.5:
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        end = min(at + rng.uniform(least_s, 2.5), seconds)
        each = _drawn(rng, kind, at, end, replicas)
        if _fits(found, each, replicas):
            found.append(each)
        at += rng.uniform(*pause_s)
    return found


def _drawn(rng, kind, begin, end, replicas):
    victim, detail, number = rng.randrange(replicas), "", 0.0
    if kind.startswith("postgres"):
        victim, end = POSTGRES, begin + 0.2
    elif kind == "clock":
        number = rng.choice((-1, 1)) * rng.choice((30.0, 3600.0, 2 * 86_400.0))
        detail = rng.choice(("running", "restarted"))
    elif kind == "delay":
        number = rng.choice((0.02, 0.2, 2.0))
    elif kind == "swallow":
        detail = rng.choice(("up", "down", "both"))
    return Planned(begin, end, kind, victim, detail, number)


def _fits(found, each, replicas):
    """One fault at a time per replica, a pause before the next, and always somebody who can serve."""
    for other in found:
        if other.replica == each.replica and other.end + (4.0 if each.replica == POSTGRES else 0.3) > each.begin:
            return False
    planned = [*found, each]
    for moment in (other.begin for other in planned):
        busy = {f.replica for f in planned if f.begin <= moment and f.end > moment - QUIET_S}
        if busy >= set(range(replicas)):
            return False
    return True
