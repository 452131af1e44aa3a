"""Lines of Vowpal Wabbit: our reader and Vowpal Wabbit's own parser find the same action, cost and probability."""

import json

import numpy as np
import pytest

pytest.importorskip("vowpal_wabbit_next")

import vowpal_wabbit_next as vw

from bot_orch.evaluation.evaluate import collect
from bot_orch.evaluation.importing.writing import import_log
from bot_orch.log import MemoryLog


def ours(path, text):
    """(action, reward, probability) of every decision."""
    path.write_text(text)
    log = MemoryLog()
    import_log(path, "vw", log)
    rounds = collect(log)
    return [(int(made.agent), rounds.rewards[made.id], made.propensity) for made in rounds.made]


def test_single_lines(tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        f"{rng.integers(1, 5)}:{rng.random():.4f}:{rng.uniform(0.01, 1):.4f} |user age:{rng.integers(9)} new |d:2 x y:1"
        for _ in range(50)
    ]
    parser = vw.TextFormatParser(vw.Workspace(["--cb_explore", "4", "--quiet"]))
    theirs = [parser.parse_line(row).get_label().label for row in rows]
    assert ours(tmp_path / "x.dat", "\n".join(rows) + "\n") == [
        (action, pytest.approx(1.0 - cost, abs=1e-6), pytest.approx(p, abs=1e-6)) for action, cost, p in theirs
    ]


def test_blocks(tmp_path):
    rng = np.random.default_rng(2)
    parser, blocks, wanted = vw.TextFormatParser(vw.Workspace(["--cb_explore_adf", "--quiet"])), [], []
    for _ in range(30):
        count = int(rng.integers(2, 5))
        chosen, cost, p = int(rng.integers(count)), f"{rng.random():.4f}", f"{rng.uniform(0.1, 1):.4f}"
        lines = [f"{f'0:{cost}:{p} ' if number == chosen else ''}| a={number}" for number in range(count)]
        shared = [f"shared | age:{rng.integers(9)}"] if rng.random() < 0.5 else []
        labels = [parser.parse_line(line).get_label() for line in [*shared, *lines]]
        (found,) = [
            (number, each.label) for number, each in enumerate(labels[len(shared) :], start=1) if each.label is not None
        ]
        assert not shared or labels[0].shared
        wanted.append((found[0], pytest.approx(1.0 - found[1][1], abs=1e-6), pytest.approx(found[1][2], abs=1e-6)))
        blocks.append("\n".join([*shared, *lines]))
    assert ours(tmp_path / "x.dat", "\n\n".join(blocks)) == wanted


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
