"""The experiment on adversaries: cheats that look like honest agents pass lambda auto and fail audits."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import adversaries
from adversaries import CASES, METHODS, draw_adversaries, ratio, table


def results(case, methods, seeds=2, tasks=400):
    params = {"case": case, "seeds": seeds, "tasks": tasks}
    return {f"{case}/{name}": adversaries.run({**params, "method": name}) for name in (*methods, "honest only")}


@pytest.mark.parametrize("case", ["half-way to the reference", "copy of a weak agent"])
def test_audits_find_what_alignment_cannot_see(case):
    found = results(case, ["lambda auto", "audits, lambda auto"])
    assert ratio(found, case, "audits, lambda auto").mean() > 0.85
    assert ratio(found, case, "lambda auto").mean() < 0.6, "the control without audits does not fall for it"


def test_what_is_reported():
    case = "constant output"
    found = results(case, METHODS, tasks=60)
    head, _, line = table(found).splitlines()
    assert len(head.split("|")) == len(line.split("|")) == len(METHODS) + 4
    assert line.startswith("| constant output | ")
    axis = draw_adversaries(found).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == [case] and len(axis.containers) == 5


def test_reported_seeds_are_not_those_of_development():
    assert adversaries._FIRST == 10 and len(CASES) >= 9


def test_sleepers_are_scored_once_they_have_turned():
    case = CASES["sleeper turns constant"]
    from bot_orch.lab.environments.gaming import gaming_matrix

    matrix = gaming_matrix(case.settings, seed=2)
    half, cheat = case.settings.tasks // 2, matrix.agents.index("cheat-sleeper")
    assert case.late
    assert matrix.true_reward[:half, cheat].mean() > matrix.true_reward[:half, :cheat].mean(axis=0).max()
    assert matrix.true_reward[half:, cheat].mean() < 0.1 < 0.85 < matrix.reward[half:, cheat].mean()
    gap = np.linalg.norm(matrix.output_embed - matrix.reference_embed[:, None], axis=-1)
    assert gap[:half, cheat].mean() < gap[half:, cheat].mean() / 2
