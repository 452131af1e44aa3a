"""Errors of endpoints: what reaches the client, who is asked next, and what is learned."""

import openai
import pytest
from remote import GOOD, HELLO, attempts, metric

TOO_LONG = {
    "message": "This model's maximum context length is 8192 tokens.",
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
    "param": "messages",
}
REFUSED = {
    "message": "Unsupported parameter: 'top_k'",
    "type": "invalid_request_error",
    "code": "unsupported_parameter",
    "param": "top_k",
}
OWN = {
    "message": "Invalid type for 'temperature'",
    "type": "invalid_request_error",
    "code": "invalid_type",
    "param": "t",
}
#: rejections that depend on the length of the context, as different endpoints write them: status, error
TOO_LONG_FOR_IT = {
    "context length": (400, TOO_LONG),
    "context length without a code": (400, {"message": "prompt is too long: 300000 tokens > 200000 maximum"}),
    "output length": (
        400,
        {"message": "max_tokens is too large: 9. This model supports at most 4", "code": "invalid_value"},
    ),
}
FILTERED = {
    "content filter": (400, {"message": "The response was filtered", "code": "content_filter"}),
    "content filter by message": (403, {"message": "Your input was flagged by our moderation"}),
}
#: rejections that depend on the agent otherwise
UNSUITED = {
    "parameter": (400, {"message": "Unsupported parameter: 'top_k'", "code": "unsupported_parameter"}),
    "parameter by message": (400, {"message": "Unrecognized request argument supplied: top_k"}),
    "value": (400, {"message": "'temperature' does not support 0.2 with this model", "code": "unsupported_value"}),
    "tools": (400, {"message": "m does not support tools"}),
    "model": (404, {"message": "The model `m` does not exist", "code": "model_not_found"}),
    "size": (413, {"message": "Request Entity Too Large"}),
    "validation of another kind": (422, {"message": "body.top_k: Extra inputs are not permitted"}),
}
#: rejections that are the caller's own fault
OWN_FAULTS = {
    "type": (400, OWN),
    "role": (400, {"message": "Unsupported role 'x' in messages", "code": "invalid_value"}),
    "missing": (400, {"message": "Missing required parameter: 'messages[0].content'"}),
    "tool answer": (400, {"message": "tool_call_id not found in the preceding messages"}),
    "validation": (422, {"message": "temperature: Input should be less than 2"}),
}


def ask(client, **options):
    return client.chat.completions.create(model="auto", messages=HELLO, **options)


def rejecting(status, error):
    return {"status": status, "error": error}


def short(line):
    """An agent of which a short context is known."""
    return line.replace("kind: openai,", "kind: openai, context_tokens: 8000,")


def outcome_of(service, decision_id):
    (outcome,) = service.get(f"/v1/decisions/{decision_id}").json()["outcomes"]
    return outcome


@pytest.mark.parametrize("streams", [False, True])
def test_all_chats_succeed_where_one_of_three_agents_rejects(endpoint, serve, agent, client, streams):
    good, bad = endpoint.script(GOOD), endpoint.script(rejecting(400, TOO_LONG))
    service = serve(short(agent(bad, "small")), agent(good, "large"), agent(good, "other"))
    through = client(service)
    for _ in range(10):
        answer = ask(through, stream=streams)
        assert list(answer)[-2:] if streams else answer.choices[0].message.content == "The answer"
    made = attempts(service, 10)
    rejected = [attempt for attempt in made if attempt.agent == "small"]
    assert rejected and {attempt.ending for attempt in rejected} == {"unsuited"}
    assert metric(service, "bot_orch_attempts_total", agent="small", ending="unsuited") == len(rejected)
    learned = outcome_of(service, rejected[0].decision_id)
    assert (learned["effect"], learned["reward"], learned["reason"]) == ("learned", 0.0, "failed")
    assert service.get("/v1/agents").json()[0]["circuit"] == "closed"
    terms = service.post("/v1/decisions", {"task": {}}).json()["terms"]
    assert terms["small"]["estimate"] < terms["large"]["estimate"]


@pytest.mark.parametrize("name", UNSUITED)
def test_rejections_that_depend_on_the_agent_fail_over(endpoint, serve, agent, client, name):
    url = endpoint.script(rejecting(*UNSUITED[name]), GOOD)
    service = serve(agent(url, "one"), agent(url, "two"))
    assert ask(client(service)).choices[0].message.content == "The answer"
    assert [attempt.ending for attempt in attempts(service, 2)] == ["unsuited", "completed"]


