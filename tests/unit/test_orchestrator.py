import json

import numpy as np
import pytest

from bot_orch import Agent, Answer, InvalidInputError, Labels, Orchestrator, Outcome, Task
from bot_orch.core.alignment import Alignment
from bot_orch.errors import StateFormatError, UnknownAgentError, UnknownDecisionError
from bot_orch.lab.paper.theory.weights import ImportanceWeighted
from bot_orch.numerics.choice import draw
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.bot import algorithm_1
from bot_orch.rng import generator, uniform
from bot_orch.transport import CostLabels


def router(**options):
    """Algorithm 1 with a fixed lambda, or another policy, as it draws by itself."""
    settings = {"policy": "bot", "lambda_": 1.0, "floor": 0.0, "seed": 3} | options
    return Orchestrator(["a", "b", "c"], **settings)


def play(r, n, reward=lambda agent: {"a": 0.2, "b": 0.9}.get(agent, 0.5)):
    agents = []
    for _ in range(n):
        decision = r.decide(Task("t"))
        r.observe(decision.id, Outcome.completed(reward=reward(decision.agent)))
        agents.append(decision.agent)
    return agents


def test_a_decision_can_be_derived_again():
    r = router()
    play(r, 20)
    first = r.derive(Task("x"))
    second = r.decide(Task("x"))
    assert first.to_dict() == second.to_dict()
    u = uniform(second.key.stream, second.key.counter)
    assert second.agents[int(draw(second.propensities, u))] == second.agent


def test_score_terms_explain_the_propensities():
    agents = [Agent("a", cost=0.1), Agent("b", profile=Labels([0.3, 0.7])), Agent("c", profile=Labels([1.0, 0.0]))]
    r = Orchestrator(agents, algorithm_1(eta=5.0), lambda_=2.0, floor=0.0, units="native")
    decision = r.decide(Task("x", reference=Labels([0.0, 1.0])))
    t = decision.terms
    assert t.distance.tolist() == pytest.approx([0.0, 0.3, 1.0])
    assert t.alignment.tolist() == pytest.approx([0.0, 0.6, 2.0])
    expected = np.exp(5.0 * t.score())
    assert decision.propensities == pytest.approx(expected / expected.sum())
    text = decision.explain()
    assert all(agent.id in text for agent in agents)
    assert "> " + decision.agent in text


def test_task_profile_takes_precedence_over_the_agents_own():
    r = Orchestrator([Agent("a", profile=Labels([1.0, 0.0])), "b"])
    task = Task("x", reference=Labels([0.0, 1.0]), profiles={"a": Labels([0.0, 1.0])})
    assert r.decide(task).terms.distance.tolist() == [0.0, 0.0]


def test_outcomes_late_and_out_of_order_reach_the_right_agent():
    r = router(policy="ucb1")
    decisions = [r.decide(Task(str(i))) for i in range(6)]
    assert {d.agent for d in decisions[:3]} == {"a", "b", "c"}, "pending choices count as tries"
    for decision in reversed(decisions):
        r.observe(decision.id, Outcome.completed(reward={"a": 0.0, "b": 1.0, "c": 0.5}[decision.agent]))
    estimate = r.decide(Task("x")).terms.estimate
    assert estimate.tolist() == [0.0, 1.0, 0.5]
    assert len(r.pending) == 1


def test_each_decision_takes_one_outcome():
    r = router()
    decision = r.decide(Task("x"))
    r.observe(decision.id, Outcome.completed(reward=1.0))
    with pytest.raises(UnknownDecisionError, match="already observed"):
        r.observe(decision.id, Outcome.completed(reward=1.0))
    with pytest.raises(UnknownDecisionError, match="no pending decision 'nonsense'"):
        r.observe("nonsense", Outcome.completed(reward=1.0))


