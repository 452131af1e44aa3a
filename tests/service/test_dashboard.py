"""The dashboard: what it computes from the log, and that it shows whatever it is given as text."""

import json

import numpy as np
import pytest
from service_running import BASE

from bot_orch.agents.endings import Ending
from bot_orch.core.events import AttemptEnded, Censored, FeedbackGiven, TaskRecord, record_decision
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.service.dashboard.buckets import BucketSeries
from bot_orch.service.dashboard.charts import chart_data
from bot_orch.service.dashboard.reader import TimelineReader
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.service.web.pages import Safe, escape, html, join
from bot_orch.types import Task

SECOND = 1_000_000
HOSTILE = "<script>window.pwned=1</script>\"'><img src=x onerror=pwned=1>"


class Story:
    """Decisions and outcomes, one per second, into a timeline."""

    def __init__(self, agents=("a", "b"), seed=0):
        self.router = Orchestrator(list(agents), "random", seed=seed)
        self.line, self.now, self.number = Timeline(tuple(agents)), 0, 0

    @property
    def view(self):
        return self.line.series.view(0, self.now + SECOND)

    @property
    def buckets(self):
        return self.view.buckets

    def step(self, reward, output=None, wait_us=SECOND):
        self.now += wait_us
        self.number += 1
        name = f"d{self.number}"
        made = self.router.decide(Task(f"t{self.number}"), decision_id=name)
        self.line.apply(self.now, record_decision(made, TaskRecord(f"t{self.number}")))
        value = reward(made.agent)
        self.line.apply(self.now, FeedbackGiven("f", name, "learned", value, 0.5, output=output and output(made.agent)))
        return made.agent


def test_means_stay_between_zero_and_one_though_rewards_are_revised_later():
    """A revision counts in the interval of the reward that it replaces, at every width."""
    story = Story(("a",))
    for _ in range(40):
        story.step(lambda _: 1.0)
    for number in range(1, 31):
        story.now += SECOND
        story.line.apply(story.now, FeedbackGiven(f"r{number}", f"d{number}", "replaced", 0.0))
        if number % 3 == 0:
            story.step(lambda _: 0.0)
    for last in (1, 20, 45, 80, 3600):
        view = story.line.series.view(story.now - last * SECOND, story.now + SECOND)
        shown = [value for value in chart_data(story.line, view)["reward"][0] if value is not None]
        assert all(0.0 <= value <= 1.0 for value in shown)
    assert story.view.total("reward")[0] == 10.0 and story.view.total("rewarded")[0] == 50.0
    assert [float(bucket["reward"][0]) for bucket in story.buckets][:1] == [0.0]


def test_shares_propensities_and_rewards_add_up():
    story = Story()
    chosen = [story.step(lambda agent: 1.0 if agent == "a" else 0.25) for _ in range(60)]
    data = chart_data(story.line, story.view)
    assert np.allclose(np.sum(np.array(data["share"], dtype=float), axis=0), 1.0)
    assert np.allclose(np.array(data["propensity"], dtype=float), 0.5)
    made = sum(float(bucket["decisions"][0]) for bucket in story.buckets)
    assert made == chosen.count("a")
    assert data["reward"][0][-1] == 1.0 and data["reward"][1][-1] == 0.25
    json.dumps(data, allow_nan=False)


def test_the_latest_reward_is_the_one_that_counts():
    story = Story(("a",))
    story.step(lambda agent: 0.2)
    story.line.apply(story.now, FeedbackGiven("g", "d1", "replaced", 0.9))
    story.line.apply(story.now, FeedbackGiven("h", "d1", "outranked", 0.1))
    data = chart_data(story.line, story.view)
    assert data["reward"] == [[0.9]]
    story.step(lambda agent: None)
    story.line.apply(story.now, FeedbackGiven("i", "d2", "replaced", 0.5))
    assert story.view.total("rewarded")[0] == 2.0 and story.view.total("reward")[0] == pytest.approx(1.4)


