"""Distances without units and a lambda that calibrates itself, inside the orchestrator."""

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Labels, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core.alignment import Alignment, Reference
from bot_orch.core.alignment.dual import AutoLambda
from bot_orch.core.alignment.gaps import Gaps
from bot_orch.core.alignment.units import Relative
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.rng import generator
from bot_orch.transport import Cloud, Samples, Scalars, Sliced


def run(matrix, lambda_="auto", factor=1.0, rounds=240, policy="auto", every=1, **settings):
    """Names of the agents chosen, and the router; one task in ``every`` brings its reference."""
    router = Orchestrator(matrix.agents, policy, lambda_=lambda_, seed=1, **{"floor": 0.0} | settings)
    chosen = []
    for t in range(rounds):
        reference = Cloud(factor * matrix.reference_embed[t][None]) if t % every == 0 else None
        decision = router.decide(Task("t", reference=reference))
        i = matrix.agents.index(decision.agent)
        output = Cloud(factor * matrix.output_embed[t, i][None])
        router.observe(decision.id, Outcome.completed(reward=float(matrix.reward[t, i]), output=output))
        chosen.append(decision.agent)
    return chosen, router


GAMED = gaming_matrix(GamingSettings(tasks=300, agents=6, cheats=("copy", "length"), features=0))


def test_a_cheat_is_refused_in_the_orchestrator():
    chosen, _ = run(GAMED)
    assert sum(name.startswith("cheat") for name in chosen[120:]) <= 1  # a new look at one that was left early
    fallen, _ = run(GAMED, lambda_=0.0)
    assert sum(name.startswith("cheat") for name in fallen[120:]) > 100


@pytest.mark.parametrize("seed", [0, 1])
def test_a_cheat_is_refused_where_few_tasks_bring_a_reference(seed):
    """Distances that are known from the tasks with a reference count on the others too."""
    matrix = gaming_matrix(GamingSettings(tasks=800, agents=6, cheats=("copy",), features=0), seed)
    share = {}
    for lambda_ in ("auto", 0.0):
        chosen, _ = run(matrix, lambda_=lambda_, rounds=800, every=10)
        share[lambda_] = sum(name.startswith("cheat") for name in chosen[400:]) / 400
    assert share["auto"] < 0.05 < 0.8 < share[0.0]


def test_known_gaps_count_without_a_reference():
    _, router = run(GAMED, rounds=100)
    alignment, parts = router.alignment, router._state.parts
    given = alignment.embed("reference", Cloud(GAMED.reference_embed[100][None]))
    with_, without = (alignment.relative(parts, reference) for reference in (given, None))
    assert without.known.tolist() == with_.known.tolist() and without.known.any()
    assert without.lower == pytest.approx(with_.lower)


def test_units_of_embeddings_do_not_matter():
    assert run(GAMED)[0] == run(GAMED, factor=1024.0)[0]


def test_nobody_pays_where_all_are_aligned():
    honest = gaming_matrix(GamingSettings(tasks=200, agents=5, cheats=()))
    chosen, router = run(honest, rounds=200)
    assert chosen == run(honest, lambda_=0.0, rounds=200)[0]
    assert router.derive(Task(reference=Cloud(honest.reference_embed[:1]))).lambda_ == 1.0


def test_an_agent_seen_twice_is_not_condemned():
    gaps, state = Gaps(1), allocate(Gaps(1).schema, (), 3)
    for agent, values in enumerate(([0.2, 0.4, 0.3, 0.25] * 10, [0.9, 1.0], [1.0, 0.9] * 20)):
        for value in values:
            gaps.see_gap(state, np.array(agent), np.array(value))
    gaps.see_unit(state, np.array(1.0))
    lower = gaps.lower(state, gaps.unit(state))
    excess = AutoLambda().excess(Relative(gaps.mean(state, gaps.unit(state)), lower, state["count"] >= 2))
    assert excess[0] == 0.0 and excess[1] < 0.1 < 0.2 < excess[2]


def test_lambda_rises_only_with_accepted_excess():
    auto, state = AutoLambda(), allocate(AutoLambda().schema, (2,), 3)
    auto.accept(state, np.array([0.0, 0.4]))
    assert state["lambda"].tolist() == [1.0, 1.5]


def test_lambda_comes_quickly_to_what_a_small_excess_takes():
    auto, state = AutoLambda(), allocate(AutoLambda().schema, (), 3)
    for _ in range(20):  # the paying agent leads by a quarter of a reward
        auto.accept(state, np.array(0.03))
    assert auto.penalty(state, np.array([0.03]))[0] > 0.25
    before = float(state["lambda"])
    auto.accept(state, np.array(0.001))
    assert float(state["lambda"]) - before < 0.02


