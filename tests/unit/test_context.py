"""Preparation of context: what it reads, forgets and keeps, and that nothing of the future counts."""

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Router, Task, make_policy
from bot_orch.arrays import allocate
from bot_orch.core import context, pipeline, projection
from bot_orch.core.context import AT_ONCE, FIRST, FIRST_WORDS, ROWS, WithContext, with_context, without_context
from bot_orch.core.warm.trial import WarmStart
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Situation
from bot_orch.rng import generator

TOPICS = ("python bug loop stacktrace", "sonnet moon rhyme autumn", "refund invoice parcel late", "")
FITS = tuple(2**power for power in range(11) if FIRST_WORDS <= 2**power <= ROWS)


def rows(n, numbers=3, seed=1):
    return generator("context", seed).normal(size=(n, numbers)) * [1.0, 30.0, 0.01][:numbers]


def learn(policy, raws, m=2, seed=2):
    """State after outcomes of agents at random on these rows, in this order."""
    state, rng = allocate(policy.schema(0), (), m), generator("learn", seed)
    for t, raw in enumerate(raws, start=1):
        tell(policy, state, t, int(rng.integers(m)), rng.random(), raw)
    return state


def tell(policy, state, t, agent, reward, raw):
    m = len(state["context_id"])
    drawn = pipeline.Draw(np.array(agent), np.full(m, 1 / m), None, Situation(t, np.zeros(m), context=raw))
    pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, np.array(reward)))


def task(number, *, numbers=True):
    """Numbers (one of them missing at times) and a text, or none, at random but fixed."""
    rng = generator("task", number)
    x = tuple(rng.normal(size=2).tolist()) if numbers else ()
    x = (float("nan"), x[1]) if numbers and number % 7 == 0 else x
    words = str(TOPICS[number % 4]).split()
    text = None if number % 9 == 5 else " ".join(rng.permutation(words)) if words else ""
    return Task(str(number), text=text, features=x)


def play(router, begin, end, late=3):
    """Agents chosen; outcomes come three rounds late."""
    made = {}
    for number in range(begin, end):
        decision = router.decide(task(number))
        made[decision.id] = decision.agent
        if len(router.pending) > late:
            oldest = router.pending[0]
            rng = generator("reward", number)
            router.observe(oldest, Outcome.completed(float(rng.random() < 0.6)))
    return list(made.values())


def test_before_the_first_fit_features_are_zero():
    policy = WithContext(Auto(), numbers=3)
    state = learn(policy, rows(FIRST - 1))
    assert not policy.features(state, np.array([9.0, 9.0, 9.0])).any()
    assert policy.features(learn(policy, rows(FIRST)), np.array([9.0, 9.0, 9.0])).any()


@pytest.mark.parametrize("words", [0, 3])
def test_it_is_fitted_at_powers_of_two_and_the_policy_learns_again_later_where_rows_are_many(words, monkeypatch):
    """In between features are zeros, also to those who learn: no outcome waits for both."""
    fitted, again = [], []
    monkeypatch.setattr(Auto, "rebase", lambda self, state, kept: again.append(int(state["context_seen"])))
    policy = WithContext(Auto(), numbers=2, words=words)
    state, rng = allocate(policy.schema(0), (), 2), generator("powers")
    for t in range(1, 2 * ROWS + 10):
        raw, fits = np.append(rng.normal(size=2), rng.integers(1, 50, size=words)), int(state["context_fits"])
        tell(policy, state, t, t % 2, rng.random(), raw)
        fitted += [t] if state["context_fits"] > fits else []
        ready = t >= fitted[0] and not (t == fitted[-1] and t > AT_ONCE) if fitted else False
        assert bool(state["context_ready"]) is bool(policy.features(state, raw).any()) is ready, t
    first = FIRST_WORDS if words else FIRST
    powers = [2**power for power in range(11) if first <= 2**power <= ROWS]
    assert fitted == powers
    assert again == [each + (each > AT_ONCE) for each in powers]


def test_new_words_make_a_fit_worth_it_beyond_the_rows_kept():
    policy = WithContext(Auto(), words=4)
    state, rng = allocate(policy.schema(0), (), 2), generator("novel")
    for t in range(1, 2 * ROWS + 1):
        tell(policy, state, t, t % 2, rng.random(), rng.integers(1, 50, size=4) + 100.0 * (t > ROWS))
    assert state["context_fits"] == len(FITS) + 1


