"""The dashboard of one kind of tasks; judges against audits beside the agents."""

import csv
import io
import re

import pytest
from service_running import BASE
from test_judge_audits import STRICT
from test_judges import chat, configured, decision_of, judged

from bot_orch.agents.endings import Ending
from bot_orch.core.events import AttemptEnded, Censored, FeedbackGiven, TaskRecord, record_decision
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.service.dashboard.parts import kinds_part
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.types import Task

SECOND = 1_000_000
HOSTILE = '"><script>pwned=1</script>&a=b'


def rows(service, path):
    answer = service.get(path)
    assert answer.status == 200, answer.body
    return list(csv.DictReader(io.StringIO(answer.body.decode())))


@pytest.fixture
def mixed(start):
    """Twelve refunds and six orders, called by the service."""
    service = start(BASE)
    for number in range(18):
        kind = "order" if number % 3 == 0 else "refund"
        service.post("/v1/tasks", {"task": {"id": f"{kind}-{number}", "kind": kind, "text": "x"}})
    return service


def test_a_kind_filters_every_chart_table_and_file(mixed):
    live = mixed.get("/dashboard/live?kind=order").json()
    charts, parts = live["charts"], live["parts"]
    assert sum(charts["decisions"]) == 6 and "6<small>of order, in this range" in parts["tiles"]
    assert "order-" in parts["recent"] and "refund-" not in parts["recent"]
    agents = rows(mixed, "/dashboard/agents.csv?kind=order")
    everyone = rows(mixed, "/dashboard/agents.csv")
    assert sum(int(row["decisions"]) for row in agents) == 6 and sum(int(row["ended"]) for row in agents) == 6
    assert sum(int(row["ended"]) for row in everyone) == 18
    others = rows(mixed, "/dashboard/agents.csv?kind=refund")
    for each in ("cost_usd", "decisions"):
        sums = [sum(float(row[each]) for row in found) for found in (agents, others, everyone)]
        assert sums[0] + sums[1] == pytest.approx(sums[2]), each
    assert sum(row[-1] for row in charts["cost"]) == pytest.approx(sum(float(row["cost_usd"]) for row in agents))


def test_kinds_are_counted_and_linked_within_the_range(mixed):
    page = mixed.get("/?last=1h&sort=usd").body.decode()
    part = re.search(r'data-part="kinds"[^>]*>(.*?)</ul>', page)[1]
    assert re.findall(r">(\w+) <small>(\d+)<", part) == [("all", "18"), ("refund", "12"), ("order", "6")]
    assert (
        'href="/?last=1h&amp;kind=order&amp;sort=usd"' in part or 'href="/?last=1h&amp;sort=usd&amp;kind=order"' in part
    )
    assert rows(mixed, "/dashboard/kinds.csv?kind=order") == [
        {"kind": "refund", "decisions": "12"},
        {"kind": "order", "decisions": "6"},
    ]


def test_the_address_keeps_range_and_kind_in_every_link(mixed):
    page = mixed.get("/?last=1h&kind=refund").body.decode()
    assert 'data-live="/dashboard/live?last=1h&amp;kind=refund"' in page
    for name in ("share", "cost", "agents", "judges", "kinds"):
        assert f'href="/dashboard/{name}.csv?last=1h&amp;kind=refund"' in page, name
    assert 'href="/?kind=refund&amp;last=6h"' in page and 'name="kind" value="refund"' in page
    assert 'href="/decisions?kind=refund"' in page and 'aria-current="true">refund' in page
    made = re.search(r'href="(/decisions/[^"]+)"', page)[1]
    assert '<a href="/?kind=refund">refund</a>' in mixed.get(made).body.decode()


def test_the_list_of_decisions_is_that_of_a_kind_in_pages(mixed, monkeypatch):
    monkeypatch.setattr("bot_orch.service.dashboard.routes._PER_PAGE", 4)
    seen, path = [], "/decisions?kind=order"
    while path:
        body = mixed.get(path).body.decode()
        seen += re.findall(r">(\w+-\d+)</a>", body)
        older = re.search(r'rel="next" href="([^"]+)"', body)
        path = older and older[1].replace("&amp;", "&")
    assert seen == [f"order-{number}" for number in range(15, -1, -3)]


def test_an_unknown_kind_is_empty_and_shown_as_text(mixed):
    live = mixed.get("/dashboard/live?kind=%22%3E%3Cscript%3Epwned=1%3C/script%3E%26a=b").json()
    assert sum(live["charts"]["decisions"]) == 0 and live["charts"]["share"] == []
    assert "<script" not in live["parts"]["kinds"] + live["parts"]["tiles"]
    assert "&lt;script&gt;" in kinds_part([(HOSTILE, 1)], {})


