"""Learning with no plumbing: the official client, judges in the configuration, thumbs by the ids that clients see."""

from collections import Counter
from contextlib import ExitStack

import anthropic
import pytest
from service_running import Running, until
from test_interfaces import EVENTS, RESPONSE, able
from test_messages import TEXT, native, said
from upstream import ID, completion

from bot_orch.core.events import FeedbackGiven
from bot_orch.service.config import parse_config

SCHEMA = "{type: object, required: [label]}"
JUDGES = f"""
judges:
  - {{name: thumbs, kind: thumbs}}
  - {{name: shape, kind: json_schema, settings: {{schema: {SCHEMA}}}}}
"""
OWN = "".join(
    f"  - {{id: {name}, kind: python, path: 'gateway_agents:{name}'}}\n" for name in ("chatty", "formal", "formal_too")
)


@pytest.fixture
def judged(tmp_path):
    """Starts a gateway with judges; it is stopped at the end of the test."""
    with ExitStack() as stack:

        def begin(agents=OWN, router="policy: auto, encoder: builtin, seed: 3", more=""):
            text = f"version: 1\ndatabase: {tmp_path}/log.sqlite\nlisten: {{port: 0}}\nrouter: {{{router}}}\n"
            running = Running(parse_config(f"{text}{JUDGES}agents:\n{agents}{more}"))
            stack.callback(running.stop)
            return running

        yield begin


def values(service, decision_id):
    rows = service.call(lambda: service.runtime.writer.log.about(decision_id))
    return [(e.judge, e.reward, e.effect) for row in rows if isinstance(e := row.event(), FeedbackGiven)]


def ask(api, text, **options):
    """An answer, and the decision behind it."""
    messages = [{"role": "user", "content": text}]
    raw = api.chat.completions.with_raw_response.create(model="auto", messages=messages, **options)
    return raw.parse(), raw.headers["x-bot-orch-decision-id"]


def up(service, completion_id, reward=1, *, name="completion_id"):
    return service.post("/v1/feedback", {name: completion_id, "reward": reward}).json()


@pytest.mark.parametrize("name", ["completion_id", "decision_id"])
def test_the_id_of_an_answer_names_its_decision(judged, client, name):
    service = judged()
    answer, made = ask(client(service), "Hello")
    assert up(service, answer.id, name=name)["decision_id"] == made


def test_a_plain_client_teaches_by_checks_and_thumbs(judged, client):
    service, asked = judged(), Counter()
    api = client(service)
    for number in range(40):
        answer, made = ask(api, f"Classify ticket {number}")
        until(lambda made=made: values(service, made))
        asked[answer.model] += number >= 20
    assert asked["chatty"] <= 2, "its answers do not fit the schema"
    for number in range(40):
        answer, made = ask(api, f"Classify ticket {number + 40}")
        told = up(service, answer.id, 1 if answer.model == "formal" else 0)
        assert told["decision_id"] == made and told["effect"] in ("learned", "replaced")
        asked[f"later {answer.model}"] += number >= 20
    assert asked["later formal"] >= 15, "people like it"


@pytest.mark.parametrize("streams", [False, True])
def test_ids_of_translated_responses_and_messages_name_their_decisions(judged, client, streams):
    service = judged()
    done = client(service).responses.create(model="auto", input="Hello", stream=streams)
    response = list(done)[-1].response if streams else done
    assert up(service, response.id)["effect"] in ("learned", "replaced")
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{service.port}", api_key="unused") as api:
        asked = {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
        if streams:
            with api.messages.stream(**asked) as pieces:
                message = pieces.get_final_message()
        else:
            message = api.messages.create(**asked)
    assert up(service, message.id)["effect"] in ("learned", "replaced")


@pytest.mark.parametrize("streams", [False, True])
def test_ids_of_native_responses_and_messages_name_their_decisions(judged, client, endpoint, agent, streams):
    line = able(agent(endpoint.script({"document": RESPONSE, "events": EVENTS})), "responses")
    service = judged(f"  - {line}\n  - {native(endpoint.script(*said(TEXT)))}\n")
    done = client(service).responses.create(model="auto", input="Hi", tools=[{"type": "web_search"}], stream=streams)
    assert (list(done)[-1].response if streams else done).id == "resp_up"
    assert until(lambda: up(service, "resp_up").get("effect")) in ("learned", "replaced")
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{service.port}", api_key="unused") as api:
        asked = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
        if streams:
            with api.messages.stream(**asked) as pieces:
                message = pieces.get_final_message()
        else:
            message = api.messages.create(**asked)
    assert message.id == "msg_up"
    assert until(lambda: up(service, "msg_up").get("effect")) in ("learned", "replaced")


def test_an_id_that_an_endpoint_repeats_is_refused(upstream, serve, agent, client):
    """Which answer is meant cannot be told; the id of the decision can."""
    line = agent(upstream.script("same", [completion(content="fine")]), "same")
    service = serve(line, router="attempts: 1", after="judges: [{name: people, kind: thumbs}]")
    _, first = ask(client(service), "one")
    until(lambda: up(service, ID).get("effect") == "learned")
    _, second = ask(client(service), "two")
    refused = until(lambda: "error" in (found := up(service, ID, 0)) and found["error"])
    assert refused["code"] == "ambiguous_completion" and "x-bot-orch-decision-id" in refused["message"]
    assert up(service, second, name="decision_id")["effect"] == "learned"
    assert [each[1] for each in values(service, first)] == [1.0]
