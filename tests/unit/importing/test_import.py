"""``bot-orch import``: what is read from each format, what can be concluded, and what errors name."""

import csv
import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task
from bot_orch.cli import main
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Censored
from bot_orch.evaluation import evaluate
from bot_orch.evaluation.export import decision_rows, export
from bot_orch.evaluation.importing import import_log
from bot_orch.evaluation.rounds import collect
from bot_orch.log import (
    Configured,
    FeedbackGiven,
    MemoryLog,
    Row,
    encode_event,
    open_log,
    outcomes_in,
    record_decision,
    record_task,
    replay,
)


def imported(path, source, text, **options):
    path.write_text(text)
    log = MemoryLog()
    return log, import_log(path, source, log, **options)


def own_log(n=300):
    """A log of ours: features, failures, timeouts, silence and decisions without an outcome."""
    rng = np.random.default_rng(5)
    router, log = Orchestrator(["a", "b", "c"], "bot", floor=0.3, seed=2), MemoryLog()
    rows = []

    def write(event, ref=""):
        rows.append(Row(len(rows) + 1, 1000 + len(rows), event.kind, ref, encode_event(event, ref)))

    write(Configured(router.to_json(), ENGINE))
    for number in range(n):
        task = Task(f"t{number}", "q", features=(float(rng.integers(0, 2)), 0.25))
        made = router.decide(task)
        write(record_decision(made, record_task(task)), made.id)
        if number % 10 == 3:
            outcome = Outcome.censored(elapsed_s=2.0, reason="timeout")
            router.observe(made.id, outcome)
            write(FeedbackGiven(f"f{number}", made.id, "noted", None, 2.0, False, "timeout"), made.id)
        elif number % 10 == 7:
            write(Censored(made.id, 5.0, "horizon"), made.id)
            router.observe(made.id, Outcome.censored(elapsed_s=5.0, reason="horizon"))
        else:
            reward = float(rng.random() < {"a": 0.2, "b": 0.6, "c": 0.4}[made.agent])
            router.observe(made.id, Outcome.completed(reward, elapsed_s=1.0))
            write(FeedbackGiven(f"f{number}", made.id, "learned", reward, 1.0, cost_usd=0.01), made.id)
    log.append(rows)
    log.commit()
    return log


TARGETS = ("uniform", "agent:b")


def same(one, other):
    assert (one.decisions, one.missing, one.logged_mean) == (other.decisions, other.missing, other.logged_mean)
    for a, b in zip(one.estimates, other.estimates, strict=True):
        assert [b.value, b.low, b.high, b.effective_n] == pytest.approx([a.value, a.low, a.high, a.effective_n])


def test_an_exported_log_of_our_own_gives_the_same_evaluation(tmp_path):
    log, copy = own_log(), MemoryLog()
    export(log, tmp_path / "log.jsonl")
    found = import_log(tmp_path / "log.jsonl", "jsonl", copy)
    assert found.decisions == found.propensities == 300 and found.agents == ("a", "b", "c")
    for target in TARGETS:
        same(evaluate(log, target), evaluate(copy, target))
    assert collect(copy).rewards == collect(log).rewards


@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_an_exported_table_gives_the_same_weights(tmp_path, source):
    """It holds the propensity of the chosen agent alone, and no features: IPS and SNIPS need no more."""
    if source == "parquet":
        pytest.importorskip("pyarrow")
    log, copy = own_log(), MemoryLog()
    export(log, tmp_path / f"log.{source}")
    import_log(tmp_path / f"log.{source}", source, copy)
    for target in TARGETS:
        one, other = evaluate(log, target), evaluate(copy, target)
        assert [e.value for e in other.estimates[:2]] == pytest.approx([e.value for e in one.estimates[:2]])


CSV = (
    "model,thumbs,propensity,feature_len,when,colour\n"
    "small,1,0.25,3,2026-01-01T00:00:00Z,red\n"
    "large,0,0.75,5,2026-01-01T00:00:01Z,blue\n"
)


def test_columns_are_mapped_and_unknown_ones_named(tmp_path, capsys):
    (tmp_path / "calls.csv").write_text(CSV)
    words = ["--map", "agent=model", "reward=thumbs", "time=when"]
    out = tmp_path / "old.sqlite"
    assert main(["import", str(tmp_path / "calls.csv"), "--out", str(out), *words]) == 0
    said = capsys.readouterr().out
    assert "2 decisions in" in said and "2 with a reward, 2 with a propensity" in said
    assert "not read: colour" in said
    log = open_log(out)
    rounds = collect(log)
    assert rounds.agents == ("large", "small")
    assert rounds.propensities().tolist() == [[0.75, 0.25], [0.75, 0.25]]
    assert [event.seen() for event in rounds.made] == [(3.0,), (5.0,)]
    assert list(rounds.rewards.values()) == [1.0, 0.0]
    assert [row.time_us for row in log.read()][:3] == [1767225599999999, 1767225600000000, 1767225600000001]
    log.close()
    assert main(["import", "--from", "csv", str(tmp_path / "calls.csv"), "--out", str(out), *words]) == 2
    assert "exists" in capsys.readouterr().err