def test_features_are_standardised_and_of_unit_length_on_average():
    policy, x = WithContext(Auto(), numbers=3), rows(64)
    z = np.array([policy.features(state, each) for state in [learn(policy, x)] for each in x])
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-6)
    assert np.mean(np.sum(z * z, axis=1)) == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(np.corrcoef(z.T), np.eye(3), atol=1e-6)


def test_only_what_arrived_before_counts():
    """The projection is a function of the outcomes so far: others later leave the choices so far as they are."""
    policy = WithContext(Auto(), numbers=3)
    one, two = rows(40), rows(40)
    two[20:] *= 100.0
    found = []
    for x in (one, two):
        state, rng, chosen = allocate(policy.schema(0), (), 2), generator("prefix"), []
        for t, raw in enumerate(x, start=1):
            drawn = pipeline.decide(policy, state, Situation(t, np.zeros(2), context=raw), u=rng.random())
            chosen.append(drawn.propensities)
            pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, np.array(rng.random())))
        found.append(np.array(chosen))
    np.testing.assert_array_equal(found[0][:20], found[1][:20])
    assert not np.array_equal(found[0][20:], found[1][20:])


def test_a_decision_leaves_nothing_behind():
    policy = WithContext(Auto(), numbers=2, words=3)
    state = learn(policy, np.column_stack([rows(40, 2), generator("codes").integers(1, 50, size=(40, 3))]))
    before = {name: array.copy() for name, array in state.items()}
    policy.choose(state, Situation(41, np.zeros(2), context=np.array([0.1, np.nan, 3.0, 7.0, 0.0])))
    assert all(np.array_equal(array, before[name], equal_nan=True) for name, array in state.items())


def test_a_missing_number_is_the_median():
    policy, x = WithContext(Auto(), numbers=3), rows(64)
    x[::5, 1] = np.nan
    state = learn(policy, x)
    there = np.array([0.4, float(np.nanmedian(x[:, 1].astype(np.float32))), 0.0])
    missing = np.array([0.4, np.nan, 0.0])
    np.testing.assert_allclose(policy.features(state, missing), policy.features(state, there), atol=1e-9)
    x[:, 2] = np.nan
    assert np.isfinite(policy.features(learn(policy, x), missing)).all(), "a number that never came"


def test_a_constant_number_is_ignored():
    policy, x = WithContext(Auto(), numbers=3), rows(64)
    x[:, 2] = 7.0
    state = learn(policy, x)
    one, two = (policy.features(state, np.array([0.4, -3.0, each])) for each in (7.0, -1e6))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one).max() > 0.1


@pytest.mark.parametrize("extreme", [1e38, -1e38, 1e12])
def test_an_extreme_number_is_clipped(extreme):
    policy, x = WithContext(Auto(), numbers=3), rows(64)
    x[5, 0] = extreme
    z = policy.features(learn(policy, x), np.array([extreme, 0.0, 0.0]))
    assert np.isfinite(z).all() and np.abs(z).max() < 20.0


def test_the_order_of_words_does_not_matter():
    router = Orchestrator(["a", "b"], seed=1)
    play(router, 0, 60)
    one, two = (
        router.derive(Task("t", text=text, features=(0.1, 0.2)))
        for text in ("a loop in python has a bug", "Bug! python: a has loop in a")
    )
    assert np.array_equal(one.propensities, two.propensities) and np.array_equal(one.terms.estimate, two.terms.estimate)


def test_texts_may_be_empty_or_missing():
    router = Orchestrator(["a", "b"], seed=1)
    play(router, 0, 60)
    empty, none = (router.derive(Task("t", text=text, features=(0.1, 0.2))) for text in ("", None))
    assert np.array_equal(empty.terms.estimate, none.terms.estimate) and np.isfinite(empty.terms.estimate).all()
    only_empty = Orchestrator(["a", "b"], seed=1)
    for number in range(40):
        only_empty.observe(only_empty.decide(Task(str(number), text="")).id, Outcome.completed(0.5))
    assert np.isfinite(only_empty.derive(Task(text="words at last")).terms.estimate).all()


