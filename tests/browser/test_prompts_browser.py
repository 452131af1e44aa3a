"""Kinds of prompts and savings in a real Chromium, for clients that name no ``kind``."""

import json
import re

import pytest
from service_running import Running, until

from bot_orch.service.config import parse_config


def agent(name, usd):
    return {"id": name, "kind": "python", "path": f"prompts_fixtures:{name}", "price": {"per_call_usd": usd}}


def served(database):
    """Two agents, of which the cheap one cannot prove; the dear one can do both."""
    document = {
        "version": 1,
        "database": str(database),
        "listen": {"host": "127.0.0.1", "port": 0},
        "router": {"policy": "auto", "encoder": "builtin", "floor": 0.2, "seed": 3, "objective": {"usd": 3.0}},
        "judges": [{"name": "right", "kind": "python", "settings": {"path": "prompts_fixtures:right"}}],
        "agents": [agent("small", 0.001), agent("large", 0.03)],
    }
    return Running(parse_config(json.dumps(document)))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    running = served(tmp_path_factory.mktemp("prompts") / "log.sqlite")
    running.url = f"http://127.0.0.1:{running.port}"
    for number in range(300):
        text = f"please {('translate', 'prove')[number % 2]} item {number}"
        body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
        assert running.post("/v1/chat/completions", body).status == 200
    until(lambda: not running.runtime.ledger.pending)
    yield running
    running.stop()


def test_kinds_that_no_client_named_are_rows(played, page):
    page.goto(f"{played.url}/")
    page.wait_for_selector("#prompts tbody tr")
    rows = [row.inner_text() for row in page.locator("#prompts tbody tr").all()]
    one, two = (int(dict(re.findall(r"(small|large) (\d+) %", row)).get("small", 0)) for row in rows[:2])
    assert abs(one - two) > 40, "the small agent gets what it can do"
    savings = page.inner_text("[data-part=savings]")
    assert "against large" in savings and re.search(r"\$\d\.\d+ ± \d\.\d+ less", savings)
    page.click("#prompts tbody a >> nth=0")
    page.wait_for_selector("text=Terms of every score")
