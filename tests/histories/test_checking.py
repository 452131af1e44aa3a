"""The checker finds nothing in a good history, and each broken promise in one made by hand."""

import copy

import pytest
from checking import Outage, returns, violations
from nemesis import KINDS, QUIET_S, changes, plan
from recorded import Fact, Fault, History, Op, Stream, Try, Version, load

T_US = 1_700_000_000_000_000


def good():
    """Two replicas, four decisions, two outcomes; replica 1 is frozen from second 2 to 4; revision 2 of the file."""
    ops, facts = [], []
    for number in range(4):
        at, replica = 1.5 * number, 0 if number == 2 else number % 2
        made = Op("c", "decide", at, at + 0.1, "ok", f"d{number}", f"t{number}", key=f"k{number}")
        made.agent, made.propensity, made.tries = "a", 0.5, [Try(replica, at, at + 0.1, 200)]
        ops.append(made)
        facts.append(Fact(len(facts) + 1, T_US + round(1e6 * at), "decision", made.id, made.task, "", "a", 0.5))
        facts[-1].agents = ["a", "b"] if number < 2 else ["a", "b", "c"]
        if number % 2:
            told = Op("c", "report", at + 0.2, at + 0.3, "ok", f"f{number}", about=made.id)
            told.tries = [Try(replica, at + 0.2, at + 0.3, 200)]
            read = Op("c", "read", at + 0.4, at + 0.5, "ok", about=made.id)
            ops += [told, read]
            facts.append(
                Fact(len(facts) + 1, facts[-1].time_us + 1, "feedback", told.id, about=made.id, effect="learned")
            )
    facts.insert(0, Fact(0, T_US - 1, "configured"))
    facts.insert(4, Fact(0, facts[3].time_us + 1, "revision", revision=2))
    for number, fact in enumerate(facts):
        fact.seq = number + 1
    stream = Stream(facts, fingerprint="x", states={"0": (8, "x"), "1": (8, "x")})
    frozen = Fault("freeze", 1, 2.0, 4.0)
    return History(
        1,
        2,
        begun=0.0,
        ended=5.0,
        first_us=T_US,
        last_us=T_US + 6_000_000,
        ops=ops,
        faults=[frozen],
        versions=[Version(1, ["a", "b"]), Version(2, ["a", "b", "c"], 2.0)],
        stream=stream,
    )


def test_a_good_history_passes():
    assert violations(good()) == []
    (_, back), *_ = returns(good())
    assert back == pytest.approx(0.6)


def broken(change):
    history = good()
    change(history, history.stream.facts, history.ops)
    return violations(history)


def a_gap(history, facts, ops):
    for fact in facts[3:]:
        fact.seq += 1


def a_number_twice(history, facts, ops):
    facts.insert(3, copy.copy(facts[2]))
    facts[3].id = facts[3].task = "other"


def time_goes_back(history, facts, ops):
    facts[4].time_us = facts[3].time_us


def from_the_future(history, facts, ops):
    facts[-1].time_us += 2 * 86_400 * 1_000_000


def censored(history, facts, ops):
    facts.append(Fact(facts[-1].seq + 1, facts[-1].time_us + 1, "censored", about="d0"))


def swapped(history, facts, ops):
    facts[1].id, facts[2].id = facts[2].id, facts[1].id
    facts[1].task, facts[2].task = facts[2].task, facts[1].task


def a_lost_decision(history, facts, ops):
    facts[1].id = facts[1].task = "another"


def a_lost_report(history, facts, ops):
    facts[-1].id = "another"


def a_key_decides_twice(history, facts, ops):
    facts.append(Fact(facts[-1].seq + 1, facts[-1].time_us + 1, "decision", "d9", "t1", "", "a", 0.5))


def a_key_is_answered_twice(history, facts, ops):
    ops.append(copy.deepcopy(ops[0]))
    ops[-1].id, ops[-1].begun, ops[-1].ended = "d9", 4.9, 5.0
    facts.append(Fact(facts[-1].seq + 1, facts[-1].time_us + 1, "decision", "d9", "t9", "", "a", 0.5))