def test_full_feedback_moves_every_agent():
    r = router()
    decision = r.decide(Task("x"))
    r.observe_all(decision.id, {"a": 1.0, "b": 0.0, "c": 0.5})
    assert r.derive(Task("y")).terms.estimate.tolist() == pytest.approx([0.1, 0.0, 0.05])
    with pytest.raises(InvalidInputError, match=r"rewards: lacks \['c'\]"):
        r.observe_all(r.decide(Task("z")).id, {"a": 1.0, "b": 0.0})


def test_agents_come_and_go():
    r = router(policy="ucb1")
    play(r, 30)
    waiting = r.decide(Task("w"), eligible=["b"])
    r.remove_agent("b")
    r.add_agent(Agent("d", cost=0.2))
    assert r.agents == ("a", "c", "d")
    r.observe(waiting.id, Outcome.completed(reward=1.0))  # accepted, credited to nobody
    assert "d" in play(r, 5)
    assert r.derive(Task("x")).terms.cost.tolist() == [0.0, 0.0, 0.2]
    with pytest.raises(InvalidInputError, match="'d' is taken"):
        r.add_agent("d")
    with pytest.raises(UnknownAgentError, match="'b' is not registered"):
        r.remove_agent("b")


def test_an_outcome_after_the_agents_changed_uses_the_propensity_of_its_decision():
    r = Orchestrator(["a", "b"], ImportanceWeighted(Constant(1.0)), seed=1, floor=0.0)
    decision = r.decide(Task("x"))
    other = "b" if decision.agent == "a" else "a"
    r.add_agent("c")
    r.remove_agent(other)
    r.observe(decision.id, Outcome.completed(reward=0.0))
    weight = r._state.parts["policy"]["log_weight"]
    assert weight[r.agents.index(decision.agent)] == pytest.approx(-1.0 / decision.propensity)


def test_the_last_agent_stays():
    r = Orchestrator(["only"])
    with pytest.raises(InvalidInputError, match="last agent"):
        r.remove_agent("only")


def test_eligible_is_respected_and_checked():
    r = router()
    assert {r.decide(Task("x"), eligible=["b", "c"]).agent for _ in range(40)} == {"b", "c"}
    with pytest.raises(InvalidInputError, match="eligible: is empty"):
        r.decide(Task("x"), eligible=[])
    with pytest.raises(UnknownAgentError, match="'z' is not registered"):
        r.decide(Task("x"), eligible=["z"])


def test_the_floor_bounds_every_propensity():
    r = Orchestrator(["a", "b", "c"], "ucb1", floor=0.06, seed=1)
    play(r, 50)
    p = r.derive(Task("x")).propensities
    assert p.min() == pytest.approx(0.02)
    assert p.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 2, 5, 58])