def test_cheats_that_come_first_do_not_set_the_standard():
    far, known = np.full(5, 0.7), np.array([True, True, True, False, False])
    excess = AutoLambda().excess(Relative(far, far, known))
    assert excess[:3].min() > 0.15 and excess[3:].max() == 0.0


def test_where_all_are_as_far_as_another_answer_nobody_pays():
    far = np.full(10, 1.0)
    assert AutoLambda().excess(Relative(far, np.linspace(0.9, 1.0, 10), np.ones(10, dtype=bool))).max() == 0.0


@pytest.mark.parametrize("rogue", [False, True])
def test_a_single_point_leaves_room_for_the_less_exact(rogue):
    alignment = Alignment(Scalars(), reference=Reference("fixed", measure=Samples([1.0])))
    off = {"exact": 0.2, "near": 0.25, "free": 0.35, "freer": 0.4} | ({"rogue": 3.0} if rogue else {})
    router = Orchestrator(off, "auto", lambda_="auto", alignment=alignment, floor=0.1 * len(off))
    for t in range(120):
        decision = router.decide(Task())
        value = 1.0 + off[decision.agent] * (1.0 if t % 2 else 1.1)
        router.observe(decision.id, Outcome.completed(reward=0.5, output=Samples([value])))
    paid = router.derive(Task()).terms.alignment
    assert paid[:4].max() == 0.0 and (paid[4:] > 0.0).all()


def test_a_variability_of_rounding_errors_is_none():
    """The barycenter of points is a point, up to rounding; honest outputs lie around it and none is a cheat."""
    alignment = Alignment(Sliced(dimension=8), reference=Reference("tasks"))
    router = Orchestrator(["a", "b", "c", "rogue"], "auto", lambda_="auto", alignment=alignment, floor=0.6, seed=2)
    rng = generator("points")
    for _ in range(160):
        decision = router.decide(Task(reference=Cloud(rng.normal(size=(1, 8)))))
        away = 12.0 if decision.agent == "rogue" else 0.0
        router.observe(decision.id, Outcome.completed(0.5, output=Cloud(rng.normal(size=(1, 8)) + away)))
    terms = router.derive(Task()).terms
    assert terms.distance.max() < 10.0
    assert terms.alignment[:3].max() == 0.0 < terms.alignment[3]


def test_where_all_are_far_nobody_pays():
    far = np.array([1.3, 1.4, 1.5])
    excess = AutoLambda().excess(Relative(far, far, np.ones(3, dtype=bool)))
    assert excess.min() == 0.0 and excess.max() < 0.21


def test_saved_and_restored_bit_for_bit():
    _, router = run(GAMED, rounds=80)
    pending = router.decide(Task("late", reference=Cloud(GAMED.reference_embed[80][None])))
    copy = Orchestrator.from_json(router.to_json())
    assert copy.lambda_ == "auto" and copy.fingerprint() == router.fingerprint()
    for r in (router, copy):
        output = Cloud(GAMED.output_embed[80, :1])
        r.observe(pending.id, Outcome.completed(reward=0.5, output=output))
    assert copy.fingerprint() == router.fingerprint()


def test_agents_come_and_go_under_auto():
    _, router = run(GAMED, rounds=60)
    router.remove_agent("honest-1")
    router.add_agent("new")
    decision = router.decide(Task(reference=Cloud(GAMED.reference_embed[:1])))
    assert len(decision.propensities) == 6 and np.isfinite(decision.terms.alignment).all()


def test_a_calibration_set_as_reference():
    """Latencies against a set of good ones: no task brings a reference."""
    good = Samples(np.linspace(0.5, 1.5, 50))
    alignment = Alignment(Scalars(), reference=Reference("fixed", measure=good))
    router = Orchestrator(["steady", "also", "rogue"], "auto", lambda_="auto", alignment=alignment, seed=3, floor=0.0)
    chosen = []
    for t in range(160):
        decision = router.decide(Task())
        slow = decision.agent == "rogue"
        output = Samples([9.0 + 0.1 * (t % 5) if slow else 0.6 + 0.1 * (t % 9)])
        router.observe(decision.id, Outcome.completed(reward=0.9 if slow else 0.6, output=output))
        chosen.append(decision.agent)
    assert chosen[60:].count("rogue") <= 1


def test_a_single_point_as_reference():
    """A service-level target has no variability: agents are measured against each other."""
    alignment = Alignment(Scalars(), reference=Reference("fixed", measure=Samples([1.0])))
    router = Orchestrator(["a", "b", "c"], "auto", lambda_="auto", alignment=alignment)
    for t in range(60):
        decision = router.decide(Task())
        value = 8.0 if decision.agent == "c" else 1.2
        router.observe(decision.id, Outcome.completed(reward=0.5, output=Samples([value + 0.01 * (t % 3)])))
    terms = router.derive(Task()).terms
    assert terms.alignment[2] > 0.0 and terms.alignment[:2].max() == 0.0


