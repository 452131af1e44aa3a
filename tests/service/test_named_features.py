"""Features by name over HTTP: decisions, tasks, chats, the client, the log and a restart."""

import jsonschema
import pytest
from service_running import BASE

from bot_orch.integrations.client import Client
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

AUTO = BASE.replace("policy: bot,", "policy: auto,")
TEXTS = BASE.replace("policy: bot,", "policy: auto, encoder: builtin,")
ALL, SOME = {"lang": "de", "tokens": 312, "urgent": True}, {"tokens": 7.5, "lang": None}
NAMES = ("lang=", "tokens", "urgent=")


def names_in(service):
    return service.call(lambda: service.runtime.ledger.router.settings.names)


@pytest.mark.parametrize("text", [AUTO, TEXTS])
def test_every_way_in_takes_names(start, tmp_path, text):
    service = start(text, database=tmp_path / "log.sqlite")
    chat = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    assert service.post("/v1/decisions", {"task": {"features": ALL}}).status == 200
    assert names_in(service) == NAMES
    assert service.post("/v1/tasks", {"task": {"text": "hello", "features": SOME}}).status == 200
    assert service.post("/v1/chat/completions", {**chat, "bot_orch": {"features": SOME}}).status == 200
    assert service.post("/v1/chat/completions", chat).status == 200, "a caller that knows nothing of features"
    with Client(f"http://127.0.0.1:{service.port}") as client:
        client.observe(client.decide({"features": SOME}).id, reward=1.0)
    state = service.call(lambda: service.runtime.ledger.fingerprint())
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    made = [row.event() for row in log.read() if row.kind == "decision@1"]
    assert {len(each.seen()) for each in made} == {17 + (70 if text is TEXTS else 0)}
    assert [each.names for each in made] == [NAMES] + [()] * 4, "once in the log"
    assert replay(log).ok and fold(log, use_snapshot=False).fingerprint() == state
    log.close()
    again = start(text, database=tmp_path / "log.sqlite")
    assert again.post("/v1/decisions", {"task": {"features": {"urgent": False}}}).status == 200
    assert names_in(again) == NAMES
    wrong = again.post("/v1/decisions", {"task": {"features": {"size": 1}}})
    assert wrong.status == 422 and wrong.json()["error"]["param"] == "task.features"


def test_a_task_that_waits_keeps_its_features(start, tmp_path):
    """Its record goes into the log before the decision."""
    service = start(AUTO, database=tmp_path / "log.sqlite")
    task = {"task": {"text": "hello", "features": ALL}, "background": True}
    assert service.post("/v1/tasks", task).status in (200, 202)
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    kept = next(row.event() for row in log.read() if row.kind == "task@1")
    assert kept.task.features == ALL
    log.close()


@pytest.mark.parametrize(
    ("features", "param", "message"),
    [
        ({"tokens": [1]}, "task.features.tokens", "task.features.tokens: is [1]; pass a finite number, a text"),
        ({"x" * 300: 1}, "task.features", "task.features: expected `str` of length <= 256"),
        ({"": 1}, "task.features", "task.features: expected `str` of length >= 1"),
        ({"a=": 1}, "task.features", "task.features: expected `str` matching regex '[^=]$'"),
        ({"tokens": 1e39}, "task.features", "task.features: holds a number beyond single precision; rescale it"),
        ({"lang": None}, "task.features.lang", "task.features.lang: is None; pass a number or a text with the first"),
        ({str(number): 1 for number in range(1001)}, "task.features", "task.features: expected `object` of length <="),
    ],
)
def test_mistakes_name_the_field(start, features, param, message):
    service = start(AUTO)
    answer = service.post("/v1/decisions", {"task": {"features": features}})
    error = answer.json()["error"]
    assert answer.status == 422 and error["param"] == param and error["message"].startswith(message), error
    assert service.post("/v1/tasks", {"task": {"features": features}}).status == 422
    aside = {"model": "auto", "messages": [{"role": "user", "content": "x"}], "bot_orch": {"features": features}}
    assert service.post("/v1/chat/completions", aside).status == 422
    assert service.post("/v1/decisions", {"task": {"features": ALL}}).status == 200
    other = service.post("/v1/decisions", {"task": {"features": {"tokens": "many"}}}).json()["error"]
    assert other["param"] == "task.features.tokens" and other["message"].endswith(
        "pass a number, as with the first task"
    )


def test_the_schema_tells(service):
    document = service.get("/openapi.json").json()
    schema = {"$ref": "#/components/schemas/TaskBody", "components": document["components"]}
    check = jsonschema.Draft202012Validator(schema)
    for features in (ALL, SOME, {}, [1.0, None], []):
        assert not [*check.iter_errors({"features": features})], features
    for features in ("de", {"lang": ["de"]}, {"": 1}, [1, "a"], 3):
        assert [*check.iter_errors({"features": features})], features
