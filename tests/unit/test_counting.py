"""Counting published numbers: errors of both sides, chance, and fits apart from predictions."""

from dataclasses import replace

import numpy as np
import pytest

from bot_orch.lab.harness.experiment import Scale, discover
from bot_orch.lab.harness.tables import (
    COLUMNS,
    Published,
    ResultRow,
    agreement,
    agreement_words,
    published,
)


def row(mean=1.0, std=0.5, seeds=5, paper=None, basis="prediction"):
    paper = Published(0.0, 0.5, seeds=5) if paper is None else paper
    names = {"method": "m", "lambda_": 0.0, "metric": "x"}
    return ResultRow("e", "env", "paper", **names, mean=mean, std=std, seeds=seeds, paper=paper, basis=basis)


def test_z_counts_both_errors():
    assert row().z == pytest.approx(1.0 / np.sqrt(0.25 / 5 + 0.25 / 5))
    interval = Published(0.0, 0.5, seeds=30, spread_is="ci95")
    assert interval.error == pytest.approx(0.5 / 2.04523, rel=1e-5)
    assert row(std=0.0, paper=interval).z == pytest.approx(1.0 / interval.error)
    assert row(seeds=1).z is None and row(std=0.0, paper=Published(0.0, 0.0, seeds=5)).z is None


@pytest.mark.parametrize(("seeds", "kind"), [(5, "sd"), (30, "sd"), (30, "ci95")])
def test_a_perfect_reproduction_is_inside_in_95_percent(seeds, kind):
    """Two runs of one law, ours with 600 seeds; a law that is off by one deviation is noticed."""
    rng = np.random.default_rng(7)
    counts = {"mean": 0, "spread": 0, "shifted": 0}
    for _ in range(600):
        ours, theirs = rng.normal(3.0, 2.0, size=600), rng.normal(3.0, 2.0, size=seeds)
        spread = theirs.std(ddof=1) * (1.0 if kind == "sd" else 2.04523 / np.sqrt(seeds))
        paper = Published(theirs.mean(), spread, seeds=seeds, spread_is=kind)
        one = row(ours.mean(), ours.std(ddof=1), 600, paper)
        counts["mean"] += one.inside
        counts["spread"] += one.spread_inside
        counts["shifted"] += replace(one, mean=one.mean + 2.0).inside
    assert 0.92 < counts["mean"] / 600 < 0.98 and 0.92 < counts["spread"] / 600 < 0.98
    assert counts["shifted"] / 600 < 0.5


def test_fits_are_counted_apart():
    rows = [row(0.1), row(3.0), row(0.2, basis="fitted"), row(0.2, basis="selected"), row(9.0, basis="elsewhere")]
    assert [agreement(rows, basis).cells for basis in (None, "prediction", "fitted", "selected")] == [4, 2, 1, 1]
    assert (agreement(rows).inside, agreement(rows, "prediction").beyond) == (3, 1)
    assert (agreement(rows).word, agreement(rows[1:2]).word, agreement(rows[2:4]).word) == (
        "in part",
        "not reproduced",
        "reproduced",
    )
    assert [words.split(":")[0] for words in agreement_words(rows)] == [
        "Predicted",
        "Fitted",
        "Used to select a reading",
    ]
    assert agreement_words([replace(rows[0], paper=None)]) == []


def test_what_was_fitted_is_marked():
    """Random's calibration targets, BOT-Orch in the ablation; other methods of the five environments predict."""
    rows = []
    for name in ("synthetic", "synthetic-lambda"):
        experiment = discover()[name]
        rows += experiment.rows({u.key: experiment.run(u.params) for u in experiment.units(Scale(seeds=2))})
    fitted = [r for r in rows if r.basis == "fitted" and r.paper is not None]
    assert {(r.experiment, r.method) for r in fitted} == {
        ("synthetic", "random"),
        ("synthetic-lambda", "random"),
        ("synthetic-lambda", "bot-orch"),
    }
    assert {r.basis for r in rows if r.method == "bot-orch" and r.experiment == "synthetic"} == {"prediction"}
    main = {(r.environment, r.metric) for r in fitted if r.experiment == "synthetic"}
    assert len(main) == 20 and "net_utility" not in {metric for _, metric in main}
    assert {r.metric for r in fitted if r.experiment == "synthetic-lambda"} == {"net_utility", "oracle_regret"}
    assert {r.basis for r in rows if r.method in ("ucb1", "no-ot")} == {"prediction"}


def test_every_published_number_has_seeds_and_a_kind_of_spread():
    kinds = {
        (name, method): published(name, environment, method, lambda_=0.0, metric="net_utility")
        for name, environment, method in (
            ("triage", "triage-iid", "random"),
            ("synthetic", "iid-g", "random"),
            ("synthetic-lambda", "synthetic-iid", "random"),
        )
    }
    assert [(p.seeds, p.spread_is) for p in kinds.values()] == [(30, "sd"), (5, "sd"), (30, "ci95")]


def test_the_table_has_z_and_basis():
    cells = dict(zip(COLUMNS, row(basis="fitted").cells(), strict=True))
    assert (cells["basis"], float(cells["z"])) == ("fitted", pytest.approx(row().z))
    cells = dict(zip(COLUMNS, replace(row(), paper=None).cells(), strict=True))
    assert (cells["paper_error"], cells["z"], cells["basis"]) == ("", "", "")
