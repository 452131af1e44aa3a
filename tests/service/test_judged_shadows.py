"""Answers of shadow calls: judged, logged and on the dashboard, and no signal about the answer that the caller saw."""

from service_running import until
from test_judges import chat, configured, decision_of, judged, python, reports

from bot_orch.core.events import DecisionMade

STRICT = {"name": "strict", "kind": "regex", "settings": {"pattern": "long"}}
IMPLICIT = {"name": "behaviour", "kind": "implicit", "settings": {"window_s": 0.3}}
SHOWN, HIDDEN = '{{path: "judging_fixtures:short"}}}}', '{{path: "judging_fixtures:long"}}}}'


def shadowed(*judges, more=""):
    """``long`` is the shadow; ``flow`` is left out, so ``short`` answers."""
    text = configured(*judges, more=more).replace(HIDDEN, HIDDEN[:-2] + ", shadow: 1.0}}")
    return "\n".join(line for line in text.splitlines() if "id: flow" not in line) + "\n"


def shadows(service):
    rows = service.call(lambda: [row.event() for row in service.runtime.writer.log.read()])
    return [event.id for event in rows if isinstance(event, DecisionMade) and event.by == "shadow"]


def test_a_shadow_is_judged_and_audited_in_the_log_and_on_the_dashboard(start):
    service = start(shadowed(python(), STRICT, more="audit: {rate: 1.0, by: strict}"))
    made = decision_of(chat(service))
    (hidden,) = until(lambda: shadows(service))
    assert [(each.agent, each.reward) for each in judged(service, made, 2)] == [("short", 0.2), ("short", 0.0)]
    found = [(each.judge, each.agent, each.reward, each.effect) for each in judged(service, hidden, 2)]
    assert found == [("length", "long", 1.0, "learned"), ("strict", "long", 1.0, "audited")]
    views = {view["name"]: view["agents"] for view in service.get("/v1/judges").json()}
    assert {each["agent"]: each["mean"] for each in views["length"]} == {"short": 0.2, "long": 1.0}
    part = service.get("/").body.decode().partition('id="judges"')[2].partition("</section>")[0]
    assert '<td data-label="Agent">long</td>' in part and '<td data-label="Agent">short</td>' in part


def test_a_shadow_is_no_retry_of_the_answer_that_was_shown(start):
    service = start(shadowed(IMPLICIT))
    made = decision_of(chat(service))
    (hidden,) = until(lambda: shadows(service))
    assert [(each.judge, each.reward) for each in judged(service, made)] == [("behaviour", 1.0)]
    assert reports(service, hidden) == []
