"""What orchestrators decided in release 0.1.0, they decide today, unless a change says otherwise.

When a case fails: either the change is a mistake, or it is deliberate. Then name it in ``CHANGED`` and record the case
again with ``python tests/fingerprints/record.py CASE``.
"""

import pytest
from cases import CASES
from record import read
from runs import run

from bot_orch.policies.registry import available_policies

_NO_REFERENCE = (
    "Under lambda='auto' known gaps count on tasks that bring no reference (a tenth of these): 0.1.0 let nobody pay "
    "there, and a cheat took what tasks without a reference there were. On tasks with one nothing changed."
)
_FADING = " Gaps beyond the last fifty outcomes of an agent fade, so that an agent that turns is found out."
_COMPARED = (
    "With references by acceptance an agent that leads while the others have fewer than ten accepted outputs shares "
    "its traffic with them: a cheat took all of it before anything could be compared."
)
_MEMBERS = (
    "The policy auto has other members since 0.2.0, spends the floor where it is in doubt and tries all agents first."
)
_PREPARED = "Features are standardised and reduced to principal components before a policy reads them."
#: case: what was changed on purpose, and why, since 0.1.0
CHANGED: dict[str, str] = {
    "bot-lambda-auto-samples": _NO_REFERENCE + _FADING,
    "thompson-beta-bures-accepted": _COMPARED,
    **dict.fromkeys((name for name in CASES if name.startswith("auto-")), _MEMBERS),
    **dict.fromkeys(("linucb-samples-fixed", "lints-bures-task"), _PREPARED),
}
EXACT = ("chosen", "agents", "pending", "alarms")
CLOSE = ("propensity", "distance", "lambda", "last_propensities")
RECORDED = read()


def differences(old, new, tolerance=1e-9):
    """The parts in which two records differ by more than the last bits of a number."""
    found = [key for key in EXACT if old[key] != new[key]]
    found += [key for key in CLOSE if not same(old[key], new[key], tolerance)]
    terms = old["last_terms"]
    return found + [key for key in terms if not same(terms[key], new["last_terms"][key], tolerance)]


def same(old, new, tolerance):
    return [float(value) for value in new] == pytest.approx([float(each) for each in old], rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_decides_as_recorded(name):
    assert differences(RECORDED[name], run(name), 1e-4 if name.startswith("auto-") else 1e-9) == []


def test_every_case_is_recorded_and_every_policy_has_one():
    assert set(RECORDED) == set(CASES)
    ours = {name for name, policy in available_policies().items() if policy.__module__.startswith("bot_orch.")}
    assert {case.policy["id"] for case in CASES.values()} == ours
    assert set(CHANGED) <= set(CASES)


def test_cases_exercise_what_they_are_for():
    """A fingerprint of an orchestrator that never changes its mind would say nothing."""
    assert all(len(set(record["chosen"])) >= 3 for record in RECORDED.values())
    measured = [name for name, case in CASES.items() if case.lambda_ != 0.0]
    assert [name for name in measured if not any(RECORDED[name]["distance"])] == []
    assert sum(record["pending"] > 0 for record in RECORDED.values()) > len(CASES) / 2
    calibrated = [name for name, case in CASES.items() if case.lambda_ == "auto"]
    assert any(len(set(RECORDED[name]["lambda"])) > 1 for name in calibrated)
    assert any(any(record["alarms"].values()) for record in RECORDED.values())


@pytest.mark.parametrize("key", ["chosen", "propensity", "estimate"])
def test_a_small_difference_is_found(key):
    """The control: one other agent, or one number off by a millionth."""
    old = RECORDED["bot-labels-task"]
    new = {**old, "last_terms": dict(old["last_terms"])}
    if key == "chosen":
        new["chosen"] = old["chosen"][:-1] + ("a" if old["chosen"][-1] != "a" else "c")
    elif key == "propensity":
        new["propensity"] = [old["propensity"][0] + 1e-6, *old["propensity"][1:]]
    else:
        new["last_terms"]["estimate"] = [value + 1e-6 for value in old["last_terms"]["estimate"]]
    assert differences(old, new) == [key]


def test_a_changed_setting_is_found(monkeypatch):
    """The control: a slightly different policy leaves a different record."""
    from dataclasses import replace

    other = replace(CASES["bot-labels-task"], lambda_=1.05)
    monkeypatch.setitem(CASES, "bot-labels-task", other)
    assert "propensity" in differences(RECORDED["bot-labels-task"], run("bot-labels-task"))
