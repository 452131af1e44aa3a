"""``bot-orch erase --user / --before``: a person's decisions are emptied; the rest replays, bit for bit."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task, make_policy
from bot_orch.cli import main
from bot_orch.core.context import ROWS, WithContext
from bot_orch.core.events import ERASED, AttemptEnded, DecisionMade, FeedbackGiven, Noted
from bot_orch.log import erasure as erasing
from bot_orch.log.archive import read_rows, read_segment, replace_segments, whole
from bot_orch.log.archiving import move_events
from bot_orch.log.ledger import fold
from bot_orch.log.log import Row
from bot_orch.log.stores.open import open_file
from bot_orch.log.verification import replay

CONFIG = """
version: 1
database: {database}
listen: {{port: {port}}}
router: {{seed: 5, encoder: builtin, sticky_s: 3600}}
agents:
  - {{id: quick, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}, cost: 0.01}}
  - {{id: careful, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}, cost: 0.1}}
"""
WORDS = ["ponies", "ledgers", "rivers", "poems", "tensors", "gardens", "harbours", "violins"]


def decide(service, number, user, reward=None):
    body = {
        "task": {"id": f"{user}-task-{number}", "text": f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {user}"},
        "session": f"s-{user}",
    }
    headers = {"idempotency-key": f"{user}-key-{number}", "x-bot-orch-tags": f"user:{user}"}
    made = service.post("/v1/decisions", body, headers=headers).json()
    if reward is not None:
        said = {"decision_id": made["id"], "reward": reward, "id": f"{user}-report-{number}"}
        assert service.post("/v1/feedback", said).status == 200
    return made["id"]


@pytest.fixture
def path(start, tmp_path):
    """A stopped log with decisions of two users, one of them open, and a chat of each with a tag."""
    service = start(CONFIG)
    for number in range(60):
        decide(service, number, ("alice", "bob")[number % 2], reward=(number % 5) / 4)
    for user in ("alice", "bob"):
        chat = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
        assert service.post("/v1/chat/completions", chat, headers={"x-bot-orch-tags": f"user:{user}.x"}).status == 200
    decide(service, 99, "alice")
    service.stop()
    return tmp_path / "log.sqlite"


def verified(path, view=lambda log: log):
    with closing(open_file(path)) as log:
        return replay(view(log))


def events(path, type_):
    with closing(open_file(path)) as log:
        return [event for row in log.read() if isinstance(event := row.event(), type_)]


def holds(path, text):
    """Whether a file of the log, or a row or key of it, holds a text."""
    files = [file.read_bytes() for file in path.parent.glob(path.name + "*")]
    with closing(open_file(path)) as log:
        parts = [row.ref.encode() + row.body for row in log.read()] + [key.encode() for key, _ in keys_of(log).values()]
    return any(text.encode() in data for data in (*files, *parts))


def keys_of(log):
    """(key, digest) of every row with a key."""
    return log.keys_between(0, log.last()[0])


def test_a_user_is_erased_and_the_rest_replays(path, start, capsys):
    before, paid = verified(path), sum(each.cost_usd for each in events(path, AttemptEnded))
    assert before.ok and holds(path, "alice-task-0") and holds(path, "alice-key-0") and holds(path, "alice-report-0")
    with closing(open_file(path)) as log:
        learned = fold(log).router.capture().state.parts["policy"]
    assert main(["erase", str(path), "--user", "alice"]) == 0
    said = capsys.readouterr().out
    assert "30 decision, 30 feedback" in said and "stay until they have ended: 1" in said
    assert "  number of texts by hashed word, erased ones included: policy.context_documents[4097]\n" in said
    for name in ("task", "key", "report"):
        assert not holds(path, f"alice-{name}-0"), name
        assert holds(path, f"bob-{name}-1"), name
    after, made = verified(path), events(path, DecisionMade)
    assert after.ok and after.decisions == before.decisions
    (stretch,) = after.stretches
    assert stretch.engine == ERASED and "erased" in stretch.why
    gone = [each for each in made if each.engine == ERASED]
    assert len(gone) == 30 and not any(any(each.features) or each.session or each.tags for each in gone)
    assert all(each.column("propensity").sum() == pytest.approx(1.0) for each in gone), (
        "what was chosen, and how, stays"
    )
    assert sum(each.cost_usd for each in events(path, AttemptEnded)) == paid
    with closing(open_file(path)) as log:
        kept = fold(log).router.capture().state.parts["policy"]
    assert np.array_equal(kept["total"], learned["total"]) and np.array_equal(kept["theta"], learned["theta"])
    rounds = [each.counter + 1 for each in gone]
    assert np.isin(learned["context_round"][learned["context_owner"] >= 0], rounds).any()
    assert not np.isin(kept["context_round"], rounds).any()
    assert not kept["context_codes"][kept["context_owner"] < 0].any() and kept["context_codes"].any()

    service = start(CONFIG, database=path)
    for number in range(100, 120):
        decide(service, number, "bob", reward=number % 2)
    state = service.get("/v1/admin/state").json()
    service.stop()
    again = verified(path)
    assert again.ok and again.fingerprint == state["fingerprint"] and again.derived == after.derived + 20
    assert main(["erase", str(path), "--user", "alice"]) == 0
    assert "events emptied: 0\n" in capsys.readouterr().out, "there is nothing left"


def test_what_is_said_of_arrays_is_said_of_arrays_that_exist():
    named = {name for policy in ("auto", "linucb") for name in WithContext(make_policy(policy), 3, 4).schema(0)}
    assert set(erasing._HELD) <= named


def test_rows_of_erased_decisions_are_emptied():
    router, made = Orchestrator(["a", "b"], seed=1), {}
    for number in range(20):
        decision = router.decide(Task(text=f"word{number}", features=(1.0 + number,), claims={"a": 0.7}))
        made[decision.id] = decision.key.counter + 1
        router.observe(decision.id, Outcome.completed(0.5))
    state = router.capture().state
    erased = dict(list(made.items())[:5])
    state.forget(erased)
    held = {name: array for name, array in state.parts["policy"].items() if name.startswith("context_")}
    of_rows = {name: array for name, array in held.items() if array.shape[:1] == (ROWS,) and name != "context_owner"}
    assert len(of_rows) == 5
    for name, array in of_rows.items():
        assert not array[:5].any() and array[5:20].any(), name
    assert (held["context_owner"][:5] == -1).all() and (held["context_owner"][5:20] >= 0).all()


def test_a_user_of_whom_nothing_is_known_is_said(path, capsys):
    assert main(["erase", str(path), "--user", "carol"]) == 1
    said = capsys.readouterr().out
    assert "no decision is known of user 'carol'" in said
    assert len(said.splitlines()) == 1


def test_the_chats_of_a_user_are_found_by_their_tag(path, capsys):
    assert main(["erase", str(path), "--user", "alice.x"]) == 0
    assert "1 decision" in capsys.readouterr().out
    assert len([each for each in events(path, DecisionMade) if each.engine == ERASED]) == 1
    assert verified(path).ok


def test_a_second_person_leaves_nothing_in_the_first_note(path, capsys):
    assert main(["erase", str(path), "--user", "bob"]) == 0
    with closing(open_file(path)) as log:
        first = [row.event() for row in log.about(ERASED)]
    assert first[0].data["state"]
    assert main(["erase", str(path), "--user", "alice"]) == 0
    with closing(open_file(path)) as log:
        notes = [row.event().data for row in log.about(ERASED)]
    assert notes[0]["state"] == "" and notes[1]["state"] and notes[1]["first"] <= notes[0]["first"]
    assert verified(path).ok and holds(path, "alice-task-99") and not holds(path, "bob-task")


def test_before_a_day(path, start, capsys):
    assert main(["erase", str(path), "--before", "2001-01-01"]) == 0
    assert "events emptied: 0\n" in capsys.readouterr().out
    assert main(["erase", str(path), "--before", "2999-01-01"]) == 0
    found = verified(path)
    assert found.ok and "62 decision" in capsys.readouterr().out and not holds(path, "bob")
    service = start(CONFIG, database=path)
    assert service.post("/v1/decisions", {"task": {"text": "hello"}}).status == 200
    service.stop()
    assert verified(path).ok


def test_a_later_engine_learns_from_what_is_left(path, monkeypatch):
    assert main(["erase", str(path), "--user", "alice"]) == 0
    monkeypatch.setattr("bot_orch.log.ledger.ENGINE", "later")
    with closing(open_file(path)) as log:
        ledger = fold(log)
        assert ledger.seq == log.last()[0] and ledger.router.rounds == 63


def test_a_repeated_start_without_snapshot_comes_to_the_same(path):
    assert main(["erase", str(path), "--user", "alice"]) == 0
    with closing(open_file(path)) as log:
        assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint() == replay(log).fingerprint


def test_notes_about_answers_lose_ids_and_messages(path):
    with closing(open_file(path)) as log:
        rows, keys = list(log.read()), keys_of(log)
    of = {row.ref: row for row in rows if isinstance(event := row.event(), DecisionMade) and event.session == "s-alice"}
    ref = next(iter(of))
    with closing(open_file(path, writing=True)) as log:
        seq, time_us = log.last()
        said = (
            Noted("answer", ref, {"reasons": "alice failed", "steps": 2}),
            Noted("completion", ref, {"id": "alice-1"}),
        )
        log.append([Row.of(seq + n, time_us + n, note, ref, key=f"k{n}", digest=b"") for n, note in enumerate(said, 1)])
        log.commit()
    assert main(["erase", str(path), "--user", "alice"]) == 0
    with closing(open_file(path)) as log:
        notes = [row.event().data for row in log.about(ref) if isinstance(row.event(), Noted)]
        left = keys_of(log)
    assert notes == [{"reasons": "", "steps": 2}, {"id": ""}]
    assert not {key for key, _ in left.values()} & {"k1", "k2"} and len(left) < len(keys)


@pytest.mark.parametrize("killed", [None, "note_archive", "replace_segments"])
def test_archived_events_are_erased_too(path, tmp_path, start, monkeypatch, killed):
    folder = tmp_path / "archive"
    with closing(open_file(path)) as log:
        cut = next(row.time_us for row in log.read(60))
    monkeypatch.setattr("bot_orch.log.archiving._ROWS", 25)
    assert move_events(path, folder, cut).record.seq == 60
    assert b"alice-task-0" in written(folder)
    before = verified(path, whole)
    assert before.ok
    if killed is not None:
        with monkeypatch.context() as patched:
            if killed == "note_archive":
                patched.setattr(erasing.SqliteLog, killed, stop)
            else:
                patched.setattr(erasing, killed, stop_after(2))
            with pytest.raises(KeyboardInterrupt):
                erasing.erase(path, erasing.Subject(user="alice"))
    assert main(["erase", str(path), "--user", "alice"]) == 0
    assert b"alice" not in written(folder) and b"bob-task-1" in written(folder)
    assert not holds(path, "alice-task-0") and not holds(path, "alice-key-0") and not (folder / "rewritten").exists()
    after = verified(path, whole)
    assert after.ok and after.decisions == before.decisions
    assert after.fingerprint == folded(path)
    service = start(CONFIG, database=path)
    decide(service, 200, "bob", reward=1.0)
    state = service.get("/v1/admin/state").json()
    service.stop()
    again = verified(path, whole)
    assert again.ok and again.fingerprint == state["fingerprint"]


def written(folder):
    """Refs, keys and bodies of all archived rows."""
    with_rows = (read_rows(read_segment(path)) for path in sorted(folder.glob("*.parquet")))
    return b"".join(f"{row.ref} {row.key} ".encode() + row.body for rows in with_rows for row in rows)


def folded(path):
    with closing(open_file(path)) as log:
        return fold(log).fingerprint()


def stop(*_):
    raise KeyboardInterrupt


def stop_after(number):
    """A version of ``replace_segments`` that is killed at a call."""
    calls = []

    def replacing(*arguments):
        calls.append(arguments)
        if len(calls) >= number:
            raise KeyboardInterrupt
        replace_segments(*arguments)

    return replacing


def test_control_without_the_note_replay_fails(path, monkeypatch):
    monkeypatch.setattr(erasing, "_append", lambda *_: None)
    assert main(["erase", str(path), "--user", "alice"]) == 0
    found = verified(path)
    assert found.mismatches or found.damaged


@pytest.mark.parametrize(("user", "found"), [("ann", True), ("bob", False)])
def test_the_decisions_of_a_user_are_those_of_the_session(path, user, found):
    with closing(open_file(path)) as log:
        row = next(row for row in log.read() if isinstance(row.event(), DecisionMade))
    made = replace(row.event(), tags=(), session="ann")
    assert erasing.Subject(user=user).made(row, made) is found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", ""], "--user or --before: is empty"),
        (["--user", "a", "--texts-older-than", "1d"], "--user or --before: is together with --texts-older-than"),
        (["--before", "soon"], "--before: 'soon' is no date"),
    ],
)
def test_mistakes_are_told(path, capsys, words, said):
    assert main(["erase", str(path), *words]) == 2
    assert said in capsys.readouterr().err
    assert not any(isinstance(each, FeedbackGiven) and not each.id for each in events(path, FeedbackGiven))
