"""Features by name: what a task says of itself without a fixed order."""

import math
import random

import numpy as np
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task
from bot_orch.evaluation import evaluate
from bot_orch.evaluation.export import decision_rows
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_file
from bot_orch.log.verification import replay

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


def several(values, **settings):
    """A router that has seen named features, and its log."""
    router = Router(list("abc"), seed=1, **settings)
    for each in values:
        decision = router.decide(Task(features=each))
        router.observe(decision.id, Outcome.completed(0.5))
    return router


def names_in(router):
    return router._orchestrator.settings.names


ALL, SOME = {"lang": "de", "tokens": 3.0, "urgent": True}, {"tokens": 7.0}


@pytest.mark.parametrize("text", [None, "hello"])
def test_the_first_names_stay_wherever_the_router_is_opened(tmp_path, text):
    """Also where the next task lacks some, or all, of them."""
    tasks = [Task(text=text, features=each) for each in (SOME, {**ALL, "lang": None}, {})]
    tasks.append(Task(text=text))
    with several([ALL], path=tmp_path / "log") as first:
        wanted = [first.derive(task).propensities.tolist() for task in tasks]
        made = [first.decide(task) for task in tasks]
    assert [len(each.features) for each in made] == [17 + (70 if text else 0)] * 4
    with Router(list("abc"), seed=1, path=tmp_path / "log") as second:
        assert names_in(second) == ("lang=", "tokens", "urgent=") == names_in(first)
        assert [second.derive(task).features for task in tasks] == [each.features for each in made]
        with pytest.raises(InvalidInputError, match="'size', which the first task did not"):
            second.decide(Task(features={"size": 3}))
    log = open_file(tmp_path / "log", writing=False)
    found, lines = replay(log), list(decision_rows(log))
    assert found.ok and found.derived == 5
    assert fold(log, use_snapshot=False).router.settings.names == names_in(second)
    log.close()
    assert wanted[2] == wanted[3]
    names = [f"lang={slot}" for slot in range(8)] + ["tokens"] + [f"urgent={slot}" for slot in range(8)]
    assert list(lines[0]["names"]) == names
    assert dict(zip(names, lines[1]["features"], strict=False))["tokens"] == 7.0


def test_names_survive_new_agents_and_settings(tmp_path):
    with several([ALL], path=tmp_path / "log") as router:
        router.add_agent("d")
        assert len(router.decide(Task(features=SOME)).features) == 17
    with Router(list("abcd"), seed=1, path=tmp_path / "log", floor=0.3) as router:
        assert len(router.decide(Task(features=SOME)).features) == 17
    orchestrator = Orchestrator(["a", "b"])
    orchestrator.decide(Task(features=ALL))
    orchestrator.reconfigure(Orchestrator(["a", "b"], floor=0.5).settings, orchestrator.members)
    assert len(orchestrator.decide(Task(features=SOME)).features) == 17


def test_one_that_names_first_decides_for_all():
    """A task that another thread encoded under other names is encoded again, and refused if it does not fit."""
    router = Router(["a", "b"], seed=1)
    early = router._orchestrator.encoded(Task(features={"size": 3}))
    router.decide(Task(features=SOME))
    with pytest.raises(InvalidInputError, match="'size', which the first task did not"):
        router._named(Task(features={"size": 3}), early)
    with pytest.raises(InvalidInputError, match=r"task.names: are size, this orchestrator has tokens; pass the feat"):
        router.decide(early)


def test_evaluations_name_features_too(tmp_path):
    tasks = [Task(features={"lang": lang, "tokens": n}) for n, lang in enumerate(list(BEST) * 30)]
    rewards = {agent: [float(BEST[task.features["lang"]] == agent) for task in tasks] for agent in "abc"}
    tasks[0] = Task(features={"tokens": 3.0})
    router = Orchestrator(list("abc"), seed=1)
    router.learn_from(rewards, tasks=tasks)
    assert router.settings.names == ("lang=", "tokens")
    assert router.derive(Task(features={"lang": "en"})).propensities[1] > 0.5
    with Router(list("abc"), seed=1, path=tmp_path / "log") as first:
        first.learn_from(rewards, tasks=tasks)
        played(True, 30, first)
        estimates = first.derive(Task(features={"lang": "en"})).terms.estimate.tolist()
    with Router(list("abc"), seed=1, path=tmp_path / "log") as again:
        assert again.derive(Task(features={"lang": "en"})).terms.estimate.tolist() == estimates
    other = Router(list("abc"), seed=1)
    other.learn_from(tmp_path / "log")
    assert names_in(other) == ("lang=", "tokens")
    with pytest.raises(InvalidInputError, match="by name and without"):
        Router(["a"]).learn_from({"a": [1.0, 0.0]}, tasks=[Task(features=SOME), Task(features=[1.0])])


def test_the_log_is_evaluated(tmp_path):
    with Router(list("abc"), seed=1, path=tmp_path / "log", floor=1.0) as router:
        played(True, 400, router)
    log = open_file(tmp_path / "log", writing=False)
    assert evaluate(log, "auto").learned > 10
    log.close()


def test_mistakes_name_the_feature():
    with pytest.raises(InvalidInputError, match=r"task.features.lang: is None; pass a number or a text with the first"):
        Orchestrator(["a", "b"]).decide(Task(features={"lang": None}))
    router = Orchestrator(["a", "b"])
    router.decide(Task())
    with pytest.raises(InvalidInputError, match=r"task.features: are by name.*; pass n_features=9 .* 8 for a category"):
        router.decide(Task(features={"lang": "de", "tokens": 1}))
    for router in (Orchestrator(["a", "b"], n_features=9), Orchestrator(["a", "b"], n_features=0)):
        router.decide(Task(features=(0.0,) * router.n_features))
        router.decide(Task(features={"lang": "de", "tokens": 1}))
    router.decide(Task(features={"another": 1}))
    assert router.settings.names == (), "unused"
    for wrong in ([1], float("inf"), b"x"):
        with pytest.raises(
            InvalidInputError, match=r"task.features.x: is .*; pass a finite number, a text, true or false, or None"
        ):
            Task(features={"x": wrong})


def test_values_of_a_data_frame_are_taken_as_they_come():
    router = Orchestrator(["a", "b"], seed=1)
    first = {"urgent": np.bool_(True), "lang": "de", "tokens": np.int64(3)}
    router.observe(router.decide(Task(features=first)).id, Outcome.completed(1.0))
    missing = router.decide(Task(features={"urgent": np.bool_(False), "lang": math.nan, "tokens": math.nan}))
    assert sum(map(bool, missing.features[:8])) == 0, "a text that is NaN is missing"
    with pytest.raises(InvalidInputError, match=r"task\.features\.tokens: is 1000"):
        Task(features={"tokens": 10**400})