def test_timelines_of_kinds_are_bounded(mixed):
    for name in ("order", "refund", "a", "b", "c", "order"):
        live = mixed.get(f"/dashboard/live?kind={name}").json()
        assert sum(live["charts"]["decisions"]) == {"order": 6, "refund": 12}.get(name, 0)


def test_many_kinds_are_counted_as_others():
    line, router = Timeline(("a",)), Orchestrator(["a"], "random")
    for number in range(150):
        record = TaskRecord(f"t{number}", f"kind-{number}")
        line.apply(number, record_decision(router.decide(Task("t"), decision_id=f"d{number}"), record))
    kinds = line.series.view(0, SECOND).kinds()
    assert len(kinds) == 101 and kinds["(others)"] == 50
    part = kinds_part([(f"k{n}", 1) for n in range(30)], {"kind": "k29"})
    assert part.count("<a ") == 26 and "5 more" in part and 'aria-current="true">k29' in part
    assert kinds_part([("", 3)], {}) == ""


def test_silence_and_late_rewards_count_for_their_kind_only():
    line, router = Timeline(("a",), "x"), Orchestrator(["a"], "random")
    for name, kind in (("d", "x"), ("e", "y")):
        line.apply(1, record_decision(router.decide(Task("t"), decision_id=name), TaskRecord("t", kind)))
        line.apply(2, AttemptEnded(name, "", "a", 1, str(Ending.COMPLETED), 0.4, cost_usd=0.25))
        line.apply(3, Censored(name, 9.0, "unanswered"))
        line.apply(4, FeedbackGiven("f", name, "replaced", 0.5))
    view = line.series.view(0, SECOND)
    for field, expected in (("decisions", 1), ("ended", 1), ("cost_usd", 0.25), ("reward", 0.5)):
        assert view.total(field).sum() == pytest.approx(expected), field
    assert line.due == 0


def test_judge_and_truth_are_side_by_side_per_agent(start):
    fooled = {"name": "fooled", "kind": "python", "settings": {"path": "judging_fixtures:anything"}}
    service = start(configured(fooled, STRICT, more="audit: {rate: 1.0, by: strict}"))
    for model in ("short", "long") * 3:
        judged(service, decision_of(chat(service, model)), 2)
    found = {row["agent"]: row for row in rows(service, "/dashboard/agents.csv")}
    assert [found["short"][name] for name in ("audited", "judged", "truth")] == ["3", "1.0", "0.0"]
    assert [found["long"][name] for name in ("audited", "judged", "truth")] == ["3", "1.0", "1.0"]
    part = service.get("/dashboard/live?sort=audit").json()["parts"]["agents"]
    assert re.findall(r'class="name">(\w+)<', part)[0] == "short"
    assert '<span class="state bad">1.00, 0.00</span>' in part and ">1.00, 1.00</td>" in part
    file = rows(service, "/dashboard/judges.csv")
    assert {(row["judge"], row["agent"]) for row in file} >= {("fooled", "short"), ("audit", "long")}
    kind = service.get("/dashboard/live").json()["parts"]["kinds"]
    assert "judged" not in kind
    empty = service.get("/dashboard/live?kind=none").json()["parts"]
    assert "Nothing was judged yet" in empty["judges"]


def test_audits_of_a_kind_are_counted_apart():
    line, router = Timeline(("a",), "x"), Orchestrator(["a"], "random", audit_rate=1.0)
    for name, kind, value in (("d", "x", 0.9), ("e", "y", 0.1)):
        line.apply(1, record_decision(router.decide(Task("t"), decision_id=name), TaskRecord("t", kind)))
        line.apply(2, FeedbackGiven("f", name, "learned", value, judge="model", agent="a"))
        line.apply(3, FeedbackGiven("g", name, "audited", 0.4, audit=True))
    tally = line.judgements.tallies["model", "a"]
    assert (tally.count, tally.pairs, tally.gap) == (1, 1, pytest.approx(0.5))
    assert line.series.view(0, SECOND).total("judged").tolist() == [0.9]


def test_a_truth_that_comes_first_is_compared_too():
    line, router = Timeline(("a",)), Orchestrator(["a"], "random")
    line.apply(1, record_decision(router.decide(Task("t"), decision_id="d"), TaskRecord("t")))
    line.apply(2, FeedbackGiven("f", "d", "learned", 0.2, audit=True))
    line.apply(3, FeedbackGiven("g", "d", "audited", 0.9, judge="model", agent="a"))
    view = line.series.view(0, SECOND)
    assert [view.total(name)[0] for name in ("audited", "judged", "truth")] == [1.0, 0.9, 0.2]
