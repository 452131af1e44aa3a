"""Ids of decisions: no two orchestrators share them, a saved state keeps them, and draws do not depend on them."""

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Router, Task
from bot_orch.errors import InvalidInputError, UnknownDecisionError
from bot_orch.log import open_log
from bot_orch.log.ledger import fold
from bot_orch.log.verification import replay
from bot_orch.service.build import make_orchestrator
from bot_orch.service.config import Config

CODE = "from bot_orch import *; print(Orchestrator(['a', 'b'], seed=3).decide(Task()).id)"


def played(router, rounds=30):
    made = [router.decide(Task(str(number))) for number in range(rounds)]
    for decision in made[::2]:
        router.observe(decision.id, Outcome.completed(float(decision.agent == "a")))
    return made


def test_two_processes_have_ids_of_their_own():
    found = {subprocess.check_output([sys.executable, "-c", CODE], text=True) for _ in range(2)}
    assert len(found) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("kind", [Orchestrator, Router])
def test_a_forked_process_has_ids_of_its_own(kind):
    """Two workers forked from one router: the choices stay equal, an outcome for the other one is refused."""
    router = kind(["a", "b"], seed=3)
    before = router.decide(Task())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        made = [router.decide(Task()) for _ in range(5)]
        router.observe(before.id, Outcome.completed(1.0))
        router.observe(made[0].id, Outcome.completed(1.0))
        os.write(writing, "\n".join(f"{each.id} {each.agent}" for each in made).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        theirs = [line.split() for line in pipe.read().splitlines()]
    os.waitpid(child, 0)
    ours = [router.decide(Task()) for _ in range(5)]
    assert [agent for _, agent in theirs] == [each.agent for each in ours]
    assert {each for each, _ in theirs}.isdisjoint(each.id for each in ours)
    assert ours[0].id.partition("-")[0] == before.id.partition("-")[0], "the parent goes on"
    with pytest.raises(UnknownDecisionError):
        router.observe(theirs[0][0], Outcome.completed(1.0))
    router.observe(before.id, Outcome.completed(1.0))


@pytest.mark.parametrize("kind", [Orchestrator, Router])
def test_an_outcome_of_another_orchestrator_is_refused(kind):
    one, other = (kind(["a", "b"], seed=3) for _ in range(2))
    made, _ = one.decide(Task("t")), other.decide(Task("t"))
    before = other.fingerprint()
    with pytest.raises(UnknownDecisionError):
        other.observe(made.id, Outcome.completed(1.0))
    assert other.fingerprint() == before


@pytest.mark.parametrize("policy", ["auto", "thompson-beta"])
def test_draws_depend_on_seed_and_round_alone(policy):
    routers = [Orchestrator(["a", "b", "c"], policy, seed=3, audit_rate=0.3, ids=ids) for ids in ("random", "derived")]
    for one, other in zip(*map(played, routers), strict=True):
        assert (one.agent, one.key, one.audit) == (other.agent, other.key, other.audit) and one.id != other.id
        np.testing.assert_array_equal(one.propensities, other.propensities)
    assert routers[0].fingerprint() == routers[1].fingerprint()


def test_derived_ids_are_equal_for_equal_seeds():
    one, other = (played(Orchestrator(["a", "b"], seed=3, ids="derived")) for _ in range(2))
    assert [each.id for each in one] == [each.id for each in other]
    with pytest.raises(InvalidInputError, match="ids: is 'uuid'; pass 'random', or 'derived' for tests"):
        Orchestrator(["a"], ids="uuid")


def test_a_saved_state_keeps_its_prefix(tmp_path):
    router = Orchestrator(["a", "b"], seed=3)
    awaited = played(router)[1]
    router.save(tmp_path / "state.json")
    again = Orchestrator.load(tmp_path / "state.json")
    assert again.prepare(Task()).id == router.prepare(Task()).id
    assert again.to_json() == router.to_json()
    again.observe(awaited.id, Outcome.completed(1.0))
    again.reconfigure(again.settings, again.members, keep_learned=False)
    assert again.prepare(Task()).id == router.prepare(Task()).id


def test_a_state_of_an_earlier_release_goes_on_with_derived_ids():
    router = Orchestrator(["a", "b"], seed=3, ids="derived")
    assert '"prefix"' not in router.to_json()
    assert router.decide(Task()).id == f"{router._stream:016x}-{0:012x}"


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_file_keeps_its_prefix_and_folds_to_the_same_state(tmp_path, snapshot):
    first, second = tmp_path / "first", tmp_path / "second"
    with Router(["a", "b"], seed=3, path=first) as router, Router(["a", "b"], seed=3, path=second) as other:
        made = played(router)
        played(other)
        with pytest.raises(UnknownDecisionError):
            other.observe(made[1].id, Outcome.completed(1.0))
        router.add_agent("c")
        waiting, state = router.pending, router._orchestrator.to_json()
    log = open_log(first)
    assert fold(log, use_snapshot=snapshot).router.to_json() == state
    assert replay(log).ok
    log.close()
    with Router(["a", "b", "c"], seed=3, path=first) as router:
        assert router.pending == waiting and router.history()[0]["decision"] == made[0].id
        assert router.decide(Task()).id.partition("-")[0] == made[0].id.partition("-")[0]
        router.observe(made[1].id, Outcome.completed(1.0))


def test_replicas_hold_equal_states():
    """The service has ids of its own, and its orchestrators are made of settings alone."""
    agents = [{"id": "a", "kind": "simulated"}, {"id": "b", "kind": "simulated"}]
    config = msgspec.convert({"version": 1, "agents": agents}, Config)
    assert make_orchestrator(config).to_json() == make_orchestrator(config).to_json()