def test_a_table_for_the_arena_is_imported(tmp_path):
    """Of a German spreadsheet, with its names of columns and a cell that holds no number."""
    table = "task;agent;reward;cost;seconds\nt0;mini ;0,5;0,001;2,5\nt1;mini;n/a;0,002;1\n"
    log, found = imported(tmp_path / "x.csv", "csv", table)
    assert (found.agents, found.decisions, found.rewards, found.ignored) == (("mini",), 2, 1, ())
    rounds = collect(log)
    assert [event.task.id for event in rounds.made] == ["t0", "t1"] and list(rounds.rewards.values()) == [0.5]
    (given,) = [event for row in log.read() if isinstance(event := row.event(), FeedbackGiven) and event.reward]
    assert (given.cost_usd, given.elapsed_s) == (0.001, 2.5)
    (tmp_path / "x.csv").write_bytes(b"agent,reward\nm\xfcde,1\n")
    with pytest.raises(InvalidInputError, match="line 2: is not UTF-8"):
        import_log(tmp_path / "x.csv", "csv", MemoryLog())


def test_without_propensities_only_the_logged_means_are_given(tmp_path, capsys):
    rows = ["agent,reward"] + [f"{'ab'[i % 2]},{int(i % 4 == 0)}" for i in range(200)]
    file, out = tmp_path / "calls.csv", tmp_path / "old.sqlite"
    file.write_text("\n".join(rows))
    assert main(["import", "--from", "csv", str(file), "--out", str(out)]) == 0
    assert "--assume-uniform" in capsys.readouterr().out
    assert main(["evaluate", str(out), "--policy", "agent:a"]) == 1
    assert "refused; 200 of 200 decisions have no propensity" in capsys.readouterr().out
    assert main(["evaluate", str(out), "--policy", "auto", "--lambda", "0", "1"]) == 1
    assert main(["evaluate", str(out), "--policy", "logged"]) == 0
    said = capsys.readouterr().out
    assert (
        "all  0.2500" in said and "a    0.5000" in said and "b    0.0000  [0.0000, 0.0370]" in said and "note:" in said
    )
    assert main(["export", str(out), str(tmp_path / "again.jsonl")]) == 0
    assert json.loads((tmp_path / "again.jsonl").read_text().splitlines()[0])["propensity"] is None
    drawn = tmp_path / "drawn.sqlite"
    assert main(["import", "--from", "csv", str(file), "--out", str(drawn), "--assume-uniform"]) == 0
    assert main(["evaluate", str(drawn), "--policy", "agent:a", "ucb1"]) == 0
    assert "SNIPS   0.5000" in capsys.readouterr().out


def test_names_that_an_export_quotes_come_back(tmp_path):
    log, _ = imported(tmp_path / "x.csv", "csv", "agent,reward\n@cf/meta,1\n-b,0\n")
    export(log, tmp_path / "out.csv")
    assert "'@cf/meta" in (tmp_path / "out.csv").read_text()
    assert import_log(tmp_path / "out.csv", "csv", MemoryLog()).agents == ("-b", "@cf/meta")


def test_a_log_that_always_chose_one_agent_supports_no_other(tmp_path, capsys):
    log, _ = imported(
        tmp_path / "x.jsonl", "jsonl", '{"agent":"a","reward":1,"propensity":1,"eligible":["a","b"]}\n' * 1
    )
    assert collect(log).propensities().tolist() == [[1.0, 0.0]]


def test_an_imported_log_is_neither_replayed_nor_served(tmp_path):
    log, _ = imported(tmp_path / "x.csv", "csv", "agent,reward,propensity\na,1,0.5\nb,1,0.5\n")
    verified = replay(log)
    assert not verified.ok and "was imported from another router" in verified.damaged[0]


def test_an_imported_log_warms_a_router(tmp_path):
    log, _ = imported(tmp_path / "x.csv", "csv", "agent,reward\na,1\nb,0\n")
    assert outcomes_in(log) == [{"agent": "a", "reward": 1.0}, {"agent": "b", "reward": 0.0}]


