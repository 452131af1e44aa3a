"""Alignment inside the orchestrator: profiles learned from outputs, references, drift, saving."""

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Labels, Orchestrator, Outcome, Task
from bot_orch.core.alignment import Alignment, Reference, Watch
from bot_orch.policies.bot import algorithm_1
from bot_orch.transport import Cloud, Memory, Samples, Scalars, Scores, Sliced, ZeroOneLabels, distance


def native(agents, **options):
    """The paper's algorithm: a fixed lambda, distances as the geometry measures them."""
    return Orchestrator(agents, "bot", lambda_=1.0, floor=0.0, units="native", **options)


def feed(router, outputs, reward=0.5, reference=None):
    """Give every agent its outputs, one decision each."""
    for agent, values in outputs.items():
        for value in values:
            decision = router.decide(Task("t", reference=reference), eligible=[agent])
            output = value if not isinstance(value, float) else Samples([value])
            router.observe(decision.id, Outcome.completed(reward=reward, output=output))


def test_profiles_are_learned_from_outputs():
    rng = np.random.default_rng(0)
    alignment = Alignment(Scalars(), Memory.everything(), distance="plug_in")
    router = native(["near", "far"], alignment=alignment)
    outputs = {"near": rng.normal(0, 1, 60), "far": rng.normal(4, 1, 60)}
    feed(router, {name: [float(v) for v in values] for name, values in outputs.items()})
    wanted = Samples(rng.normal(0, 1, 400))
    found = router.derive(Task("x", reference=wanted)).terms.distance
    for index, name in enumerate(("near", "far")):
        assert found[index] == pytest.approx(distance(Scalars(), Samples(outputs[name]), wanted), abs=1e-9)


def test_the_lower_confidence_distance_is_the_default_and_spares_the_little_known():
    wanted = Samples(np.linspace(0.0, 1.0, 101))
    router = native(["new"], alignment=Alignment(Scores()))
    plain = native(["new"], alignment=Alignment(Scores(), distance="plug_in"))
    for r in (router, plain):
        feed(r, {"new": [0.9, 0.8]})
    assert router.derive(Task("x", reference=wanted)).terms.distance[0] == 0.0
    assert plain.derive(Task("x", reference=wanted)).terms.distance[0] > 0.3


@pytest.mark.parametrize(
    ("measure", "geometry"),
    [(Labels([0.5, 0.5]), ZeroOneLabels), (Samples([0.1, 0.2]), Scalars), (Cloud([[0.0, 1.0], [1.0, 0.0]]), Sliced)],
)
def test_the_first_measure_chooses_the_geometry(measure, geometry):
    router = Orchestrator(["a", "b"])
    first = router.derive(Task("x", reference=measure, profiles={"a": measure}))
    assert router.alignment is None, "deriving changes nothing"
    decision = router.decide(Task("x", reference=measure, profiles={"a": measure}))
    assert isinstance(router.alignment.geometry, geometry)
    assert first.to_dict() == decision.to_dict()


def test_mixing_kinds_is_refused_before_anything_changes():
    router = Orchestrator([Agent("a", profile=Labels([0.5, 0.5]))])
    before = router.fingerprint()
    with pytest.raises(InvalidInputError, match="task.reference"):
        router.decide(Task("x", reference=Samples([1.0])))
    with pytest.raises(InvalidInputError, match="task.profiles.a"):
        router.decide(Task("x", reference=Labels([0.5, 0.5]), profiles={"a": Labels([0.2, 0.3, 0.5])}))
    with pytest.raises(InvalidInputError, match="agent.profile"):
        router.add_agent(Agent("b", profile=Samples([1.0])))
    assert router.fingerprint() == before
    decision = router.decide(Task("x"))
    with pytest.raises(InvalidInputError, match="outcome.output"):
        router.observe(decision.id, Outcome.completed(reward=1.0, output=Samples([1.0])))
    assert decision.id in router.pending


def test_saved_with_everything_it_learned(tmp_path):
    alignment = Alignment(Scores(), reference=Reference("accepted", Memory.window(50)), watch=Watch(8, 16, 0.05))
    router = Orchestrator(["a", "b"], alignment=alignment, seed=2)
    rng = np.random.default_rng(1)
    feed(router, {"a": rng.random(30).tolist(), "b": rng.random(30).tolist()})
    router.add_agent("c")
    router.remove_agent("a")
    router.save(tmp_path / "r.json")
    copy = Orchestrator.load(tmp_path / "r.json")
    assert copy.to_json() == router.to_json()
    for r in (router, copy):
        feed(r, {"b": [0.2, 0.9], "c": [0.4]})
    assert copy.fingerprint() == router.fingerprint()
    assert copy.alignment == router.alignment


