"""The numbers on docs/evidence/paper.md are the ones the experiments give."""

import re
from pathlib import Path

import pytest

from bot_orch.lab.environments.triage import PAPER_SPLIT
from bot_orch.lab.harness.experiment import Scale, discover

PAGE = (Path(__file__).parents[2] / "docs" / "evidence" / "paper.md").read_text()


def line(start):
    (found,) = re.findall(rf"^\| {re.escape(start)} \|(.*)\|$", PAGE, re.MULTILINE)
    return [float(cell) for cell in found.split("|")]


def rows_of(name, keep):
    experiment = discover()[name]
    units = [unit for unit in experiment.units(Scale()) if keep(unit.key)]
    return experiment.run, units


@pytest.mark.parametrize(
    ("start", "protocol", "method"),
    [
        ("BOT-Orch, `paper` protocol", "paper", "bot-orch"),
        ("BOT-Orch, `deployable` protocol", "deployable", "bot-orch"),
        ("the same with the paper's alpha and eta", "deployable", "bot-orch-paper-constants"),
        ("UCB1", "deployable", "ucb1"),
        ("No-OT", "deployable", "no-ot"),
    ],
)
def test_triage_numbers(start, protocol, method):
    run, (unit,) = rows_of("triage", lambda key: key == f"{protocol}/noniid/{method}")
    metrics = run(unit.params)["metrics"]
    means = [sum(metrics[name]) / len(metrics[name]) for name in ("team_accuracy", "escalation_rate")]
    assert line(start) == [round(value, 3) for value in means]


@pytest.mark.parametrize(
    ("start", "method"),
    [
        ("confidence below 0.9", "claim-threshold"),
        ("threshold learned online", "threshold-online"),
        ("always the AI", "always-ai"),
        ("always the person", "always-person"),
        ("AI, person on shifted patients (the shift is known)", "told-of-shift"),
        ("BOT-Orch", "bot-orch"),
        ("BOT-Orch with lambda = 0", "bot-orch-lambda-0"),
    ],
)
def test_rules_of_deferral(start, method):
    """On the paper's split; the other columns are means of the same over more splits."""
    run, (unit,) = rows_of("triage-claims", lambda key: key == f"noniid/{method}/{PAPER_SPLIT}")
    payload = run(unit.params)
    accuracy, escalation = (sum(payload[m]) / len(payload[m]) for m in ("team_accuracy", "escalation_rate"))
    (found,) = re.findall(rf"^\| {re.escape(start)} \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert found == f"{accuracy:.4f} at {escalation:.3f}"