def test_vowpal_wabbit_dsjson(tmp_path):
    record = {
        "_label_cost": -1.0,
        "_label_probability": 0.8,
        "_label_Action": 2,
        "_labelIndex": 1,
        "EventId": "e1",
        "a": [2, 1],
        "p": [0.8, 0.2],
        "c": {"user": {"age": 3, "kind": "new"}, "_multi": [{"x": 1}, {"x": 2}]},
        "VWState": {},
    }
    log, found = imported(
        tmp_path / "x.json", "dsjson", json.dumps(record) + "\n" + '{"EventId":"d"}\n', reward_range=(-1.0, 0.0)
    )
    rounds = collect(log)
    assert (rounds.made[0].agent, rounds.rewards, rounds.made[0].seen()) == ("2", {"e1": 1.0}, (3.0, 1.0))
    assert rounds.propensities().tolist() == [[0.2, 0.8]] and found.ignored == ("VWState",)


@pytest.mark.parametrize(
    ("source", "text", "named"),
    [
        ("csv", "model,reward\na,1\n", "column 'agent': no such column; columns found: model, reward"),
        ("csv", "agent,reward\na,good\n", "column 'reward', row 2: is 'good', not a number; write a number"),
        ("csv", "agent,reward\na,7\n", "column 'reward', row 2: is 7, outside of 0 to 1; pass .* --range"),
        ("csv", "agent,reward\na,1,2\n", "row 2: has 3 fields, the header has 2"),
        ("csv", "agent,reward,propensity\na,1,1.5\n", "column 'propensity', row 2: is 1.5; write the probability"),
        ("csv", "agent,propensity\na,0\n", "column 'propensity', row 2: is 0; write the probability"),
        ("csv", "agent,propensity_a,propensity_b\na,0.5,0.2\n", "column 'propensities', row 2: add up to 0.7;"),
        ("csv", "agent,decision_id\na,x\nb,x\n", "column 'decision_id', row 3: 'x' is that of row 2"),
        ("csv", "agent,agent\na,b\n", "column 'agent': occurs twice"),
        ("csv", 'agent,features\na,[1]\na,"[1,2]"\n', "column 'features', row 3: 2 numbers, 1 in the rows before"),
        ("csv", "agent,time\na,yesterday\n", "column 'time', row 2: is 'yesterday'; write seconds since 1970"),
        ("csv", "agent,completed\na,maybe\n", "column 'completed', row 2: is 'maybe'; write true or false"),
        ("csv", "agent,reward\n", "has a header and no rows"),
        ("csv", "", "is empty"),
        ("jsonl", '{"agent": "a"}\nnonsense\n', "row 2: is not JSON"),
        ("jsonl", '{"reward": 1}\n', "column 'agent': no such column; columns found: reward"),
        ("jsonl", '{"agent": "a", "reward": NaN}\n', "row 1: is not JSON"),
        ("jsonl", "[1]", "row 1: is '1'; write one object"),
        ("dsjson", '{"_label_cost": 0, "a": [1], "p": []}\n', "column 'a, p', row 1: are no two lists"),
        (
            "dsjson",
            '{"_label_cost": 7, "a": [1], "p": [1]}\n',
            "column '_label_cost', row 1: is 7, outside of 0 to 1; pass",
        ),
    ],
)
def test_errors_name_file_row_column_and_remedy(tmp_path, capsys, source, text, named):
    path = tmp_path / "given.txt"
    with pytest.raises(InvalidInputError, match=named) as caught:
        imported(path, source, text)
    assert str(caught.value).startswith("given.txt")
    assert main(["import", "--from", source, str(path), "--out", str(tmp_path / "log.sqlite")]) == 2
    assert not (tmp_path / "log.sqlite").exists(), "nothing is left behind"
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_options_are_checked(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("agent\na\n")
    given = ["import", "--from", "csv", str(tmp_path / "x.csv"), "--out", str(tmp_path / "x.sqlite")]
    assert main([*given, "--map", "nothing"]) == 2 and "OURS=THEIRS" in capsys.readouterr().err
    assert main([*given, "--range", "1", "0"]) == 2 and "reward_range: is 1 0" in capsys.readouterr().err
    assert main(["import", "x.txt", "--out", "y.sqlite"]) == 2 and "--from: is missing" in capsys.readouterr().err
    given[3] = str(tmp_path / "none.csv")
    assert main(given) == 2 and "is no file" in capsys.readouterr().err


SEEDS = {
    "csv": CSV.replace("model", "agent"),
    "jsonl": '{"agent":"a","reward":1,"propensities":{"a":0.5,"b":0.5},"features":[1,2],"completed":true}\n' * 2,
    "dsjson": '{"_label_cost":0,"_label_Action":2,"a":[2,1],"p":[0.8,0.2],"c":{"user":{"age":3}},"EventId":"e"}\n',
}


@pytest.mark.parametrize("source", sorted(SEEDS))
def test_damaged_files_give_errors_of_ours(tmp_path, source):
    """Fuzz: bytes and tokens changed at random; anything but an error of one line is a defect."""
    draw = random.Random(source)  # noqa: S311
    tokens = [
        b"null",
        b"1e999",
        b"-1",
        b"{",
        b"]",
        b'"',
        b"\x00",
        b"\xff",
        b",",
        b"\n",
        b"|",
        b":",
        b"9" * 5000,
        b"[" * 3000,
    ]
    path, seed = tmp_path / "fuzz", SEEDS[source].encode()
    refused = 0
    for _ in range(150):
        text = bytearray(seed)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(text) + 1)
            text[at : at + draw.choice([0, 0, 1, 5])] = draw.choice(tokens)
        path.write_bytes(bytes(text))
        log = MemoryLog()
        try:
            import_log(path, source, log)
        except InvalidInputError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
        else:
            list(decision_rows(log))
    assert 0 < refused <= 150