def test_a_removed_agent_takes_its_profile_along():
    router = native(["a", "b"], alignment=Alignment(Scores(), distance="plug_in"))
    feed(router, {"a": [0.1] * 20, "b": [0.9] * 20})
    router.remove_agent("a")
    router.add_agent("a")
    task = Task("x", reference=Samples([0.1]))
    assert dict(zip(router.agents, router.derive(task).terms.distance.round(6), strict=True)) == {"b": 0.8, "a": 0.0}


def references(source, **options):
    reference = Reference(source, Memory.everything(), **options)
    return Alignment(Scores(), Memory.everything(), reference, distance="plug_in")


def test_a_fixed_reference_serves_every_task():
    router = native(["a"], alignment=references("fixed", measure=Samples([0.5])))
    feed(router, {"a": [0.2] * 5})
    assert router.derive(Task("x")).terms.distance[0] == pytest.approx(0.3)


def test_a_trusted_agent_sets_the_reference():
    router = native(["expert", "other"], alignment=references("agent", agent="expert"))
    feed(router, {"expert": [0.8] * 5, "other": [0.3] * 5})
    assert router.derive(Task("x")).terms.distance.tolist() == pytest.approx([0.0, 0.5])


def test_accepted_outcomes_set_the_reference():
    router = native(["good", "bad"], alignment=references("accepted", threshold=0.5))
    feed(router, {"good": [0.9] * 9}, reward=1.0)
    feed(router, {"bad": [0.1] * 5}, reward=0.0)
    assert router.derive(Task("x")).terms.distance.tolist() == [0.0, 0.0], "nine outcomes set no standard"
    feed(router, {"good": [0.9]}, reward=1.0)
    assert router.derive(Task("x")).terms.distance.tolist() == pytest.approx([0.0, 0.8])


def test_nobody_sets_the_standard_for_himself():
    router = native(["a", "b", "loud"], alignment=references("accepted", threshold=0.5))
    feed(router, {"a": [0.2] * 20, "b": [0.2] * 20, "loud": [0.9] * 200}, reward=1.0)
    a, b, loud = router.derive(Task("x")).terms.distance
    assert loud == pytest.approx(0.7)
    assert a == b < 0.5


def test_the_barycenter_of_past_tasks_is_the_reference():
    alignment = Alignment(Scalars(order=2), Memory.everything(), Reference("tasks"), distance="plug_in")
    router = native(["a"], alignment=alignment)
    feed(router, {"a": [0.0] * 3}, reference=None)
    for place in (1.0, 3.0):
        router.decide(Task("x", reference=Samples([place])))
    assert router.derive(Task("y")).terms.distance[0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Reference("nonsense"),
        lambda: Reference("fixed"),
        lambda: Reference("agent"),
        lambda: Reference("task", measure=Samples([1.0])),
        lambda: Alignment(Scores(), distance="guess"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(bad):
    with pytest.raises(InvalidInputError):
        bad()


def test_drift_of_outputs_and_of_tasks_is_noticed_without_rewards():
    router = native(["a", "b"], alignment=Alignment(Scores(), watch=Watch(20, 40, 0.01)))
    rng = np.random.default_rng(3)
    for t in range(160):
        level = 0.2 if t < 80 else 0.8
        reference = Samples(np.clip(rng.normal(level, 0.05, 5), 0, 1))
        for agent, mean in (("a", 0.5), ("b", level)):
            decision = router.decide(Task("t", reference=reference), eligible=[agent])
            output = Samples([float(np.clip(rng.normal(mean, 0.05), 0, 1))])
            router.observe(decision.id, Outcome.completed(reward=0.5, output=output))
    assert router.drift_alarms() == {"a": 0, "b": 1}
    assert router.task_drift_alarms() >= 1


def test_alignment_decides_between_agents_of_equal_reward():
    router = Orchestrator(
        ["honest", "odd"], algorithm_1(), lambda_=3.0, alignment=Alignment(Scores()), seed=5, floor=0.0
    )
    rng = np.random.default_rng(5)
    wanted = Samples(np.linspace(0.4, 0.6, 21))
    chosen = []
    for _ in range(400):
        decision = router.decide(Task("t", reference=wanted))
        value = rng.uniform(0.4, 0.6) if decision.agent == "honest" else rng.uniform(0.9, 1.0)
        router.observe(decision.id, Outcome.completed(reward=0.5, output=Samples([value])))
        chosen.append(decision.agent)
    assert chosen[200:].count("honest") > 190
