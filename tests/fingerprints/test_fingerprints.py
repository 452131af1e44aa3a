"""What orchestrators decided when they were recorded, they decide today.

When a case fails: either the change is a mistake, or it is deliberate. Then record the case again with
``python tests/fingerprints/record.py CASE``, and say why in the commit. A policy without a case of its own gets one
with its default settings, seeded by its name.
"""

import pytest
from cases import CASES
from record import read
from runs import run

EXACT = ("chosen", "agents", "pending", "alarms")
CLOSE = ("propensity", "distance", "lambda", "last_propensities")
RECORDED = read()


def differences(old, new, tolerance=1e-9):
    """The parts in which two records differ by more than the last bits of a number: (part, expected, obtained)."""
    parts = [(key, old[key], new[key]) for key in (*EXACT, *CLOSE)]
    parts += [(key, value, new["last_terms"][key]) for key, value in old["last_terms"].items()]
    return [
        (key, expected, obtained)
        for key, expected, obtained in parts
        if (expected != obtained if key in EXACT else not same(expected, obtained, tolerance))
    ]


def parts(old, new):
    return [part for part, _, _ in differences(old, new)]


def same(old, new, tolerance):
    return [float(value) for value in new] == pytest.approx([float(each) for each in old], rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_decides_as_recorded(name):
    assert name in RECORDED, f"not recorded: run python tests/fingerprints/record.py {name}"
    found = differences(RECORDED[name], run(name), 1e-4 if name.startswith("auto-") else 1e-9)
    said = [f"{part}:\n  expected {expected}\n  obtained {obtained}" for part, expected, obtained in found]
    assert not found, f"{name} decides differently\n" + "\n".join(said)


def test_nothing_else_is_recorded():
    assert set(RECORDED) <= set(CASES)


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
    assert parts(old, new) == [key]


def test_a_changed_setting_is_found(monkeypatch):
    """The control: a slightly different policy leaves a different record."""
    from dataclasses import replace

    other = replace(CASES["bot-labels-task"], lambda_=1.05)
    monkeypatch.setitem(CASES, "bot-labels-task", other)
    assert "propensity" in parts(RECORDED["bot-labels-task"], run("bot-labels-task"))
