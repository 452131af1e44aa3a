"""The dsjson log of Vowpal Wabbit: our reader finds the action, cost and probability of its own parser."""

import json

import pytest

pytest.importorskip("vowpal_wabbit_next")

import vowpal_wabbit_next as vw

from bot_orch.evaluation.importing import import_log
from bot_orch.evaluation.rounds import collect
from bot_orch.log import MemoryLog


def ours(path, text):
    """(action, reward, probability) of every decision."""
    path.write_text(text)
    log = MemoryLog()
    import_log(path, "dsjson", log)
    rounds = collect(log)
    return [(int(made.agent), rounds.rewards[made.id], made.propensity) for made in rounds.made]


def test_dsjson(tmp_path):
    parser = vw.DSJsonFormatParser(vw.Workspace(["--cb_explore_adf", "--dsjson", "--quiet"]))
    record = {
        "_label_cost": 0.25,
        "_label_probability": 0.6,
        "_label_Action": 3,
        "_labelIndex": 2,
        "EventId": "e",
        "a": [3, 1, 2],
        "p": [0.6, 0.3, 0.1],
        "c": {"user": {"age": 3}, "_multi": [{"x": {"k": 1}}, {"x": {"k": 2}}, {"x": {"k": 3}}]},
    }
    line = json.dumps(record)
    labels = [example.get_label() for example in parser.parse_json(line)]
    ((number, label),) = [(number, each.label) for number, each in enumerate(labels) if each.label is not None]
    assert number == 3, "after the shared example"
    assert ours(tmp_path / "x.json", line) == [
        (number, pytest.approx(1.0 - label[1], abs=1e-6), pytest.approx(label[2], abs=1e-6))
    ]
