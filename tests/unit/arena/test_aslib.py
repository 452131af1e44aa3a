"""ARFF files and ASlib scenario folders, on small ones written here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.survival import Cause

_SPEC = importlib.util.spec_from_file_location("aslib", Path(__file__).parents[3] / "benchmarks" / "aslib.py")
aslib = importlib.util.module_from_spec(_SPEC)
sys.modules["aslib"] = aslib  # dataclasses look their module up
_SPEC.loader.exec_module(aslib)
parse_arff, read_scenario = aslib.parse_arff, aslib.read_scenario

RUNS = """\
% a comment
@RELATION ALGORITHM_RUNS_TOY

@ATTRIBUTE instance_id STRING
@ATTRIBUTE repetition NUMERIC
@ATTRIBUTE algorithm STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok,timeout,memout,not_applicable,crash,other}

@DATA
'one, two',1,fast,1.5,ok
'one, two',1,slow,9.0,ok
b,1,fast,20,timeout
b,1,slow,3,memout
c,1,fast,?,not_applicable
c,1,slow,2,ok
"""
FEATURES = """\
@relation f
@attribute instance_id string
@attribute repetition numeric
@attribute size numeric
@attribute 'odd name' numeric
@data
b,1,2.0,?
'one, two',1,1.0,5
"""
COSTS = """\
@relation c
@attribute instance_id string
@attribute repetition numeric
@attribute parse numeric
@attribute probe numeric
@data
b,1,2.0,?
b,2,4.0,1.5
"""
DESCRIPTION = """\
scenario_id: TOY
performance_measures:
    - runtime
maximize:
    - false
performance_type:
    - runtime
