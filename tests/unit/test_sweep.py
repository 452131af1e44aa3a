"""Sweeps: a user's grid, strictly read, run on either engine, resumable."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from bot_orch.cli import main
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.lab.arena.run import run_one
from bot_orch.lab.harness import engines
from bot_orch.lab.harness.tables import COLUMNS
from bot_orch.lab.paper.triage.play import run_triage
from bot_orch.lab.sweep import environments as sweep_environments
from bot_orch.lab.sweep.run import run_cell
from bot_orch.lab.sweep.spec import read_sweep

pytest.importorskip("yaml")

EXAMPLE = Path(__file__).parents[2] / "examples/sweep.yaml"
SMALL = """
policies: [random, {name: bot, grid: {eta: [5, 20.0]}}]
environments: [{name: bernoulli, settings: {means: [0.2, 0.8], distances: [0.0, 0.5]}}]
lambda: [0, 2]
rounds: [20, 30]
seeds: 5
seeds_per_unit: 2
"""


def write(folder, text, name="grid.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def rows(folder):
    with (folder / "tables.csv").open() as file:
        return list(csv.DictReader(file))


def sweep(path, out, *words):
    return main(["sweep", str(path), "--out", str(out), "--quiet", "--jobs", "1", *words])


def test_a_grid_becomes_a_table_a_summary_and_a_figure(tmp_path, capsys):
    assert sweep(write(tmp_path, SMALL), tmp_path / "out") == 0
    found = rows(tmp_path / "out")
    assert tuple(found[0]) == COLUMNS
    cells = {(row["environment"], row["method"], row["lambda"]) for row in found}
    assert cells == {
        (f"bernoulli@{rounds}", method, value)
        for rounds in (20, 30)
        for method, values in {"random": "0", "bot(eta=5)": "02", "bot(eta=20)": "02"}.items()
        for value in values
    }, "a policy that lambda does not touch runs once"
    assert {row["seeds"] for row in found} == {"5"} and {row["experiment"] for row in found} == {"grid"}
    text = (tmp_path / "out/summary.txt").read_text()
    assert text in capsys.readouterr().out
    assert "bernoulli@20 (bandit): net utility per round, reward - 2 * alignment cost" in text
    assert {p.suffix for p in (tmp_path / "out/figures").iterdir()} == {".png", ".svg"}


def test_blocks_of_seeds_do_not_change_a_seed(tmp_path):
    tables = []
    for name, block in (("two", "2"), ("all", "5")):
        path = write(tmp_path, SMALL.replace("unit: 2", f"unit: {block}"), f"{name}.yaml")
        assert sweep(path, tmp_path / name) == 0
        tables.append([{**row, "experiment": ""} for row in rows(tmp_path / name)])
    assert tables[0] == tables[1]


def test_an_interrupted_sweep_resumes_with_the_same_bytes(tmp_path, monkeypatch):
    path = write(tmp_path, SMALL)
    assert sweep(path, tmp_path / "whole") == 0
    real, started = engines.run_local, []

    def cut(jobs, processes):
        for index, result in enumerate(real(jobs, processes)):
            if index == 4:
                raise KeyboardInterrupt
            yield result

    def watch(jobs, processes):
        started.extend(jobs)
        return real(jobs, processes)

    monkeypatch.setattr(engines, "run_local", cut)
    assert sweep(path, tmp_path / "cut") == 130
    monkeypatch.setattr(engines, "run_local", watch)
    assert sweep(path, tmp_path / "cut") == 0
    assert (tmp_path / "cut/tables.csv").read_bytes() == (tmp_path / "whole/tables.csv").read_bytes()
    assert len(started) == len((tmp_path / "whole/results.jsonl").read_text().splitlines()) - 4


def test_another_grid_is_not_mixed_in_and_results_are_kept(tmp_path, capsys):
    path = write(tmp_path, SMALL)
    assert sweep(path, tmp_path / "out") == 0
    assert sweep(path, tmp_path / "out") == 2 and "pass --force" in capsys.readouterr().err
    (tmp_path / "out/tables.csv").unlink()
    assert sweep(write(tmp_path, SMALL.replace("[0, 2]", "[0, 3]")), tmp_path / "out") == 2
    assert "other settings" in capsys.readouterr().err
    assert sweep(path, tmp_path / "out", "--force") == 0


def test_triage_gives_the_numbers_of_the_experiment():
    ours = run_cell(
        {
            "policy": "bot",
            "policy_settings": {},
            "environment": "triage-iid",
            "rounds": 114,
            "lambda": 3.0,
            "environment_settings": {"protocol": "paper"},
            "score_lambda": 3.0,
            "seeds": [0, 4],
        }
    )["metrics"]
    theirs = run_triage({"condition": "iid", "protocol": "paper", "method": "bot-orch", "lambda": 3.0, "seeds": 4})
    assert np.allclose(np.array(ours["net_utility"]) * 114, theirs["metrics"]["net_utility"])
    assert ours["reward"] == theirs["metrics"]["team_accuracy"]


def test_a_matrix_gives_the_numbers_of_the_arena(tmp_path):
    reward = np.random.default_rng(0).random((40, 3))
    np.savez(tmp_path / "toy.npz", reward=reward)
    grid = "policies: [thompson-beta]\nenvironments: [{matrix: toy.npz}]\nlambda: [0, 1]\nseeds: 3"
    assert sweep(write(tmp_path, grid), tmp_path / "out") == 0
    found = {row["metric"]: float(row["mean"]) for row in rows(tmp_path / "out")}
    unit = {"path": str(tmp_path / "toy.npz"), "order": "shuffled", "rounds": 40, "seeds": 3}
    arena = run_one({**unit, "policy": "thompson-beta", "signal": "log-uniform"})
    assert found["reward"] == pytest.approx(np.mean(arena["metrics"]["reward"]))
    assert {row["lambda"] for row in rows(tmp_path / "out")} == {"0"}, "no outputs, nothing to align"
    assert {row["environment"] for row in rows(tmp_path / "out")} == {"toy"}
    assert str(tmp_path) not in (tmp_path / "out/settings.json").read_text()


def test_gaming_agents_lose_to_alignment(tmp_path):
    grid = (
        "policies: [bot]\nenvironments: [{name: gaming, settings: {tasks: 300, agents: 5}}]\nlambda: [0, 1]\nseeds: 4"
    )
    assert sweep(write(tmp_path, grid), tmp_path / "out") == 0
    true = {row["lambda"]: float(row["mean"]) for row in rows(tmp_path / "out") if row["metric"] == "true_reward"}
    assert true["1"] > true["0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("polices: [bot]", "grid.yaml.polices: is not known; did you mean policies?"),
        ("policies: [bot]", "grid.yaml.environments: is missing"),
        ("policies: []\nenvironments: [triage-iid]", "policies: is empty"),
        ("policies: [thomson-beta]\nenvironments: [triage-iid]", "did you mean thompson-beta?"),
        ("policies: [bot]\nenvironments: [triage-id]", "did you mean triage-iid?"),
        ("policies: [bot]\nenvironments: [data.npz]", "write matrix: PATH"),
        ("policies: [bot]\nenvironments: [{matrix: no.npz}]", "does not exist"),
        ("policies: [bot]\nenvironments: [{name: triage-iid, rounds: 5}]", "rounds: cannot be set"),
        ("policies: [{name: bot, settings: {etta: 3}}]\nenvironments: [triage-iid]", "bot.etta: is not known; did you"),
        ("policies: [{name: bot, grid: {eta: []}}]\nenvironments: [triage-iid]", "bot.grid.eta: is empty"),
        ("policies: [{name: bot, settings: {eta: -1}}]\nenvironments: [bernoulli]", "pass a positive number"),
        (
            "policies: [{name: ucb1, settings: {scale: x}}]\nenvironments: [bernoulli]",
            "ucb1.scale: is 'x'; write",
        ),
        ("policies: [{name: bot, settings: {estimator: 3}}]\nenvironments: [bernoulli]", "bot.estimator: is 3; write"),
        ("policies: [{name: bot, settings: {eta: [1]}}]\nenvironments: [bernoulli]", "bot"),
        ("policies: [bot, bot]\nenvironments: [bernoulli]", "policies: 'bot' occurs twice"),
        ("policies: [bot]\nenvironments: [bernoulli]\nlambda: 1e3", "such as 0.5 or 1.0e+3"),
        ("policies: [bot]\nenvironments: [bernoulli]\nseeds: true", "seeds: is True; write a whole number"),
        ("policies: [bot]\nenvironments: [bernoulli]\nseeds: 1\nseeds: 2", "seeds: occurs twice"),
        (
            "policies: [bot]\nenvironments: [bernoulli]\nseeds: 99999999999",
            "1 to 10,000,000",
        ),
        ("policies: [bot]\nenvironments: [{name: bernoulli, settings: {means: [2]}}]", "bernoulli.means: do not fit"),
        ("policies: [bot]\nenvironments: [{name: triage-iid, settings: {protocol: x}}]", "write paper or deployable"),
        ("policies: [bot", "grid.yaml:"),
        ("- bot", "write keys and values"),
        ("policies: !!python/name:os.system", "could not determine a constructor"),
    ],
)
def test_a_bad_file_gets_one_line(text, message, tmp_path, capsys):
    assert main(["sweep", str(write(tmp_path, text)), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_json_needs_no_yaml(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    data = {"policies": ["bot"], "environments": ["bernoulli"], "seeds": 2, "rounds": 10}
    assert read_sweep(write(tmp_path, json.dumps(data), "grid.json")).seeds == 2
    with pytest.raises(BotOrchError, match="optional dependency"):
        read_sweep(write(tmp_path, SMALL))
    with pytest.raises(InvalidInputError, match="seeds: occurs twice"):
        read_sweep(write(tmp_path, '{"seeds": 1, "seeds": 2}', "twice.json"))


def test_the_example_and_the_one_in_the_help_are_valid(tmp_path, capsys):
    assert main(["sweep", str(EXAMPLE), "--dry-run"]) == 0
    assert capsys.readouterr().out == "first-sweep: 39 cells, 39 units, 137,280 rounds\n"
    from bot_orch.cli.sweep import EXAMPLES

    text = EXAMPLES.split("example of a file:\n")[1].split("\n\nexamples:")[0]
    assert len(read_sweep(write(tmp_path, text)).entrants) == 3


def test_list_names_policies_and_environments(capsys):
    assert main(["sweep", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(f"environment  {name}" in out for name in sweep_environments.environments())
    assert main(["sweep"]) == 2


def test_a_file_that_is_not_text_gets_one_line(tmp_path, capsys):
    (tmp_path / "grid.yaml").write_bytes(b"\xff\xfe\x00")
    assert main(["sweep", str(tmp_path / "grid.yaml"), "--dry-run"]) == 2
    assert "grid.yaml: is not UTF-8 (byte 0); pass a YAML file" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(set(sweep_environments.environments()) - {"matrix"}))
def test_every_environment_plays_and_repeats_itself(name):
    settings = {"tasks": 60} if name == "gaming" else {}
    params = {"policy": "bot", "policy_settings": {}, "environment": name, "environment_settings": settings}
    params |= {"rounds": 114 if name.startswith("triage") else 25, "lambda": 1.0, "score_lambda": 1.0, "seeds": [3, 6]}
    first = run_cell(params)
    assert run_cell(params) == first
    assert json.loads(json.dumps(first)) == first
    assert all(len(values) == 3 and np.isfinite(values).all() for values in first["metrics"].values())


def test_a_costly_policy_has_shorter_units(tmp_path):
    path = tmp_path / "g.yaml"
    path.write_text("policies: [auto, bot]\nenvironments: [bernoulli]\nrounds: [1000, 20000]\nseeds: 500\n")
    sweep = read_sweep(path)
    found = {(cell.entrant.name, cell.place.rounds): len(sweep.units(cell)) for cell in sweep.cells()}
    assert found == {("auto", 1000): 5, ("auto", 20000): 8, ("bot", 1000): 1, ("bot", 20000): 5}
