"""Audits of judged answers: by a trusted judge, by people; what the API and the dashboard show."""

from service_running import until
from test_judges import chat, configured, decision_of, judged, python, reports

STRICT = {"name": "strict", "kind": "python", "settings": {"path": "judging_fixtures:says_long"}}


def test_a_trusted_judge_tells_the_truth(start):
    fooled = {"name": "fooled", "kind": "python", "settings": {"path": "judging_fixtures:anything"}}
    service = start(configured(fooled, STRICT, more="audit: {rate: 1.0, by: strict}"))
    for model, truth in (("short", 0.0), ("long", 1.0)) * 3:
        events = judged(service, decision_of(chat(service, model)), 2)
        found = [(each.judge, each.reward, each.audit, each.effect) for each in events]
        assert found == [("fooled", 1.0, False, "learned"), ("strict", truth, True, "audited")]
    views = {view["name"]: view for view in service.get("/v1/judges").json()}
    assert set(views) == {"fooled", "audit"} and views["audit"]["kind"] == "strict"
    short, long = sorted(views["fooled"]["agents"], key=lambda each: -each["bias"])
    assert (short["agent"], short["bias"], short["low"], short["audited"]) == ("short", 1.0, 1.0, 3)
    assert (long["agent"], long["bias"]) == ("long", 0.0)
    terms = service.post("/v1/decisions", {}).json()["terms"]
    assert terms["short"]["bias"] > 0.5 > 0.1 > abs(terms["long"]["bias"])
    page = service.get("/").body.decode()
    assert 'id="judges"' in page and "+1.00 (+1.00 to +1.00)" in page


def test_people_tell_the_truth(start):
    more = "audit: {rate: 1.0, by: human}"
    service = start(configured(python(), more=more))
    made = decision_of(chat(service, "long"))
    judged(service, made)
    ticket = until(lambda: service.get("/v1/queue").json().get("tickets"))[0]
    assert "a long answer" in ticket["text"]
    assert service.post(f"/v1/queue/{ticket['id']}/claim").status == 200
    answer = {"action": "answer", "text": "4"}
    assert service.post(f"/v1/queue/{ticket['id']}/answer", answer).status == 200
    truth = judged(service, made, 2)[-1]
    assert (truth.judge, truth.reward, truth.audit, truth.effect) == ("human", 0.4, True, "audited")
    assert len(reports(service, made)) == 2