algorithm_cutoff_time: 10
"""


def _scenario(folder: Path, **files: str) -> Path:
    contents = {"algorithm_runs.arff": RUNS, "feature_values.arff": FEATURES, "description.txt": DESCRIPTION}
    for name, text in contents.items():
        (folder / name).write_text(files.get(name.split(".")[0], text))
    return folder


def test_a_scenario_becomes_a_matrix(tmp_path: Path) -> None:
    matrix = read_scenario(_scenario(tmp_path))
    assert (matrix.name, matrix.agents) == ("TOY", ("fast", "slow"))
    assert matrix.runtime is not None
    assert matrix.runtime.event.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert matrix.runtime.cause[1].tolist() == [Cause.CENSORED, Cause.OUT_OF_MEMORY]
    assert matrix.runtime.time_s[1].tolist() == [10.0, 3.0]
    assert matrix.eligible.tolist() == [[True, True], [True, True], [False, True]]
    assert matrix.reward[0, 0] == pytest.approx(1 - np.log(2.5) / np.log(11))
    assert matrix.features is not None
    assert matrix.features[0].tolist() == [1.0, 5.0]
    assert np.isnan(matrix.features[1, 1])
    assert np.isnan(matrix.features[2]).all()
    assert matrix.feature_names == ("size", "odd name")


def test_repetitions_are_averaged_and_one_failure_is_a_failure(tmp_path: Path) -> None:
    runs = RUNS + "'one, two',2,fast,2.5,ok\n'one, two',2,slow,1.0,crash\n"
    matrix = read_scenario(_scenario(tmp_path, algorithm_runs=runs))
    assert matrix.runtime is not None
    assert matrix.runtime.time_s[0, 0] == 2.0
    assert matrix.runtime.cause[0, 1] == Cause.CRASHED


def test_solution_quality_is_scaled(tmp_path: Path) -> None:
    runs = "@attribute instance_id string\n@attribute repetition numeric\n@attribute algorithm string\n"
    runs += "@attribute quality numeric\n@attribute runstatus {ok}\n@data\na,1,x,10,ok\na,1,y,30,ok\n"
    text = "performance_measures: quality\nperformance_type: solution_quality\nmaximize: false\n"
    matrix = read_scenario(_scenario(tmp_path, algorithm_runs=runs, description=text))
    assert matrix.reward.tolist() == [[1.0, 0.0]]
    assert matrix.runtime is None


def _quality(folder: Path, rows: str, maximize: str) -> np.ndarray:
    runs = "@attribute instance_id string\n@attribute repetition numeric\n@attribute algorithm string\n"
    runs += f"@attribute score numeric\n@attribute runstatus {{ok,crash}}\n@data\n{rows}"
    text = f"performance_measures: [score]\nperformance_type: [solution_quality]\nmaximize: [{maximize}]\n"
    return read_scenario(_scenario(folder, algorithm_runs=runs, description=text)).reward


def test_a_quality_within_the_unit_interval_stays(tmp_path: Path) -> None:
    assert _quality(tmp_path, "a,1,x,0.25,ok\na,1,y,0.5,ok\n", "true").tolist() == [[0.25, 0.5]]
    assert _quality(tmp_path, "a,1,x,0.25,ok\na,1,y,0.5,ok\n", "false").tolist() == [[0.75, 0.5]]


def test_a_failure_without_a_quality_earns_nothing_and_stays_eligible(tmp_path: Path) -> None:
    rows = "a,1,x,?,crash\na,1,y,0.5,ok\nb,1,x,?,not_applicable\nb,1,y,0.5,ok\n"
    reward = _quality(tmp_path, rows, "true")
    assert reward[0].tolist() == [0.0, 0.5]
    assert np.isnan(reward[1, 0])


@pytest.mark.parametrize(
    "text",
    [
        "performance_measures: [runtime]\nmaximize: [false]\nperformance_type: [runtime]\nalgorithm_cutoff_time: 10\n",
        "# by hand\nperformance_measures: runtime  # s\nperformance_type: runtime # s\nalgorithm_cutoff_time: 10 # s\n",
        "performance_measures: runtime, q\nperformance_type: runtime, solution_quality\nalgorithm_cutoff_time: 10\n",
        "performance_measures:\n- runtime\nperformance_type:\n- 'runtime'\nalgorithm_cutoff_time: \"10\"\n",
        "\ufeffperformance_type: runtime\r\nalgorithm_cutoff_time: 10\r\n",
    ],
)
def test_descriptions_in_every_style(text: str, tmp_path: Path) -> None:
    matrix = read_scenario(_scenario(tmp_path, description=text))
    assert matrix.runtime is not None
    assert matrix.runtime.cutoff_s[0, 0] == 10.0
    assert matrix.reward[0, 0] == pytest.approx(1 - np.log(2.5) / np.log(11))


def test_without_a_cutoff_the_longest_time_is_the_cutoff(tmp_path: Path) -> None:
    text = DESCRIPTION.replace("time: 10", "time: '?'")
    matrix = read_scenario(_scenario(tmp_path, description=text))
    assert matrix.runtime is not None
    assert matrix.runtime.cutoff_s[0, 0] == 20.0


def test_names_in_either_quotes_are_the_same(tmp_path: Path) -> None:
    runs = RUNS.replace("runstatus {", "runstatus{").replace("'one, two',1,fast", "\"one, two\",1,'fast'")
    matrix = read_scenario(_scenario(tmp_path, algorithm_runs="\ufeff" + runs.replace("\n", "\r\n")))
    assert matrix.agents == ("fast", "slow")
    assert matrix.runtime is not None
    assert matrix.runtime.event.tolist() == [[1, 1], [0, 0], [0, 1]]
    table = parse_arff("@attribute A numeric\n@attribute a numeric\n@data\n\"it's, 1\",'a \"b\"'\nit's,2\n")
    assert table.columns == ("a", "a (2)")
    assert table.rows == [["it's, 1", 'a "b"'], ["it's", "2"]]


def test_features_in_words_become_indicators(tmp_path: Path) -> None:
    features = FEATURES.replace("size numeric", "size {big, small}").replace("b,1,2.0,?", "b,1,big,?")
    matrix = read_scenario(_scenario(tmp_path, feature_values=features.replace(",1,1.0,5", ",1,'small',5")))
    assert matrix.feature_names == ("size=big", "size=small", "odd name")
    assert matrix.features is not None
    assert matrix.features[:2, :2].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert np.isnan(matrix.features[2]).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@attribute a numeric\n1,2\n", "line 2"),
        ("@attribute a numeric\n", "@data: is missing"),
        ("@attribute a numeric\n@data\n1,2\n", "line 3: has 2 values"),
        ("@attribute\n@data\n", "line 1: names no attribute"),
        ("@attribute a numeric\n@attribute a numeric\n@data\n", "line 2: names 'a' again"),
    ],
)
def test_arff_errors_name_the_line(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        parse_arff(text)


def test_scenario_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"algorithm_runs\.arff"):
        read_scenario(tmp_path)
    bad = RUNS.replace(",9.0,", ",nine,")
    with pytest.raises(InvalidInputError, match="runtime"):
        read_scenario(_scenario(tmp_path, algorithm_runs=bad))
    with pytest.raises(InvalidInputError, match="algorithm_cutoff_time"):
        read_scenario(_scenario(tmp_path, description="performance_type: runtime\n"))
    name = tmp_path.name
    for files, words in (
        ({"feature_values": FEATURES.replace("2.0", "big")}, f"{name}: feature_values.arff: size: could not convert"),
        ({"algorithm_runs": RUNS.split("'one")[0]}, f"{name}: algorithm_runs.arff: holds no run"),
        ({"algorithm_runs": RUNS.replace("1.5", "-1")}, f"{name}: algorithm_runs.arff: runtime: holds a negative"),
        ({"description": DESCRIPTION.replace("time: 10", "time: 0")}, "algorithm_cutoff_time: is '0'"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            read_scenario(_scenario(tmp_path, **files))


def test_feature_costs_are_the_seconds_of_all_steps(tmp_path: Path) -> None:
    folder = _scenario(tmp_path)
    assert read_scenario(folder).feature_cost_s is None
    (folder / "feature_costs.arff").write_text(COSTS)
    seconds = read_scenario(folder).feature_cost_s
    assert seconds is not None
    assert seconds.tolist() == [0.0, 4.5, 0.0], "mean over repetitions, sum over steps, 0 where unknown"