def test_the_floor_is_a_share_of_all_traffic(n):
    """However many agents there are: ucb1 wants one, the others share what the floor leaves them."""
    names = [f"agent-{i}" for i in range(n)]
    r = Orchestrator(names, "ucb1", seed=1)
    for name in names:
        reward = 1.0 if name == "agent-0" else 0.0
        r.observe(r.decide(Task("t"), eligible=[name]).id, Outcome.completed(reward=reward))
    for some in (names, names[: (n + 1) // 2], names[-1:]):
        decision = r.derive(Task("x"), eligible=some)
        p = dict(zip(decision.agents, decision.propensities, strict=True))
        assert decision.propensities.sum() == pytest.approx(1.0, abs=1e-12)
        assert sorted(name for name, each in p.items() if each > 0.0) == sorted(some)
        assert min(p[name] for name in some) == pytest.approx(0.02 / len(some) if len(some) > 1 else 1.0)
        spread = sum(p.values()) - max(p.values()) if len(some) > 1 else 0.0
        assert spread == pytest.approx(0.02 * (len(some) - 1) / len(some))


def test_a_floor_of_one_draws_evenly():
    assert Orchestrator(list("abcd"), "ucb1", floor=1.0).derive(Task()).propensities == pytest.approx([0.25] * 4)


def test_what_nobody_chose_is_auto_with_a_small_floor():
    r = Orchestrator(["a", "b"])
    assert (r.policy.id, r.lambda_, r.floor) == ("auto", "auto", 0.02)


def earned(seed, make):
    """Mean reward of the choices of ``make``'s router, or of an epsilon-greedy script, among Bernoulli agents."""
    worth, rng = {"a": 0.3, "b": 0.5, "c": 0.6, "d": 0.75, "e": 0.45}, generator("defaults", seed)
    router, total = make(worth, rng), 0.0
    for _ in range(1000):
        name, tell = router()
        reward = float(rng.random() < worth[name])
        tell(reward)
        total += worth[name]
    return total / 1000


def by_default(worth, rng):
    r = Orchestrator(worth, seed=int(rng.integers(1000)))

    def decide():
        made = r.decide(Task())
        return made.agent, lambda reward: r.observe(made.id, Outcome.completed(reward=reward))

    return decide


def script(worth, rng):
    """Epsilon-greedy with a tenth of exploration, as one would write it."""
    sums, counts = dict.fromkeys(worth, 0.0), dict.fromkeys(worth, 0)

    def decide():
        mean = {name: sums[name] / counts[name] if counts[name] else 1.0 for name in worth}
        name = str(rng.choice(list(worth))) if rng.random() < 0.1 else max(mean, key=mean.__getitem__)

        def tell(reward):
            sums[name] += reward
            counts[name] += 1

        return name, tell

    return decide


def test_the_defaults_earn_more_than_an_epsilon_greedy_script():
    seeds = range(12)
    ours, theirs = (np.mean([earned(seed, make) for seed in seeds]) for make in (by_default, script))
    assert ours > theirs + 0.005, (ours, theirs)


def test_saved_and_loaded_bit_for_bit(tmp_path):
    r = Orchestrator([Agent("a", 0.1, Labels([0.5, 0.5])), "b"], "thompson-beta", lambda_=0.7, seed=9, n_features=0)
    play(r, 25)
    r.decide(Task("pending", features=(1.0, 2.0)))
    r.save(tmp_path / "router.json")
    copy = Orchestrator.load(tmp_path / "router.json")
    assert copy.to_json() == r.to_json()
    assert play(copy, 25) == play(r, 25)
    assert copy.fingerprint() == r.fingerprint()
    assert [path.name for path in tmp_path.iterdir()] == ["router.json"]


def test_a_ground_cost_survives_saving():
    line = np.abs(np.subtract.outer(range(3), range(3)))
    r = Orchestrator(
        [Agent("a", profile=Labels([1, 0, 0])), "b"],
        lambda_=1.0,
        alignment=Alignment(CostLabels(tuple(map(tuple, line.tolist()))), distance="plug_in", units="native"),
    )
    copy = Orchestrator.from_json(r.to_json())
    task = Task("x", reference=Labels([0, 0, 1]))
    assert copy.decide(task).terms.distance.tolist() == r.decide(task).terms.distance.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=99), "version: is 99"),
        (lambda d: d.update(format="other"), "not a bot-orch-state"),
        (lambda d: d["state"]["parts"]["policy"]["rhat"].update(data="@@"), "arrays.rhat: damaged"),
        (lambda d: d["state"]["parts"]["policy"]["rhat"].update(dtype="|O"), "type object is not allowed"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(change, message):
    document = json.loads(router().to_json())
    change(document)
    with pytest.raises(StateFormatError, match=message):
        Orchestrator.from_json(json.dumps(document))


def test_text_that_is_not_json_is_refused():
    with pytest.raises(StateFormatError, match="not JSON"):
        Orchestrator.from_json("{")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Orchestrator([]), "agents: is empty"),
        (lambda: Orchestrator(["a", "a"]), "holds a name twice"),
        (lambda: Orchestrator(["a"], "nope"), "policy: 'nope' is not known; choose one of"),
        (lambda: Orchestrator(["a"], "bot@2"), "'bot@2' is not known"),
        (lambda: Orchestrator(["a"], lambda_=-1.0), "lambda_: is -1.0"),
        (lambda: Orchestrator(["a"], floor=float("nan")), "floor: is nan"),
        (lambda: Orchestrator(["a"], "linucb", n_features=2).decide(Task("x")), "task.features: has 0 numbers"),
        (lambda: Task("x", features=(float("inf"),)), "task.features: holds a number that is not finite"),
        (lambda: Agent(""), "agent.id: is "),
        (lambda: Agent("a", cost=float("nan")), "agent.cost: is nan"),
        (lambda: Outcome.completed(reward=float("nan")), "outcome.reward: is nan; pass a number"),
        (lambda: Outcome.censored(elapsed_s=1.0, reason=""), "outcome.reason: is missing"),
        (lambda: Outcome.censored(elapsed_s=-1.0, reason="x"), "outcome.elapsed_s: is -1.0"),
        (lambda: Labels([0.5, 0.6]), "probabilities: sum to 1.1"),
        (lambda: Labels([-0.5, 1.5]), "negative"),
    ],
)
def test_bad_input_names_the_field_and_the_remedy(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_a_time_without_a_reward_settles_and_waits_for_the_reward():
    r = router()
    decision = r.decide(Task("x"))
    before = r.derive(Task("y")).propensities
    r.observe(decision.id, Outcome.completed(elapsed_s=2.0))
    assert decision.id not in r.pending and decision.id in r.silent
    assert r.derive(Task("y")).propensities == pytest.approx(before), "the policy learned nothing"
    r.observe(decision.id, Outcome.completed(reward=1.0, elapsed_s=2.0))
    assert not r.silent


def test_it_learns():
    r = router(policy="thompson-beta")
    play(r, 300)
    assert play(r, 100).count("b") > 70


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        ({"a", "b"}, "agents: is a set, whose order differs between processes; pass a list"),
        (frozenset({"a"}), "agents: is a set"),
        (["a\n"], r"agent.id: 'a\n' has a control character; give a name of printable text"),
        (["a\x00", "b"], "has a control character"),
        (["\u00e9", "e\u0301"], "twice"),
    ],
)
def test_names_that_would_not_mean_the_same_everywhere_are_refused(agents, problem):
    with pytest.raises(InvalidInputError) as refused:
        Orchestrator(agents)
    assert problem in str(refused.value)


