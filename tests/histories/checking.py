"""The checker: a pure function of a recorded history; every line it returns is a broken promise.

``violations`` are about safety and about single replicas; ``Outage`` adds up seconds, of one history or of many.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

from recorded import WRITES

AHEAD_S = 10.0  # how far an event may be ahead of the wall clock
BACK_S = 5.0
OK = (200, 202)


def violations(history, back_s=BACK_S):
    """Everything that is wrong; nothing if all is well."""
    found = list(history.problems)
    stream, facts = history.stream, {}
    for fact in stream.facts:
        if fact.id:
            facts.setdefault((fact.kind, fact.id), fact)
    checks = (
        one_order(stream, history),
        in_real_time(history.ops, facts),
        lost(history.ops, facts),
        doubled(history.ops, stream),
        told_as_written(history.ops, facts),
        derivable(stream),
        equal_states(stream),
        configured(stream, history),
    )
    found += [line for check in checks for line in check]
    found += misread(history.ops)
    found += [f"{op.kind} was answered {op.detail}" for op in history.ops if op.outcome == "wrong"]
    found += late_back(history, back_s)
    return found


def one_order(stream, history):
    """Numbers without gaps, increasing times, none from the future, nothing censored before its horizon."""
    seqs = [fact.seq for fact in stream.facts]
    if seqs != list(range(1, len(seqs) + 1)):
        at = next(i for i, seq in enumerate(seqs) if seq != i + 1)
        yield f"order: row {at + 1} has number {seqs[at]}"
    for before, fact in zip(stream.facts, stream.facts[1:], strict=False):
        if fact.time_us <= before.time_us:
            yield f"order: the time of row {fact.seq} is not after that of the row before"
            break
    ahead = [fact.seq for fact in stream.facts if fact.time_us > history.last_us + 1e6 * AHEAD_S]
    if ahead:
        yield f"clock: row {ahead[0]} is from the future"
    censored = [fact.about for fact in stream.facts if fact.kind == "censored"]
    if censored:
        yield f"clock: decision {censored[0]} was censored long before its horizon"


def in_real_time(ops, facts):
    """What was asked after another answer was known comes after it in the log."""
    placed = [
        (op, facts[_name(op)].seq) for op in ops if op.kind in WRITES and op.outcome == "ok" and _name(op) in facts
    ]
    by_end = sorted(placed, key=lambda each: each[0].ended)
    known, newest, owner = 0, 0, None
    for op, seq in sorted(placed, key=lambda each: each[0].begun):
        while known < len(by_end) and by_end[known][0].ended < op.begun:
            if by_end[known][1] > newest:
                owner, newest = by_end[known]
            known += 1
        if seq < newest:
            earlier = f"{owner.kind} {owner.id} of row {newest}"
            yield f"order: {op.kind} {op.id} has row {seq}, and was asked after {earlier} was known"
            return


def lost(ops, facts):
    """Everything acknowledged is in the log."""
    for op in ops:
        if op.kind in WRITES and op.outcome == "ok" and _name(op) not in facts:
            yield f"lost: {op.kind} {op.id} was acknowledged by replica {op.tries[-1].replica if op.tries else '?'}"


def doubled(ops, stream):
    """A key makes one decision, an id one row, and a decision is learned from once."""
    made = [fact for fact in stream.facts if fact.kind == "decision"]
    given = [fact for fact in stream.facts if fact.kind == "feedback"]
    keyed = {op.task for op in ops if op.kind == "decide" and op.key}
    counts = {
        "decisions of id": Counter(fact.id for fact in made),
        "decisions under the key of task": Counter(fact.task for fact in made if fact.task in keyed),
        "reports of id": Counter(fact.id for fact in given),
        "lessons from decision": Counter(fact.about for fact in given if fact.effect == "learned"),
    }
    for what, counter in counts.items():
        for name, times in counter.items():
            if times > 1:
                yield f"doubled: {times} {what} {name}"
    answered = {}
    for op in ops:
        if op.kind == "decide" and op.key and op.outcome == "ok" and answered.setdefault(op.key, op.id) != op.id:
            yield f"doubled: key {op.key} was answered with {answered[op.key]} and with {op.id}"


def told_as_written(ops, facts):
    """Agent and propensity as the client was told them."""
    for op in ops:
        fact = facts.get(_name(op)) if op.kind in ("decide", "chat") and op.outcome == "ok" else None
        propensity = op.propensity if op.kind == "decide" else getattr(fact, "propensity", 0.0)  # chats are not told it
        if fact is not None and (fact.agent != op.agent or not math.isclose(fact.propensity, propensity, rel_tol=1e-9)):
            yield f"told: decision {op.id} is {fact.agent} at {fact.propensity} in the log, not {op.agent}"


def derivable(stream):
    """Replay finds every propensity again."""
    if stream.derived:
        yield f"replay: {stream.derived}"


def equal_states(stream):
    """All replicas hold what the log says."""
    for replica, (seq, fingerprint) in stream.states.items():
        if fingerprint != stream.fingerprint:
            yield f"state: that of replica {replica} after event {seq} is not that of the log"


def configured(stream, history):
    """Revisions take effect in their order, the newest in the end; every decision is between agents of its revision."""
    versions = {each.revision: each for each in history.versions}
    at, newest = 1, max(versions, default=1)
    for fact in stream.facts:
        if fact.kind == "revision":
            if fact.revision < at:
                yield f"config: row {fact.seq} goes back from revision {at} to {fact.revision}"
            if fact.revision not in versions:
                yield f"config: row {fact.seq} names revision {fact.revision}, which was not written"
            at = fact.revision
        elif fact.kind == "decision" and at in versions:
            foreign = set(fact.agents) - set(versions[at].agents)
            if foreign:
                yield f"config: row {fact.seq} decides with {sorted(foreign)}, not in revision {at}"
    if at != newest:
        yield f"config: the log ends with revision {at}, and the files have {newest}"


def misread(ops):
    """A decision whose outcome was acknowledged before is not read as pending."""
    settled = {}
    for op in ops:
        if op.kind == "report" and op.outcome == "ok":
            settled[op.about] = min(op.ended, settled.get(op.about, math.inf))
    found = [
        op
        for op in ops
        if op.kind == "read" and op.outcome == "ok" and op.pending and settled.get(op.about, math.inf) < op.begun
    ]
    if found:
        yield f"read: decision {found[0].about} is pending after its outcome was acknowledged ({len(found)} such reads)"


def late_back(history, back_s=BACK_S):
    """Every replica takes a write soon after its fault has healed, unless the next one comes first."""
    for fault, seconds in returns(history):
        if seconds > back_s:
            where = "PostgreSQL" if fault.replica < 0 else f"replica {fault.replica}"
            at = fault.begun - history.begun
            yield f"back: {seconds:.1f} s after {fault.kind} {fault.detail} of {where} at {at:.1f} s"


def returns(history):
    """(fault, seconds until the replica took a write again), where that could be seen."""
    written = successes(history)
    for fault in history.faults:
        for replica in range(history.replicas) if fault.replica < 0 else (fault.replica,):
            others = [
                other
                for other in history.faults
                if other is not fault and other.replica in (-1, replica) and other.ended > fault.ended
            ]
            if any(other.begun <= fault.ended for other in others):
                continue
            until = min((other.begun for other in others), default=history.ended)
            back = next((at for at in written.get(replica, ()) if at >= fault.ended), math.inf)
            if back <= until:
                yield fault, back - fault.ended
            elif until - fault.ended > BACK_S:
                yield fault, until - fault.ended


def successes(history):
    """When each replica has acknowledged a write."""
    found = {}
    for op in history.ops:
        if op.kind in WRITES:
            for each in op.tries:
                if each.status in OK:
                    found.setdefault(each.replica, []).append(each.ended)
    return {replica: sorted(times) for replica, times in found.items()}


@dataclass
class Outage:
    """Seconds in which a write could be taken, and those of them in which none was; and how soon replicas were back."""

    seconds: int = 0
    silent: int = 0
    backs_s: list[float] = field(default_factory=list)

    def add(self, history):
        """Count one history: whole seconds in which PostgreSQL was up and one replica without a fault."""
        tries = [each for op in history.ops if op.kind in WRITES for each in op.tries]
        down = [fault for fault in history.faults if fault.replica < 0]
        for second in range(int(history.ended - history.begun)):
            start = history.begun + second
            if any(fault.begun < start + 1 and fault.ended > start for fault in down):
                continue
            if not _someone(history, start, start + 1):
                continue
            self.seconds += 1
            self.silent += not any(each.status in OK and start <= each.ended < start + 1 for each in tries)
        self.backs_s += [seconds for _, seconds in returns(history)]
        return self

    @property
    def share(self):
        """Of seconds with a write."""
        return 1.0 - self.silent / self.seconds if self.seconds else 1.0


def _someone(history, start, end):
    """Whether a replica is without fault all the time."""
    return any(
        not any(f.replica == replica and f.begun < end and f.ended > start for f in history.faults)
        for replica in range(history.replicas)
    )


def _name(op):
    return ("feedback" if op.kind == "report" else "decision", op.id)