def test_label_distributions_known_beforehand():
    wanted = Labels([0.0, 0.0, 1.0])
    agents = [Agent("near", profile=Labels([0.1, 0.1, 0.8])), Agent("far", profile=Labels([0.9, 0.1, 0.0]))]
    router = Orchestrator(agents, "auto", lambda_="auto")
    for t in range(6):  # references that differ from task to task give the unit
        router.decide(Task(reference=Labels.one_hot(t % 3, 3)))
    terms = router.derive(Task(reference=wanted)).terms
    assert terms.alignment[1] > terms.alignment[0] == 0.0


def test_profiles_known_beforehand_against_a_single_point():
    """Its variability is a rounding error: what the profiles show is the unit."""
    share = {"echo": 0.6, "shout": 0.5, "slow": 0.1}
    router = Orchestrator([Agent(name, profile=Labels([bad, 1 - bad])) for name, bad in share.items()])
    terms = router.derive(Task(reference=Labels([0.0, 1.0]))).terms
    assert 0.1 < terms.distance.max() < 10.0
    assert terms.alignment[0] > terms.alignment[1] > terms.alignment[2] == 0.0


def test_derive_before_the_first_decision():
    router = Orchestrator(["a", "b"], "auto", lambda_="auto")
    task = Task(reference=Cloud(np.ones((1, 3))))
    assert router.derive(task).agent == router.decide(task).agent


def test_fixed_lambda_in_units_of_the_reference():
    native = Alignment(Sliced(dimension=8), units="native")
    chosen, router = run(GAMED, lambda_=1.0, alignment=Alignment(Sliced(dimension=8), units="reference"))
    assert not [name for name in chosen[120:] if name.startswith("cheat")]
    assert router.alignment.from_spec(router.alignment.spec()).units == "reference"
    assert native.from_spec({k: v for k, v in native.spec().items() if k != "units"}) == native


def test_settings_are_checked():
    with pytest.raises(InvalidInputError, match="alignment.units"):
        Alignment(Scalars(), units="miles")
    with pytest.raises(InvalidInputError, match="lambda_: is 'best'; pass 'auto' or a number"):
        Orchestrator(["a"], "auto", lambda_="best")
    assert Orchestrator(["a"], "random", lambda_="auto").lambda_ == 0.0


@pytest.mark.parametrize("reference", [Labels([1.0, 0.0]), Labels([0.9, 0.1])])
def test_one_reference_for_all_tasks(reference):
    """Also a single point, which has no variability of its own to measure distances in."""
    late = {}
    for lambda_ in ("auto", 0.0):
        router, rng, names = Orchestrator(["a", "b", "cheat"], "auto", lambda_=lambda_, seed=4), generator("point"), []
        for _ in range(300):
            decision = router.decide(Task("t", reference=reference))
            good, judge = {"a": (0.9, 0.6), "b": (0.85, 0.65), "cheat": (0.1, 0.95)}[decision.agent]
            label = Labels([1.0, 0.0] if rng.random() < good else [0.0, 1.0])
            router.observe(decision.id, Outcome.completed(float(rng.random() < judge), output=label))
            names.append(decision.agent)
        late[lambda_] = names[150:].count("cheat") / 150
    assert late["auto"] < 0.05 < 0.8 < late[0.0]


def test_times_are_aligned_with_a_service_level():
    late = {}
    for lambda_ in ("auto", 1.0, 0.0):
        alignment, rng, names = Alignment.to_latency(2.0), generator("latency"), []
        router = Orchestrator(["quick", "good", "slow"], "auto", lambda_=lambda_, alignment=alignment, seed=2)
        for _ in range(500):
            decision = router.decide(Task("t"))
            mean_s, worth = {"quick": (1.0, 0.6), "good": (1.5, 0.7), "slow": (5.0, 0.9)}[decision.agent]
            earned = float(rng.random() < worth)
            router.observe(decision.id, Outcome.completed(earned, elapsed_s=mean_s * rng.exponential()))
            names.append(decision.agent)
        late[lambda_] = names[200:].count("slow") / 300
    assert late["auto"] < 0.05 and late[1.0] < 0.1 and late[0.0] > 0.8


def test_a_run_cut_off_before_the_target_says_nothing():
    alignment = Alignment.to_latency(2.0)
    assert alignment.outcomes_of(Outcome.censored(elapsed_s=1.0, reason="cancelled")) is None
    assert alignment.outcomes_of(Outcome.censored(elapsed_s=3.0, reason="timeout")).tolist() == [3.0]
    assert Alignment(Scalars()).outcomes_of(Outcome.completed(1.0, elapsed_s=3.0)) is None
