"""Matrices from CSV, Parquet and DataFrames: layouts, synonyms, what is not read, and errors that name the place."""

import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.lab.environments.matrix import Matrix, from_frame, load, write_npz

pytestmark = pytest.mark.usefixtures("no_page")

LONG = """task,agent,reward,cost,seconds,text,claim
1,small,0.5,0.001,1,"first
line, and a comma",0.4
1,large,1,0.01,3,"first
line, and a comma",
2,large,0,0.01,4,second,
"""
WIDE = """sample_id;prompt;gpt-4;gpt-4|total_cost;llama;llama|total_cost;llama|model_response;feature_length
1;"a;b";0,5;0,01;1;$0.001;some words;3
2;zwei;0 %;0,01;NA;0,001;more words;4
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_row_per_task_and_agent(write):
    found = load(write(LONG))
    assert found.agents == ("small", "large") and found.name == "table"
    assert np.array_equal(found.reward, [[0.5, 1.0], [np.nan, 0.0]], equal_nan=True), "no row: not eligible"
    assert np.array_equal(found.cost_usd, [[0.001, 0.01], [np.nan, 0.01]], equal_nan=True)
    assert np.array_equal(found.elapsed_s, [[1.0, 3.0], [np.nan, 4.0]], equal_nan=True)
    assert list(found.text) == ["first\nline, and a comma", "second"]
    assert np.array_equal(found.claims, [[0.4, np.nan], [np.nan, np.nan]], equal_nan=True)
    assert "2 tasks x 2 agents (small, large)" in found.notes[0]
    assert found.notes[-1].startswith("1 of 4 cells have no reward")


def test_a_column_per_agent_as_a_spreadsheet_writes_it(write):
    found = load(write(b"\xef\xbb\xbf" + WIDE.encode()))
    assert found.agents == ("gpt-4", "llama")
    assert np.array_equal(found.reward, [[0.5, 1.0], [0.0, np.nan]], equal_nan=True)
    assert found.cost_usd.tolist() == [[0.01, 0.001], [0.01, 0.001]]
    assert list(found.text) == ["a;b", "zwei"] and found.features.tolist() == [[3.0], [4.0]]
    assert any("not read: 'llama|model_response'" in note for note in found.notes)
    assert any("prompt as text" in note for note in found.notes)
    assert np.array_equal(load(write(WIDE.encode("utf-16"), "b.csv")).reward, found.reward, equal_nan=True)
    assert load(write("sep=|\ntask|a|b\n1|0|1\n", "c.csv")).agents == ("a", "b")


def test_units_in_brackets_are_no_agents(write):
    """Else 'small cost ($)' is an agent that earns its price."""
    found = load(
        write("id,small score,large score,small cost ($),large cost (USD),large latency (ms)\n1,0,1,$0.1,$0.2,900\n")
    )
    assert found.agents == ("small", "large") and found.cost_usd.tolist() == [[0.1, 0.2]]
    assert found.elapsed_s[0, 1] == 0.9


@pytest.mark.parametrize(
    "column",
    ["small_usd_per_call", "small_cents", "Small_eur", "small_tokens", "small ($)", "small-eur", "cents small"],
)
@pytest.mark.parametrize("small", ["small", "small score"])
def test_a_unit_beside_an_agent_is_no_agent(write, column, small):
    """Else the agent small_cents earns the price of small."""
    with pytest.raises(InvalidInputError, match="drop it") as error:
        load(write(f"id,{small},large,{column}\n1,0,1,0.5\n2,1,1,0.5\n"))
    assert repr(column) in str(error.value) and "small_cost_usd" in str(error.value)


def test_agents_with_names_that_begin_alike(write):
    found = load(write("id,gpt-4,gpt-4-mini,gpt-4.1,gpt-4o,gpt-4 new_score\n1,0,1,1,1,1\n2,1,0,1,1,0\n"))
    assert found.agents == ("gpt-4", "gpt-4-mini", "gpt-4.1", "gpt-4o", "gpt-4 new"), "the remedy works"


def test_summaries_of_a_spreadsheet_are_told(write):
    found = load(write("id,small,large,Average\n1,0,1,0.5\nMean,0,1,0.5\n"))
    assert found.agents == ("small", "large") and len(found.reward) == 2
    told = "\n".join(found.notes)
    assert "not read: 'Average' (a summary of other columns" in told
    assert "column 'id', row 3: is 'Mean'; delete the row if it is no task" in told


def test_seconds_that_look_like_milliseconds_are_told(write):
    rows = "task,agent,reward,{},prompt\n1,a,1,800,x\n1,b,0,3000,x\n"
    assert any("latency_ms if these are milliseconds" in note for note in load(write(rows.format("latency"))).notes)
    assert not any("if these are" in note for note in load(write(rows.format("latency_ms"))).notes)


def test_names_that_evaluations_use(write):
    """The columns of an evaluation harness: benchmark and document make the task; the first metric is the reward."""
    rows = [
        f"gsm8k,{doc},{model},{acc},{1 - acc},{250 * (doc + 1)}"
        for doc in range(3)
        for model, acc in (("a", 1), ("b", 0))
    ]
    found = load(write("task,doc_id,model,acc,f1,latency_ms\n" + "\n".join(rows)))
    assert found.reward.tolist() == [[1.0, 0.0]] * 3 and found.elapsed_s[:, 0].tolist() == [0.25, 0.5, 0.75]
    assert "acc as reward" in found.notes[0] and "task and doc_id as task" in found.notes[0]
    assert any("'f1' (another column is read as reward" in note for note in found.notes)


def test_truth_values_are_rewards(write):
    rows = "instance_id,model,resolved\nx,a,True\nx,b,False\ny,a,no\ny,b,PASSED\nz,a,\nz,b,1\n"
    found = load(write(rows))
    assert np.array_equal(found.reward, [[1, 0], [0, 1], [np.nan, 1]], equal_nan=True)


def test_a_boolean_array_resolved_is_a_reward(tmp_path):
    np.savez(tmp_path / "b.npz", resolved=np.array([[True, False]]), model=np.array(["x", "y"]), tokens=np.ones(1))
    found = load(tmp_path / "b.npz")
    assert found.reward.tolist() == [[1.0, 0.0]] and found.agents == ("x", "y")
    assert found.notes == ("resolved is read as reward", "model is read as agent", "not read: tokens")


def test_repeated_runtimes_are_read(tmp_path, write):
    """T x M x K: a cell completes in the mean time if all of its runs did, else it ends as the first that did not."""
    time_s = np.array([[[1.0, 3.0], [2.0, 10.0]], [[np.nan, 4.0], [np.nan, np.nan]]])
    event = np.array([[[1, 1], [1, 0]], [[np.nan, 1], [np.nan, np.nan]]])
    np.savez(tmp_path / "r.npz", time_s=time_s, event=event, cutoff_s=np.array(10.0))
    found = load(tmp_path / "r.npz")
    assert np.array_equal(found.runtime.time_s, [[2.0, 10.0], [4.0, np.nan]], equal_nan=True)
    assert found.runtime.event[0].tolist() == [1.0, 0.0] and not found.eligible[1, 1]
    lines = ["task,agent,trial,seconds,event,cutoff_s"]
    for t, m, k in np.ndindex(2, 2, 2):
        if np.isfinite(event[t, m, k]):
            lines.append(f"{t},{m},{k},{'' if event[t, m, k] == 0 else time_s[t, m, k]},{int(event[t, m, k])},10")
    assert np.array_equal(load(write("\n".join(lines))).runtime.time_s, found.runtime.time_s, equal_nan=True)


def test_rows_of_the_same_task_and_agent_are_trials(write):
    rows = "task,agent,reward\n1,a,0\n1,a,1\n1,b,1\n"
    found = load(write(rows))
    assert found.trials.shape == (1, 2, 2) and found.reward.tolist() == [[0.5, 1.0]]
    assert any("read as repeated trials" in note for note in found.notes)
    with pytest.raises(InvalidInputError, match=r"column 'trial', row 3: is '7' for the same task and agent as row 2"):
        load(write("task,agent,reward,trial\n1,a,0,7\n1,a,1,7\n"))


def test_frames_and_parquet_are_read_as_csv_is(tmp_path, write):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    want = load(write(LONG))
    frame = pandas.read_csv(write(LONG))
    frame.to_parquet(tmp_path / "table.parquet")
    wide = frame.pivot(index="task", columns="agent", values="reward")[["small", "large"]]
    for found in (from_frame(frame), load(tmp_path / "table.parquet"), from_frame(wide)):
        assert found.agents == want.agents and np.array_equal(found.reward, want.reward, equal_nan=True)
    assert np.array_equal(from_frame(frame).cost_usd, want.cost_usd, equal_nan=True)
    assert from_frame(frame.astype({"reward": "Float64"}), "mine").name == "mine"
    for wrong in (None, 3, "text", [1], frame.iloc[:0], frame.rename(columns={"cost": "seconds"})):
        with pytest.raises(InvalidInputError):
            from_frame(wrong)
    (tmp_path / "table.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(InvalidInputError, match="to_parquet"):
        load(tmp_path / "table.parquet")


def test_parquet_names_its_extra(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"\[parquet\]"):
        load(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        (
            "task,agent,reward\n1,a,87.5\n",
            "table.csv: column 'reward', row 2: is 87.5, outside",
            "divide percentages by 100",
        ),
        ("task,a,b\n1,1,0\n2,62,0\n", "table.csv: column 'a', row 3: is 62, outside", "begin its name with feature_"),
        ("task,agent,reward\n1,a,good\n", "column 'reward', row 2: is 'good', not a number", "write a number"),
        ("task,agent,reward\n1,a,inf\n", "column 'reward', row 2: is 'inf', not a number", "write a number"),
        ("task,agent,reward,cost\n1,a,1,-3\n", "column 'cost', row 2: is -3", "zero or more"),
        ("task,agent,reward\n1,,1\n", "column 'agent', row 2: is empty", "name task and agent"),
        ("task,agent,reward\n1,a,1\n,b,1\n1,b,0\n", "column 'task', row 3: is empty", "name task and agent"),
        ("task,agent\n1,a\n", "no column holds the reward (columns: 'task', 'agent')", "call it reward"),
        ("model,arc,mmlu\na,.3,.2\n", "no column holds the reward", "must be transposed"),
        ("agent,reward\na,1\n", "no column names the task", "add a column task"),
        ("id,agent,reward\n1,a,1\n2,b,1\n3,a,0\n", "column 'id': names a task of its own", "the same word in task"),
        ("task,score\n1,1\n", "column 'score': is the outcome of one agent", "add a column agent"),
        ("task,notes\n1,hm\n", "no column holds rewards", "give every agent a column"),
        ("task,a,a\n1,1,0\n", "column 'a': occurs twice", "a name of its own"),
        ("task,a\n1,1,0\n", "row 2: has 3 fields, the header has 2", "in double quotes"),
        ('task,a\n1,"1\n', "row 2: is not CSV", "double quotes"),
        ("", "table.csv: is empty", "write a header"),
        ("task,a\n", "has a header and no rows", "add one row"),
        (b"task,a\n1,\xe9\n", "line 2: is not UTF-8", "CSV UTF-8"),
        (b"task,a\n1,\0\n", "line 2: holds a zero byte", "as text"),
        (
            "task,agent,reward,feature_x\n1,a,1,2\n1,b,1,3\n",
            "column 'feature_x', row 3: is 3, and 2 in another row of the same task",
            "known before the choice",
        ),
        ("task,agent,seconds,event,cutoff_s\n1,a,1,.5,9\n", "table.csv: event: holds 0.5", "write 1 where completed"),
    ],
)
def test_mistakes_name_file_column_row_and_remedy(write, text, place, remedy):
    with pytest.raises(InvalidInputError) as error:
        load(write(text))
    assert "table.csv" in str(error.value) and place in str(error.value) and remedy in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("id_", ["", "id;"])
def test_a_row_per_task_and_agent_under_foreign_headers_is_no_wide_table(write, id_, trials):
    """Else 'Bewertung' and 'Kosten (€)' are compared as agents."""
    keys = [(t, m) for t in range(6) for m in ("mini", "max") for _ in range(1 if id_ else trials)]
    rows = [f"{n};t{t};{m};0,5;0,01;frage {t}" for n, (t, m) in enumerate(keys)]
    rows = rows if id_ else [row.split(";", 1)[1] for row in rows]
    with pytest.raises(InvalidInputError, match="no agent column") as error:
        load(write(f"{id_}Aufgabe;Modell;Bewertung;Kosten (€);Frage\n" + "\n".join(rows)))
    assert all(word in str(error.value) for word in ("'Aufgabe', 'Modell'", "'Kosten (€)'", "drop 'Modell'"))


def test_a_column_of_words_that_names_no_agent_is_left_out(write):
    rows = [f"t{n},{n % 2},1,{'ab'[n % 2]},{'xyz'[n % 3]}" for n in range(12)]
    assert load(write("task,small,large,source,level\n" + "\n".join(rows))).agents == ("small", "large")
    with pytest.raises(InvalidInputError, match="two agents at least"):
        load(write("task,small\n1,1\n2,0\n"))
    with pytest.raises(InvalidInputError, match="call it task_model_used"):
        load(write("model used,good,price each\nmini,1,0.1\nmax,1,0.2\nmini,0,0.1\n"))


def test_the_command_reads_a_table_and_says_what_it_read(write, tmp_path, capsys):
    path = write(LONG.replace("claim", "remark"))
    words = ["--policies", "ucb1", "--seeds", "2", "--jobs", "1", "--quiet", "--out", str(tmp_path / "out")]
    assert main(["arena", str(path), *words]) == 0
    assert "note: table.csv: not read: 'remark'" in capsys.readouterr().err
    assert "table,shuffled,ucb1,cost_usd" in (tmp_path / "out" / "arena.csv").read_text()


def test_tables_beside_archives_are_not_read_unless_named(write, tmp_path, capsys):
    write(LONG)
    words = ["--policies", "ucb1", "--seeds", "1", "--jobs", "1", "--quiet", "--out", str(tmp_path / "out")]
    write_npz(tmp_path / "plain.npz", Matrix("plain", ("a", "b"), np.array([[0.0, 1.0], [1.0, 0.5]])))
    assert main(["arena", str(tmp_path), *words]) == 0
    assert "not read beside .npz files: table.csv" in capsys.readouterr().err
    (tmp_path / "plain.npz").unlink()
    (tmp_path / "out" / "arena.csv").rename(tmp_path / "out" / "old.txt")
    assert main(["arena", str(tmp_path), *words, "--force"]) == 0


def test_options_without_effect_are_named(write, tmp_path, capsys):
    plain, timed = write("task,a,b\n1,0,1\n2,1,0\n", "plain.csv"), write(LONG, "timed.csv")
    words = ["--policies", "ucb1", "--seeds", "1", "--jobs", "1", "--quiet", "--out", str(tmp_path / "out")]
    for option, value in (("--latency-target", "3"), ("--cost-weight", "3"), ("--budget", "3")):
        assert main(["arena", str(plain), *words, option, value]) == 2
        assert f"{option}: plain.csv has no " in capsys.readouterr().err
    assert main(["arena", str(plain), str(timed), *words, "--latency-target", "3"]) == 0
    assert "note: plain.csv: has no seconds, so --latency-target does nothing there" in capsys.readouterr().err


def test_a_signal_for_runtimes_is_told_to_do_nothing_for_rewards(write, tmp_path, capsys):
    words = ["--signal", "par10", "--policies", "ucb1", "--seeds", "1", "--jobs", "1", "--quiet"]
    assert main(["arena", str(write(LONG)), *words, "--out", str(tmp_path / "out")]) == 0
    assert "table.csv: has rewards, so --signal does nothing there" in capsys.readouterr().err


def test_several_attempts_say_that_there_is_no_verdict(write, tmp_path, capsys):
    rows = "".join(f"{t},{agent},{1 + t % 9},1,10\n" for t in range(25) for agent in "ab")
    path = write("task,agent,seconds,event,cutoff_s\n" + rows)
    words = ["--attempts", "2", "--policies", "auto", "--seeds", "1", "--jobs", "1", "--quiet", "--rounds", "5"]
    assert main(["arena", str(path), *words, "--out", str(tmp_path / "out")]) == 0
    assert "note: no verdict: rounds of several attempts" in capsys.readouterr().err


def test_a_saved_matrix_keeps_its_seconds_and_texts(write, tmp_path):
    want = load(write(LONG))
    write_npz(tmp_path / "saved.npz", want)
    found = load(tmp_path / "saved.npz")
    assert np.array_equal(found.elapsed_s, want.elapsed_s, equal_nan=True) and list(found.text) == list(want.text)


CELL = st.sampled_from(
    [
        "",
        "1",
        "0",
        "0.5",
        "87",
        "true",
        "no",
        "NaN",
        "inf",
        "-1",
        "1e999",
        "a",
        "b",
        '"',
        '"x\ny"',
        "x\ny",
        "%",
        "$",
        "é",
        "\t",
        "1,5",
    ]
)
NAME = st.sampled_from(
    [
        *("task", "id", "agent", "model", "reward", "score", "cost", "seconds", "a_cost", "a", "b", "trial", "text"),
        *("event", "cutoff_s", "status", "feature_x", "task_kind", "claim", "confidence", "true_reward", "latency_ms"),
        "",
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.lists(NAME, min_size=0, max_size=7),
    rows=st.lists(st.lists(CELL, min_size=0, max_size=7), max_size=6),
    separator=st.sampled_from([",", ";", "\t"]),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
)
@example(header=["task", "agent", "reward", "status"], rows=[["1", "a", "1", "x"]], separator=",", ending="\n")
def test_no_table_gives_a_traceback(tmp_path, header, rows, separator, ending):
    rows = [[*row, *["1"] * 7][: len(header)] for row in rows]  # mostly as long as the header
    _reads_or_refuses(tmp_path, ending.join(separator.join(row) for row in [header, *rows]).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=80))
def test_no_bytes_give_a_traceback(tmp_path, raw):
    _reads_or_refuses(tmp_path, raw)
    _reads_or_refuses(tmp_path, b"task,agent,reward\n1,a," + raw)


def _reads_or_refuses(folder, raw):
    path = folder / "fuzz.csv"
    path.write_bytes(raw)
    os.utime(path, ns=(0, _clock()))  # the same name and time would be read from memory
    try:
        found = load(path)
    except InvalidInputError as error:
        told = str(error)
        assert all(part in told for part in ("fuzz.csv", ";"))
    else:
        assert found.eligible.any() and found.notes
        known = found.reward[found.eligible]
        assert ((known >= 0.0) & (known <= 1.0)).all()


_ticks = iter(range(1, 10**9))


def _clock():
    return next(_ticks) * 1000
