"""Choices of auto: decisions under way, newcomers, doubt, batches."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from auto_choices import check_doubt, check_newcomers, check_pending, tried

from bot_orch.arrays import allocate, row_views
from bot_orch.core import pipeline
from bot_orch.core.context import with_context
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Situation
from bot_orch.rng import generator


@pytest.mark.parametrize("check", [check_pending, check_doubt, check_newcomers])
def test_choices(check):
    check(Auto())


@pytest.mark.parametrize("m", [60, 200])
def test_agents_are_tried_little_by_little(m):
    found = tried(Auto(), np.linspace(0.3, 0.9, m), 400)
    t = np.arange(1, 401)
    assert np.all(found <= 2.0 * np.sqrt(t) + 3.0)
    assert np.all(found >= np.minimum(np.minimum(m, t), 1.8 * np.sqrt(t)))


def test_a_few_agents_are_all_tried_first():
    assert tried(Auto(), np.full(5, 0.5), 5)[-1] == 5


PARTS = {
    "plain": {},
    "numbers": {"numbers": 3},
    "words": {"words": 6},
    "both": {"numbers": 3, "words": 6},
    "claims": {"claims": True},
    "eligible": {"numbers": 3, "eligible": True},
    "pending": {"pending": True},
    "all": {"numbers": 3, "words": 6, "claims": True, "eligible": True, "pending": True},
}


@pytest.mark.parametrize("everybody", [False, True], ids=["bandit", "full"])
@pytest.mark.parametrize("name", PARTS)
def test_a_batch_decides_as_its_rows_alone(name, everybody):
    rounds, rows, m = 70, 3, 4
    given = {"numbers": 0, "words": 0, **PARTS[name]}
    rng = generator("batch", name)
    policy = with_context(Auto(), numbers=given["numbers"], words=given["words"])
    batch = allocate(policy.schema(0), (rows,), m)
    alone = [allocate(policy.schema(0), (), m) for _ in range(rows)]
    for t in range(1, rounds + 1):
        x = rng.normal(size=(rows, given["numbers"]))
        codes = np.sort(rng.integers(0, 30, size=(rows, given["words"])), axis=-1)[:, ::-1].astype(float)
        raw = np.concatenate([x, codes], axis=-1) if given["numbers"] or given["words"] else None
        claims = rng.random((rows, m)) if given.get("claims") else None
        if claims is not None:
            claims[rng.random((rows, m)) < 0.3] = np.nan
        mask = rng.random((rows, m)) < 0.7 if given.get("eligible") else None
        if mask is not None:
            mask[:, t % m] = True
        pending = rng.integers(0, 4, size=(rows, m)).astype(float) if given.get("pending") else None
        penalty, u, rewards = 0.1 * rng.random((rows, m)), rng.random(rows), rng.random((rows, m))
        whole = Situation(t, penalty, mask, raw, pending, penalty, claims)
        drawn = pipeline.decide(policy, batch, whole, u=u, floor=0.05)

        for row, state in enumerate(alone):
            parts = (None if each is None else each[row] for each in (penalty, mask, raw, pending, penalty, claims))
            own = pipeline.decide(policy, state, Situation(t, *parts), u=u[row], floor=0.05)
            np.testing.assert_allclose(own.propensities, drawn.propensities[row], rtol=0, atol=1e-9)
            assert own.agent == drawn.agent[row]
            pipeline.apply(policy, state, told(own, rewards[row], everybody))
        pipeline.apply(policy, batch, told(drawn, rewards, everybody))
    for row, state in enumerate(alone):
        for key, array in row_views(batch, (row,)).items():
            np.testing.assert_allclose(array, state[key], rtol=1e-5, atol=1e-6, err_msg=key)


def told(drawn, reward, everybody):
    if everybody:
        return pipeline.full_feedback(drawn, reward)
    return pipeline.bandit_feedback(
        drawn, np.take_along_axis(reward, np.asarray(drawn.agent)[..., None], axis=-1)[..., 0]
    )
