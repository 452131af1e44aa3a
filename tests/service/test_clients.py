"""Real clients: the openai package, curl, schemathesis."""

import json
import shutil
import subprocess

import openai
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from bot_orch.service.api.routes import API_ROUTES
from bot_orch.service.web.openapi import document

CHAIN = """
version: 1
database: {database}
listen: {{port: {port}}}
router: {{policy: bot, floor: 0.05, success_reward: 1.0}}
agents:
  - id: upstream
    kind: openai
    base_url: "http://127.0.0.1:UPSTREAM/v1"
    model: auto
"""


@pytest.fixture(params=["direct", "chained"])
def client(request, start, tmp_path):
    """Straight to simulated agents, or through a second service whose agent is the first one."""
    service = start()
    if request.param == "chained":
        service = start(CHAIN.replace("UPSTREAM", str(service.port)), database=tmp_path / "second.sqlite")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="unused", max_retries=0) as made:
        yield made


HELLO = [{"role": "user", "content": "hello"}]


def test_openai_client(client):
    assert "auto" in [model.id for model in client.models.list()]
    raw = client.chat.completions.with_raw_response.create(model="auto", messages=HELLO, temperature=0.5)
    done = raw.parse()
    assert "this one is good" in done.choices[0].message.content and done.usage.total_tokens > 0
    for name in ("decision-id", "agent", "propensity", "policy", "attempts", "overhead-ms"):
        assert raw.headers[f"x-bot-orch-{name}"]
    assert 0 < float(raw.headers["x-bot-orch-propensity"]) <= 1


def test_openai_client_streams(client):
    pieces = list(client.chat.completions.create(model="auto", messages=HELLO, stream=True))
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert "this one is good" in text and len(pieces) > 3
    assert any(piece.choices and piece.choices[0].finish_reason == "stop" for piece in pieces)


def test_openai_client_reads_errors(client):
    with pytest.raises(openai.NotFoundError) as found:
        client.chat.completions.create(model="no-such-model", messages=HELLO)
    assert found.value.code == "model_not_found" and found.value.param == "model"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="auto", messages=[])


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(service):
    url = f"http://127.0.0.1:{service.port}"

    def curl(*words):
        return subprocess.run(["curl", "-sS", "-f", *words], capture_output=True, text=True, check=True).stdout

    made = json.loads(curl(f"{url}/v1/decisions", "-d", '{"task": {"id": "c"}}', "-H", "Idempotency-Key: curl"))
    told = json.loads(curl(f"{url}/v1/feedback", "-d", json.dumps({"decision_id": made["id"], "reward": 1})))
    assert told["effect"] == "learned"
    stream = curl(
        "-N", f"{url}/v1/chat/completions", "-d", json.dumps({"model": "auto", "stream": True, "messages": HELLO})
    )
    assert stream.strip().endswith("data: [DONE]")


def test_openapi_covers_every_route(service):
    served = service.get("/openapi.json").json()
    assert served == json.loads(json.dumps(document(API_ROUTES)))
    known = {(r.method, r.path.replace(":path}", "}")) for r in API_ROUTES}
    assert {(m.upper(), p) for p, item in served["paths"].items() for m in item} == known


schema = schemathesis.openapi.from_dict(json.loads(json.dumps(document(API_ROUTES))))


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_no_server_error_whatever_the_schema_allows(case, service):
    answer = case.call(base_url=f"http://127.0.0.1:{service.port}")
    if answer.status_code >= 500:
        assert answer.status_code in (502, 503, 504) and answer.json()["error"]["code"] != "internal", answer.text
        assert case.operation.path in ("/v1/tasks", "/v1/chat/completions"), answer.text
    assert str(answer.status_code) in case.operation.definition.raw["responses"], (
        f"{answer.status_code} is not declared"
    )
