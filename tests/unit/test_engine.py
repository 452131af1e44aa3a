"""The engine, batched: what one element of a batch lacks leaves it alone, and each element is as it would be alone."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bot_orch import Agent, ConcurrentUseError, InvalidInputError, Labels, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.core.alignment import Alignment, GivenDistances, Reference, Watch
from bot_orch.core.constraints.prices import Prices
from bot_orch.core.engine import Details, Engine, Observation
from bot_orch.core.reward import SurvivalReward
from bot_orch.core.settings import Settings
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys, uniform
from bot_orch.transport import Cloud, Gaussian, Memory, ProfileBank, Samples, Scalars, Scores, Sliced, ZeroOneLabels
from bot_orch.transport.reference import Barycenter

M, SEEDS = 3, 4
NAMES = ("a", "b", "c")
SOURCES = {
    "task": (Reference("task"), "reference"),
    "task-native": (Reference("task"), "native"),
    "tasks": (Reference("tasks"), "reference"),
    "tasks-fading": (Reference("tasks", Memory.fading(20.0)), "native"),
    "accepted": (Reference("accepted", threshold=0.4), "reference"),
    "agent": (Reference("agent", agent="b"), "reference"),
    "fixed": (Reference("fixed", measure=Samples([0.2, 0.4])), "reference"),
}


def world(rounds=50):
    """References, profiles, outputs and rewards of every element; a third of each is missing."""
    rng = np.random.default_rng(11)
    missing = rng.random((3, rounds, SEEDS)) < 1 / 3
    reference, output, reward = rng.random((3, rounds, SEEDS))
    profiles = np.where(rng.random((rounds, SEEDS, M)) < 0.2, rng.random((rounds, SEEDS, M)), np.nan)
    for values, gone in zip((reference, output, reward), missing, strict=True):
        values[gone] = np.nan
    usd = np.where(rng.random((rounds, SEEDS)) < 0.5, rng.random((rounds, SEEDS)), np.nan)
    return reference, profiles, output, reward, usd


def embedded(geometry, values):
    """Single scores, embedded; NaN where there is none."""
    known = np.isfinite(values)
    found = geometry.embed_outcome(np.where(known, values, 0.5))
    return np.where(known[..., None], found, np.nan)


def run(settings, pick):
    """Propensities, penalties and lambdas of the elements ``pick`` of a batch; an integer runs that one alone."""
    engine, geometry = Engine(settings), settings.alignment.geometry
    reference, profiles, output, reward, usd = (values[:, pick] for values in world())
    batch = reference.shape[1:]
    parts, keys, kept = engine.start(M, batch), derive_keys(["engine"], range(SEEDS))[pick], []
    for t in range(len(reference)):
        o = Observation(
            t + 1,
            np.zeros((*batch, M)),
            reference=embedded(geometry, reference[t]),
            profiles=embedded(geometry, profiles[t]),
        )
        found = engine.prepare(parts, o, uniform(keys, t))
        engine.commit(parts, o, found.drawn.agent, alignment=found.alignment, lambda_=found.lambda_)
        lambda_ = np.broadcast_to(found.lambda_, batch)[..., None]
        kept.append(np.concatenate([found.drawn.propensities, found.alignment, lambda_], axis=-1))
        feedback = pipeline.bandit_feedback(found.drawn, reward[t])
        engine.learn(parts, NAMES, feedback, learned=Details(output[t][None], usd[t]))
    return np.stack(kept), parts


@pytest.mark.parametrize("lambda_", ["auto", 0.7])
@pytest.mark.parametrize("name", SOURCES)
def test_an_element_of_a_batch_is_as_it_would_be_alone(name, lambda_):
    reference, units = SOURCES[name]
    watch = Watch(4, 8, 0.05)
    alignment = Alignment(Scores(), Memory.everything(), reference, units=units, watch=watch)
    settings = Settings(make_policy("bot"), lambda_, alignment=alignment, cost_weight=0.3)
    together, parts = run(settings, slice(None))
    assert together[..., M : 2 * M].any(), "somebody pays somewhere"
    for row in range(SEEDS):
        alone, own = run(settings, row)
        np.testing.assert_allclose(together[:, row], alone, rtol=0.0, atol=1e-12)
        assert int(own["drift"]["alarms"].sum()) == int(parts["drift"]["alarms"][row].sum())


def test_preparing_changes_nothing_and_lambda_is_the_one_of_the_moment():
    settings = Settings(make_policy("bot"), alignment=Alignment(Scores()))
    engine, parts = Engine(settings), None
    parts = engine.start(M, (2,))
    before = {name: {key: array.copy() for key, array in part.items()} for name, part in parts.items()}
    found = engine.prepare(parts, Observation(1, np.zeros((2, M))), np.full(2, 0.5))
    for name, part in parts.items():
        assert all(np.array_equal(array, before[name][key]) for key, array in part.items())
    parts["lambda"]["lambda"] += 5.0
    assert found.lambda_.tolist() == [1.0, 1.0]


def test_profiles_as_an_array_are_those_of_a_mapping():
    bank = ProfileBank(ZeroOneLabels(2), Memory.everything())
    state, known = bank.start(M), {0: Labels([0.2, 0.8]), 2: Labels([0.9, 0.1])}
    bank.update(state, np.array(1), np.array([1.0, 0.0]))
    array = np.full((M, 2), np.nan)
    for index, measure in known.items():
        array[index] = bank.geometry.embed(measure)
    wanted = bank.geometry.embed(Labels([0.0, 1.0]))
    by_array, by_name = (bank.distances(state, wanted, profiles=given) for given in (array, known))
    for field in ("value", "lower", "n"):
        assert np.array_equal(getattr(by_array, field), getattr(by_name, field))
    assert by_array.value.tolist() == pytest.approx([0.2, 1.0, 0.9])


@pytest.mark.parametrize("memory", [Memory.everything(), Memory.window(3), Memory.fading(5.0)])
def test_a_barycenter_learns_where_there_is_a_task(memory):
    learner = Barycenter(Scalars(order=2), memory)
    together, alone = learner.start((2,)), learner.start()
    rng = np.random.default_rng(0)
    for t in range(9):
        e = np.stack([learner.geometry.embed(Samples(rng.random(3))) for _ in range(2)])
        where = np.array([True, t % 3 == 0])
        learner.update(together, np.where(where[:, None], e, np.nan), where=where)
        if where[1]:
            learner.update(alone, e[1])
    assert together["seen"].tolist() == [9, 3]
    assert np.isfinite(learner.embedding(together)).all()
    assert learner.embedding(together)[1] == pytest.approx(learner.embedding(alone), abs=1e-12)


def test_prices_shrink_to_what_all_cost_and_leave_out_what_is_not_known():
    prices = Prices(2.0)
    state = allocate(prices.schema, (2,), 2)
    prices.see(state, np.array([1, 0]), np.array([0.3, np.nan]))
    assert state["outcomes"].tolist() == [[0.0, 1.0], [0.0, 0.0]]
    expected = prices.expected(state, np.array([0.0, 0.1]))
    assert expected == pytest.approx(np.array([[0.6, 0.7], [0.0, 0.1]]))
    prices.see(state, np.array([0, 0]), np.array([0.1, 0.5]))
    first = 2.0 * (0.1 + 2.0 * 0.2) / 3.0
    assert prices.expected(state, np.zeros(2))[0, 0] == pytest.approx(first)
    free = Prices()
    assert free.schema == {} and free.expected({}, np.array([0.2])).tolist() == [0.2]


def test_dollars_are_learned_in_the_live_router():
    router = Orchestrator(["cheap", "dear"], "auto", cost_weight=1.0, seed=1, floor=0.0)
    chosen = []
    for _ in range(200):
        decision = router.decide(Task())
        usd = 0.5 if decision.agent == "dear" else 0.01
        router.observe(decision.id, Outcome.completed(0.6 if decision.agent == "dear" else 0.5, cost_usd=usd))
        chosen.append(decision.agent)
    assert chosen[100:].count("dear") < 5
    assert Orchestrator.from_json(router.to_json()).fingerprint() == router.fingerprint()


@pytest.mark.parametrize(
    "settings",
    [
        Settings(make_policy("bot"), lambda_=0.5, seed=3, n_features=2, floor=0.1, units="native", cost_weight=0.2),
        Settings(make_policy("linucb"), alignment=Alignment(Sliced(dimension=2), watch=Watch()), n_features=1),
        Settings(make_policy("auto"), reward=SurvivalReward(curve="own"), floor=0.0),
        Settings(make_policy("random"), 1.0),
    ],
    ids=["native", "aligned", "survival", "random"],
)
def test_settings_survive_being_written_down(settings):
    assert Settings.from_spec(json.loads(json.dumps(settings.spec()))) == settings


def test_settings_contradict_nothing():
    assert Settings(make_policy("random"), "auto").lambda_ == 0.0, "a policy that ignores alignment"
    native = Alignment(Scores(), units="native")
    assert Settings(make_policy("bot"), "auto", alignment=native).alignment.units == "reference"
    assert Settings(make_policy("bot"), 1.0, alignment=native).alignment.units == "native"
    assert Settings(make_policy("bot"), 1.0, alignment=Alignment(Scores()), units="native").alignment == native
    for bad in ({"floor": 1.5}, {"lambda_": -1.0}, {"cost_weight": float("nan")}, {"units": "miles"}):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            Settings(make_policy("bot"), **bad)
    with pytest.raises(InvalidInputError, match="given from outside"):
        Settings(make_policy("bot"), 1.0, alignment=GivenDistances()).spec()


def played(router, rounds=25):
    for t in range(rounds):
        decision = router.decide(Task("t", reference=Samples([0.1 * (t % 7)])))
        output = Samples([0.1 * (t % 5) + (0.5 if decision.agent == "b" else 0.0)])
        router.observe(decision.id, Outcome.completed(reward=0.1 * (t % 10), output=output))
    router.decide(Task("pending"))
    return router


@pytest.mark.parametrize(
    "change", [{"floor": 0.3}, {"lambda_": 0.5}, {"cost_weight": 0.1}, {"lambda_": 0.5, "units": "native"}]
)
def test_reconfigured_in_place_it_is_a_fresh_router_with_the_same_state(change):
    router = played(Orchestrator(["a", "b", "c"], seed=4))
    settings = replace(router.settings, **change)
    document = json.loads(router.to_json())
    document["settings"] = settings.spec()
    fresh = Orchestrator.from_json(json.dumps(document))
    router.reconfigure(settings, router.members)
    assert router.to_json() == fresh.to_json()
    assert played(router).to_json() == played(fresh).to_json()


def test_reconfigured_agents_come_last_and_what_was_learned_stays():
    router = played(Orchestrator(["a", "b", "c"], "ucb1", lambda_=0.0, seed=4))
    other = Orchestrator.from_json(router.to_json())
    router.reconfigure(router.settings, [Agent("new"), Agent("c", cost=0.2), Agent("a")])
    other.add_agent("new")
    other.remove_agent("b")
    assert router.agents == other.agents == ("a", "c", "new")
    assert [agent.cost for agent in router.members] == [0.0, 0.2, 0.0]
    mine, theirs = router.derive(Task()).terms, other.derive(Task()).terms
    assert mine.estimate.tolist() == theirs.estimate.tolist() and mine.cost.tolist() == [0.0, 0.2, 0.0]
    router.reconfigure(router.settings, router.members, keep_learned=False)
    assert router.derive(Task()).terms.estimate.tolist() == [0.0, 0.0, 0.0] and len(router.pending) == 1


@pytest.mark.parametrize(
    "agents",
    [[], [Agent("x"), Agent("x")], [Agent("a"), Agent("new"), Agent("odd", profile=Labels([0.5, 0.5]))]],
    ids=["none", "twice", "wrong kind"],
)
def test_a_refused_reconfiguration_changes_nothing(agents):
    router = played(Orchestrator(["a", "b", "c"], seed=4))
    before = router.to_json()
    with pytest.raises(InvalidInputError):
        router.reconfigure(replace(router.settings, floor=0.5), agents)
    assert router.to_json() == before and router.agents == ("a", "b", "c")


BAD_OUTPUTS = {
    "unequal weights": (None, Samples([0.1, 0.9], [0.2, 0.8])),
    "wrong kind": (Scores(), Labels([0.5, 0.5])),
    "wrong size": (ZeroOneLabels(3), Labels([0.5, 0.5])),
    "a distribution where outcomes are needed": (None, Gaussian([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]])),
    "out of range": (Scores(), Samples([3.0])),
}


@pytest.mark.parametrize("name", BAD_OUTPUTS)
def test_a_bad_output_changes_nothing_and_leaves_the_decision_pending(name):
    """Also where it would have been the first measure ever seen, and would have chosen the geometry."""
    geometry, output = BAD_OUTPUTS[name]
    alignment = None if geometry is None else Alignment(geometry)
    router = Orchestrator(["a", "b"], alignment=alignment, reward=SurvivalReward())
    decision = router.decide(Task())
    before = router.to_json()
    with pytest.raises(InvalidInputError, match="outcome"):
        router.observe(decision.id, Outcome.completed(0.5, elapsed_s=1.0, output=output))
    assert router.to_json() == before and router.pending == (decision.id,)
    assert (router.alignment is None) == (geometry is None)
    router.observe(decision.id, Outcome.completed(0.5, elapsed_s=1.0))
    assert router.pending == ()


def test_a_bad_task_changes_nothing():
    router = Orchestrator(["a", "b"], n_features=2)
    before = router.to_json()
    for task in (Task(reference=Samples([0.5])), Task(features=(1.0, 2.0), reference=Cloud([[1.0]]), profiles=_ODD)):
        with pytest.raises(InvalidInputError, match="task"):
            router.decide(task)
        assert router.to_json() == before and router.alignment is None


_ODD = {"a": Labels([0.5, 0.5])}


def test_only_the_next_decision_can_be_committed():
    router = Orchestrator(["a", "b"])
    first = router.prepare(Task())
    router.commit(replace(first, agent="b"), Task())
    with pytest.raises(InvalidInputError, match="is number 0, number 1 is next"):
        router.commit(first, Task())
    second = router.prepare(Task())
    router.add_agent("c")
    with pytest.raises(InvalidInputError, match="decision.agents"):
        router.commit(second, Task())
    assert router.pending == (first.id,)


@pytest.mark.parametrize("name", ["commit", "reconfigure", "observe", "observe_all", "add_agent", "remove_agent"])
def test_what_changes_a_router_is_refused_while_another_call_is_under_way(name):
    router = Orchestrator(["a", "b"], "ucb1")
    waiting, prepared = router.decide(Task()), router.prepare(Task())
    calls = {
        "commit": lambda: router.commit(prepared, Task()),
        "reconfigure": lambda: router.reconfigure(router.settings, router.members),
        "observe": lambda: router.observe(waiting.id, Outcome.completed(0.5)),
        "observe_all": lambda: router.observe_all(waiting.id, {"a": 0.1, "b": 0.2}),
        "add_agent": lambda: router.add_agent("c"),
        "remove_agent": lambda: router.remove_agent("b"),
    }
    before = router.fingerprint()

    class Meddles:
        """Iterated by a call that is under way."""

        def __iter__(self):
            calls[name]()
            return iter(())

    with pytest.raises(ConcurrentUseError, match=name):
        router.decide(Task(), eligible=Meddles())
    assert router.fingerprint() == before
    calls[name]()