def test_a_shadow_call_is_no_traffic():
    story = Story()
    for _ in range(4):
        story.step(lambda agent: 1.0)
        made = story.router.decide(Task("s"), eligible=["b"], decision_id=f"s{story.number}")
        event = record_decision(made, TaskRecord("s"), by="shadow")
        story.line.apply(story.now, event)
        story.line.apply(story.now, FeedbackGiven("f", event.id, "learned", 0.5, 0.1))
    assert story.view.total("decisions").sum() == 4.0 and story.view.total("rewarded").sum() == 8.0
    assert np.allclose(np.array(chart_data(story.line, story.view)["propensity"], dtype=float), 0.5)


def test_buckets_of_every_width_keep_their_sums():
    story = Story()
    for _ in range(4000):
        story.step(lambda agent: 0.5, wait_us=3 * SECOND)
    assert story.view.width_us == 240 * SECOND and len(story.buckets) <= 91
    assert all(bucket.start_us % story.view.width_us == 0 for bucket in story.buckets)
    for name, expected in (("decisions", 4000), ("rewarded", 4000), ("completed", 4000), ("reward", 2000)):
        assert story.view.total(name).sum() == pytest.approx(expected)
    recent = story.line.series.view(story.now - 60 * SECOND, story.now + SECOND)
    assert recent.width_us == SECOND and recent.total("decisions").sum() in (20, 21)
    assert Timeline(("a",)).series.view(0, SECOND).total("decisions").tolist() == [0.0]


def test_ranges_far_in_the_past_are_shown_more_coarsely():
    story = Story()
    for _ in range(3000):
        story.step(lambda agent: 1.0, wait_us=120 * SECOND)  # four days
    day = story.line.series.view(SECOND * 86_400, SECOND * 2 * 86_400)
    assert day.width_us == 1800 * SECOND and day.total("decisions").sum() == pytest.approx(720, abs=16)


def test_memory_of_many_agents_is_bounded():
    series = BucketSeries(400)
    for second in range(1000):
        series.at(second * SECOND)["decisions"][7] += 1
    assert len(series.tiers[0]) <= 2 * series.kept == 180
    assert series.view(0, 1000 * SECOND).total("decisions")[7] == 1000


def test_a_time_without_data_is_a_gap_and_sparse_traffic_is_none():
    story = Story()
    for wait in [SECOND] * 30 + [60 * SECOND] + [SECOND] * 30:
        story.step(lambda agent: 1.0, wait_us=wait)
    data = chart_data(story.line, story.view)
    apart = np.diff(data["t"])
    assert (apart > data["gap_s"]).sum() == 1 and len(data["t"]) < 70
    sparse = Story()
    for _ in range(30):
        sparse.step(lambda agent: 1.0, wait_us=50 * SECOND)
    data = chart_data(sparse.line, sparse.view)
    assert not (np.diff(data["t"]) > data["gap_s"]).any()


def test_attempts_count_once_cost_and_time_and_silence_is_shown():
    line = Timeline(("a",))
    router = Orchestrator(["a"], "random")
    line.apply(1, record_decision(router.decide(Task("t"), decision_id="d"), TaskRecord("t")))
    line.apply(2, AttemptEnded("d", "", "a", 1, str(Ending.COMPLETED), 0.4, cost_usd=0.25))
    line.apply(3, FeedbackGiven("f", "d", "learned", 0.5, 0.4))
    view = line.series.view(0, SECOND)
    assert [view.total(name)[0] for name in ("ended", "failed", "completed", "seconds")] == [1, 0, 1, 0.4]
    assert line.recent[-1].outcome == "reward 0.50" and view.total("cost_usd")[0] == 0.25
    line.apply(4, record_decision(router.decide(Task("t"), decision_id="e"), TaskRecord("t")))
    line.apply(5, Censored("e", 9.0, "unanswered"))
    assert line.recent[-1].outcome == "censored: unanswered"
    assert line.series.view(0, SECOND).total("rewarded").sum() == 1  # silence is no zero


