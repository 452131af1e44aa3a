"""A process that is killed in the middle of a round that looks at its answers: what was acknowledged is kept."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))  # for test_workers

from service_running import Running, until
from test_workers import Service
from upstream import completion, hang

from bot_orch.core.events import DecisionMade, TaskEnded
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

TEXT = """
version: 1
database: log.sqlite
listen: {{port: 0}}
log_level: error
router: {{seed: 3, floor: 0.0, checks: [right], attempts: 2}}
judges: [{{name: right, kind: python, settings: {{path: "own_checks:right"}}}}]
agents: [{agents}]
tokens: [{{name: everyone, scopes: [decide, feedback, queue, admin], env: ALL}}]
"""


def line(url, name):
    return f'{{id: {name}, kind: openai, base_url: "{url}", model: m}}'


def test_a_round_that_was_killed_between_two_answers_is_finished(tmp_path, upstream):
    """The first answer fails the check; the second agent is asked when the process dies, and again after the start."""
    small = upstream.script("small", [completion(content="wrong")])
    large = upstream.script("large", [hang], [completion(content="right")])
    text = TEXT.format(agents=", ".join((line(small, "small"), line(large, "large"))))
    (tmp_path / "own_checks.py").write_text("def right(answer):\n    return float(answer.text == 'right')\n")
    service = Service(tmp_path, text, workers=1).wait()
    status, task, _ = service("POST", "/v1/tasks", {"task": {"text": "2 + 2?"}, "background": True})
    assert status == 202
    until(lambda: "large" in [name for name, _ in upstream.requests])
    os.kill(service.process.pid, signal.SIGKILL)
    service.stop()
    again = Service(tmp_path, text, workers=1).wait()
    try:
        done = until(lambda: (found := again("GET", f"/v1/tasks/{task['id']}")[1])["status"] == "completed" and found)
        assert (done["output"], done["agent"]) == ("right", "large")
    finally:
        again.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok and fold(log, use_snapshot=False).fingerprint() == fold(log).fingerprint()
    events = [row.event() for row in log.read()]
    log.close()
    made = [each for each in events if isinstance(each, DecisionMade)]
    assert sum(each.action == "accept" for each in made) == 1
    assert sum(isinstance(each, TaskEnded) for each in events) == 1


def test_a_round_that_ended_between_acceptance_and_its_end_asks_again(tmp_path, upstream, monkeypatch):
    """The answer that was accepted is lost with the process, so its agent is asked again."""

    def dies(*_, **__):
        raise RuntimeError("killed")

    right = upstream.script("right", [completion(content="right")])
    text = TEXT.replace("own_checks", "judging_fixtures").format(
        agents=", ".join((line(right, "small"), line(right, "large")))
    )
    text = text.replace("database: log.sqlite", f"database: {tmp_path}/log.sqlite").split("tokens:")[0]
    config = parse_config(text.replace('right"}}', 'right"}, rate: 0}'))
    service = Running(config)
    with monkeypatch.context() as patched:
        patched.setattr("bot_orch.service.api.tasks.TaskEnded", dies)
        task = service.post("/v1/tasks", {"task": {"text": "x"}, "background": True}).json()
        log = service.runtime.writer.log
        until(lambda: any(row.holds(DecisionMade) and row.event().action == "accept" for row in service.call(log.read)))
        service.stop()
    again = Running(config)
    try:
        done = until(lambda: (found := again.get(f"/v1/tasks/{task['id']}").json())["status"] == "completed" and found)
        assert done["output"] == "right"
    finally:
        again.stop()
