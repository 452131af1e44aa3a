"""The experiment on adversaries: cheats that look like honest agents pass lambda auto and fail audits."""

import numpy as np
import pytest

from bot_orch.lab.harness.experiment import Scale, discover
from bot_orch.lab.paper.adversaries import CASES, METHODS, draw_adversaries, ratio


def results(case, methods, seeds=2, tasks=400):
    run = discover()["adversaries"].run
    params = {"case": case, "seeds": seeds, "tasks": tasks}
    return {f"{case}/{name}": run({**params, "method": name}) for name in (*methods, "honest only")}


@pytest.mark.parametrize("case", ["half-way to the reference", "copy of a weak agent"])
def test_audits_find_what_alignment_cannot_see(case):
    found = results(case, ["lambda auto", "audits, lambda auto"])
    assert ratio(found, case, "audits, lambda auto").mean() > 0.85
    assert ratio(found, case, "lambda auto").mean() < 0.6, "the control without audits does not fall for it"


def test_what_is_reported():
    experiment, case = discover()["adversaries"], "constant output"
    found = results(case, METHODS, tasks=60)
    rows = experiment.rows(found)
    assert {row.method for row in rows} == set(METHODS)
    assert {row.metric for row in rows} == {"true_reward", "cheats", "of_honest_only"}
    honest = [row.mean for row in rows if (row.method, row.metric) == ("honest only", "of_honest_only")]
    assert honest == pytest.approx([1.0])
    assert "Smallest share" in experiment.notes(found)[0]
    axis = draw_adversaries(found).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == [case] and len(axis.containers) == 5


def test_reported_seeds_are_not_those_of_development():
    units = discover()["adversaries"].units(Scale())
    assert len(units) == len(CASES) * len(METHODS) and len(CASES) >= 9
    assert {unit.params["seeds"] for unit in units} == {20}
    from bot_orch.lab.paper import adversaries

    assert adversaries._FIRST == 10


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