def labels(p):
    return {"kind": "labels", "probabilities": [1 - p, p]}


def test_drift_rings_for_the_agent_that_changed_and_only_for_it():
    story = Story(seed=1)
    for number in range(600):
        story.step(lambda agent: 0.5, lambda agent, n=number: labels(float(agent == "a" and n > 300)))
    assert {alarm.agent for alarm in story.line.alarms} == {"a"}
    assert {alarm["agent"] for alarm in chart_data(story.line, story.view)["alarms"]} == {"a"}, "marks in the chart"
    calm = Story(seed=1)
    for _ in range(300):
        calm.step(lambda agent: 0.5, lambda agent: labels(0.0))
    assert not calm.line.alarms


def test_the_follower_reads_on_and_leaves_out_what_is_too_much(start, monkeypatch):
    monkeypatch.setattr("bot_orch.service.dashboard.reader._HISTORY", 20)
    monkeypatch.setattr("bot_orch.service.dashboard.reader._AT_ONCE", 5)
    service = start(BASE)
    for number in range(12):
        service.post("/v1/decisions", {"task": {"id": f"t{number}"}})
    import asyncio

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, service.loop).result(20)

    follower = TimelineReader(service.runtime)
    line = run(follower.advance())
    first = line.decisions
    assert 0 < first <= 5
    for number in range(40):
        service.post("/v1/decisions", {"task": {"id": f"u{number}"}})
    for _ in range(12):
        run(follower.advance())
    assert follower.skipped > 0 and follower.timeline.recent[-1].task == "u39"
    assert follower.decisions == 52 and "skipped" in follower.progress  # the count leaves nothing out


def test_dashboard_shows_agents_decisions_and_why(start):
    service = start(BASE)
    made = [service.post("/v1/tasks", {"task": {"id": f"t{n}", "text": "x"}}).json() for n in range(10)]
    page = service.get("/")
    assert page.status == 200
    for name in ("quick", "careful"):
        assert name.encode() in page.body
    live = service.get("/dashboard/live").json()
    assert live["charts"]["agents"] == ["quick", "careful"] and sum(map(len, live["charts"]["share"])) >= 2
    assert made[-1]["decision_id"] in live["parts"]["recent"]
    assert "closed" in live["parts"]["agents"] and "Mean reward" in live["parts"]["tiles"]
    why = service.get(f"/decisions/{made[-1]['decision_id']}").body.decode()
    assert f"Why {made[-1]['agent']}?" in why and "reward" in why and "says: this one is good" in why
    assert service.get("/decisions/unknown").status == 404


def test_what_strangers_send_is_shown_as_text(start):
    service = start(BASE + "  - {{id: person, kind: human}}\n")
    made = service.post("/v1/decisions", {"task": {"id": HOSTILE, "kind": HOSTILE}}).json()
    service.post("/v1/feedback", {"decision_id": made["id"], "completed": False, "elapsed_s": 1, "reason": HOSTILE})
    pages = [service.get("/").body.decode(), service.get(f"/decisions/{made['id']}").body.decode()]
    parts = service.get("/dashboard/live").json()["parts"]
    for text in (*pages, *parts.values()):
        assert "<script>window" not in text and "<img" not in text.replace('<img src="/static/', "")
    assert "&lt;script&gt;" in pages[1]


def test_escaping():
    assert escape(HOSTILE) == (
        "&lt;script&gt;window.pwned=1&lt;/script&gt;&quot;&#x27;&gt;&lt;img src=x onerror=pwned=1&gt;"
    )
    assert html('<i title="{a}">{b}</i>', a='"x', b=Safe("<b>")) == '<i title="&quot;x"><b></i>'
    assert isinstance(join([Safe("a"), Safe("b")]), Safe)
    assert html("{a}", a="{b}") == "{b}"
