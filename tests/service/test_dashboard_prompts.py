"""Kinds of prompts on the dashboard: requests, agents, dollars and second agents add up to what clients got."""

import re

import numpy as np
import pytest
from service_running import until

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.evaluation.offpolicy import Difference
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.savings import served_requests
from bot_orch.log import open_log
from bot_orch.service.dashboard.prompts import PromptKind, prompt_kinds, prompts_part

CONFIG = """
version: 1
database: {database}
listen: {{host: 127.0.0.1, port: {port}}}
router: {{policy: auto, encoder: builtin, seed: 3, floor: 0.3, success_reward: 1.0}}
agents:
  - {{id: broken, kind: python, path: "prompts_fixtures:broken", price: {{per_call_usd: 0.001}}}}
  - {{id: large, kind: python, path: "prompts_fixtures:large", price: {{per_call_usd: 0.03}}}}
"""
N = 200


@pytest.fixture
def served(start):
    """The service, and the answers to prompts of two kinds; one agent fails at one of them."""
    service, answers = start(CONFIG), []
    for number in range(N):
        text = f"please {('translate', 'prove')[number % 2]} item {number}"
        body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
        answers.append(service.post("/v1/chat/completions", body))
    assert {each.status for each in answers} == {200}
    until(lambda: not service.runtime.ledger.pending)
    return service, answers


def test_rows_add_up_to_what_clients_got(served, tmp_path):
    service, answers = served
    router = service.runtime.ledger.router
    service.stop()
    rounds = collect(open_log(str(tmp_path / "log.sqlite")))
    rows = prompt_kinds(rounds, served_requests(rounds), router=router, baseline="large")
    assert len(rows) >= 2 and sum(row.requests for row in rows) == N
    again = [int(each.headers["x-bot-orch-attempts"]) > 1 for each in answers]
    assert sum(again) > 0 and sum(row.again * row.requests for row in rows) == pytest.approx(sum(again))
    usd = sum(float(each.headers["x-bot-orch-cost-usd"]) for each in answers)
    assert sum(row.usd * row.requests for row in rows) == pytest.approx(usd)
    for name in ("broken", "large"):
        got = sum({agent: share for _, agent, share in row.shares}.get(name, 0.0) * row.requests for row in rows)
        assert got == pytest.approx(sum(each.headers["x-bot-orch-agent"] == name for each in answers))
    shares = [row.again for row in rows[:2]]
    assert max(shares) > 0.0 and (min(shares) == 0.0 or np.ptp(shares) > 0.05), "one kind alone needs a second agent"
    part = prompts_part(rows, "large")
    assert "$ saved against large" in part and f"Kind {rows[0].kind}</a>" in part


def test_fractions_of_a_cent_are_told_apart():
    """A request of a small model costs some millionths of a dollar."""
    saved = Difference(-0.000013, -0.00002, -0.000006)
    row = PromptKind(0, 9, [(0, "a", 1.0)], reward=1.0, usd=0.0000159, again=0.0, saved=saved, example="d")
    part = prompts_part([row], "a")
    assert ">$0.000016<" in part and ">0.0000130 ± 0.0000070<" in part


def test_the_page_has_them_once_kinds_are_known(served, start, tmp_path):
    service, _ = served
    page = service.get("/").body.decode()
    assert "Kinds of prompts" in page
    name, example = re.search(r'href="/decisions/([^"]+)" title="the newest[^"]*">(Kind \d+)<', page).group(2, 1)
    assert f"{name} of those that the router found" in service.get(f"/decisions/{example}").body.decode()
    new = start(CONFIG, database=tmp_path / "new.sqlite")
    assert new.get("/dashboard/live").json()["parts"]["prompts"] == ""


def test_requests_from_before_another_encoder_are_left_out(served, tmp_path):
    service, _ = served
    service.stop()
    rounds = collect(open_log(str(tmp_path / "log.sqlite")))
    requests = served_requests(rounds)
    assert prompt_kinds(rounds, requests, router=Orchestrator(["broken", "large"], n_features=2), baseline=None) == []
