"""The arena's rounds of several attempts: nothing is shown of agents that were not asked."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from bot_orch.cli.main import main
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.answers import RowAnswers, read_answers

pytestmark = pytest.mark.usefixtures("no_page")


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 300)
    signal = rng.random((300, 2))
    right = rng.random((300, 2)) < np.array([0.4, 0.8]) + np.array([0.6, 0.2]) * signal
    answer = np.where(right, label[:, None], (label[:, None] + 1) % 3)
    arrays = {"signal": signal, "answer": answer, "label": label, "cost_usd": np.tile([0.001, 0.1], (300, 1))}
    np.savez(tmp_path / "toy.npz", reward=right.astype(float), agent=np.array(["small", "large"]), **arrays)
    return tmp_path / "toy.npz"


def test_a_policy_that_peeks_is_caught(path):
    row = RowAnswers(read_answers(path), 0)
    with pytest.raises(RuntimeError, match="not asked"):
        row.deliver(1)
    row.ask(1)
    assert row.deliver(1) in (0.0, 1.0)
    assert row.paid_usd == pytest.approx(0.1)
    with pytest.raises(RuntimeError, match="was asked"):
        row.ask(1)


def test_the_command_compares_with_single_choice_chains_and_votes(path, tmp_path, capsys):
    given = ["--attempts", "2", "--cost-weight", "1", "--seeds", "2", "--out", str(tmp_path / "out")]
    assert main(["arena", str(path), *given]) == 0
    printed = capsys.readouterr().out
    assert "2 attempts against one: reward" in printed
    with (tmp_path / "out" / "arena.csv").open() as file:
        rows = {(row["policy"], row["metric"]): float(row["mean"]) for row in csv.DictReader(file)}
    names = {policy for policy, _ in rows}
    assert names >= {"auto, 1 attempt", "chain (first half)", "vote of all", "oracle", "hull at its cost"}
    assert rows["oracle", "net"] >= rows["chain (hindsight)", "net"] >= rows["best single (hindsight)", "net"]
    assert 1.0 <= rows["auto, 2 attempts", "asked"] <= 2.0


def test_a_warm_start_is_taught_rows_that_nobody_plays(path, tmp_path, monkeypatch):
    given, played = [], []
    learn, show = Orchestrator.learn_from, RowAnswers.ask

    def learn_from(self, evaluations):
        given.append(evaluations)
        return learn(self, evaluations)

    def ask(self, agent, decision=""):
        played.append(self.row)
        return show(self, agent, decision)

    monkeypatch.setattr(Orchestrator, "learn_from", learn_from)
    monkeypatch.setattr(RowAnswers, "ask", ask)
    options = ["--attempts", "2", "--seeds", "1", "--warm-start", "280", "--out", str(tmp_path / "o")]
    assert main(["arena", str(path), *options]) == 0
    assert "auto, 2, warm start" in (tmp_path / "o" / "arena.csv").read_text()
    side, (table,) = read_answers(path), given
    rows = [int(np.flatnonzero((side.signal == row).all(axis=1))[0]) for row in table.answers["signal"]]
    assert len(set(rows)) == 280 and len(set(played)) == 20 and set(played).isdisjoint(rows)
    assert np.array_equal(table.answers["label"], side.answer[rows]) and np.isnan(table.answers["check"]).all()


def test_only_answers_of_agents_that_were_asked_are_delivered_and_prices_can_be_given(path, tmp_path):
    with pytest.raises(RuntimeError, match="not asked"):
        RowAnswers(read_answers(path), 0).deliver(0)
    out = ["--seeds", "1", "--cost-weight", "0.1", "--out", str(tmp_path / "out")]
    assert main(["arena", str(path), "--attempts", "2", "--price", "large=1", *out]) == 0
    with (tmp_path / "out" / "arena.csv").open() as file:
        rows = {(each["policy"], each["metric"]): float(each["mean"]) for each in csv.DictReader(file)}
    assert 0.0 <= rows["auto, 2 attempts", "cost_usd"] <= 1.0 + 0.001  # the share of rounds that asked it, and .001
    assert rows["vote of all", "cost_usd"] == pytest.approx(1.001)


@pytest.mark.parametrize("price", ["person", "nobody=1", "large=-1", "=1"])
def test_prices_are_checked(path, tmp_path, capsys, price):
    assert main(["arena", str(path), "--attempts", "2", "--price", price, "--out", str(tmp_path / "o")]) == 2
    assert "--price" in capsys.readouterr().err


def test_options_without_effect_are_refused(path, tmp_path, capsys):
    assert main(["arena", str(path), "--truthful-check", "--out", str(tmp_path / "o")]) == 2
    assert main(["arena", str(path), "--warm-start", "9", "--out", str(tmp_path / "o")]) == 2
    assert "--warm-start: has no effect" in capsys.readouterr().err
    for rows in ("-1", "299"):
        assert main(["arena", str(path), "--attempts", "2", "--warm-start", rows, "--out", str(tmp_path / "o")]) == 2
        assert "--warm-start" in capsys.readouterr().err
    assert main(["arena", str(path), "--attempts", "2", "--budget", "1", "--out", str(tmp_path / "o")]) == 2
    assert "--budget" in capsys.readouterr().err
    assert main(["arena", str(path), "--price", "large=1", "--out", str(tmp_path / "o")]) == 2
    assert "--price" in capsys.readouterr().err


def test_texts_are_answers_and_other_files_are_refused(tmp_path):
    arrays = {"reward": np.array([[1.0, 0.0], [1.0, 1.0]]), "answer": np.array([["yes", "no"], ["no", "no"]])}
    np.savez(tmp_path / "texts.npz", **arrays)
    assert read_answers(tmp_path / "texts.npz").answer.tolist() == [[1, 0], [0, 0]]
    np.savez(tmp_path / "words.npz", **arrays, signal=arrays["answer"])
    with pytest.raises(InvalidInputError, match="words.npz: signal: holds texts; give it numbers"):
        read_answers(tmp_path / "words.npz")
    with pytest.raises(InvalidInputError, match="a.csv: is no .npz file"):
        read_answers(tmp_path / "a.csv", truthful=True)