def test_the_state_holds_no_words():
    router = Orchestrator(["a", "b"], seed=1)
    for number in range(40):
        router.observe(router.decide(Task(str(number), text=f"xylophone quartzite{number}")).id, Outcome.completed(0.5))
    router.decide(Task("waits", text="xylophone quartzite"))
    saved = router.to_json().lower()
    raw = b"".join(array.tobytes() for part in router._state.parts.values() for array in part.values()).lower()
    assert router._state.parts["policy"]["context_codes"].any()
    for fragment in ("xylo", "quartz", "phone"):
        assert fragment not in saved and fragment.encode() not in raw and fragment.encode("utf-16-le") not in raw


def test_the_projection_of_sparse_words_is_that_of_dense_ones():
    """Documents by inverse document frequency, of length one; centered; their leading axes by an eigenproblem."""
    rng, policy = generator("dense"), WithContext(Auto(), words=5)
    topic = rng.integers(4, size=128)
    codes = np.array([rng.choice(np.arange(1, 12) + 12 * each, 5, replace=False) for each in topic], dtype=float)
    codes[::7, 3:] = 0.0
    state = allocate(policy.schema(0), (), 2)
    for t, raw in enumerate(codes, start=1):
        tell(policy, state, t, t % 2, float(topic[t - 1] == t % 2), raw)
    count = np.zeros(context.BUCKETS + 1)
    for raw in codes:
        count[raw.astype(int)] += 1.0
    rarity = np.log((1.0 + len(codes)) / (1.0 + count))
    matrix = np.zeros((len(codes), context.BUCKETS + 1))
    for row, raw in enumerate(codes.astype(int)):
        matrix[row, raw[raw > 0]] = rarity[raw[raw > 0]]
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    z = np.array([policy.features(state, raw) for raw in codes])
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-5)
    assert np.mean(np.sum(z * z, axis=1)) == pytest.approx(context.WORTH**2, rel=1e-4)
    meanings = state["context_meanings"][:, : context.WORDS].astype(float)
    np.testing.assert_allclose(z, (matrix - matrix.mean(axis=0)) @ meanings, atol=1e-5)
    values, axes = np.linalg.svd(matrix - matrix.mean(axis=0), full_matrices=False)[1:]
    scale = np.linalg.norm(meanings[:, 0])
    np.testing.assert_allclose(meanings.T @ meanings, scale**2 * np.eye(context.WORDS), atol=1e-3 * scale**2)
    # topics are what documents have in common: four of them are three axes, and these are among those found
    found = np.linalg.norm(meanings.T @ axes[:3].T, axis=0) / scale
    assert values[2] > 1.5 * values[3]
    np.testing.assert_allclose(found, 1.0, atol=1e-3)


def test_components_that_covary_with_the_rewards_come_first():
    """The loudest axis comes last where rewards do not depend on it; none is dropped while there is room."""
    rng = generator("covary")
    x, agent = rng.normal(size=(200, 3)) * [3.0, 1.0, 2.0], rng.integers(2, size=200)
    reward = 0.5 + 0.2 * x[:, 1] * (1.0 - 2.0 * agent)
    told = projection.surprises(agent, reward, 2)
    axes, middle = projection.components(x, np.eye(3), told, used=3)
    points = (x - middle) @ axes
    assert np.argmax(np.abs(axes[:, 0])) == 1
    gram = points.T @ points
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8)
    covariance = np.sum((told.T @ points) ** 2, axis=0)
    assert np.all(np.diff(covariance) <= 0.0)
    one, _ = projection.components(x, np.eye(3), told, used=1)
    assert np.mean(((x - middle) @ one[:, 0]) ** 2) == pytest.approx(1.0)


