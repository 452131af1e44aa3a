"""``bot-orch validate --online``: what is wrong is found, named with its remedy, and nothing else is."""

import pytest
from listed_models import KEY, endpoint
from service_running import BASE, free_port

from bot_orch.cli import main

AGENT = '{{id: gpt, kind: openai, base_url: "{url}", model: m-1, api_key: "${{KEY}}"}}'
SIMULATED = "{id: a, kind: simulated}"


@pytest.fixture
def online(tmp_path, capsys, monkeypatch):
    """Validates a configuration; returns the status, and the line of each check."""
    monkeypatch.setenv("KEY", KEY)

    def validated(*agents, after="", database=None):
        text = f"version: 1\ndatabase: {database or tmp_path / 'log.sqlite'}\n{after}\nagents:\n"
        (tmp_path / "c.yaml").write_text(text + "".join(f"  - {agent}\n" for agent in agents))
        status = main(["validate", str(tmp_path / "c.yaml"), "--online", "--timeout", "20"])
        said = capsys.readouterr()
        assert KEY not in said.out + said.err, "a key is never printed"
        problems = [line.removeprefix("bot-orch: ") for line in said.err.splitlines()]
        assert all("; " in line for line in problems), "each with a remedy"
        return status, dict(line.split(": ", 1) for line in said.out.splitlines() + problems if ": " in line)

    return validated


def test_all_is_well(online, tmp_path):
    with endpoint() as good:
        status, found = online(AGENT.format(url=good.url))
    assert status == 0
    assert found["agent gpt"].endswith("s, key accepted, lists the model")
    assert "made at the first start" in found["log"]
    assert {each.name for each in tmp_path.iterdir()} == {"c.yaml"}, "nothing is made"


def test_endpoints_are_contacted_online_alone(online, tmp_path):
    with endpoint() as good:
        online(AGENT.format(url=good.url))
        asked = len(good.asked)
        assert asked == 1 and main(["validate", str(tmp_path / "c.yaml")]) == 0
        assert len(good.asked) == asked


def test_a_dead_endpoint(online):
    status, found = online(AGENT.format(url=f"http://127.0.0.1:{free_port()}/v1"))
    assert status == 1 and "cannot be reached" in found["agent gpt"]


def test_a_wrong_key(online, monkeypatch):
    with endpoint() as good:
        monkeypatch.setenv("KEY", "another")
        status, found = online(AGENT.format(url=good.url))
    assert status == 1 and found["agent gpt"].endswith("refuses the key (status 401); check KEY")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ({"models": ("other",)}, 0, "does not list 'm-1'; correct model; it lists other"),
        ({"models_status": 404}, 0, "lists no models"),
        ({"models_status": 429}, 0, "limits the rate"),
        ({"models_status": 500}, 1, "answers with status 500"),
        ({"models_status": 302}, 1, "answers with status 302"),
    ],
)
def test_what_an_endpoint_may_answer(options, status, said, online):
    with endpoint(**options) as made:
        ended, found = online(AGENT.format(url=made.url))
    assert ended == status and said in found["agent gpt"]


def test_models_that_judge_and_anthropic_are_asked_too(online):
    with endpoint() as one:
        agent = f'{{kind: anthropic, base_url: "{one.url}", model: m-1, api_key: "${{KEY}}"}}'
        judge = f"judges: [{{name: model, kind: llm, settings: {{agent: {agent}}}}}]"
        status, found = online(SIMULATED, after=judge)
        assert one.asked[0][1]["x-api-key"] == KEY
    assert status == 0 and "key accepted" in found["agent model"]


def test_a_log_that_cannot_be_one(online, tmp_path):
    status, found = online(SIMULATED, database="/proc/bot-orch/log.sqlite")
    assert status == 2 and "/proc cannot be written" in found["log"]
    (tmp_path / "log.sqlite").write_text("not a database, and long enough to tell" * 10)
    status, found = online(SIMULATED)
    assert status == 2 and "is not a log" in found["log"]
    status, found = online(SIMULATED, database="postgresql://nobody@127.0.0.1:1/none")
    assert status == 2 and "cannot be reached" in found["log"]


def test_beside_a_running_service(start, tmp_path, capsys):
    service = start()
    service.post("/v1/decisions", {"task": {"id": "t"}})
    (tmp_path / "c.yaml").write_text(BASE.format(database=tmp_path / "log.sqlite", port=service.port))
    assert main(["validate", str(tmp_path / "c.yaml"), "--online"]) == 0
    assert "log.sqlite: 2 events" in capsys.readouterr().out


def test_a_timeout_that_is_none(tmp_path, capsys):
    assert main(["validate", str(tmp_path / "c.yaml"), "--timeout", "0"]) == 2
    assert "--timeout: is 0" in capsys.readouterr().err


def test_a_guarantee_says_what_it_needs(online):
    """People do not reward themselves, so a judge has to see every answer."""
    agents = "{id: large, kind: human}", "{id: small, kind: human}"
    promise = "router: {guarantee: {baseline: large, loss_at_most: 0.02}}\n"
    every = "judges: [{name: filled, kind: json_schema, settings: {schema: {type: object}}}]\n"
    some = every.replace("kind:", "rate: 0.5, kind:")
    without, sampled, judged = (online(*agents, after=promise + more)[1]["guarantee"] for more in ("", some, every))
    assert all("large alone for 961 requests; about 14385 with rewards" in each for each in (without, sampled, judged))
    assert "/v1/feedback" in without and "/v1/feedback" in sampled and "/v1/feedback" not in judged