def test_a_csv_of_many_values_is_no_column_of_agents(tmp_path):
    rows = [["agent"], *([f"prompt {number}"] for number in range(300))]
    with (tmp_path / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(InvalidInputError, match="300 different values; name the column of the agents"):
        import_log(tmp_path / "x.csv", "csv", MemoryLog())


def test_the_recipe_of_the_page_makes_a_table(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    page = Path(__file__).parents[3] / "docs" / "how-to" / "import.md"
    (recipe,) = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
    calls = [
        {"request_id": "r1", "model": "large", "spend": 0.02, "status": "success", "metadata": {"rating": 0.75}},
        {"request_id": "r2", "model": "small", "spend": 0.001, "status": "failure", "metadata": {}},
    ]
    text = "".join(json.dumps({**call, "startTime": "2026-01-01 00:00:05"}) + "\n" for call in calls)
    (tmp_path / "spend.jsonl").write_text(text)
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})  # noqa: S102
    log = MemoryLog()
    assert import_log(tmp_path / "calls.csv", "csv", log).decisions == 2
    one, two = decision_rows(log)
    assert (one["decision_id"], one["agent"], one["reward"], one["cost_usd"]) == ("r1", "large", 0.75, 0.02)
    assert (two["completed"], two["reward"]) == (False, 0.0)


def mapped(tmp_path, capsys, text, *words, suffix="csv"):
    """What the command says, and the log's rounds."""
    (tmp_path / f"x.{suffix}").write_text(text)
    (tmp_path / "x.sqlite").unlink(missing_ok=True)
    status = main(["import", str(tmp_path / f"x.{suffix}"), "--out", str(tmp_path / "x.sqlite"), "--map", *words])
    said = capsys.readouterr()
    if status:
        return said.err, None
    log = open_log(tmp_path / "x.sqlite")
    rounds = collect(log)
    log.close()
    return said.out, rounds


OBD = "item_id,click,propensity_score,propensity_model,x1,cost\na,1,0.25,9,3,7\nb,0,0.75,9,5,7\n"


def test_a_column_that_is_mapped_is_read_as_that_and_nothing_else(tmp_path, capsys):
    names = ("agent=item_id", "reward=click", "propensity=propensity_score")
    said, rounds = mapped(tmp_path, capsys, OBD, *names, "feature_x1=x1", "kind=cost")
    assert "2 with a reward, 2 with a propensity" in said and "not read: propensity_model" in said
    assert rounds.agents == ("a", "b") and rounds.propensities().tolist() == [[0.25, 0.75], [0.25, 0.75]]
    assert [event.seen() for event in rounds.made] == [(3.0,), (5.0,)]
    assert [event.task.kind for event in rounds.made] == ["7", "7"] and rounds.usd == {}, "not taken for dollars too"


def test_a_column_whose_name_only_begins_as_a_propensity_does_is_not_guessed(tmp_path, capsys):
    said, rounds = mapped(tmp_path, capsys, OBD, "agent=item_id", "reward=click")
    assert "0 with a propensity" in said and "not read: propensity_score, propensity_model, x1" in said
    assert rounds.agents == ("a", "b")


