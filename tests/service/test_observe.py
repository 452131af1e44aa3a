"""Mode observe: the baseline serves, the router decides in the background, and some answers are compared."""

import csv

import pytest
from service_running import until

from bot_orch.cli.main import main
from bot_orch.core.events import DecisionMade
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.savings import observed
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

CONFIG = """
version: 1
database: {database}
listen: {{host: 127.0.0.1, port: {port}}}
router: {{policy: auto, seed: 4, floor: 0.05, ROUTER}}
JUDGES
agents:
  - {{id: short, kind: python, path: "judging_fixtures:short", price: {{per_call_usd: 0.001}}}}
  - {{id: long, kind: python, path: "judging_fixtures:long", price: {{per_call_usd: 0.01}}}}
"""
LENGTH = 'judges: [{{name: length, kind: python, settings: {{path: "judging_fixtures:long_is_good"}}}}]'
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def config(judges=LENGTH, *, usd_per_day=1e9):
    observe = f"observe: {{{{baseline: long, usd_per_day: {usd_per_day:.0f}}}}}"
    return CONFIG.replace("ROUTER", observe).replace("JUDGES", judges)


def chats(service, n, **more):
    answers = [service.post("/v1/chat/completions", {**CHAT, **more}) for _ in range(n)]
    assert {each.status for each in answers} == {200}
    until(lambda: not any(name.startswith(("shadow", "judge ")) for name in service.runtime.background))
    return answers


def events(path):
    return [row.event() for row in open_log(str(path)).read()]


def made(path):
    return [event for event in events(path) if isinstance(event, DecisionMade)]


def test_the_baseline_serves_and_the_choice_of_the_router_is_asked_beside_it(start, tmp_path):
    service = start(config())
    answers = chats(service, 80)
    assert {each.headers["x-bot-orch-agent"] for each in answers} == {"long"}
    service.stop()
    found = made(tmp_path / "log.sqlite")
    shadows = [event for event in found if event.by == "shadow"]
    assert sum(event.by == "observe" for event in found) == 80
    assert len(shadows) >= 78, "all but the first, before dollars have accrued"
    assert {event.agent for event in shadows} == {"short", "long"}
    assert all(event.propensity < 1.0 for event in shadows), "drawn by the router"
    log = open_log(str(tmp_path / "log.sqlite"))
    compared = observed(collect(log))
    assert compared.n == len(shadows)
    share = sum(event.agent == "short" for event in shadows) / len(shadows)
    assert compared.differences["usd"].value == pytest.approx(-0.009 * share)
    assert compared.differences["reward"].value == pytest.approx(-0.8 * share)
    assert compared.total_usd().value == pytest.approx(-0.009 * share * 80)
    assert "80 requests: $" in str(compared) and "less" in str(compared)
    assert replay(log).ok


def test_the_command_says_what_would_have_been_saved(start, tmp_path, capsys):
    service = start(config())
    chats(service, 80)
    service.stop()
    assert main(["report", str(tmp_path / "log.sqlite"), "--against"]) == 0
    assert "The router, had it served, compared with\n  what was served (router.observe), " in capsys.readouterr().out


def test_the_dashboard_says_what_would_have_been_saved(start):
    service = start(config())
    assert "Nothing to compare yet." in service.get("/").body.decode()
    service.stop()
    service = start(config())
    chats(service, 80)
    page = service.get("/").body.decode()
    assert "Savings" in page
    assert "what was served (router.observe)" in page and "less; quality -0." in page and "±" in page

    def dollars():
        table = csv.DictReader(service.get("/dashboard/agents.csv").body.decode().splitlines())
        return {row["agent"]: float(row["usd"]) for row in table}

    until(lambda: dollars() == pytest.approx({"short": 0.001, "long": 0.01}))
    service.stop()
    plain = CONFIG.replace(", ROUTER", "").replace("JUDGES", "")
    service = start(plain)
    assert "observe" in service.get("/dashboard/live").json()["parts"]["savings"], "against the dearest agent"
    service.stop()
    service = start(plain.replace("0.001", "0.01"))
    assert service.get("/dashboard/live").json()["parts"]["savings"] == "", "no agent is dearer than the other one"


def test_a_request_gets_the_agent_that_it_names(start):
    service = start(config())
    assert chats(service, 3, model="short")[-1].headers["x-bot-orch-agent"] == "short"


def test_no_more_is_spent_on_comparisons_than_the_cap(start, tmp_path):
    service = start(config(usd_per_day=1))
    chats(service, 30)
    service.stop()
    assert [event.by for event in made(tmp_path / "log.sqlite")] == ["observe"] * 30, "a cent takes 15 minutes"


@pytest.mark.parametrize("observes", [True, False])
def test_answers_tell_their_dollars_and_the_baselines(start, observes):
    """Without a baseline, the dearest agent that is not a person is it."""
    text = config() if observes else CONFIG.replace("ROUTER", "").replace("JUDGES", LENGTH)
    service = start(text + "  - {{id: ada, kind: human, price: {{per_call_usd: 5}}}}\n")
    (answer,) = chats(service, 1, model="short")
    assert float(answer.headers["x-bot-orch-cost-usd"]) == 0.001
    assert float(answer.headers["x-bot-orch-baseline-usd"]) == 0.01


@pytest.mark.parametrize(
    ("router", "judges", "message"),
    [
        ("mode: observe", "", "router.mode: is not a setting; write router.observe"),
        ("observe: {baseline: a, usd_per_day: 1}", "", "router.observe: has nothing that judges the answers"),
        ("observe: {baseline: c, usd_per_day: 1}", "", "router.observe.baseline: 'c' is not an agent"),
        (
            "guarantee: {baseline: a, loss_at_most: 0.1}, observe: {baseline: a, usd_per_day: 1}",
            "{name: r, kind: json_schema, settings: {schema: {}}}",
            "router.guarantee: has no effect beside router.observe",
        ),
        (
            "guarantee: {baseline: a, loss_at_most: 0.1}, rules: [{deny: [a]}]",
            "{name: r, kind: json_schema, settings: {schema: {}}}",
            "router.rules[0]: keeps all requests from a, the baseline",
        ),
    ],
)
def test_comparisons_without_effect_are_refused(router, judges, message):
    from bot_orch.service.build import check

    agents = "[{id: a, kind: human}, {id: b, kind: human}]"
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nrouter: {{{router}}}\njudges: [{judges}]\nagents: {agents}"))
    assert message in str(refused.value)
