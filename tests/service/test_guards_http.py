"""Audits, outputs before their rewards, and restarts by alarms: over HTTP, in the log, and after a restart."""

import pytest
from service_running import BASE

from bot_orch.core.events import RESTARTED, DecisionMade, FeedbackGiven, Noted
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

AUDITED = BASE + "audit: {{rate: 0.5, by: caller}}\n"
GUARDED = BASE.replace(
    "policy: bot, floor: 0.05",
    "policy: ucb1, floor: 0.05, on_alarm: restart, alignment: {{geometry: {{name: labels, labels: 2}}}}",
)


def tell(service, made, reward, **body):
    return service.post("/v1/feedback", {"decision_id": made["id"], "reward": reward, **body})


def checked(path):
    """The log replays, and its fold from the first event is that of its snapshot."""
    log = open_log(path)
    found = replay(log)
    assert found.ok, found.mismatches
    assert fold(log, use_snapshot=False).fingerprint() == fold(log).fingerprint() == found.fingerprint
    events = [row.event() for row in log.read()]
    log.close()
    return events


def test_audits_over_http(start, tmp_path):
    service = start(AUDITED)
    effects = []
    for number in range(40):
        made = service.post("/v1/decisions", {}).json()
        assert made["audit_probability"] == 0.5
        fooled, truth = (0.9, 0.1) if made["agent"] == "quick" else (0.6, 0.6)
        verdicts = [(fooled, False)] + [(truth, True)] * made["audit"]
        for reward, audit in verdicts if number % 2 else verdicts[::-1]:
            effects.append(tell(service, made, reward, audit=audit).json()["effect"])
    assert effects.count("learned") == 40 and effects.count("audited") == len(effects) - 40 > 10
    terms = service.post("/v1/decisions", {}).json()["terms"]
    assert terms["quick"]["bias"] > 0.2 > 0.1 > abs(terms["careful"]["bias"])
    state = service.get("/v1/admin/state").json()["fingerprint"]
    service.stop()
    again = start(AUDITED)
    assert again.get("/v1/admin/state").json()["fingerprint"] == state
    again.stop()
    events = checked(tmp_path / "log.sqlite")
    decisions = [event for event in events if isinstance(event, DecisionMade)]
    assert {event.audit_probability for event in decisions} == {0.5} and {e.audit for e in decisions} == {True, False}
    assert sum(event.audit for event in events if isinstance(event, FeedbackGiven)) == effects.count("audited")


def marked(service, wanted):
    while True:
        made = service.post("/v1/decisions", {}).json()
        if made["audit"] == wanted:
            return made


def test_each_verdict_counts_once(start):
    service = start(AUDITED)
    made = marked(service, True)
    assert tell(service, made, 0.9).json()["effect"] == "learned"
    assert tell(service, made, 0.8).json()["effect"] == "revision", "the judge has been heard"
    first = tell(service, made, 0.1, audit=True).json()
    assert (first["effect"], first["duplicate"]) == ("audited", False)
    assert tell(service, made, 0.1, audit=True).json() == {**first, "duplicate": True}
    assert tell(service, made, 0.2, audit=True).json()["effect"] == "revision"
    explained = service.get(f"/v1/decisions/{made['id']}").json()
    assert [outcome["audit"] for outcome in explained["outcomes"]] == [False, False, True, True]
    assert "-bias" in explained["why"]
    page = service.get(f"/decisions/{made['id']}")
    assert page.status == 200 and "audit (audited)" in page.body.decode()


def test_verdicts_after_a_silence(start, tmp_path):
    """A timeout is no verdict: the first of both replaces it, the second one tells the bias."""
    service = start(AUDITED)
    for audits in ((False, True), (True, False)):
        made = marked(service, True)
        gone = {"decision_id": made["id"], "completed": False, "elapsed_s": 5.0, "reason": "cancelled"}
        assert service.post("/v1/feedback", gone).json()["effect"] == "noted"
        effects = [tell(service, made, 0.3 if audit else 0.8, audit=audit).json()["effect"] for audit in audits]
        assert effects == ["replaced", "audited"]
    silent = marked(service, False)
    service.post("/v1/feedback", {**gone, "decision_id": silent["id"]})
    assert tell(service, silent, 0.5, audit=True).status == 422
    assert tell(service, silent, 0.5).json()["effect"] == "replaced", "a refused report changed nothing"
    service.stop()
    checked(tmp_path / "log.sqlite")


def test_only_marked_decisions_take_an_audit(start):
    service = start(AUDITED)
    made = marked(service, False)
    refused = tell(service, made, 0.1, audit=True, cost_usd=3.0)
    assert refused.status == 422 and refused.json()["error"]["param"] == "audit"
    assert service.get("/v1/admin/state").json()["spent_usd"] == 0.0
    before = service.get("/v1/admin/state").json()
    assert before["pending"] >= 1
    assert tell(service, made, 0.9).json()["effect"] == "learned"
    late = tell(service, made, 0.1, audit=True)
    assert late.status == 422 and late.json()["error"]["param"] == "audit"


def labels(first):
    return {"kind": "labels", "probabilities": [1.0, 0.0] if first else [0.0, 1.0]}


@pytest.mark.parametrize("early", [True, False])
def test_an_alarm_starts_an_agent_afresh_and_says_so(start, tmp_path, early):
    """With outputs shown early the rewards may come later; the log alone gives the same state."""
    service = start(GUARDED)
    for number in range(180):
        made = service.post("/v1/decisions", {"eligible": ["quick"]}).json()
        output = labels(number < 140)
        if early:
            shown = service.post("/v1/feedback", {"decision_id": made["id"], "shown": True, "output": output})
            assert shown.json()["effect"] == "shown"
            again = service.post("/v1/feedback", {"decision_id": made["id"], "shown": True, "output": output})
            assert again.json()["duplicate"]
        assert tell(service, made, 0.5, output=output).json()["effect"] == "learned"
    state = service.get("/v1/admin/state").json()["fingerprint"]
    service.stop()
    events = checked(tmp_path / "log.sqlite")
    notes = [event for event in events if isinstance(event, Noted) and event.topic == RESTARTED]
    assert [note.data["agent"] for note in notes] == ["quick"]
    about = start(GUARDED).get
    assert about("/v1/admin/state").json()["fingerprint"] == state
    assert "quick was started afresh" in about(f"/decisions/{notes[0].ref}").body.decode()


def test_shown_needs_an_output(start):
    service = start(GUARDED)
    made = service.post("/v1/decisions", {}).json()
    refused = service.post("/v1/feedback", {"decision_id": made["id"], "shown": True})
    assert refused.status == 422 and refused.json()["error"]["param"] == "output"
    wrong = {"kind": "labels", "probabilities": [0.2, 0.3, 0.5]}
    assert service.post("/v1/feedback", {"decision_id": made["id"], "shown": True, "output": wrong}).status == 422
    assert tell(service, made, 0.5).json()["effect"] == "learned"


def test_a_round_shows_its_output_before_somebody_judges_it(start, tmp_path):
    config = GUARDED.split("agents:")[0] + "agents:\n  - {{id: own, kind: python, path: 'answering:measured'}}\n"
    service = start(config)
    done = service.post("/v1/tasks", {"task": {"text": "x"}}).json()
    outcomes = service.get(f"/v1/decisions/{done['decision_id']}").json()["outcomes"]
    assert [outcome["effect"] for outcome in outcomes] == ["shown"]
    assert tell(service, {"id": done["decision_id"]}, 0.5).json()["effect"] == "learned"
    service.stop()
    checked(tmp_path / "log.sqlite")