def test_a_late_reward_is_learned_under_the_projection_of_its_arrival():
    """Also where the projection was fitted again in between; its row keeps the round of its decision."""
    policy, x = WithContext(Auto(), numbers=3), rows(33)
    state = learn(policy, x[:31])
    waited, before = np.array([0.7, -20.0, 0.02]), int(state["context_fits"])
    then = policy.features(state, waited)
    tell(policy, state, 33, 1, 0.3, x[32])
    now = policy.features(state, waited)
    assert state["context_fits"] == before + 1 and not np.allclose(now, then)
    alone = {name: array.copy() for name, array in state.items() if not name.startswith("context_")}
    tell(policy, state, 32, 0, 1.0, waited)
    told = pipeline.Draw(np.array(0), np.full(2, 0.5), None, Situation(32, np.zeros(2), context=now))
    pipeline.apply(Auto(), alone, pipeline.bandit_feedback(told, np.array(1.0)))
    for name, array in alone.items():
        np.testing.assert_array_equal(state[name], array, err_msg=name)
    slot = 32
    np.testing.assert_allclose(state["context_rows"][slot], waited, rtol=1e-6)
    assert (state["context_round"][slot], state["context_reward"][slot], state["context_owner"][slot]) == (
        32,
        1.0,
        state["context_id"][0],
    )


def test_a_reward_that_was_replaced_counts_at_the_next_fit():
    policy, x = WithContext(Auto(forgetting=False), numbers=3), rows(32)
    late, once = learn(policy, x[:20]), learn(policy, x[:20])
    made = Situation(21, np.zeros(2), context=x[20])
    drawn = pipeline.Draw(np.array(1), np.full(2, 0.5), None, made)
    zero, one = (pipeline.bandit_feedback(drawn, np.array(reward)) for reward in (0.0, 1.0))
    pipeline.apply(policy, late, zero)
    pipeline.apply(policy, once, one)
    for t, raw in enumerate(x[21:], start=22):
        if t == 30:
            policy.revise(late, zero, one, position=0.0)
        for state in (late, once):
            tell(policy, state, t, t % 2, 0.5, raw)
    assert late["context_fits"] == 4
    for name in ("count", "total", "theta", "inverse", "slope", "context_reward"):
        np.testing.assert_allclose(late[name], once[name], atol=1e-6, err_msg=name)


def test_rows_of_agents_that_were_removed_are_left_out():
    router = Orchestrator(["a", "b", "c"], seed=1)
    play(router, 0, 40)
    for waiting in router.pending:
        router.observe(waiting, Outcome.completed(0.5))
    before = router._state.parts["policy"]
    gone = before["context_id"][0]
    router.remove_agent("a")
    router.add_agent("a")
    play(router, 40, 80)
    after = router._state.parts["policy"]
    assert after["context_fits"] == 3 and gone not in after["context_id"]
    shown = router._engine.policy._kept(after)
    owner = after["context_owner"][: len(shown.agent)]
    assert gone in owner and np.array_equal(shown.agent == -1, owner == gone)
    assert not np.any(shown.agent[shown.order] == -1)
    assert "a" in play(router, 80, 120)


def test_an_agent_added_midway_is_used_where_it_is_good():
    router, rng = Orchestrator(["a", "b"], seed=1), generator("midway")
    right = 0
    for number in range(700):
        if number == 200:
            router.add_agent("c")
        x = rng.normal(size=2)
        decision = router.decide(Task(str(number), features=tuple(x)))
        mean = {"a": 0.5, "b": 0.4, "c": 0.95 if x[0] > 0 else 0.05}[decision.agent]
        router.observe(decision.id, Outcome.completed(float(rng.random() < mean)))
        right += number >= 450 and (decision.agent == "c") == (x[0] > 0)
    assert right > 0.85 * 250


@pytest.mark.parametrize("cut", [10, 18, 19, 20, 34, 35, 36, 66, 67, 100])
def test_saved_in_the_middle_it_goes_on_alike(cut):
    router = Orchestrator(["a", "b", "c"], seed=5)
    play(router, 0, cut)
    again = Orchestrator.from_json(router.to_json())
    assert again.fingerprint() == router.fingerprint()
    assert play(router, cut, cut + 40) == play(again, cut, cut + 40)
    assert again.fingerprint() == router.fingerprint()


def test_saved_around_every_fit_it_goes_on_alike():
    router = Orchestrator(["a", "b", "c"], seed=5)
    number = 0
    for fits, fit in enumerate(FITS, start=1):
        play(router, number, fit + 2)  # three outcomes are late: one is missing
        number = fit + 2
        again = Orchestrator.from_json(router.to_json())
        assert play(router, number, number + 4) == play(again, number, number + 4)
        number += 4
        assert again.fingerprint() == router.fingerprint()
        assert router._state.parts["policy"]["context_fits"] == fits
    assert router._state.parts["policy"]["context_seen"] > 1024


