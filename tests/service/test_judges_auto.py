"""Ranks and sessions under ``auto`` with text: the value that counts takes the place of the others in the data."""

import numpy as np
import pytest
from test_judges import chat, configured, decision_of, judged

from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

LOW = {"name": "low", "kind": "python", "settings": {"path": "judging_fixtures:says_long"}}
HIGH = {"name": "high", "kind": "thumbs"}
PROMPTS = ("def f(x): return", "a poem about rivers", "translate this letter", "def g(y): yield")
DATA = ("count", "total", "context_owner", "context_reward", "context_codes")


def auto(*judges):
    return configured(*judges).replace("policy: ucb1", "policy: auto, encoder: builtin, floor: 0.05")


def data(service):
    """What has been learned from; noise and slopes depend on the way there."""
    policy = service.runtime.ledger.router._state.parts["policy"]
    return {name: np.asarray(policy[name], dtype=float).copy() for name in DATA}


def ask(service, number, model, session="s"):
    said = [{"role": "user", "content": PROMPTS[number % 4]}]
    return decision_of(chat(service, model, said, bot_orch={"session": session}))


def propensities(service, **asked):
    return service.post("/v1/decisions", {"task": {"text": PROMPTS[0]}, **asked}).json()["propensities"]


def test_a_higher_value_takes_the_place_of_a_lower_one(start, tmp_path):
    """The low judge prefers ``long``, callers prefer ``short``: all is as if they alone had been asked."""
    found, preferred = {}, {}
    for name, judges in (("both", (HIGH, LOW)), ("alone", (HIGH,)), ("low", (LOW,))):
        service = start(auto(*judges), database=tmp_path / f"{name}.sqlite")
        for number in range(24):
            model = ("short", "long", "flow")[number % 3]
            made = ask(service, number, model)
            if LOW in judges:
                assert judged(service, made)[0].effect == "learned"
            if HIGH in judges:
                told = service.post("/v1/feedback", {"decision_id": made, "reward": 0.9 if model == "short" else 0.2})
                assert told.json()["effect"] == ("replaced" if LOW in judges else "learned")
        found[name] = data(service)
        preferred[name] = propensities(service)
        service.stop()
        log = open_log(tmp_path / f"{name}.sqlite")
        assert replay(log).ok and fold(log, use_snapshot=False).fingerprint() == fold(log).fingerprint()
        log.close()
    for name in DATA:
        assert found["both"][name] == pytest.approx(found["alone"][name], rel=1e-4, abs=1e-5), name
    assert not np.allclose(found["both"]["total"], found["low"]["total"])
    assert preferred["both"]["short"] > 0.6 < preferred["alone"]["short"] and preferred["low"]["short"] < 0.2


def test_a_session_is_credited_to_its_decisions(start):
    """The judge prefers ``long``; then sessions are reported, which go well with ``short``."""
    service = start(auto(HIGH, LOW))
    for number in range(8):
        model, session = ("short", "long")[number % 2], f"s{number}"
        made = [ask(service, number + turn, model, session) for turn in range(3)]
        for each in made:
            judged(service, each)
        body = {"session": session, "reward": 1.0 if model == "short" else 0.25}
        credited = service.post("/v1/feedback", body).json()["credited"]
        assert [(each["decision_id"], each["effect"]) for each in credited] == [(each, "replaced") for each in made]
    learned = data(service)
    assert learned["count"].tolist() == [12.0, 12.0, 0.0]
    assert learned["total"] == pytest.approx([12 * 1.0, 12 * 0.25, 0.0])
    p = propensities(service, eligible=["short", "long"])  # the third has not been tried
    assert p["short"] > 0.9 > 0.1 > p["long"]