@pytest.mark.parametrize("name", OWN_FAULTS)
def test_the_callers_own_fault_is_told_and_not_learned(endpoint, serve, agent, client, name):
    status, error = OWN_FAULTS[name]
    url = endpoint.script(rejecting(status, error), GOOD)
    service = serve(agent(url, "one"), agent(url, "two"))
    before = service.post("/v1/decisions", {"task": {}}).json()["terms"]
    with pytest.raises(openai.APIStatusError) as caught:
        ask(client(service))
    got = caught.value
    assert (got.status_code, got.body["message"]) == (status, error["message"])
    assert (got.param, got.type) == (error.get("param"), error.get("type", "invalid_request_error"))
    assert got.code == error.get("code", "upstream_4xx")
    assert len(endpoint.seen(url)) == 1, "no other agent is asked"
    assert [attempt.ending for attempt in attempts(service)] == ["upstream_4xx"]
    after = service.post("/v1/decisions", {"task": {}}).json()["terms"]
    assert [after[each]["estimate"] for each in after] == [before[each]["estimate"] for each in after]
    assert outcome_of(service, got.response.headers["x-bot-orch-decision-id"])["effect"] == "noted"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_if_all_fail_the_client_sees_the_most_helpful_error(endpoint, serve, agent, client, order):
    answers = (
        rejecting(400, REFUSED),
        rejecting(503, {"message": "overloaded"}),
        {"status": 401, "error": {"message": "Incorrect API key provided: sk-secret", "code": "invalid_api_key"}},
    )
    url = endpoint.script(*(answers[index] for index in order))
    service = serve(*(agent(url, name) for name in ("one", "two", "three")))
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client(service))
    got = caught.value
    details = got.body["details"]
    assert {name: got.body[name] for name in REFUSED} == REFUSED
    endings = ["unsuited", "upstream_5xx", "upstream_denied"]
    assert [each["ending"] for each in details["failures"]] == [endings[index] for index in order]
    assert details["ending"] == "unsuited" and details["agent"] == details["failures"][order.index(0)]["agent"]
    assert "sk-secret" not in got.response.text


@pytest.mark.parametrize("streams", [False, True])
def test_errors_about_the_services_own_key_are_not_quoted(endpoint, serve, agent, client, streams):
    error = {"message": "Incorrect API key provided: sk-secret", "code": "invalid_api_key"}
    service = serve(agent(endpoint.script(rejecting(401, error))))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client(service), stream=streams)
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_denied")
    assert "secret" not in caught.value.response.text


def test_a_key_in_an_error_is_left_out(endpoint, serve, agent, client, monkeypatch):
    monkeypatch.setenv("KEY", "sk-secret")
    url = endpoint.script(rejecting(400, {"message": "sk-secret may not do that"}))
    service = serve(agent(url, extra=", api_key: '${KEY}'"))
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client(service))
    assert caught.value.body["message"] == "*** may not do that"


def test_an_error_of_the_agents_own_reaches_the_client(endpoint, serve, agent, client):
    error = {"message": "The engine is overloaded", "type": "overloaded_error", "code": "engine_overloaded"}
    service = serve(agent(endpoint.script(rejecting(503, error))))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client(service))
    got = caught.value
    assert (got.status_code, got.code, got.type, got.body["message"]) == (
        502,
        error["code"],
        error["type"],
        error["message"],
    )
    assert got.body["details"]["ending"] == "upstream_5xx"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", [*TOO_LONG_FOR_IT, *FILTERED])
def test_a_filter_and_a_long_context_reach_the_client_at_once(endpoint, serve, agent, client, stream, name):
    """No other agent is asked, and the one that rejected it has learned nothing."""
    status, error = (TOO_LONG_FOR_IT | FILTERED)[name]
    bad, other = endpoint.script(rejecting(status, error)), endpoint.script(GOOD)
    service = serve(agent(bad, "one", tries=2), agent(other, "two"))
    calls, seen = 0, []
    while not endpoint.seen(bad):
        calls += 1
        try:
            list(ask(client(service), stream=stream))
        except openai.APIStatusError as caught:
            seen.append((caught.body["message"], caught.code))
    assert seen == [(error["message"], error.get("code", "unsuited"))]
    assert len(endpoint.seen(bad)) == 1 and len(endpoint.seen(other)) == calls - 1
    assert metric(service, "bot_orch_feedback_total", effect="learned") == calls - 1


@pytest.mark.parametrize("name", TOO_LONG_FOR_IT)
def test_an_agent_with_a_longer_context_takes_what_is_too_long(endpoint, serve, agent, client, name):
    bad, good = endpoint.script(rejecting(*TOO_LONG_FOR_IT[name])), endpoint.script(GOOD)
    service = serve(short(agent(bad, "short")), agent(good, "long"))
    while not endpoint.seen(bad):
        assert ask(client(service)).choices[0].message.content == "The answer"
    assert {attempt.ending for attempt in attempts(service) if attempt.agent == "short"} == {"unsuited"}


def test_a_filtered_request_goes_to_no_longer_context(endpoint, serve, agent, client):
    bad, good = endpoint.script(rejecting(*FILTERED["content filter"])), endpoint.script(GOOD)
    service = serve(short(agent(bad, "short")), agent(good, "long"))
    statuses = {service.post("/v1/chat/completions", {"model": "auto", "messages": HELLO}).status for _ in range(40)}
    assert statuses == {200, 400}