@pytest.mark.parametrize("policy", ["auto", "linucb"])
def test_a_log_folds_to_the_same_state(policy, tmp_path):
    path = tmp_path / "log.sqlite"
    with Router(["a", "b"], policy, seed=3, path=path) as router:
        play(router, 0, 40)
        fingerprint = router.fingerprint()
    log = open_log(path)
    assert fold(log, use_snapshot=False).router.fingerprint() == fingerprint
    log.close()
    whole = Orchestrator(["a", "b"], policy, seed=3)
    chosen = play(whole, 0, 75)
    with Router(["a", "b"], policy, seed=3, path=path) as again:
        assert play(again, 40, 75) == chosen[40:]


def test_other_numbers_start_the_preparation_anew_and_keep_the_means():
    wide, other = WithContext(Auto(), numbers=12), WithContext(Auto(), numbers=14)
    x = generator("wide").normal(size=(300, 12))
    learned = learn(wide, x)
    state = other.adopt(allocate(other.schema(0), (), 2), learned)
    np.testing.assert_array_equal(state["count"], learned["count"])
    assert state["context_seen"] == state["context_ready"] == 0 and (state["context_owner"] == -1).all()
    same = wide.adopt(allocate(wide.schema(0), (), 2), learned)
    assert all(np.array_equal(same[name], array) for name, array in learned.items())


def test_a_warm_start_prepares_in_both_states():
    inner = with_context(WarmStart(Auto(), 5), numbers=3, words=0)
    assert isinstance(inner, WarmStart) and isinstance(inner.policy, WithContext)
    assert without_context(inner) == WarmStart(Auto(), 5)
    assert with_context(make_policy("ucb1"), numbers=3, words=4) == make_policy("ucb1"), "reads no features"


def test_lessons_of_a_table_are_shuffled_and_those_of_a_log_are_not():
    from bot_orch.core.warm.evaluations import Evaluations
    from bot_orch.core.warm.teaching import _lessons

    table = Evaluations(("a", "b", "c"), np.ones((5, 3)), None)
    lessons = list(_lessons(table, 1000.0))
    assert sorted(lessons) == [(row, agent) for row in range(5) for agent in range(3)]
    assert lessons != sorted(lessons), "rows of a table are shuffled"
    history = Evaluations(("a", "b"), np.array([[1.0, np.nan], [np.nan, 0.5], [0.25, np.nan]]), None)
    assert list(_lessons(history, 1000.0)) == [(0, 0), (1, 1), (2, 0)], "a log keeps its order"


def share_right(tasks, best, rounds, last=300):
    """Share of right choices at the end; the right agent follows from what the task shows."""
    router, right = Orchestrator(["a", "b"], seed=1), 0
    for number in range(rounds):
        given = tasks(number)
        decision = router.decide(given)
        good = decision.agent == best(given)
        right += good and number >= rounds - last
        router.observe(decision.id, Outcome.completed(float(good)))
    return right / last


def by_sign(given):
    return "ab"[given.features[0] > 0]


@pytest.mark.parametrize("warm", [16, 40])
def test_texts_count_after_a_start_in_which_all_were_alike(warm):
    rng = generator("warm texts")
    kinds = [("translate this", "prove this")[int(rng.integers(2))] for _ in range(900)]
    found = share_right(
        lambda t: Task(text="ping" if t < warm else kinds[t]), lambda task: "a" if "trans" in task.text else "b", 900
    )
    assert found > 0.95


@pytest.mark.parametrize("before", ["constant", "missing"])
def test_a_number_counts_that_said_nothing_while_rows_were_few(before):
    rng = generator("late number")
    x, quiet = rng.normal(size=2600), 1.0 if before == "constant" else np.nan
    found = share_right(
        lambda t: Task(features=(float(x[t]) if t >= ROWS else quiet, 1.0)),
        lambda task: "ab"[task.features[0] > 0],
        2600,
    )
    assert found > 0.9


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_small_numbers_are_no_constants(unit):
    x = generator("small").normal(size=600)
    assert (
        share_right(lambda t: Task(features=(float(x[t] * unit),)), lambda task: "ab"[task.features[0] > 0], 600) > 0.9
    )
