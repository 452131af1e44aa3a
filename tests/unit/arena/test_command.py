"""``bot-orch arena``: files it writes, going on after an interruption, one-line errors."""

from __future__ import annotations

import csv
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

from bot_orch.cli import main
from bot_orch.lab.arena.run import ArenaPlan, run_arena
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.npz import write_npz

pytest.importorskip("matplotlib")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_npz(folder / "game.npz", gaming_matrix(GamingSettings(tasks=40, agents=5)))
    rng = np.random.default_rng(0)
    np.savez(folder / "plain.npz", reward=rng.random((30, 3)) * [0.3, 0.6, 0.9])
    return folder


def _arena(*words: object) -> int:
    return main(["arena", *map(str, words), "--quiet"])


def test_writes_the_table_and_the_page(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["--policies", "ucb1", "linucb", "--seeds", 3, "--order", "both", "--jobs", 1, "--shares", "--out", out]
    assert _arena(data, *words) == 0
    assert "arena.csv" in capsys.readouterr().out
    rows = list(csv.DictReader((out / "arena.csv").read_text().splitlines()))
    assert list(rows[0]) == ["dataset", "order", "policy", "metric", "mean", "std", "seeds"]
    assert {row["policy"] for row in rows} == {"best-single", "random", "oracle", "now", "ucb1", "linucb"}
    assert {row["order"] for row in rows} == {"shuffled", "given"}
    game = {row["metric"] for row in rows if row["dataset"] == "game"}
    assert {"reward", "normalised", "regret_best_single", "true_reward", "share_max", "share:cheat-constant"} <= game
    assert "true_reward" not in {row["metric"] for row in rows if row["dataset"] == "plain"}
    assert {row["seeds"] for row in rows} == {"3"}
    page = (out / "index.html").read_text()
    assert "<h2>Given order</h2>" in page
    assert "http" not in page.replace("https://", "http").split("<body>")[1].split("base64")[0], "self-contained"


@pytest.mark.filterwarnings("error")
def test_names_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / r"$\frac{$ <b>, ü.npz"
    names = np.array(["$$", "模型 $a_1$", "a/b, c"])
    np.savez(path, reward=np.random.default_rng(0).random((20, 3)) * [0.2, 0.5, 0.9], agent=names)
    out = tmp_path / "out"
    assert _arena(path, "--policies", "ucb1", "--seeds", 2, "--jobs", 1, "--shares", "--out", out) == 0
    rows = list(csv.DictReader((out / "arena.csv").read_text().splitlines()))
    assert {row["metric"] for row in rows if row["metric"].startswith("share:")} == {f"share:{name}" for name in names}
    assert "&lt;b&gt;, ü" in (out / "index.html").read_text()


def test_one_agent_has_no_league_and_the_page_says_why(tmp_path: Path) -> None:
    np.savez(tmp_path / "alone.npz", reward=np.full((5, 1), 0.5))
    assert _arena(tmp_path / "alone.npz", "--policies", "ucb1", "--seeds", 1, "--out", tmp_path / "out") == 0
    assert "normalised" not in (tmp_path / "out" / "arena.csv").read_text()
    assert "no league" in (tmp_path / "out" / "index.html").read_text()


def test_progress_names_the_work_and_comes_to_an_end(data: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    plan = ArenaPlan([data / "plain.npz"], ["ucb1"], tmp_path / "out", seeds=2)
    run_arena(plan, lambda done, total, what: seen.append((done, total, what)))
    assert (5, 5, "plain shuffled ucb1") in seen
    assert seen[-1][0] == seen[-1][1], "the last figure is drawn"


def test_same_bytes_for_any_number_of_jobs(data: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        words = ["--policies", "thompson-beta,lints", "--seeds", 2, "--jobs", jobs, "--out", tmp_path / str(jobs)]
        assert _arena(data, *words) == 0
    for name in ("arena.csv", "index.html"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_refuses_to_overwrite_and_goes_on_where_it_stopped(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = [data / "plain.npz", "--policies", "ucb1", "--seeds", 2, "--jobs", 1, "--out", out]
    assert _arena(*words) == 0
    first = (out / "arena.csv").read_bytes()
    assert _arena(*words) == 2
    assert "pass --force" in capsys.readouterr().err
    (out / "arena.csv").unlink()
    log = out / "results.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]) + lines[-1][:20])  # cut off while writing
    assert _arena(*words) == 0
    assert (out / "arena.csv").read_bytes() == first
    assert len(log.read_text().splitlines()) == len(lines)
    (out / "arena.csv").unlink()
    assert _arena(*words[:-4], "--jobs", 1, "--out", out, "--rounds", 5) == 2
    assert "other settings" in capsys.readouterr().err
    assert _arena(*words, "--rounds", 5, "--force") == 0


def test_errors_are_one_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(data / "broken.npz", reward=np.full((2, 2), 7.0))
    out = ["--out", tmp_path / "out"]
    for words, text in (
        ([data / "broken.npz"], "broken.npz: reward: ranges from 7 to 7"),
        ([data / "plain.npz", "--policies", "nobody"], "no policy 'nobody'"),
        (["--policies", "ucb1", data / "plain.npz"], "write PATH before --policies"),
        (["--policies", "ucb1", data], "write PATH before --policies"),
        ([data / "plain.npz", data / "plain.npz"], "two data sets are called 'plain'; pass it once"),
        ([data / "plain.npz", "--seeds", 0], "--seeds: is 0"),
        ([data / "plain.npz", "--latency-target", 0], "--latency-target: is 0"),
        ([data / "plain.npz", "--cost-weight", -1], "--cost-weight: is -1"),
        ([tmp_path / "nowhere"], "does not exist"),
    ):
        assert _arena(*words, *out) == 2
        error = capsys.readouterr().err
        assert text in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists(), "nothing is written before the input is understood"


def test_a_missing_library_is_told_before_the_first_round(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "river", None)
    words = ["--policies", "river-ucb", "--seeds", 2, "--jobs", 1, "--out", tmp_path / "out"]
    assert _arena(data, *words) == 2
    assert "pip install" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_worker_that_is_killed_is_one_line(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise BrokenProcessPool("a process in the pool was terminated abruptly")

    monkeypatch.setattr("bot_orch.lab.arena.run.run_missing", killed)
    assert _arena(data / "plain.npz", "--policies", "ucb1", "--seeds", 2, "--jobs", 2, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "a worker process was killed; run the same command again" in error
    assert error.count("\n") == 1


def test_a_latency_target_is_part_of_the_settings(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    np.savez(
        data / "timed.npz",
        reward=rng.random((40, 2)),
        latency_s=rng.exponential([1.0, 9.0], (40, 2)),
        cost_usd=np.ones((40, 2)),
    )
    words = [data / "timed.npz", "--policies", "auto", "--seeds", 2, "--jobs", 1, "--out", tmp_path / "out"]
    assert _arena(*words, "--latency-target", 3, "--cost-weight", 2) == 0
    table = (tmp_path / "out" / "arena.csv").read_text()
    assert "timed,shuffled,auto,late," in table
    assert "--latency-target 3 --cost-weight 2" in (tmp_path / "out" / "index.html").read_text()
    (tmp_path / "out" / "arena.csv").unlink()
    assert _arena(*words) == 2
    assert "other settings" in capsys.readouterr().err


def test_tables_for_the_docs(data: Path, tmp_path: Path) -> None:
    both, one = tmp_path / "both", tmp_path / "one"
    words = [data, "--seeds", 3, "--jobs", 1, "--policies", "auto"]
    assert _arena(*words, "auto-no-alignment", "ucb1", "--order", "both", "--out", both) == 0
    assert _arena(*words, "auto-no-context", "--out", one) == 0
    script = Path(__file__).parents[3] / "benchmarks" / "arena.py"
    for table, out, text in (
        ("league", both, "| `ucb1` |"),
        ("ablation", both, "| no-alignment, given |"),
        ("ablation", one, "| no-context, shuffled |"),
    ):
        done = subprocess.run([sys.executable, script, table, out], capture_output=True, text=True, check=True)
        assert text in done.stdout


def test_help_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["arena", "--help"])
    assert "examples:" in capsys.readouterr().out
    assert main(["arena", "--list-policies"]) == 0
    listed = capsys.readouterr().out
    assert "vw-squarecb" in listed
    assert "best-single" in listed


def test_without_data_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BOT_ORCH_DATA", str(tmp_path / "none"))
    assert _arena("--out", tmp_path / "out") == 2
    assert "BOT_ORCH_DATA" in capsys.readouterr().err
