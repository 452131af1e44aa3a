"""Readings of the paper: the shipped one is the shipped experiments, and a wrong one is told from it."""

from functools import cache

import numpy as np
import pytest

from bot_orch.lab.harness.experiment import Scale, discover
from bot_orch.lab.paper.readings import READINGS, SHIPPED, TABLES, run_reading, tables_of


@cache
def run(name, table, seeds=6):
    return run_reading({"reading": name, "table": table, "seeds": seeds})


def rms(name, table):
    return float(np.sqrt(np.mean(np.square(run(name, table)["z"]))))


def test_the_shipped_reading_is_the_shipped_experiment():
    triage, synthetic = discover()["triage"], discover()["synthetic"]
    for condition in ("iid", "noniid"):
        (unit,) = (u for u in triage.units(Scale(seeds=6)) if u.key == f"paper/{condition}/bot-orch")
        assert triage.run(unit.params)["metrics"]["net_utility"] == run(SHIPPED, "triage")["net"][f"triage-{condition}"]
    (unit,) = (u for u in synthetic.units(Scale(seeds=6)) if u.key == "noniid-bb")
    alone = synthetic.run({**unit.params, "methods": ["bot-orch"]})["methods"]["bot-orch"]["metrics"]["net_utility"]
    assert alone == run(SHIPPED, "synthetic")["net"]["noniid-bb"]


def test_every_table_is_compared_in_the_cells_a_reading_can_move():
    assert [len(run(SHIPPED, table)["z"]) for table in TABLES] == [24, 60, 50, 36]
    assert len(run(SHIPPED, "triage")["cells"]) == 24


def test_tables_that_a_reading_can_change():
    assert tables_of(SHIPPED) == list(TABLES)
    assert tables_of("lambda = 1") == ["synthetic"]
    assert tables_of("eta = 1.5") == ["triage", "triage-lambda"]
    assert tables_of("noise 2.5") == ["synthetic", "synthetic-lambda"]
    assert tables_of("f = 0") == list(TABLES)
    assert all(tables_of(name) for name in READINGS)


def test_learning_before_choosing_is_not_what_the_triage_tables_show():
    for condition in ("triage-iid", "triage-noniid"):
        ours, listed = (np.mean(run(name, "triage")["net"][condition]) for name in (SHIPPED, "learn first, as listed"))
        assert listed < ours - 2.0
    assert rms("learn first, as listed", "triage-lambda") > 2.0 * rms(SHIPPED, "triage-lambda")


@pytest.mark.parametrize(
    ("name", "table"),
    [("eta = 1.5", "triage"), ("noise 2.5", "synthetic"), ("f = 0", "triage-lambda")],
)
def test_control_a_wrong_reading_is_further_away(name, table):
    assert rms(name, table) > 1.3 * rms(SHIPPED, table)


def test_the_section_states_how_many_readings_were_run():
    experiment = discover()["readings"]
    units = experiment.units(Scale(quick=True))
    results = {unit.key: {"z": [1.0, -3.0], "cells": ["a", "b"], "net": {}} for unit in units}
    assert any(f"{len(READINGS)} readings were run, {len(units)} pairs" in note for note in experiment.notes(results))
    rows = {(row.environment, row.method, row.metric): row.mean for row in experiment.rows(results)}
    assert rows["synthetic", "lambda = 1", "beyond_two"] == 1.0
    assert rows["triage", SHIPPED, "rms_z"] == pytest.approx(np.sqrt(5.0))
    assert ("triage", "lambda = 1", "rms_z") not in rows
