"""Every answer can be explained: its decision is on disk, with all attempts of the round, and failures leave a line."""

import logging
import sqlite3
import time

import openai
import pytest
from remote import GOOD, HELLO

from bot_orch.log.ids import long_name
from bot_orch.service.logs import JsonFormatter

DOWN = {"status": 500, "error": {"message": "down: What is the weather like in Rome?"}}
OWN = {"status": 400, "error": {"message": "wrong"}}


def ask(client, **options):
    return client.chat.completions.with_raw_response.create(model="auto", messages=HELLO, **options)


@pytest.mark.parametrize("streams", [False, True])
def test_all_attempts_of_a_round_are_listed_under_each_of_its_decisions(endpoint, serve, agent, client, streams):
    url = endpoint.script(DOWN, DOWN, GOOD)
    service = serve(*(agent(url, name) for name in ("one", "two", "three")))
    answer = ask(client(service), stream=streams)
    list(answer.parse() if streams else ())
    last = answer.headers["x-bot-orch-decision-id"]
    round_ = service.get(f"/v1/decisions/{last}").json()["round"]
    assert (len(round_), round_[-1]) == (3, last)
    for each in round_:
        known = service.get(f"/v1/decisions/{each}").json()
        assert known["round"] == round_ and known["decision"]["id"] == each
        assert [attempt["decision_id"] for attempt in known["attempts"]][:2] == round_[:2]
        assert [attempt["ending"] for attempt in known["attempts"]][:2] == ["upstream_5xx", "upstream_5xx"]
        page = service.get(f"/decisions/{each}", headers={"accept": "text/html"}).body.decode()
        assert page.count("upstream_5xx") == 2


def test_a_failed_round_lists_all_its_attempts(endpoint, serve, agent, client):
    service = serve(*(agent(endpoint.script(DOWN), name, tries=2) for name in ("one", "two", "three")))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client(service))
    known = service.get(f"/v1/decisions/{caught.value.response.headers['x-bot-orch-decision-id']}").json()
    assert [attempt["ending"] for attempt in known["attempts"]] == ["upstream_5xx"] * 4, "at once: no row is behind"
    assert {attempt["agent"] for attempt in known["attempts"]} == {"one", "two", "three"}


def test_a_task_lists_the_same_attempts(endpoint, serve, agent):
    url = endpoint.script(DOWN, GOOD)
    service = serve(agent(url, "one"), agent(url, "two"))
    done = service.post("/v1/tasks", {"task": {"text": "x"}}).json()
    known = service.get(f"/v1/decisions/{done['decision_id']}").json()
    assert known["attempts"] == done["attempts"] and len(done["attempts"]) == 2


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("script", [[GOOD], [OWN], [DOWN]], ids=["answer", "own fault", "failure"])
def test_a_decision_is_on_disk_before_the_client_hears_of_it(endpoint, serve, agent, client, script, streams):
    """Seen by another process: the log's file, read through a connection of its own."""
    service = serve(agent(endpoint.script(*script), "one"))
    log = service.runtime.writer.log
    commit = log.commit

    def slowly():
        time.sleep(0.3)
        commit()

    log.commit = slowly
    try:
        heard = ask(client(service), stream=streams).headers
    except openai.APIStatusError as error:
        heard = error.response.headers
    with sqlite3.connect(f"file:{service.config.database}?mode=ro", uri=True) as file:
        refs = [long_name(ref) for (ref,) in file.execute("SELECT ref FROM events")]
    file.close()
    assert heard["x-bot-orch-decision-id"] in refs


@pytest.mark.parametrize("script", [[OWN], [DOWN]], ids=["own fault", "failure"])
def test_a_decision_that_cannot_be_written_is_not_named(endpoint, serve, agent, client, script):
    service = serve(agent(endpoint.script(*script), "one"))
    log = service.runtime.writer.log
    commit = log.commit

    def fails():
        log.commit = commit
        raise sqlite3.OperationalError("disk I/O error")

    log.commit = fails
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client(service))
    assert (caught.value.status_code, caught.value.code) == (503, "storage_unavailable")
    assert "x-bot-orch-decision-id" not in caught.value.response.headers


def test_failures_leave_a_line_without_prompt_or_key(endpoint, serve, agent, client, caplog, monkeypatch):
    monkeypatch.setenv("KEY", "sk-secret")
    url = endpoint.script(DOWN, GOOD)
    extra = ", api_key: '${KEY}'"
    service = serve(agent(url, "one", extra=extra), agent(url, "two", extra=extra))
    with caplog.at_level(logging.DEBUG, "bot_orch"):
        ask(client(service))
    assert endpoint.seen(url)[0]["headers"]["authorization"] == "Bearer sk-secret"
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name.startswith("bot_orch")]
    (line,) = [line for line in lines if "attempt failed" in line]
    assert '"ending": "upstream_5xx"' in line and '"status": 500' in line and '"decision": "' in line
    assert not any("weather" in each or "secret" in each for each in lines)
