"""A range of rewards other than [0, 1] over HTTP, with judges and agents that rate by themselves."""

import pytest
from service_running import BASE, until

from bot_orch import InvalidInputError
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

STARS = BASE.replace(
    "policy: bot, floor: 0.05, seed: 5",
    "policy: ucb1, floor: 0.05, seed: 5, reward: {{low: 1, high: 5}}, objective: {{usd: 2}}",
)
SLIGHTLY = 1.0000000000000002


def reported(service, **body):
    decision = service.post("/v1/decisions", {}).json()
    return decision, service.post("/v1/feedback", {"decision_id": decision["id"], **body})


def test_rounding_beyond_the_range_is_clipped(start):
    service = start()
    for reward, known in ((SLIGHTLY, 1.0), (-1e-17, 0.0)):
        decision, answer = reported(service, reward=reward)
        assert answer.json()["effect"] == "learned"
        assert service.get(f"/v1/decisions/{decision['id']}").json()["outcomes"][0]["reward"] == known
    early = time_ordered_id(1)
    assert service.post("/v1/feedback", {"decision_id": early, "reward": SLIGHTLY}).json()["effect"] == "early"
    assert service.post("/v1/feedback", {"decision_id": early, "reward": 1.1}).status == 422
    session = service.post("/v1/decisions", {"session": "s"}).json()
    assert (
        service.post("/v1/feedback", {"session": "s", "reward": SLIGHTLY}).json()["credited"][0]["effect"] == "learned"
    )
    assert service.get(f"/v1/decisions/{session['id']}").json()["outcomes"][0]["reward"] == 1.0


def test_what_is_outside_is_refused_and_the_decision_waits(start):
    service = start(STARS)
    decision, answer = reported(service, reward=0.5)
    assert answer.status == 422 and answer.json()["error"]["param"] == "reward"
    message = (
        "reward: is 0.5, outside of [1, 5]; rescale it; an operator can state another range in config.router.reward"
    )
    assert answer.json()["error"]["message"] == message
    assert service.get(f"/v1/decisions/{decision['id']}").json()["pending"]
    assert service.post("/v1/feedback", {"decision_id": decision["id"], "reward": 4}).json()["effect"] == "learned"


def test_all_that_is_shown_is_in_units_of_reward(start, tmp_path):
    service = start(STARS, database=tmp_path / "log.sqlite")
    for _ in range(60):
        decision = service.post("/v1/decisions", {}).json()
        reward = 4.0 if decision["agent"] == "careful" else 2.0
        service.post("/v1/feedback", {"decision_id": decision["id"], "reward": reward})
    decision = service.post("/v1/decisions", {}).json()
    terms = decision["terms"]
    assert terms["quick"]["estimate"] == pytest.approx(2.0, abs=0.3)
    assert terms["careful"]["estimate"] == pytest.approx(4.0, abs=0.3)
    assert terms["careful"]["cost"] == pytest.approx(0.2, abs=0.01), "10 cents at 2 units of reward a dollar"
    assert service.get(f"/v1/decisions/{decision['id']}").json()["why"].count("4.") >= 1
    rewards = [
        line for line in service.get("/metrics").body.decode().splitlines() if line.startswith("bot_orch_reward_s")
    ]
    assert {line.split()[0]: float(line.split()[1]) for line in rewards if 'agent="careful"' in line}
    look = service.get("/dashboard/live").json()
    assert look["charts"]["highest"] == 5.0
    assert max(value or 0.0 for values in look["charts"]["reward"] for value in values) == pytest.approx(4.0)
    assert 'value="0.750"' in look["parts"]["agents"], "the bar of 4 between 1 and 5"
    live = service.call(lambda: service.runtime.ledger.fingerprint())
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok
    log.close()
    again = start(STARS, database=tmp_path / "log.sqlite")
    assert again.call(lambda: again.runtime.ledger.fingerprint()) == live


JUDGED = STARS + 'judges: [{{name: right, kind: python, settings: {{path: "judging_fixtures:anything"}}}}]\n'


@pytest.mark.parametrize(("text", "least"), [(STARS, 1.0), (JUDGED, 5.0)])
def test_judges_and_agents_rate_from_0_to_1(start, text, least):
    """A simulated agent rates its own answer, and any judge takes its place."""
    service = start(text)
    done = service.post("/v1/tasks", {"task": {"text": "hello"}}).json()
    decision_id = done["decision_id"]
    until(lambda: least <= (_rewards(service, decision_id) or [0.0])[-1] <= 5.0)


def _rewards(service, decision_id):
    outcomes = service.get(f"/v1/decisions/{decision_id}").json()["outcomes"]
    return [each["reward"] for each in outcomes if each["reward"] is not None]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("reward: {low: 5, high: 1}", "config.router.reward.high: is 1, low is 5; pass a high above low"),
        ("reward: {low: 1, up: 5}", "config.router.reward: is malformed"),
        ("reward: {low: 1, high: 5}, success_reward: 0.5", "config.router.success_reward: is 0.5, outside of [1, 5]"),
        ("success_reward: 2", "config.router.success_reward: is 2.0, outside of [0, 1]"),
    ],
)
def test_settings_are_checked(setting, message, tmp_path):
    text = BASE.format(database=tmp_path / "log", port=0).replace("seed: 5", f"seed: 5, {setting}")
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(text))
    assert str(refused.value).startswith(message)


def test_a_range_passes_the_check_of_the_file(tmp_path):
    """It decides and learns once."""
    check(parse_config(STARS.format(database=tmp_path / "log", port=0)))
