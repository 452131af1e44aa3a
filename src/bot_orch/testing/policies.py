"""Conformance of a policy, for the built-in ones and for yours: ``check_policy(MyPolicy())``.

Each check raises ``AssertionError`` with a sentence that says what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2

from bot_orch.arrays import Arrays, Floats, allocate, decode, encode
from bot_orch.core import pipeline
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import draw
from bot_orch.policies.base import Policy, Situation
from bot_orch.policies.registry import from_spec, to_spec
from bot_orch.rng import derive_key, derive_keys, uniform
from bot_orch.types import Outcome, Task

_MEANS = np.array([0.2, 0.5, 0.8, 0.35])
_FEATURES = 2


def check_policy(policy: Policy) -> list[str]:
    """Run every check on ``policy``; returns the names of the checks that ran."""
    for check in CHECKS:
        check(policy)
    return [check.__name__ for check in CHECKS]


def trained_state(policy: Policy, batch: tuple[int, ...], rounds: int, seed: int = 0) -> Arrays:
    """The state after ``rounds`` rounds on four Bernoulli agents; row b of a batch has its own stream."""
    m = len(_MEANS)
    state = allocate(policy.schema(_FEATURES), batch, m)
    rows = int(np.prod(batch, dtype=int))
    keys = {name: derive_keys([name, seed], range(rows)).reshape(batch) for name in ("draw", "reward", "x1", "x2")}
    for t in range(1, rounds + 1):
        context = np.stack([uniform(keys["x1"], t), uniform(keys["x2"], t)], axis=-1)
        situation = Situation(t, np.broadcast_to(0.1 * np.arange(m), (*batch, m)), None, context)
        drawn = pipeline.decide(policy, state, situation, u=uniform(keys["draw"], t))
        reward = (uniform(keys["reward"], t) < _MEANS[drawn.agent]).astype(float)
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, reward))
    return state


def chi_square_p(counts: Floats, p: Floats) -> float:
    """p-value of the counts under the probabilities; an impossible agent that was drawn gives 0."""
    n = counts.sum()
    if np.any(counts[p <= 0.0] > 0):
        return 0.0
    keep = p > 0.0
    if keep.sum() < 2:
        return 1.0
    statistic = float(((counts[keep] - n * p[keep]) ** 2 / (n * p[keep])).sum())
    return float(chi2.sf(statistic, keep.sum() - 1))


def check_frequencies(policy: Policy, n: int = 20_000) -> None:
    """Check that agents are drawn as often as the stated propensities."""
    for rounds in (0, 7, 60):
        p = _propensities(policy, trained_state(policy, (), rounds))
        u = np.array([uniform(derive_key("frequency"), counter) for counter in range(n)])
        counts = np.bincount(draw(np.broadcast_to(p, (n, p.size)), u), minlength=p.size).astype(float)
        value = chi_square_p(counts, p)
        assert value > 1e-4, f"{policy.id}: frequencies differ from propensities after {rounds} rounds (p={value:.1e})"


def check_probabilities(policy: Policy) -> None:
    """Propensities are a probability vector, in every row of a batch."""
    p = _propensities(policy, trained_state(policy, (3, 2), 25))
    assert p.shape == (3, 2, len(_MEANS)), f"{policy.id}: propensities have shape {p.shape}"
    assert np.all(np.isfinite(p)), f"{policy.id}: a propensity is not finite"
    assert np.all(p >= 0.0), f"{policy.id}: a propensity is negative"
    assert np.allclose(p.sum(axis=-1), 1.0, atol=1e-12), f"{policy.id}: propensities do not sum to one"


def check_batch_equals_rows(policy: Policy) -> None:
    """Check that a row of a batch behaves bit for bit as it would alone."""
    batch = trained_state(policy, (3,), 30)
    for name, array in trained_state(policy, (1,), 30).items():
        assert np.array_equal(batch[name][:1], array), f"{policy.id}: {name} depends on the other rows"


def check_unobserved_rows(policy: Policy, rounds: int = 40) -> None:
    """Check that a batch row without a reward is unchanged, and the others behave as they would alone."""
    seeds, m = 3, len(_MEANS)
    batch = allocate(policy.schema(_FEATURES), (seeds,), m)
    alone = [allocate(policy.schema(_FEATURES), (), m) for _ in range(seeds)]
    keys = {name: derive_keys(["unobserved", name], range(seeds)) for name in ("draw", "reward", "x")}
    for t in range(1, rounds + 1):
        context = np.stack([uniform(keys["x"], t)] * _FEATURES, axis=-1)
        u, penalty = uniform(keys["draw"], t), np.linspace(0.0, 0.1 * (m - 1), m)
        together = Situation(t, np.broadcast_to(penalty, (seeds, m)), None, context)
        drawn = pipeline.decide(policy, batch, together, u=u)
        reward = (uniform(keys["reward"], t) < _MEANS[drawn.agent]).astype(float)
        reward[t % (2 + np.arange(seeds)) == 0] = np.nan  # at a different rate in every row
        before = {name: array.copy() for name, array in batch.items()}
        pipeline.apply(policy, batch, pipeline.bandit_feedback(drawn, reward))
        for row, state in enumerate(alone):
            own = pipeline.decide(policy, state, Situation(t, penalty, None, context[row]), u=u[row])
            same = np.allclose(own.propensities, drawn.propensities[row], rtol=0.0, atol=1e-9)
            assert same, f"{policy.id}: a row decides differently next to rows without a reward (round {t})"
            if np.isnan(reward[row]):
                kept = all(np.array_equal(array[row], before[name][row]) for name, array in batch.items())
                assert kept, f"{policy.id}: a row without a reward changed (round {t})"
            else:
                pipeline.apply(policy, state, pipeline.bandit_feedback(own, reward[row]))


def check_claims(policy: Policy, rounds: int = 30) -> None:
    """Check that claims may be missing for one or all agents, and that batch rows use their own claims."""
    seeds, m = 3, len(_MEANS)
    batch = allocate(policy.schema(_FEATURES), (seeds,), m)
    alone = [allocate(policy.schema(_FEATURES), (), m) for _ in range(seeds)]
    keys = {name: derive_keys(["claims", name], range(seeds)) for name in ("draw", "reward", "claim", "x")}
    for t in range(1, rounds + 1):
        u, penalty = uniform(keys["draw"], t), np.broadcast_to(0.1 * np.arange(m), (seeds, m))
        context = np.stack([uniform(keys["x"], t)] * _FEATURES, axis=-1)
        claims = np.stack([np.sqrt(uniform(keys["claim"], m * t + i)) for i in range(m)], axis=-1)
        claims[:, t % m] = np.nan
        claims[t % seeds] = np.nan
        drawn = pipeline.decide(policy, batch, Situation(t, penalty, None, context, claims=claims), u=u)
        sums = np.allclose(drawn.propensities.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9)  # nan is not close to one
        assert sums, f"{policy.id}: propensities do not sum to one where a claim is missing (round {t})"
        reward = (uniform(keys["reward"], t) < _MEANS[drawn.agent]).astype(float)
        pipeline.apply(policy, batch, pipeline.bandit_feedback(drawn, reward))
        for row, state in enumerate(alone):
            stated = claims[row] if np.isfinite(claims[row]).any() else None
            own = Situation(t, penalty[row], None, context[row], claims=stated)
            found = pipeline.decide(policy, state, own, u=u[row])
            same = np.allclose(found.propensities, drawn.propensities[row], rtol=0.0, atol=1e-9)
            assert same, f"{policy.id}: a row decides differently next to rows with other claims (round {t})"
            pipeline.apply(policy, state, pipeline.bandit_feedback(found, reward[row]))


def check_mask(policy: Policy) -> None:
    """An agent that is not eligible has probability exactly zero."""
    for rounds in (0, 40):
        state = trained_state(policy, (), rounds)
        for allowed in range(1, 2 ** len(_MEANS)):
            mask = np.array([bool(allowed >> i & 1) for i in range(len(_MEANS))])
            p = _propensities(policy, state, mask)
            assert np.all(p[~mask] == 0.0), f"{policy.id}: an agent outside the mask {mask} can be chosen"
            assert abs(p.sum() - 1.0) < 1e-12, f"{policy.id}: propensities under mask {mask} sum to {p.sum()}"


def check_unseen_is_tried(policy: Policy, rounds: int = 600) -> None:
    """An agent that joins late is tried."""
    router = _router(policy)
    for _ in range(80):
        _play(router)
    router.add_agent("newcomer")
    assert any(_play(router) == "newcomer" for _ in range(rounds)), f"{policy.id}: a new agent is never tried"


def check_determinism(policy: Policy) -> None:
    """Check that equal seeds give equal decisions, and other seeds others (unless the policy is deterministic)."""
    one, two = _router(policy), _router(policy)
    assert [_play(one) for _ in range(50)] == [_play(two) for _ in range(50)], f"{policy.id}: not deterministic by seed"
    assert one.fingerprint() == two.fingerprint(), f"{policy.id}: equal histories leave different states"


def check_choose_is_pure(policy: Policy) -> None:
    """Looking does not change the state, not even before the first outcome: replicas that only fold must agree."""
    for rounds in (0, 20):
        state = trained_state(policy, (), rounds)
        before = encode(state)
        _propensities(policy, state)
        assert encode(state) == before, f"{policy.id}: choose() changed the state after {rounds} rounds"


def check_round_trip(policy: Policy) -> None:
    """Saved and restored, it continues with the same decisions, bit for bit."""
    assert from_spec(to_spec(policy)) == policy, f"{policy.id}: settings do not survive being written down"
    state = trained_state(policy, (2,), 30)
    assert encode(decode(encode(state))) == encode(state), f"{policy.id}: arrays do not survive being written down"
    router = _router(policy)
    for _ in range(30):
        _play(router)
    router.decide(_task())  # leaves one outcome pending
    copy = Orchestrator.from_json(router.to_json())
    assert copy.fingerprint() == router.fingerprint(), f"{policy.id}: the restored state differs"
    mine, theirs = [_play(router) for _ in range(30)], [_play(copy) for _ in range(30)]
    assert mine == theirs, f"{policy.id}: the restored orchestrator decides differently"
    assert copy.fingerprint() == router.fingerprint(), f"{policy.id}: the restored orchestrator learns differently"


def check_bad_rewards_refused(policy: Policy) -> None:
    """NaN, infinite and out-of-range rewards are refused, and the decision stays pending."""
    router = _router(policy)
    decision = router.decide(_task())
    for bad in (float("nan"), float("inf"), -0.1, 1.1):
        try:
            router.observe(decision.id, Outcome.completed(reward=bad))
        except InvalidInputError:
            continue
        raise AssertionError(f"{policy.id}: a reward of {bad} was accepted")
    assert decision.id in router.pending, f"{policy.id}: a refused outcome used up its decision"


def check_alignment_counts(policy: Policy) -> None:
    """Check that a policy that uses alignment comes to avoid an agent with a large penalty."""
    if not policy.uses_alignment:
        return
    m, rounds = 2, 400
    state = allocate(policy.schema(0), (), m)
    key, last = derive_key("alignment"), np.zeros(m)
    for t in range(1, rounds + 1):
        situation = Situation(t, np.array([0.0, 2.0]))
        drawn = pipeline.decide(policy, state, situation, u=uniform(key, t))
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, np.array(0.5)))
        last = drawn.propensities
    assert last[0] > 0.7, f"{policy.id}: alignment does not move the choice (p={last})"


CHECKS: tuple[Callable[[Policy], None], ...] = (
    check_probabilities,
    check_frequencies,
    check_batch_equals_rows,
    check_unobserved_rows,
    check_claims,
    check_mask,
    check_unseen_is_tried,
    check_determinism,
    check_choose_is_pure,
    check_round_trip,
    check_bad_rewards_refused,
    check_alignment_counts,
)


def _propensities(policy: Policy, state: Arrays, mask: Floats | None = None) -> Floats:
    m = len(_MEANS)
    batch = next(iter(state.values())).shape[: _batch_ndim(policy, state)]
    context = np.full((*batch, _FEATURES), 0.5)
    penalty = np.broadcast_to(0.1 * np.arange(m), (*batch, m))
    eligible = None if mask is None else mask.astype(bool)
    return policy.choose(state, Situation(61, penalty, eligible, context)).propensities


def _batch_ndim(policy: Policy, state: Arrays) -> int:
    name, declared = next(iter(policy.schema(_FEATURES).items()))
    return state[name].ndim - len(declared.shape) - int(declared.per_agent)


def _router(policy: Policy) -> Orchestrator:
    """A router without a floor, which would explore agents that the policy never chooses."""
    agents = ["a", "b", "c", "d"]
    return Orchestrator(agents, policy, lambda_=1.0, seed=5, n_features=_FEATURES, floor=0.0, ids="derived")


def _task() -> Task:
    return Task("t", features=(0.5, -0.5))


def _play(router: Orchestrator) -> str:
    decision = router.decide(_task())
    mean = dict(zip("abcd", _MEANS, strict=True)).get(decision.agent, 0.5)
    reward = float(uniform(derive_key("play"), decision.key.counter) < mean)
    router.observe(decision.id, Outcome.completed(reward=reward))
    return decision.agent
