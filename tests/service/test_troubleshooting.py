"""docs/how-to/troubleshooting.md: every row names a test that plays it, and what no other test plays is played here."""

import ast
import re
from pathlib import Path

import pytest
from service_running import BASE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
TOKENS = """
tokens:
  - {{name: app, scopes: [decide, feedback], env: APP}}
  - {{name: ops, scopes: [admin], env: OPS}}
"""
SECRETS = {"APP": "a" * 32, "OPS": "b" * 32}


def functions_of(path):
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def rows():
    return [line for line in PAGE.splitlines() if line.startswith("| ") and "`tests/" in line]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_row_names_a_test(row):
    path, name = re.search(r"`(tests/[\w/.]+)::(\w+)` \|$", row).groups()
    assert name in functions_of(ROOT / path)


def test_no_row_is_without_a_test():
    bodies = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("| played by |")]
    assert bodies == rows() and len(bodies) >= 36


def test_a_named_model_leaves_no_choice(service):
    answer = service.post("/v1/chat/completions", {**CHAT, "model": "quick"})
    told = service.get(f"/v1/decisions/{answer.headers['x-bot-orch-decision-id']}").json()
    assert told["excluded"] == {"careful": "not requested"}
    assert told["decision"]["propensities"] == {"quick": 1.0, "careful": 0.0}


def pending(service):
    text = service.get("/metrics").body.decode()
    return int(float(re.search(r"^bot_orch_pending_decisions (\S+)$", text, re.MULTILINE).group(1)))


def test_without_rewards_decisions_stay_pending(start):
    service = start()
    ids = [service.post("/v1/decisions").json()["id"] for _ in range(3)]
    assert pending(service) == 3
    assert service.post("/v1/feedback", {"decision_id": ids[0], "reward": 1.0}).json()["effect"] == "learned"
    assert pending(service) == 2


def test_a_second_report_is_a_revision(service):
    decision = service.post("/v1/decisions").json()["id"]
    effects = [
        service.post("/v1/feedback", {"decision_id": decision, "reward": reward}).json()["effect"]
        for reward in (1.0, 0.0)
    ]
    assert effects == ["learned", "revision"]


def test_the_dashboard_needs_an_admin(start):
    service = start(BASE + TOKENS, environment=SECRETS)
    assert service.get("/").status == 303
    assert service.get("/", headers={"authorization": f"Bearer {SECRETS['APP']}"}).status == 403
    assert service.get("/", headers={"authorization": f"Bearer {SECRETS['OPS']}"}).status == 200
