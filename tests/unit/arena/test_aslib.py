"""ARFF files and ASlib scenario folders, on small ones written here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bot_orch.environments.arff import parse_arff
from bot_orch.environments.matrix_aslib import read_scenario
from bot_orch.errors import InvalidInputError
from bot_orch.survival import Cause

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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@attribute a numeric\n1,2\n", "line 2"),
        ("@attribute a numeric\n", "@data: is missing"),
        ("@attribute a numeric\n@data\n1,2\n", "line 3: has 2 values"),
        ("@attribute\n@data\n", "line 1: names no attribute"),
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
