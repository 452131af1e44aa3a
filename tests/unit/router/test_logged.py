"""A router with a file: every acknowledged change survives kill -9, and the file is a log like any other."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Labels, Orchestrator, Outcome, Router, Samples, SurvivalReward, Task
from bot_orch.errors import StateFormatError, UnknownAgentError, UnknownDecisionError
from bot_orch.log import logged as journals
from bot_orch.log.ledger import fold
from bot_orch.log.log import LogInUseError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay


def play(router, rounds=40, begin=0):
    for number in range(begin, begin + rounds):
        task = Task(f"t-{number}", features=(number % 3, 0.1 * number))
        made = router.decide(task)
        if number % 7:
            router.observe(made.id, Outcome.completed({"a": 0.25, "b": 0.75}.get(made.agent, 0.5), elapsed_s=0.5))
    return router


@pytest.mark.parametrize("policy", ["auto", "linucb", "thompson-beta"])
def test_it_decides_and_learns_as_in_memory_and_resumes(policy, tmp_path):
    plain = play(Orchestrator(["a", "b"], policy, seed=3, ids="derived"))
    with Router(["a", "b"], policy, seed=3, ids="derived", path=tmp_path / "router.db") as router:
        assert play(router).fingerprint() == plain.fingerprint()
    with Router(["a", "b"], policy, seed=3, path=tmp_path / "router.db") as router:
        assert router.fingerprint() == plain.fingerprint() and router.pending == plain.pending
        assert play(router, begin=40).fingerprint() == play(plain, begin=40).fingerprint()
    log = open_log(tmp_path / "router.db")
    checked = replay(log)
    log.close()
    assert checked.ok and checked.decisions == 80


def test_outputs_costs_and_times_survive(tmp_path):
    def observed(router):
        for number in range(20):
            made = router.decide(Task(str(number), reference=Labels([0.5, 0.5]), profiles={"a": Labels([0.9, 0.1])}))
            output = Labels([1.0, 0.0])
            router.observe(made.id, Outcome.completed(elapsed_s=float(number), output=output, cost_usd=0.01 * number))
        made = router.decide(Task("last"), ["a"])
        router.observe(made.id, Outcome.censored(elapsed_s=2.0, reason="timeout"))
        return router.fingerprint()

    settings = {"reward": SurvivalReward(), "cost_weight": 2.0, "seed": 1}
    expected = observed(Orchestrator(["a", "b"], **settings))
    with Router(["a", "b"], path=tmp_path / "log", **settings) as router:
        assert observed(router) == expected
    with Router(["a", "b"], path=tmp_path / "log", **settings) as router:
        assert router.fingerprint() == expected


def test_agents_and_settings_change_in_place(tmp_path):
    path = tmp_path / "router.db"
    with Router(
        {"a": lambda task: 1, "b": lambda task: 0}, "ucb1", path=path, judge=lambda task, answer: answer
    ) as router:
        for _ in range(20):
            router.call(Task())
        router.add_agent(Agent("c", cost=0.1), lambda task: 1)
        with pytest.raises(InvalidInputError, match="'c' is taken"):
            router.add_agent("c")
        with pytest.raises(UnknownAgentError):
            router.remove_agent("nobody")
        router.call(Task(), eligible=["c"])
        router.remove_agent("b")
        before = router.fingerprint()
    with Router(["a", Agent("c", cost=0.1)], "ucb1", path=path) as router:
        assert router.fingerprint() == before and router.agents == ("a", "c")
    with Router(["a", "d"], "ucb1", floor=0.2, path=path) as router:
        assert router.agents == ("a", "d") and router.derive(Task()).propensities.min() >= 0.1
        assert router.derive(Task()).terms.estimate[0] == 1.0  # what was learned of a stays


def test_a_file_of_other_agents_is_refused_and_a_change_of_some_is_said(tmp_path, caplog):
    path = tmp_path / "log"
    with Router(["a", "b"], path=path) as router:
        router.decide(Task())
    with pytest.raises(InvalidInputError, match="is the log of other agents: a, b; pass another path"):
        Router(["x", "y"], path=path)
    with Router(["a", "b"], path=path) as router:
        assert router.agents == ("a", "b") and not caplog.records
    with Router(["a", "c"], path=path) as router:
        assert router.agents == ("a", "c")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "agents of the log changed: c (new)",
        "agents of the log changed: b (removed, with what was learned of them)",
    ]


def test_the_horizon_counts_from_the_decision_across_restarts(tmp_path):
    from bot_orch.clock import ManualClock

    clock = ManualClock()
    with Router(["a"], path=tmp_path / "log", clock=clock) as router:
        made = router.decide(Task("t"))
    clock.advance(30.0)
    with Router(["a"], path=tmp_path / "log", clock=clock, horizon_s=20.0) as router:
        assert router.expire() == (made.id,) and router.pending == ()
    with Router(["a"], path=tmp_path / "log", clock=clock) as router:
        assert router.pending == ()


def test_a_reward_replaces_silence_as_in_memory(tmp_path):
    def late(router):
        made = [router.decide(Task(str(number))) for number in range(12)]
        for each in made[6:9]:  # the first six have ended after six rounds
            router.observe(each.id, Outcome.censored(elapsed_s=5.0, reason="cancelled"))
        for each in (*made[:4], made[6]):
            router.observe(each.id, Outcome.completed(0.75, elapsed_s=9.0))
        router.observe(made[9].id, Outcome.completed(0.25, elapsed_s=1.0))
        return made

    settings = {"policy": "bot", "seed": 2, "horizon": 6, "ids": "derived"}
    plain = Orchestrator(["a", "b"], **settings)
    late(plain)
    with Router(["a", "b"], path=tmp_path / "log", **settings) as router:
        made = late(router)
        assert router.fingerprint() == plain.fingerprint() and router.pending == plain.pending
        with pytest.raises(UnknownDecisionError):
            router.observe(made[0].id, Outcome.completed(0.5))
    with Router(["a", "b"], path=tmp_path / "log", **settings) as router:
        assert router.fingerprint() == plain.fingerprint() and router.pending == plain.pending
        router.observe(made[5].id, Outcome.completed(0.5))
        plain.observe(made[5].id, Outcome.completed(0.5))
        assert router.fingerprint() == plain.fingerprint()
    log = open_log(tmp_path / "log")
    assert replay(log).ok and fold(log, use_snapshot=False).router.fingerprint() == plain.fingerprint()
    log.close()


def length(text):
    return [len(text) / 10.0, 1.0]


@pytest.mark.parametrize("encoder", ["builtin", length])
def test_texts_are_encoded_and_not_kept(encoder, tmp_path):
    def asked(router, begin):
        for number in range(begin, begin + 10):
            made = router.decide(Task(text=f"secret {'x' * (number % 4)}"))
            router.observe(made.id, Outcome.completed(0.5))
        return router.fingerprint()

    plain, settings = Orchestrator(["a", "b"], "linucb", encoder=encoder), {"encoder": encoder, "policy": "linucb"}
    lessons = [Task(text="secret"), Task(text="secret xx")]
    plain.learn_from([[0.0, 1.0], [1.0, 0.0]], tasks=lessons)
    with Router(["a", "b"], path=tmp_path / "log", **settings) as router:
        assert router.learn_from([[0.0, 1.0], [1.0, 0.0]], tasks=lessons) == 4
        assert asked(router, 0) == asked(plain, 0)
    with Router(["a", "b"], path=tmp_path / "log", **settings) as router:
        assert asked(router, 10) == asked(plain, 10)
    assert b"secret" not in (tmp_path / "log").read_bytes()
    again = Router(["a", "b"], **settings)
    assert again.learn_from(tmp_path / "log") == 20  # with the numbers that the decisions were made on
    assert again.derive(Task(text="secret")).encoder == plain.derive(Task(text="secret")).encoder != ""


def test_a_warm_start_is_an_event(tmp_path):
    rng = np.random.default_rng(0)
    rewards, features = rng.random((50, 2)), rng.normal(size=(50, 2))
    plain = Orchestrator(["a", "b"], "linucb", seed=1)
    with Router(["a", "b"], "linucb", seed=1, path=tmp_path / "log") as router:
        assert router.learn_from(rewards, features=features, weight=0.5) == 50
        plain.learn_from(rewards, features=features, weight=0.5)
        assert play(router).fingerprint() == play(plain).fingerprint()
    with Router(["a", "b"], "linucb", seed=1, path=tmp_path / "log") as router:
        assert router.fingerprint() == plain.fingerprint() and "warm start" in repr(router)
    log = open_log(tmp_path / "log")
    assert replay(log).ok and fold(log, use_snapshot=False).router.fingerprint() == plain.fingerprint()
    log.close()
    fresh = Router(["b", "a", "c"], "linucb", n_features=2)
    assert fresh.learn_from(tmp_path / "log") == 34  # the outcomes of an old log
    assert fresh.derive(Task(features=(1.0, 1.0))).agent


def test_refused_outcomes_leave_file_and_state_alone(tmp_path):
    with Router(["a", "b"], "ucb1", path=tmp_path / "log") as router:
        made = router.decide(Task(reference=Labels([0.5, 0.5])))
        before = router.fingerprint()
        with pytest.raises(InvalidInputError, match=r"outcome\.output"):
            router.observe(made.id, Outcome.completed(1.0, output=Samples([0.1])))
        with pytest.raises(UnknownDecisionError):
            router.observe("unknown", Outcome.completed(1.0))
        with pytest.raises(InvalidInputError, match="use observe, or a Router without path"):
            router.observe_all(made.id, {"a": 1.0, "b": 0.0})
        assert router.fingerprint() == before and router.pending == (made.id,)
        router.observe(made.id, Outcome.completed(1.0))
        after = router.fingerprint()
    with Router(["a", "b"], "ucb1", path=tmp_path / "log") as router:
        assert router.fingerprint() == after


def test_a_disk_that_fails_takes_the_change_back(tmp_path, monkeypatch):
    router = play(Router(["a", "b"], "ucb1", path=tmp_path / "log"))
    before, commit = router.fingerprint(), router._logged._log.commit
    monkeypatch.setattr(router._logged._log, "commit", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        router.decide(Task(features=(0.0, 0.0)))
    monkeypatch.setattr(router._logged._log, "commit", commit)
    assert router.fingerprint() == before
    assert play(router, 5, 40).fingerprint() == play(Orchestrator(["a", "b"], "ucb1"), 45).fingerprint()
    router.close()


def test_snapshots_do_not_change_the_state(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "_SNAPSHOT_EVERY", 10)
    router = play(Router(["a", "b"], "ucb1", path=tmp_path / "log"))
    expected = router.fingerprint()
    router._logged._log.close()  # as after a kill: no snapshot at the end
    log = open_log(tmp_path / "log")
    assert log.snapshot().seq > 50
    log.close()
    with Router(["a", "b"], "ucb1", path=tmp_path / "log") as again:
        assert again.fingerprint() == expected


def test_one_writer_and_no_other_file(tmp_path):
    with Router(["a"], path=tmp_path / "log"), pytest.raises(LogInUseError):
        Router(["a"], path=tmp_path / "log")
    (tmp_path / "text").write_text("something else, long enough to be looked at" * 20)
    with pytest.raises(StateFormatError, match="is not a log"):
        Router(["a"], path=tmp_path / "text")
    with pytest.raises(InvalidInputError, match="path: is given with an orchestrator"):
        Router(Orchestrator(["a"]), path=tmp_path / "other")


WRITER = """
    import sys
    from bot_orch import Outcome, Router, Task

    router = Router(["a", "b", "c"], "thompson-beta", seed=5, path=sys.argv[1])
    if {broken}:
        router._logged._log.commit = lambda: None
    print("open", *router.pending, flush=True)
    number = 0
    while True:
        made = router.decide(Task(str(number)))
        print("decided", made.id, made.agent, flush=True)
        if number % 3:
            router.observe(made.id, Outcome.completed(0.5))
            print("observed", made.id, flush=True)
        number += 1
