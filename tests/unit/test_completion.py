"""The law of completion and what silence teaches, against lifelines and by hand."""

import numpy as np
import pytest
from lifelines import AalenJohansenFitter, KaplanMeierFitter

from bot_orch import InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate, row_views
from bot_orch.core.completion import Completion
from bot_orch.core.completion.law import BINS, bin_of, law_of, place_in_bin
from bot_orch.rng import generator

ENDS = np.concatenate([[0.02], 0.02 * 1.6 ** np.arange(1, BINS - 1)])  # ends of all bins but the open one
MIDDLE = 0.02 * 1.6 ** (np.arange(BINS - 1) - 0.5)


def drawn(n, seed, causes=2):
    """Bins and causes (0 completed, 1 failed, 2 censored) of ``n`` outcomes."""
    rng = generator("completion", seed)
    cause = np.where(rng.random(n) < 0.6, 0, np.where(rng.random(n) < 0.5, 2, causes - 1))
    return rng.integers(4, 22, size=n), np.where(cause == 1, 1 if causes > 2 else 2, cause)


def table(bins, cause):
    exits = np.zeros((3, BINS))
    np.add.at(exits, (cause, bins), 1.0)
    return exits


def test_times_fall_into_bins():
    assert [bin_of(end * 0.999) for end in ENDS] == list(range(BINS - 1))
    assert [bin_of(middle) for middle in MIDDLE] == list(range(BINS - 1))
    assert bin_of(1e12) == BINS - 1 and bin_of(0.0) == 0
    assert place_in_bin(0.02 * 1.6**4.25) == (5, pytest.approx(0.25))


@pytest.mark.parametrize("seed", range(3))
def test_running_is_kaplan_meier(seed):
    bins, cause = drawn(300, seed)
    fitted = KaplanMeierFitter().fit(MIDDLE[bins], cause == 0)
    found = law_of(table(bins, cause), np.zeros(BINS))
    expected = fitted.survival_function_at_times(ENDS).to_numpy()
    assert np.abs(found.running[1:BINS] - expected).max() < 1e-9
    assert np.abs(found.completed + found.running - 1.0).max() < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_completed_is_aalen_johansen_with_failures_as_a_competing_risk(seed):
    rng = generator("competing", seed)
    bins = rng.permutation(np.arange(2, 28))  # no ties: lifelines would move them
    cause = rng.integers(0, 3, size=bins.size)
    fitted = AalenJohansenFitter(calculate_variance=False).fit(
        MIDDLE[bins], np.where(cause == 0, 1, np.where(cause == 1, 2, 0)), event_of_interest=1
    )
    curve = fitted.cumulative_density_
    expected = [float(curve[curve.index <= end].iloc[-1, 0]) for end in ENDS]
    found = law_of(table(bins, cause), table(bins, cause)[0] * 0.5)
    assert np.abs(found.completed[1:BINS] - expected).max() < 1e-9
    assert np.abs(found.earned - 0.5 * found.completed).max() < 1e-12
    assert np.abs(found.running + found.completed + found.failed - 1.0).max() < 1e-12


def learned(outcomes, agents=2, patience_s=None):
    completion = Completion(patience_s)
    state = allocate(completion.schema, (), agents)
    for agent, outcome in outcomes:
        completion.take(state, agent, outcome, reward=outcome.reward)
    return completion, state


def silent(elapsed_s, reason="cancelled"):
    return Outcome.censored(elapsed_s=elapsed_s, reason=reason)


def said(completion, state, agent, outcome):
    """The share of a lesson of zero that a silence adds."""
    taken = completion.take(state, agent, outcome, reward=None)
    return taken.share + (taken.lesson == 0.0)


ONE_SECOND = [(0, Outcome.completed(1.0, elapsed_s=t)) for t in np.linspace(0.8, 1.5, 50)]


@pytest.mark.parametrize(("elapsed_s", "expected"), [(0.1, 0.0), (0.5, 0.0), (5.0, 1.0), (100.0, 1.0)])
def test_silence_says_nothing_before_completions_and_everything_after(elapsed_s, expected):
    assert said(*learned(ONE_SECOND), 0, silent(elapsed_s)) == pytest.approx(expected, abs=1e-6)


def test_silence_among_fast_failures_and_slow_completions():
    """Half complete at about 1 s, half are censored at 3 s: at 2 s the chance of completing is gone."""
    never = [(0, silent(3.0, "timeout"))] * 50
    assert said(*learned([*ONE_SECOND, *never]), 0, silent(2.5)) > 0.95
    assert said(*learned([*ONE_SECOND, *never]), 0, silent(0.3)) == pytest.approx(0.0, abs=1e-6)


def test_an_agent_without_completions_is_judged_by_the_others():
    assert said(*learned(ONE_SECOND), 1, silent(30.0)) == 1.0
    assert said(*learned(ONE_SECOND), 1, silent(0.1)) > 0.9, "nobody else is ever silent"
    busy = [*ONE_SECOND, *[(0, silent(0.1))] * 50]
    assert said(*learned(busy), 1, silent(0.1)) < 0.4, "half of the others' callers hang up too"


def test_its_own_times_soon_count_more_than_those_of_the_others():
    person = [(1, Outcome.completed(1.0, elapsed_s=600.0))] * 2
    assert said(*learned(ONE_SECOND), 1, silent(60.0)) == 1.0
    assert said(*learned([*ONE_SECOND, *person]), 1, silent(60.0)) < 0.05


