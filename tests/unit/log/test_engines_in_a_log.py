"""A log outlives the engine that wrote it: it folds, goes on, and says what cannot be derived."""

import zlib

import msgspec
import numpy as np
import pytest
from older_logs import OLDER, changed, older
from scribing import Scribe

from bot_orch import Orchestrator, Task
from bot_orch.cli import main
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Configured, DecisionMade, EventMismatchError
from bot_orch.log.ledger import Ledger, change_to, fold
from bot_orch.log.log import Snapshot
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.verification import replay
from bot_orch.transport import Labels

AGENTS = ("a", "b", "c")


def router():
    return Orchestrator(AGENTS, "bot", floor=0.15, seed=3, n_features=0)


class GoesOn(Scribe):
    """Continues a log as a service of today does."""

    def __init__(self, log):
        super().__init__(MemoryLog(), router())
        self.log, self.ledger = log, fold(log)
        self.clock.advance(1e4)
        change = change_to(self.ledger.router, router(), self.ledger.engine)
        if change is not None:
            self.put(change, "")


def rounds(scribe, number=30):
    for step in range(number):
        reference = Labels([0.3, 0.7]) if step % 5 == 0 else None
        decision_id, _ = scribe.decide(Task(f"t{step}", features=(step / 3,), reference=reference))
        if step % 4:
            scribe.feedback(decision_id, (step % 7) / 7)
    scribe.log.commit()


@pytest.fixture
def of_engine_0():
    scribe = Scribe(MemoryLog(), router())
    rounds(scribe)
    return older(scribe.log)


@pytest.fixture
def both(of_engine_0):
    """30 decisions of engine 0, then 30 of this one."""
    rounds(GoesOn(of_engine_0))
    return of_engine_0


def decisions(log, engine):
    made = [(row.seq, event) for row in log.read() if isinstance(event := row.event(), DecisionMade)]
    return [(seq, event) for seq, event in made if event.engine == engine]


def test_it_folds_names_the_engine_once_and_goes_on(of_engine_0):
    before = list(of_engine_0.read())
    old = fold(of_engine_0)
    assert old.engine == OLDER and len(old.router.pending) == 8
    scribe = GoesOn(of_engine_0)
    assert scribe.ledger.engine == ENGINE and scribe.ledger.router.pending == old.router.pending
    rounds(scribe)
    rows = list(of_engine_0.read())
    assert rows[: len(before)] == before, "what was written stays"
    named = [event.engine for row in rows if isinstance(event := row.event(), Configured)]
    assert named == [OLDER, ENGINE] and len(decisions(of_engine_0, ENGINE)) == 30
    assert fold(of_engine_0).fingerprint() == scribe.ledger.fingerprint()
    again = GoesOn(of_engine_0)
    assert again.ledger.seq == rows[-1].seq, "the engine is named once"


def test_what_was_learned_before_counts_after(of_engine_0):
    kept = fold(of_engine_0).router.prepare(Task()).terms.estimate
    went_on = GoesOn(of_engine_0).ledger.router.prepare(Task()).terms.estimate
    assert np.array_equal(kept, went_on) and kept.any()


def test_replay_derives_what_this_engine_made_and_says_what_it_cannot(both):
    found = replay(both)
    assert found.ok and (found.decisions, found.derived) == (60, 30)
    old = decisions(both, OLDER)
    (stretch,) = found.stretches
    assert (stretch.first, stretch.last, stretch.engine, stretch.decisions) == (old[0][0], old[-1][0], "0", 30)
    assert f"made by engine 0, this release has engine {ENGINE}" in stretch.why
    assert found.fingerprint == fold(both).fingerprint()


@pytest.mark.parametrize("engine", [OLDER, ENGINE])
def test_another_agent_in_a_row_is_found_in_both_stretches(both, engine):
    seq, event = decisions(both, engine)[11]
    other = next(name for name in AGENTS if name != event.agent)
    broken = changed(both, seq, agent=other)
    found = replay(broken)
    assert {(each.seq, each.what) for each in found.mismatches} == {(seq, "agent")}
    with pytest.raises(EventMismatchError, match=f"row {seq}: .* the log was changed"):
        fold(broken)


@pytest.mark.parametrize("engine", [OLDER, ENGINE])
@pytest.mark.parametrize("fields", [{"stream": 5}, {"counter": 3}, {"agents": ("a", "c", "b")}])
def test_a_row_that_does_not_fit_is_found_in_both_stretches(both, engine, fields):
    seq, _ = decisions(both, engine)[11]
    broken = changed(both, seq, **fields)
    with pytest.raises(EventMismatchError, match=f"row {seq}"):
        fold(broken)
    assert {each.seq for each in replay(broken).mismatches} == {seq}


def test_other_probabilities_are_found_where_they_can_be_derived(both):
    """In the other stretch they are found if they would have drawn somebody else."""
    seq, event = decisions(both, ENGINE)[11]
    sure = np.eye(3)[AGENTS.index(event.agent)].tobytes()
    found = replay(changed(both, seq, numbers=(sure, *event.numbers[1:])))
    assert {each.what for each in found.mismatches} == {"propensity"}
    seq, event = decisions(both, OLDER)[11]
    other = np.roll(np.eye(3)[AGENTS.index(event.agent)], 1).tobytes()
    numbers = (other, *event.numbers[1:])
    assert {each.seq for each in replay(changed(both, seq, numbers=numbers)).mismatches} == {seq}


def test_the_command_says_it_and_ends_well(both, tmp_path, capsys):
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append(list(both.read()))
    log.commit()
    log.close()
    assert main(["replay", str(tmp_path / "log.sqlite"), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "decisions derived again: 30, different: 0" in printed
    assert "not derived: events 2 to" in printed and "30 decisions were made by engine 0" in printed


@pytest.mark.parametrize("spoil", [{"derived_by": "1"}, {"format": "bot-orch-ledger@0"}, {"derived_by": None}])
def test_a_snapshot_of_another_engine_is_passed_over(both, spoil):
    whole = fold(both)
    document = msgspec.msgpack.decode(zlib.decompress(whole.snapshot().body))
    both.save(Snapshot(whole.seq, zlib.compress(msgspec.msgpack.encode({**document, **spoil}))))
    folded = fold(both)
    assert folded.folded_from == 0 and folded.fingerprint() == whole.fingerprint()
    both.save(whole.snapshot())
    assert fold(both).folded_from == whole.seq, "one of this engine is used"


def test_engines_may_take_turns(both):
    """Two releases side by side: stretches are told apart."""
    made = [seq for seq, _ in decisions(both, ENGINE)]
    log = changed(changed(changed(both, made[3], engine="9"), made[4], engine="9"), made[9], engine="8")
    found = replay(log)
    assert found.ok and [(s.engine, s.decisions) for s in found.stretches] == [("0", 30), ("9", 2), ("8", 1)]
    assert found.derived == 27 and isinstance(fold(log), Ledger)
