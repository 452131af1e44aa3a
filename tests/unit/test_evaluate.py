"""``evaluate``: a table and a policy, estimates that agree with the Open Bandit Pipeline, refusals with a reason."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from bot_orch import InvalidInputError
from bot_orch.cli import main
from bot_orch.cli.evaluate import _line
from bot_orch.evaluation import Evaluation, LoggedMean, Refusal, evaluate, logged_means
from bot_orch.evaluation.importing import import_log
from bot_orch.evaluation.offpolicy import quantile, wilson
from bot_orch.evaluation.sheet import sheet_of_frame
from bot_orch.evaluation.tables import read_decisions
from bot_orch.log import MemoryLog
from bot_orch.policies.registry import make_policy

# Numbers of obp 0.4.1: ipw, snipw and dr of a table of 60 decisions among three agents, under probabilities that
# differ from row to row (rows) or do not (shares), with the same model of rewards (expected).
OBP = json.loads(Path(__file__).with_name("obp_table.json").read_text())


def obp_table(*, single):
    agent, p = np.array(OBP["agent"]), np.array(OBP["propensities"])
    table = {"agent": agent, "reward": np.array(OBP["reward"]), "expected": np.array(OBP["expected"])}
    return table | ({"propensity": p[np.arange(len(agent)), agent]} if single else {"propensities": p})


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("policy", ["rows", "shares"])
def test_estimates_agree_with_those_of_obp(policy, single):
    found = evaluate(obp_table(single=single), OBP[policy], min_effective=1)
    assert {each.method for each in found.estimates} == OBP["obp"][policy].keys()
    for each in found.estimates:
        assert each.value == pytest.approx(OBP["obp"][policy][each.method], rel=0.0, abs=1e-15)


def test_the_estimators_of_obp_differ_from_each_other():
    """Else their agreement would say little."""
    assert len({round(value, 3) for value in OBP["obp"]["rows"].values()}) == 3


def columns():
    """A table with a column per agent where a matrix would not do."""
    table = obp_table(single=True)
    for place, name in enumerate("012"):
        table[f"expected_{name}"] = table["expected"][:, place]
    del table["expected"]
    return table


def test_a_data_frame_and_an_arrow_table_are_read_as_arrays_are():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    wanted = evaluate(obp_table(single=True), OBP["shares"], min_effective=1)
    nested = obp_table(single=False)
    lists = {name: list(column) for name, column in nested.items()}
    for table in (
        columns(),
        {name: column.tolist() for name, column in columns().items()},
        pandas.DataFrame(columns()),
        pandas.DataFrame(columns()).convert_dtypes(),
        arrow.table(columns()),
        pandas.DataFrame(lists),
        arrow.table(lists),
    ):
        found = evaluate(table, dict(zip("012", OBP["shares"], strict=True)), min_effective=1)
        assert [e.value for e in found.estimates] == pytest.approx([e.value for e in wanted.estimates], abs=1e-15)
    named = pandas.DataFrame(columns()).assign(agent=[f"m{each}" for each in OBP["agent"]])
    named["agent"] = named["agent"].astype("category")
    named = named.rename(columns={f"expected_{each}": f"expected_m{each}" for each in "012"})
    found = evaluate(named, OBP["shares"], agents=["m0", "m1", "m2"], min_effective=1)
    assert found.estimates[2].value == pytest.approx(wanted.estimates[2].value, abs=1e-15)


def drawn(n=600, seed=0, gaps=0):
    """A table of decisions with known propensities; agent ``c`` is the best."""
    rng = np.random.default_rng(seed)
    p = np.array([0.5, 0.3, 0.2])
    agent = rng.choice(3, n, p=p)
    reward = (rng.random(n) < np.array([0.2, 0.5, 0.8])[agent]).astype(float)
    reward[:gaps] = np.nan
    return {"agent": np.array(list("abc"))[agent], "reward": reward, "propensity": p[agent]}


@pytest.mark.parametrize("policy", ["ucb1", "bot", "uniform", "agent:c"])
def test_a_table_is_evaluated_as_its_import_is(tmp_path, policy):
    table = drawn()
    rows = zip(*(table[name].tolist() for name in ("agent", "reward", "propensity")), strict=True)
    lines = ["agent,reward,propensity", *(f"{agent},{reward},{p!r}" for agent, reward, p in rows)]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    log = MemoryLog()
    import_log(tmp_path / "x.csv", "csv", log)
    one, other = (evaluate(data, policy, min_effective=20, paths=2) for data in (table, log))
    assert isinstance(one, Evaluation) and one == other
    assert (one.learned is None) == (policy in ("uniform", "agent:c"))


def test_a_policy_is_passed_by_name_or_as_itself():
    table = drawn()
    assert evaluate(table, make_policy("ucb1"), paths=1).estimates == evaluate(table, "ucb1", paths=1).estimates
    assert evaluate(table, make_policy("ucb1"), paths=1).target == "ucb1"
    one, two = evaluate(table, {"c": 0.5, "b": 0.5}), evaluate(table, [0.0, 0.5, 0.5])
    assert one.estimates == two.estimates and one.target == "given probabilities"


def test_rewards_of_another_range_are_scaled():
    table = drawn()
    wide = table | {"reward": 10.0 * table["reward"] - 5.0}
    q = np.linspace(0.0, 1.0, 1800).reshape(600, 3)
    for policy, more in (("agent:c", {}), ("ucb1", {}), ("agent:c", {"expected": q})):
        scaled = {name: 10.0 * column - 5.0 for name, column in more.items()}
        one = evaluate(table | more, policy, paths=1)
        other = evaluate(wide | scaled, policy, paths=1, reward_range=(-5.0, 5.0))
        for narrow, found in zip(one.estimates, other.estimates, strict=True):
            wanted = [10.0 * each - 5.0 for each in (narrow.value, narrow.low, narrow.high)]
            assert [found.value, found.low, found.high] == pytest.approx(wanted), found.method
    for narrow, mean in zip(logged_means(table), logged_means(wide, reward_range=(-5.0, 5.0)), strict=True):
        wanted = [10.0 * each - 5.0 for each in (narrow.mean, narrow.low, narrow.high)]
        assert [mean.mean, mean.low, mean.high] == pytest.approx(wanted)
    with pytest.raises(InvalidInputError, match=r"table: column 'reward', row \d+: is 5, outside of 0 to 1"):
        evaluate(wide | {"reward": np.abs(wide["reward"])}, "agent:c")


def test_features_of_a_table_may_be_missing_or_by_name():
    def read(*rows):
        return read_decisions(sheet_of_frame({"agent": ["a", "b"], "features": rows}, "table")).decisions.features

    np.testing.assert_array_equal(read([1.0, None], [2.0, 3.0]), [[1.0, math.nan], [2.0, 3.0]])
    named = read({"lang": "de", "n": 1, "in": {"x": 5}}, '{"lang": "en", "on": true, "n": null}')
    np.testing.assert_array_equal(named, [[1.0, 1.0, 5.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0]])


@pytest.mark.parametrize("policy", ["auto", "linucb", "agent:c"])
def test_a_missing_number_is_no_obstacle(policy):
    table = drawn(300)
    numbers = np.random.default_rng(1).random((300, 2))
    numbers[::7, 1] = np.nan
    found = evaluate(table | {"features": numbers}, policy, paths=1, min_effective=20)
    assert all(math.isfinite(each.value) and each.low < each.high for each in found.estimates)


def refusals():
    table = drawn(200)
    yield "no_propensities", {name: table[name] for name in ("agent", "reward")}, "agent:c", {}
    yield "no_propensities", table | {"propensity": np.where(np.arange(200) < 3, np.nan, 0.3)}, "agent:c", {}
    yield "no_rewards", drawn(200, gaps=150), "agent:c", {}
    yield "no_rewards", {"agent": list("ab"), "propensity": [0.5, 0.5]}, "agent:a", {"max_missing": 1.0}
    yield "no_revised_rewards", table, "agent:c", {"audited": True}
    yield "few_decisions", table, "agent:c", {"min_effective": 150.0}
    yield "one_decision", drawn(12), "agent:c", {"min_effective": 1.0}
    certain = {"agent": ["a"] * 99 + ["b"], "reward": [1.0] * 100, "propensity": [1.0] * 100}
    yield "uncovered", certain, "agent:b", {}
    never = certain | {"eligible": ["a"] * 100, "agent": ["a"] * 100}
    yield "never_eligible", never | {"propensities": [{"a": 1.0, "b": 0.0}] * 100}, "agent:b", {}


@pytest.mark.parametrize(("reason", "table", "policy", "settings"), list(refusals()))
def test_what_the_decisions_do_not_tell_is_refused_with_a_reason(reason, table, policy, settings):
    found = evaluate(table, policy, **settings)
    assert isinstance(found, Refusal) and found.reason == reason
    assert found.problem and found.remedy and str(found) == f"{found.problem}; {found.remedy}"


@pytest.mark.parametrize(
    ("change", "policy", "named"),
    [
        ({"agent": None}, "uniform", "column 'agent': no such column; columns found: reward, propensity"),
        ({"agent": ["a", "", "b"]}, "uniform", "column 'agent', row 1: is missing"),
        ({"reward": [1.0, "good", 0.0]}, "uniform", "column 'reward', row 1: is 'good', not a number"),
        ({"reward": [1.0, 0.0]}, "uniform", "columns of different lengths: agent 3, reward 2"),
        ({"propensity": [0.5, 0.0, 0.5]}, "uniform", "column 'propensity', row 1: is 0; write the probability"),
        ({"propensity": [0.5, 0.5, 1.5]}, "uniform", "column 'propensity', row 2: is 1.5; write the probability"),
        ({"propensities": [[0.5, 0.6]] * 3}, "uniform", "row 0: add up to 1.1; write numbers that add up to 1"),
        ({"propensities": [[0.2, 0.3, 0.5]] * 3}, "uniform", r"has 3 columns for 2 agents \(a, b\); pass agents"),
        ({"features": [[1.0], [math.inf], [0.0]]}, "uniform", "column 'features', row 1: is inf, not a number"),
        ({}, "agent:z", "agent 'z' does not occur; choose from a, b"),
        ({}, "bott", "policy: 'bott' is not known"),
        ({}, [0.5, 0.2, 0.3], r"policy: is no array of shape \(2,\) or \(3, 2\)"),
        ({}, [0.5, 0.2], "policy: holds rows that are no probabilities"),
        ({}, 7, "policy: is no array of shape"),
    ],
)
def test_mistakes_name_the_place_and_a_remedy(change, policy, named):
    table = {"agent": ["a", "b", "a"], "reward": [1.0, 0.0, 0.5], "propensity": [0.5, 0.5, 0.5]} | change
    with pytest.raises(InvalidInputError, match=named):
        evaluate({name: column for name, column in table.items() if column is not None}, policy)


@pytest.mark.parametrize("data", [7, None, [1, 2], {}, {"agent": []}])
def test_what_is_no_table_is_named(data):
    with pytest.raises(InvalidInputError):
        evaluate(data, "uniform")


def test_means_of_a_table():
    table = {"agent": ["a", "b", "a"], "reward": [1.0, 0.0, None]}
    assert [(each.agent, each.decisions, each.mean) for each in logged_means(table)] == [
        ("all", 2, 0.5),
        ("a", 1, 1.0),
        ("b", 1, 0.0),
    ]
    assert all(0.0 <= each.low < each.high <= 1.0 for each in logged_means(table))


@pytest.mark.parametrize(("successes", "n"), [(0, 125), (1, 125), (3, 10), (400, 400), (120, 5000)])
def test_with_equal_weights_the_interval_is_that_of_wilson(successes, n):
    rewards = np.arange(n) < successes
    found = evaluate({"agent": ["a"] * n, "reward": rewards, "propensity": [1.0] * n}, "agent:a", min_effective=1)
    wanted = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    for each in (found.estimates[0], found.estimates[1], logged_means({"agent": ["a"] * n, "reward": rewards})[0]):
        assert (each.low, each.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


#: Successes are rare, and earned by an agent that is rarely drawn: propensities, target, rates, decisions.
RARE = {
    "half of the target": ([0.95, 0.05], [0.5, 0.5], [0.0, 0.06], 400),
    "a tenth of the target": ([0.97, 0.02, 0.01], [0.8, 0.1, 0.1], [0.0, 0.0, 0.06], 2000),
}


def rare_coverage(world, interval, runs=600):
    """How often intervals at 95 % hold the value."""
    p, target, rate, n = (np.array(each) for each in RARE[world])
    rng, truth, hits = np.random.default_rng(1), float(target @ rate), 0
    for _ in range(runs):
        agent = rng.choice(len(p), n, p=p)
        reward = (rng.random(n) < rate[agent]).astype(float)
        low, high = interval({"agent": agent, "reward": reward, "propensity": p[agent]}, target)
        hits += low <= truth <= high
    return hits / runs


@pytest.mark.parametrize("world", RARE)
def test_intervals_hold_for_rare_rewards(world):
    def snips(table, target):
        found = evaluate(table, target, min_effective=10, agents=[str(each) for each in range(len(target))])
        return found.estimates[1].low, found.estimates[1].high

    assert rare_coverage(world, snips) > 0.94


def self_normalised(table, target):
    w = target[table["agent"]] / table["propensity"]
    value = (w * table["reward"]).sum() / w.sum()
    return value, np.sqrt((w**2 * (table["reward"] - value) ** 2).sum()) / w.sum(), w.sum() ** 2 / (w**2).sum()


@pytest.mark.parametrize("world", RARE)
def test_a_normal_interval_does_not_hold_for_rare_rewards(world):
    """The control."""

    def normal(table, target):
        value, error, _ = self_normalised(table, target)
        return value - 1.96 * error, value + 1.96 * error

    assert rare_coverage(world, normal) < 0.85


def test_the_usual_effective_size_is_too_large_for_rare_rewards():
    """The control of the other size: it counts rows that could not have shown the success."""

    def usual(table, target):
        value, error, n = self_normalised(table, target)
        return wilson(value, error, n, z=1.96)

    assert rare_coverage("a tenth of the target", usual) < 0.85


def test_an_interval_of_many_rewards_is_the_normal_one_and_holds_the_value():
    z = quantile(0.95)
    assert wilson(0.4, 0.01, 1e9, z=z) == pytest.approx((0.4 - z * 0.01, 0.4 + z * 0.01), abs=1e-8)
    assert wilson(1.2, 0.3, 50, z=z)[1] >= 1.2, "IPS may leave the range of the rewards"
    low, _ = wilson(0.002, 0.0004, 75, z=z)
    assert low < 0.002 - z * 0.0003, "many successes of little weight do not lift the lower end"


def test_the_command_prints_an_interval_where_nothing_succeeded(tmp_path, capsys):
    rows = [f"{'ab'[i % 2]},{int(i % 2 and i < 40)}" for i in range(250)]
    (tmp_path / "x.csv").write_text("\n".join(["agent,reward", *rows]))
    log = str(tmp_path / "x.sqlite")
    assert main(["import", str(tmp_path / "x.csv"), "--out", log, "--assume-uniform"]) == 0
    assert main(["evaluate", log, "--policy", "agent:a", "logged"]) == 0
    said = capsys.readouterr().out
    assert "SNIPS   0.0000  [0.0000, 0.0298]" in said and "a    0.0000  [0.0000, 0.0298]  125 decisions" in said
    assert "-0.0000" not in said


def test_digits_are_those_that_the_interval_knows():
    assert _line("x", 0.5, LoggedMean("a", 9, 0.5, low=0.4, high=0.6), "9") == "x  0.5000  [0.4000, 0.6000]  9"
    small = LoggedMean("a", 9, 2.3e-5, low=1.1e-5, high=3.6e-5)
    assert _line("x", small.mean, small, "9") == "x  0.000023  [0.000011, 0.000036]  9"


WRONG = {
    "none": None,
    "text": "text",
    "negative": -1,
    "nan": math.nan,
    "infinite": math.inf,
    "huge": 10**400,
    "list": [],
    "dict": {},
    "object": object(),
    "objects": [object(), object()],
    "ragged": [[1.0], [1.0, 2.0]],
    "bytes": b"xy",
    "class": int,
}
SETTINGS = ("policy", "agents", "reward_range", "lambda_", "confidence", "min_effective", "max_missing", "paths")
COLUMNS = ("agent", "reward", "propensity", "propensities", "features", "expected", "eligible", "feature_x")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_settings_of_wrong_types_give_errors_of_ours(name, wrong):
    settings = {"policy": "uniform"} | {name: WRONG[wrong]}
    try:
        found = evaluate(drawn(100), **settings)
    except InvalidInputError:
        return
    assert isinstance(found, Evaluation | Refusal)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_columns_of_wrong_types_give_errors_of_ours(name, wrong):
    for column in (WRONG[wrong], [WRONG[wrong]] * 100, [*drawn(99)["agent"], WRONG[wrong]]):
        try:
            found = evaluate(drawn(100) | {name: column}, "agent:c")
        except InvalidInputError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert isinstance(found, Evaluation | Refusal)


def test_rows_may_differ_in_what_they_tell_of_propensities():
    """Of all agents, of the chosen one, or nothing."""
    table = {
        "agent": ["a", "b", "a", "b"],
        "propensities": [{"a": 0.25, "b": 0.75}, {}, None, None],
        "propensity": [None, 0.5, 0.25, None],
    }
    sheet = sheet_of_frame(table, "table")
    wanted = [[0.25, 0.75], [0.5, 0.5], [0.25, 0.75], [math.nan, math.nan]]
    np.testing.assert_array_equal(read_decisions(sheet).decisions.propensities, wanted)
    wanted[3] = [0.5, 0.5]
    found = read_decisions(sheet, assume_uniform=True)
    np.testing.assert_array_equal(found.decisions.propensities, wanted)
    assert found.allowed.all()


def test_what_is_expected_of_an_agent_has_no_gaps():
    table = drawn(100)
    with pytest.raises(InvalidInputError, match="column 'expected', row 0: holds an empty entry"):
        evaluate(table | {"expected_a": [None] * 100, "expected_b": [0.5] * 100, "expected_c": [0.5] * 100}, "agent:c")
    with pytest.raises(InvalidInputError, match="column 'expected', row 1: is inf"):
        evaluate(table | {"expected": [[0.5] * 3, [math.inf, 0.5, 0.5], *([[0.5] * 3] * 98)]}, "agent:c")