def test_without_any_times_silence_counts_as_far_as_others_are_silent_less_often():
    rewarded = [(agent, Outcome.completed(1.0)) for agent in (0, 1) for _ in range(40)]
    assert said(*learned([*rewarded, *[(1, silent(30.0))] * 40]), 1, silent(30.0)) > 0.9
    both = [*rewarded, *[(agent, silent(30.0)) for agent in (0, 1) for _ in range(40)]]
    assert said(*learned(both), 1, silent(30.0)) == pytest.approx(0.0, abs=0.05)
    alone = [(0, Outcome.completed(1.0))] * 40
    assert said(*learned(alone), 0, silent(30.0)) <= 0.0, "nobody to compare with"


def test_untimed_completions_have_the_times_of_the_others():
    untimed = [(1, Outcome.completed(1.0))] * 20
    assert said(*learned([*ONE_SECOND, *untimed]), 1, silent(0.1)) == pytest.approx(0.0, abs=1e-6)
    assert said(*learned([*ONE_SECOND, *untimed]), 1, silent(30.0)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("outcome", "meaning"),
    [
        (Outcome.completed(0.5, elapsed_s=99.0), "reward"),
        (Outcome.completed(elapsed_s=1.0), "time"),
        (silent(1.0, "Timeout"), "zero"),
        (silent(1.0, "crash"), "zero"),
        (silent(10.0, "deadline"), "zero"),
        (silent(9.9, "deadline"), "silence"),
        (Outcome(False, 0.3, 99.0, "timeout"), "reward"),
    ],
)
def test_meanings_under_a_patience_of_ten_seconds(outcome, meaning):
    assert Completion(10.0).meaning(outcome, outcome.reward) == meaning


def test_a_patience_ends_what_may_still_come():
    """Half complete at 1 s, half at 100 s: with a patience of 10 s, silence at 5 s says all."""
    slow = [(0, Outcome.completed(1.0, elapsed_s=100.0))] * 50
    assert said(*learned([*ONE_SECOND, *slow]), 0, silent(5.0)) == pytest.approx(0.0, abs=0.05)
    assert said(*learned([*ONE_SECOND, *slow], patience_s=10.0), 0, silent(5.0)) == 1.0


def test_shares_add_up_to_lessons_and_can_be_taken_back():
    completion, state = learned([*ONE_SECOND, *[(0, silent(30.0, "timeout"))] * 20])
    before = {name: array.copy() for name, array in state.items()}
    taken = [completion.take(state, 0, silent(1.1), reward=None) for _ in range(30)]
    due = sum(each.lesson is not None for each in taken)
    assert 0 < due < 30 and due + state["share"][0] == pytest.approx(sum(t.share for t in taken) + due)
    for each in reversed(taken):
        completion.undo(state, 0, each)
    assert all(np.array_equal(state[name], before[name]) for name in state)


def test_a_batch_learns_as_its_rows_do(monkeypatch):
    completion, rng = Completion(), generator("batch")
    batch = allocate(completion.schema, (3,), 2)
    rows = [allocate(completion.schema, (), 2) for _ in range(3)]
    reasons = ("cancelled", "timeout", "crash", "horizon")
    monkeypatch.setattr("bot_orch.core.completion.model._MEMORY", 40.0)
    for _ in range(120):
        agent = rng.integers(0, 2, size=3)
        outcomes = [
            Outcome.completed(float(rng.random()), elapsed_s=float(rng.exponential()) if rng.random() < 0.7 else None)
            if rng.random() < 0.5
            else silent(float(rng.exponential()), reasons[rng.integers(0, 4)])
            for _ in range(3)
        ]
        reward = np.array([np.nan if each.reward is None else each.reward for each in outcomes])
        lessons = completion.take_rows(batch, agent, outcomes, reward=reward)
        for row in range(3):
            one = completion.take(rows[row], int(agent[row]), outcomes[row], reward=outcomes[row].reward).lesson
            assert np.array_equal(lessons[row], np.nan if one is None else one, equal_nan=True)
    for row in range(3):
        assert all(np.array_equal(array, rows[row][name]) for name, array in row_views(batch, (row,)).items())


def test_old_counts_fade_and_none_overflows():
    completion, state = learned([])
    for _ in range(70_000):
        completion.take(state, 0, Outcome.completed(1.0, elapsed_s=1.0), reward=1.0)
    assert 2048 <= state["exits"][0].sum() <= 4096 and state["reward"][0].sum() == pytest.approx(
        state["exits"][0, 0].sum(), rel=0.01
    )
    for _ in range(4096):
        completion.take(state, 0, silent(30.0, "timeout"), reward=None)
    assert completion.law(state, 0).running[-1] > 0.4


def test_it_takes_little_room():
    """2 kB of state per agent at most, 100 agents in 60 kB of JSON."""
    router = Orchestrator([f"a{i}" for i in range(100)], "ucb1")
    assert len(str(router._state.to_dict()["parts"]["completion"])) < 60_000


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), "3"])
def test_a_patience_is_a_positive_number_of_seconds(value):
    with pytest.raises(InvalidInputError, match="patience_s"):
        Orchestrator(["a"], patience_s=value)


def test_a_stated_patience_counts_in_the_orchestrator_and_is_saved():
    def zeros(router):
        decision = router.decide(Task())
        router.observe(decision.id, silent(5.0, "cancelled"))
        return router._state.parts["policy"]["count"].sum()

    assert zeros(Orchestrator(["a"], "ucb1", patience_s=5.0)) == 1.0
    assert zeros(Orchestrator.from_json(Orchestrator(["a"], "ucb1", patience_s=5.0).to_json())) == 1.0
    assert zeros(Orchestrator(["a"], "ucb1", patience_s=6.0)) == 0.0
    assert zeros(Orchestrator(["a"], "ucb1")) == 0.0
