"""Compiled and plain kernels: one kind per process, named in the settings; both decide alike up to rounding."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task, kernels
from bot_orch.core.settings import Settings
from bot_orch.errors import InvalidInputError
from bot_orch.eventlog import MemoryLog
from bot_orch.eventlog.events import Configured, encode_event, kind_of
from bot_orch.eventlog.ledger import fold
from bot_orch.eventlog.log import Row
from bot_orch.eventlog.verification import replay
from bot_orch.policies.choice import draw, mixed_draw, softmax, softmax_scores
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys, stream_of, uniform
from bot_orch.testing.policies import check_policy
from bot_orch.transport import kernels as transport_kernels

OTHER = {"compiled": "plain", "plain": "compiled"}


@pytest.fixture
def use(monkeypatch):
    """Switch the kind of kernels for one test."""

    def switch(kind):
        monkeypatch.setenv(kernels.VARIABLE, kind)
        forget()

    yield switch
    monkeypatch.undo()
    forget()


def forget():
    kernels.kernel_kind.cache_clear()
    kernels.kernel.cache_clear()


def played(policy="bot", rounds=60, **settings):
    router = Orchestrator(["a", "b", "c"], policy, seed=3, **settings)
    for t in range(rounds):
        decision = router.decide(Task())
        if t % 7:
            router.observe(decision.id, Outcome.completed(reward=(t * 7 % 10) / 10))
    return router


def test_the_kind_is_written_down_and_read_back(use):
    for kind in ("plain", "compiled"):
        use(kind)
        router = played()
        assert json.loads(router.to_json())["settings"]["kernels"] == kind
        assert Orchestrator.from_json(router.to_json()).settings.kernels == kind


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_a_state_of_the_other_kind_is_refused_with_one_line(use, kind):
    use(kind)
    saved = played().to_json()
    use(OTHER[kind])
    with pytest.raises(InvalidInputError) as error:
        Orchestrator.from_json(saved)
    assert str(error.value).splitlines() == [
        f"settings.kernels: is {kind!r}, this process runs {OTHER[kind]!r} kernels; "
        f"start the process with BOT_ORCH_KERNELS={kind}"
    ]


def test_without_numba_the_remedy_is_the_extra(use, monkeypatch):
    use("compiled")
    saved = played().to_json()
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    use("auto")
    with pytest.raises(InvalidInputError, match=r"pip install 'bot-orchestrator\[fast\]'$"):
        Orchestrator.from_json(saved)


def test_documents_that_do_not_say_are_accepted_by_both(use):
    use("plain")
    spec = played().settings.spec()
    del spec["kernels"]
    for kind in ("plain", "compiled"):
        use(kind)
        assert Settings.from_spec(spec).kernels == kind


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidInputError, match="'fast'; set compiled or plain"):
        Settings(make_policy("bot"), kernels="fast")


@pytest.mark.parametrize("read", [fold, replay])
def test_a_log_of_the_other_kind_is_refused_by_fold_and_replay(use, read):
    use("compiled")
    event = Configured(Orchestrator(["a", "b"], "bot").to_json(), engine="3")
    log = MemoryLog()
    log.append([Row(1, 1, kind_of(event), "", encode_event(event))])
    log.commit()
    read(log)
    use("plain")
    with pytest.raises(InvalidInputError, match="BOT_ORCH_KERNELS=compiled"):
        read(log)


def test_transport_follows_the_switch(use):
    use("plain")
    assert transport_kernels().name == "numpy"
    use("compiled")
    assert transport_kernels().name == "numba"


@pytest.mark.parametrize("policy", ["bot", "ucb1", "no-ot", "discounted-ucb", "epsilon-greedy"])
def test_both_kinds_decide_alike(use, policy):
    found = {}
    for kind in ("plain", "compiled"):
        use(kind)
        router = played(policy, 200)
        decision = router.decide(Task(), ["a", "c"])
        found[kind] = decision.propensities, decision.terms.score(), decision.agent
    assert found["plain"][2] == found["compiled"][2]
    for one, two in zip(found["plain"][:2], found["compiled"][:2], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["plain", "compiled"])
@pytest.mark.parametrize("policy", ["bot", "ucb1"])
def test_a_batch_equals_its_rows_in_both_kinds(use, kind, policy):
    use(kind)
    check_policy(make_policy(policy))


def test_the_compiled_softmax_is_that_of_numpy(use):
    use("compiled")
    rng = np.random.default_rng(0)
    estimate, penalty = rng.normal(size=(500, 7)) * 10.0, rng.random((500, 7))
    mask = rng.random((500, 7)) < 0.6
    mask[:, 0] = True
    for eta in (0.1, 5.0, 300.0):
        for eligible in (None, mask):
            expected = softmax(eta * (estimate - penalty), eligible)
            found = softmax_scores(estimate, penalty, eta, eligible=eligible)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)
            one = softmax_scores(estimate[3], penalty[3], eta, eligible=None if eligible is None else eligible[3])
            assert one.tobytes() == found[3].tobytes()
    assert np.isnan(softmax_scores(np.array([np.nan, 0.0]), np.zeros(2), 1.0)).all()


def test_draws_are_the_same_in_both_kinds(use):
    p = np.random.default_rng(1).random((300, 5))
    p[:, 2] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    keys = derive_keys(["draws"], range(300))
    found = []
    for kind in ("plain", "compiled"):
        use(kind)
        u = uniform(keys, 9)
        assert u.tolist() == [stream_of(int(key))(9) for key in keys]
        agents = draw(p, u).tolist()
        assert agents == [int(draw(row, one)) for row, one in zip(p, u, strict=True)]
        mixed = [mixed_draw(row, one, 0.1) for row, one in zip(p, u, strict=True)]
        found.append((agents, u.tolist(), [each.tolist() for each, _ in mixed], [int(agent) for _, agent in mixed]))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_what_is_no_probability_vector_is_refused(use, kind):
    use(kind)
    for bad in ([0.5, 0.4], [np.nan, 1.0]):
        with pytest.raises(InvalidInputError, match="probabilities that sum to"):
            mixed_draw(np.array(bad), 0.5, 0.02)


def test_a_fresh_process_obeys_the_variable():
    code = "from bot_orch import Orchestrator; print(Orchestrator(['a', 'b'], 'bot').settings.kernels)"
    environment = {**os.environ, kernels.VARIABLE: "plain"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plain"