def learned_twice(history, facts, ops):
    last = copy.copy(facts[-1])
    last.id, last.seq, last.time_us = "f9", last.seq + 1, last.time_us + 1
    facts.append(last)


def told_otherwise(history, facts, ops):
    ops[0].propensity = 0.4


def not_derived(history, facts, ops):
    history.stream.derived = "row 3: propensity"


def another_state(history, facts, ops):
    history.stream.states["1"] = (8, "y")


def still_pending(history, facts, ops):
    next(op for op in ops if op.kind == "read").pending = True


def a_wrong_answer(history, facts, ops):
    ops[0].outcome, ops[0].detail = "wrong", "404 unknown_decision"


def never_back(history, facts, ops):
    history.ended = 10.0
    for op in ops:
        op.tries = [each for each in op.tries if each.replica == 0]


def does_not_stop(history, facts, ops):
    history.problems.append("replica 1 ignores SIGTERM")


def a_revision_goes_back(history, facts, ops):
    facts.append(Fact(facts[-1].seq + 1, facts[-1].time_us + 1, "revision", revision=1))


def a_revision_was_not_written(history, facts, ops):
    facts.append(Fact(facts[-1].seq + 1, facts[-1].time_us + 1, "revision", revision=3))


def an_agent_before_its_revision(history, facts, ops):
    facts[2].agents = ["a", "b", "c"]


def an_agent_after_its_revision(history, facts, ops):
    history.versions[1].agents = ["a", "c"]


def a_revision_that_no_owner_logs(history, facts, ops):
    facts[4].kind = "note"


BROKEN = {
    a_revision_goes_back: "config: row 9 goes back from revision 2 to 1",
    a_revision_was_not_written: "config: row 9 names revision 3",
    an_agent_before_its_revision: "config: row 3 decides with ['c'], not in revision 1",
    an_agent_after_its_revision: "config: row 6 decides with ['b'], not in revision 2",
    a_revision_that_no_owner_logs: "config: the log ends with revision 1, and the files have 2",
    a_gap: "order: row",
    a_number_twice: "order: row",
    time_goes_back: "order: the time",
    from_the_future: "clock: row",
    censored: "clock: decision",
    swapped: "order: decide",
    a_lost_decision: "lost: decide d0",
    a_lost_report: "lost: report f3",
    a_key_decides_twice: "doubled: 2 decisions under",
    a_key_is_answered_twice: "doubled: key k0",
    learned_twice: "doubled: 2 lessons",
    told_otherwise: "told: decision d0",
    not_derived: "replay: row 3",
    another_state: "state: that of replica 1",
    still_pending: "read: decision d1",
    a_wrong_answer: "decide was answered 404",
    never_back: "back: 6.0 s after freeze",
    does_not_stop: "ignores SIGTERM",
}


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change.__name__)
def test_a_bad_history_is_caught(change):
    found = broken(change)
    assert any(BROKEN[change] in line for line in found), found


def test_seconds_without_a_write_are_counted_and_those_without_postgresql_are_not():
    history = good()
    outage = Outage().add(history)
    assert (outage.seconds, outage.silent, outage.share) == (5, 1, 0.8)  # second 2 has no write
    history.faults.append(Fault("postgres-kill", -1, 2.1, 2.4))
    outage = Outage().add(history)
    assert (outage.seconds, outage.silent) == (4, 0)


def test_configurations_change_in_order():
    for seed in range(50):
        planned = changes(seed, seconds=5.0, variants=["first", "more"])
        assert planned and planned == changes(seed, seconds=5.0, variants=["first", "more"])
        assert sorted(planned, key=lambda each: each.begin) == planned


def test_a_history_survives_its_file(tmp_path):
    good().dump(tmp_path / "h.json")
    assert load(tmp_path / "h.json") == good()


def test_a_plan_leaves_somebody_to_serve():
    seen = set()
    for seed in range(200):
        planned = plan(seed, replicas=3, seconds=15.0)
        assert planned == plan(seed, replicas=3, seconds=15.0)
        seen |= {each.kind for each in planned}
        for each in planned:
            others = {f.replica for f in planned if f.begin <= each.begin and f.end > each.begin - QUIET_S}
            assert others - {-1} != {0, 1, 2}
    assert seen == set(KINDS)