"""


def killed(path, lines, broken=False):
    """What a process acknowledged before kill -9, in the middle of its work."""
    code = textwrap.dedent(WRITER).format(broken=broken)
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
        said = [process.stdout.readline() for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
        said += [line for line in process.stdout if line.endswith("\n")]  # acknowledged before the signal came
    return [line.split() for line in said]


def lost(path, said):
    """Acknowledged decisions and outcomes that the file does not hold."""
    log = open_log(path)
    rows = [(row.kind.partition("@")[0], row.ref) for row in log.read()]
    log.close()
    kinds = {"decided": "decision", "observed": "feedback"}
    return [words for words in said if words[0] in kinds and (kinds[words[0]], words[1]) not in rows]


def test_kill_9_loses_nothing_acknowledged(tmp_path):
    path, seen = tmp_path / "router.db", []
    for lines in (3, 60, 25):
        seen += killed(path, lines)
        assert lost(path, seen) == []
    decided, observed = ({words[1] for words in seen if words[0] == kind} for kind in ("decided", "observed"))
    assert len(decided) > 30
    with Router(["a", "b", "c"], "thompson-beta", seed=5, path=path) as router:
        # an outcome may be on disk and not acknowledged, once per kill
        assert len(decided - observed - set(router.pending)) <= 3
        router.observe(router.pending[0], Outcome.completed(1.0))
    log = open_log(path)
    assert replay(log).ok
    log.close()


def test_control_without_commits_the_check_finds_the_loss(tmp_path):
    path = tmp_path / "router.db"
    assert lost(path, killed(path, 30, broken=True))


def test_the_extra_is_named(tmp_path, monkeypatch):
    code = (
        "import sys; sys.modules['msgspec'] = None\n"
        "from bot_orch import Router\n"
        "Router(['a'])\n"
        f"Router(['a'], path={str(tmp_path / 'log')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert re.search(r"MissingExtraError: .*pip install '.*\[service\]'", done.stderr)


def test_history_holds_what_the_file_knows(tmp_path):
    """Decisions and outcomes as the first router showed them: judged, silent, replaced and pending ones."""
    path = tmp_path / "router.db"
    with Router(["a", "b"], "ucb1", seed=3, path=path) as router:
        play(router)
        made = router.decide(Task("late", features=(0.0, 0.0)))
        router.observe(made.id, Outcome.censored(elapsed_s=2.0, reason="cancelled"))
        router.observe(made.id, Outcome.completed(0.5, elapsed_s=3.0, cost_usd=0.01))
        shown = router.history()
    with Router(["a", "b"], "ucb1", seed=3, path=path) as router:
        assert router.history() == shown and len(shown) == 41
        made = router.decide(Task("next", features=(0.0, 0.0)))
        assert router.history()[-1]["decision"] == made.id and len(router.history()) == 42
    with Router(["a", "b"], "ucb1", seed=3, path=path, history=5) as router:
        assert router.history()[:4] == shown[-4:] and len(router.history()) == 5
        router.decide(Task("another", features=(0.0, 0.0)))
        assert len(router.history()) == 5
    with Router(["a", "b"], "ucb1", seed=3, path=path, history=0) as router:
        assert router.history() == []
