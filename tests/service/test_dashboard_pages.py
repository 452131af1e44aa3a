"""Pages of the dashboard: ranges of time in the address, CSV files, lists in pages, agents side by side."""

import csv
import io
import re

import pytest
from service_running import BASE

from bot_orch.clock import ManualClock
from bot_orch.service.dashboard.charts import CHARTS
from bot_orch.service.dashboard.ranges import parse_range
from bot_orch.service.problems import Problem

DAY = 86_400
NOON = 1_767_268_800  # 2026-01-01T12:00Z
BOTH = BASE + "  - {{id: person, kind: human}}\n"


@pytest.fixture
def history(start):
    """Ten tasks on New Year's Day and ten on the next day."""
    clock = ManualClock(NOON * 1_000_000)
    service = start(BASE, clock=clock)
    for number in range(20):
        clock.advance(60.0 if number != 10 else DAY)
        service.post("/v1/tasks", {"task": {"id": f"t{number}", "text": "x"}})
    return service


def rows(service, path):
    answer = service.get(path)
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(answer.body.decode())))


def test_every_chart_is_a_file_too(history):
    for name, value in CHARTS.items():
        found = rows(history, f"/dashboard/{name}.csv?last=all")
        assert found and all(float(row[value]) == float(row[value]) for row in found), name
        page = history.get("/?last=all").body.decode()
        assert f'href="/dashboard/{name}.csv?last=all"' in page
    shares = rows(history, "/dashboard/share.csv?last=all")
    assert shares[0]["time"].startswith("2026-01-01T12:") and {row["agent"] for row in shares} == {"quick", "careful"}
    agents = rows(history, "/dashboard/agents.csv?last=all")
    assert sum(int(row["decisions"]) for row in agents) == 20
    assert history.get("/dashboard/nothing.csv").status == 404


def test_a_range_in_the_address_is_what_is_shown(history):
    def decisions(query):
        live = history.get(f"/dashboard/live{query}").json()
        return sum(live["charts"]["decisions"]), live

    assert decisions("?last=all")[0] == 20
    assert decisions("?last=15m")[0] == decisions("?from=2026-01-02")[0] == 10
    found, live = decisions("?from=2026-01-01T12:00&to=2026-01-01T12:05")
    assert found == 5 and "20<small>5 in this range" in live["parts"]["tiles"]
    page = history.get("/?from=2026-01-01T12:00&to=2026-01-01T12:05").body.decode()
    assert 'data-live="/dashboard/live?from=2026-01-01T12%3A00&amp;to=2026-01-01T12%3A05"' in page
    for bad, word in (("last=week", "last"), ("from=yesterday", "from"), ("from=2026-01-02&to=2026-01-01", "later")):
        answer = history.get(f"/?{bad}")
        assert answer.status == 422 and word.encode() in answer.body
    with pytest.raises(Problem, match="write it as 15m"):
        parse_range({"last": "0h"}, 1)


def test_decisions_are_paged_and_the_count_is_that_of_all(history, monkeypatch):
    monkeypatch.setattr("bot_orch.service.dashboard.routes._PER_PAGE", 8)
    seen, path = [], "/decisions"
    pages = []
    while path:
        body = history.get(path).body.decode()
        assert '<span class="count">20</span>' in body
        pages.append(re.findall(r">(t\d+)</a>", body))
        seen += pages[-1]
        older = re.search(r'rel="next" href="([^"]+)"', body)
        newer = re.search(r'rel="prev" href="([^"]+)"', body)
        path = older and older[1]
    assert seen == [f"t{n}" for n in range(19, -1, -1)] and [len(each) for each in pages] == [8, 8, 4]
    back = history.get(newer[1]).body.decode()
    assert re.findall(r">(t\d+)</a>", back) == pages[1]
    assert "2026-01-01 12:01:00" in body and "2026-01-02" not in back.split("<tbody>")[1].split("t10<")[0]
    assert history.get("/decisions?before=x&after=99999999999999999999").status == 200


def test_a_log_without_decisions_has_an_empty_list(start):
    assert b"No decisions yet" in start().get("/decisions").body


def test_agents_side_by_side_can_be_sorted(history):
    def order(sort):
        part = history.get(f"/dashboard/live?last=all&sort={sort}").json()["parts"]["agents"]
        assert part.count("<meter") == 6
        return re.findall(r'class="name">(\w+)<', part)

    assert order("") == ["quick", "careful"] and order("agent") == ["careful", "quick"]
    earned = {row["agent"]: float(row["reward"]) for row in rows(history, "/dashboard/agents.csv?last=all")}
    assert order("reward") == sorted(earned, key=earned.__getitem__, reverse=True)
    assert order("usd") == ["quick", "careful"]
    assert order("nonsense") == ["quick", "careful"]
    assert 'href="/?last=all&amp;sort=reward#agents"' in history.get("/?last=all").body.decode()


def test_signing_in_leads_to_the_range_that_was_asked_for(start, monkeypatch):
    monkeypatch.setenv("BOT_ORCH_TOKEN_OPS", "secret-token-of-ops")
    text = BASE + "tokens:\n  - {{name: ops, scopes: [admin], env: BOT_ORCH_TOKEN_OPS}}\n"
    service = start(text, environment={"BOT_ORCH_TOKEN_OPS": "secret-token-of-ops"})
    goal = service.get("/?last=7d&sort=usd").headers["location"]
    assert goal == "/login?next=/%3Flast%3D7d%26sort%3Dusd"
