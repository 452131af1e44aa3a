"""The model that answers is compared with the one asked for; another one is another arm."""

import pytest
from remote import metric
from service_running import until
from upstream import DONE, chunk, completion, delta

from bot_orch.log.events import Noted
from bot_orch.log.verification import replay

BODY = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def answer_of(model, stream=False):
    if not stream:
        return [{**completion(content="It is sunny."), "model": model}]
    return [
        chunk(delta(content="It is "), model=model),
        chunk(delta(content="sunny.", finish="stop"), model=model),
        DONE,
    ]


def notes(service):
    rows = service.call(lambda: list(service.runtime.writer.log.read()))
    found = [event for row in rows if isinstance(event := row.event(), Noted) and event.topic == "agent.model"]
    return [(note.data["model"], note.data["afresh"]) for note in found]


def ask(service, count=1, *, stream=False):
    for _ in range(count):
        assert service.post("/v1/chat/completions", {**BODY, "stream": stream}).status == 200


def lessons(service):
    """The arrays of the policy."""
    return service.call(lambda: service.runtime.ledger.router.capture())[1].to_dict()["parts"]["policy"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_replacement_is_noted_and_starts_the_agent_afresh(serve, agent, upstream, stream):
    former = answer_of("m-2024-08-06", stream)
    service = serve(agent(upstream.script("shared", former), "one"), policy="epsilon-greedy")
    ask(service, stream=stream)
    after_one = lessons(service)
    ask(service, 4, stream=stream)
    assert lessons(service) != after_one
    upstream.script("shared", answer_of("m-mini", stream))
    ask(service, stream=stream)
    assert lessons(service) == after_one, "as after the first answer of all"
    assert until(lambda: len(notes(service)) == 2 and notes(service)) == [("m-2024-08-06", False), ("m-mini", True)]
    assert metric(service, "bot_orch_model_replacements_total", agent="one") == 1
    ask(service, 2, stream=stream)
    assert len(notes(service)) == 2, "a name that is known is not noted again"
    assert service.call(lambda: replay(service.runtime.writer.log).ok)


def test_only_outcomes_of_the_new_model_are_learned_after_it_came(serve, agent, upstream):
    """A thumb about an answer of the former model comes late: it is logged, and changes nothing."""
    url = upstream.script("shared", answer_of("m"), answer_of("m-mini"))
    service = serve(agent(url, "one"), policy="epsilon-greedy", router="horizon_s: 1000")
    first = service.post("/v1/chat/completions", BODY).headers["x-bot-orch-decision-id"]
    second = service.post("/v1/chat/completions", BODY).headers["x-bot-orch-decision-id"]
    before = lessons(service)
    assert service.post("/v1/feedback", {"decision_id": first, "reward": 1.0}).status == 200
    assert lessons(service) == before
    assert service.post("/v1/feedback", {"decision_id": second, "reward": 1.0}).status == 200
    assert lessons(service) != before


@pytest.mark.parametrize("served", ["m", "M-latest", "vendor/m-2025-01-01", ""])
def test_honest_names_do_not_alarm(serve, agent, upstream, served):
    service = serve(agent(upstream.script("shared", answer_of(served)), "one"))
    ask(service, 3)
    assert not any(afresh for _, afresh in notes(service))


def test_the_check_can_be_switched_off(serve, agent, upstream):
    url = upstream.script("shared", answer_of("a"), answer_of("b"))
    service = serve(agent(url, "one", extra=", check_model: false"))
    ask(service, 3)
    assert notes(service) == []
