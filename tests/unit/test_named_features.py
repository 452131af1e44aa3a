"""Features by name: what a task says of itself without a fixed order."""

import random

import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task

BEST = {"de": "a", "en": "b", "fr": "c"}


def played(named, rounds=500, router=None):
    """Mean reward where the language says who is good, and the router."""
    rng, router, got = random.Random(1), router or Orchestrator(list("abc"), seed=1), 0.0  # noqa: S311
    for _ in range(rounds):
        lang, tokens = rng.choice(list(BEST)), rng.randrange(1, 2000)
        decision = router.decide(Task(features={"tokens": tokens, "lang": lang} if named else ()))
        mean = 0.9 if BEST[lang] == decision.agent else 0.3
        router.observe(decision.id, Outcome.completed(float(rng.random() < mean)))
        got += mean
    return got / rounds, router


def test_a_category_is_learned():
    (named, router), (none, _) = played(True), played(False)
    assert named > none + 0.2
    assert router.derive(Task(features={"lang": "de"})).propensities[0] > 0.9, "a missing number says nothing"


def test_the_order_of_names_does_not_matter_and_others_are_refused():
    _, router = played(True, 50)
    one, other = (
        router.derive(Task(features=each)) for each in ({"lang": "de", "tokens": 3}, {"tokens": 3, "lang": "de"})
    )
    assert one.propensities.tolist() == other.propensities.tolist()
    with pytest.raises(InvalidInputError, match="has 'length', which the first task did not; pass 'lang', 'tokens'"):
        router.decide(Task(features={"length": 3}))
    with pytest.raises(InvalidInputError, match=r"task.features.tokens: is '3'; pass a number"):
        router.decide(Task(features={"tokens": "3"}))
    with pytest.raises(InvalidInputError, match=r"task.features.tokens: is inf"):
        Task(features={"tokens": float("inf")})


def test_saved_and_logged_it_goes_on_alike(tmp_path):
    _, router = played(True, 60)
    again, task = Orchestrator.from_json(router.to_json()), Task(features={"tokens": 9, "lang": "en"})
    assert again.derive(task).propensities.tolist() == router.derive(task).propensities.tolist()
    with Router(list("abc"), path=tmp_path / "log", seed=1) as first:
        played(True, 40, first)
        before = first.derive(task).propensities.tolist()
    with Router(list("abc"), path=tmp_path / "log", seed=1) as second:
        assert second.derive(task).propensities.tolist() == before


def test_with_a_text_beside():
    router = Orchestrator(["a", "b"], seed=1)
    made = router.decide(Task(text="hello", features={"urgent": True, "tokens": 3}))
    assert len(made.features) == 8 + 1 + 70