def test_two_spellings_of_one_name_are_one():
    router = Orchestrator(["\u00e9tude", "other"])
    assert router.decide(Task("t"), eligible=["e\u0301tude"]).agent == "\u00e9tude"
    assert Orchestrator({"b": 1, "a": 2}.keys()).agents == ("b", "a"), "keys of a dictionary have an order"


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidInputError, match="seed: is -1; pass an integer, 0 or more"):
        Orchestrator(["a"], seed=-1)


def test_a_task_that_nobody_judged_is_completed_and_teaches_nothing_of_quality():
    router = Orchestrator(["a", "b"], "epsilon-greedy", seed=1, floor=0.0)
    router.observe(router.decide(Task(), eligible=["a"]).id, Outcome.completed(0.8))
    before = router.derive(Task()).terms.estimate.tolist()
    decision = router.decide(Task(), eligible=["a"])
    router.observe(decision.id, Outcome.completed())
    assert router.pending == () and decision.id in router.silent
    assert router.derive(Task()).terms.estimate.tolist() == before
    router.observe(decision.id, Outcome.completed(0.0))  # a verdict may still come
    assert router.derive(Task()).terms.estimate[0] < before[0]
    first = router.decide(Task(), attempts=2)
    last = router.decide(Task(), seen=[Answer(first.agent, first.id)], eligible=[first.agent], attempts=2)
    router.observe(last.id, Outcome.completed())
    assert router.pending == () and first.id in router.silent