def test_propensities_of_every_agent_are_mapped_by_name(tmp_path, capsys):
    text = "model,good,pa,pb,feature_y\na,1,0.25,0.75,2\nb,0,0.5,0.5,4\n"
    words = ("agent=model", "reward=good", "propensity_a=pa", "propensity_b=pb", "feature_x=good")
    _, rounds = mapped(tmp_path, capsys, text, *words)
    assert rounds.propensities().tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert [event.seen() for event in rounds.made] == [(1.0, 2.0), (0.0, 4.0)]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_mapped_column_that_is_not_there_is_an_error(tmp_path, capsys, suffix):
    text = "agent,thumbs\na,1\n" if suffix == "csv" else '{"agent": "a", "thumbs": 1}\n'
    said, rounds = mapped(tmp_path, capsys, text, "reward=thumb", suffix=suffix)
    assert rounds is None and f"x.{suffix}: column 'thumb': no such column; columns found: agent, thumbs" in said


def test_map_may_be_repeated_and_names_a_column_once(tmp_path, capsys):
    _, rounds = mapped(tmp_path, capsys, "m,r\na,1\n", "agent=m", "--map", "reward=r")
    assert list(rounds.rewards.values()) == [1.0]
    said, _ = mapped(tmp_path, capsys, "m,r\na,1\n", "agent=m", "agent=r")
    assert "--map: names 'agent' twice" in said
    said, _ = mapped(tmp_path, capsys, "m,r\na,1\n", "feature_=r")
    assert "--map: holds 'feature_=r'; write OURS=THEIRS" in said and "feature_NAME" in said


def test_a_missing_extra_is_one_line_with_the_remedy(tmp_path, capsys, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["import", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "x.sqlite")]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "Parquet needs an optional dependency; pip install" in said
    assert "parquet]" in said and not (tmp_path / "x.sqlite").exists()


def test_times_in_nanoseconds_need_no_pandas(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = arrow.array([1577836800000001999, 1577836800000000001], arrow.timestamp("ns", tz="UTC"))
    parquet.write_table(arrow.table({"agent": ["a", "b"], "reward": [1.0, 0.0], "time": times}), tmp_path / "x.parquet")
    log = MemoryLog()
    import_log(tmp_path / "x.parquet", "parquet", log)
    assert [made.agent for made in collect(log).made] == ["b", "a"]
    assert [row.time_us for row in log.read()][1] == 1577836800000000


def test_the_propensity_of_one_agent_does_not_exclude_the_others(tmp_path):
    """An agent that was always chosen says nothing of another one: no even choice stands for it."""
    text = "agent,reward,propensity\n" + "a,1,1\n" * 99 + "b,0,1\n"
    log, _ = imported(tmp_path / "x.csv", "csv", text)
    assert evaluate(log, "agent:b").reason == "uncovered"


def test_every_column_that_is_not_read_is_named(tmp_path, capsys):
    text = "agent,model,reward,expected,expected_in,note\nx,a,1,soon,3,n\ny,b,0,late,4,n\n"
    said, rounds = mapped(tmp_path, capsys, text, "agent=model")
    assert rounds.agents == ("a", "b") and "not read: agent, expected, expected_in, note\n" in said


def test_features_may_be_missing_or_by_name(tmp_path):
    rows = [{"agent": "a", "features": [1.0, None]}, {"agent": "b", "features": [2.0, 3.0]}]
    log, _ = imported(tmp_path / "x.jsonl", "jsonl", "\n".join(map(json.dumps, rows)))
    assert np.array_equal([each.seen() for each in collect(log).made], [[1.0, np.nan], [2.0, 3.0]], equal_nan=True)
    named = [{"agent": "a", "features": {"lang": "de", "n": 1}}, {"agent": "b", "features": {"lang": "en", "on": True}}]
    log, _ = imported(tmp_path / "y.jsonl", "jsonl", "\n".join(map(json.dumps, named)))
    assert [each.seen() for each in collect(log).made] == [(1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0)]


def test_an_export_with_features_by_name_is_imported(tmp_path):
    with Router(["a", "b"], path=tmp_path / "log", seed=1) as router:
        for features in ({"lang": "de", "n": 3}, {"lang": "en"}):
            router.observe(router.decide(Task(features=features)).id, Outcome.completed(1.0))
    given, copy = open_log(tmp_path / "log"), MemoryLog()
    export(given, tmp_path / "log.jsonl")
    assert import_log(tmp_path / "log.jsonl", "jsonl", copy).ignored == ()
    seen = [[event.seen() for event in collect(log).made] for log in (given, copy)]
    assert np.array_equal(*seen, equal_nan=True) and np.isnan(seen[1][1]).sum() == 1
    given.close()
