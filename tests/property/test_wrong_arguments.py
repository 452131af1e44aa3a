"""Every public argument refuses wrong types and values with an error that names the field and the remedy."""

import math
from pathlib import Path

import numpy as np
import pytest

from bot_orch import (
    Agent,
    BotOrchError,
    InvalidInputError,
    Labels,
    Orchestrator,
    Outcome,
    Router,
    Task,
    available_policies,
    make_policy,
)
from bot_orch.core.settings import Settings

NAN, INF = float("nan"), float("inf")
#: Values that fit some argument, each wrong for most.
VALUES = {
    "none": None,
    "text": "text",
    "empty text": "",
    "nan": NAN,
    "infinite": INF,
    "negative": -1.5,
    "true": True,
    "half": 0.5,
    "two": 2,
    "list": [1.0, 2.0],
    "list of none": [None],
    "dict": {"a": 1.0},
    "bytes": b"x",
    "array": np.array([[1.0]]),
    "object": object(),
    "class": int,
}


def router():
    return Router({"a": lambda task: 1.0, "b": lambda task: 0.0})


def judged(verdict):
    """A router whose judge gives this verdict: a wrong one costs no answer, its error is told beside it."""
    call = Router({"a": lambda task: 1.0}, judge=lambda task, answer: verdict).call(Task())
    if call.unjudged is not None:
        raise call.unjudged
    return call


def observed(value):
    made = (orchestrator := Orchestrator(["a"])).decide(Task())
    orchestrator.observe(made.id, value)


def observed_all(value):
    made = (orchestrator := Orchestrator(["a"])).decide(Task())
    orchestrator.observe_all(made.id, value)


def learned(**arguments):
    return Orchestrator(["a"]).learn_from(**{"evaluations": {"a": [0.5, 0.5]}, **arguments})


#: Per argument: how to pass it, the field that the error names, and the values that are right.
ARGUMENTS = {
    "Agent.id": (Agent, "agent.id", {"text"}),
    "Agent.cost": (lambda v: Agent("a", cost=v), "agent.cost", {"half", "two"}),
    "Agent.profile": (lambda v: Agent("a", profile=v), "agent.profile", {"none"}),
    "Task.id": (Task, "task.id", {"text", "empty text"}),
    "Task.kind": (lambda v: Task(kind=v), "task.kind", {"text", "empty text"}),
    "Task.text": (lambda v: Task(text=v), "task.text", {"text", "empty text", "none"}),
    "Task.features": (lambda v: Task(features=v), "task.features", {"list", "dict"}),
    "Task.reference": (lambda v: Task(reference=v), "task.reference", {"none"}),
    "Task.profiles": (lambda v: Task(profiles=v), "task.profiles", set()),
    "Outcome.event": (lambda v: Outcome(v, 0.5, reason="x"), "outcome.event", {"true"}),
    "Outcome.reward": (Outcome.completed, "outcome.reward", {"half", "two", "negative", "true", "none"}),
    "Outcome.elapsed_s": (lambda v: Outcome.completed(1.0, elapsed_s=v), "outcome.elapsed_s", {"half", "two", "none"}),
    "Outcome.reason": (lambda v: Outcome.censored(elapsed_s=1.0, reason=v), "outcome.reason", set()),
    "Outcome.output": (lambda v: Outcome.completed(1.0, output=v), "outcome.output", {"none"}),
    "Outcome.cost_usd": (lambda v: Outcome.completed(1.0, cost_usd=v), "outcome.cost_usd", {"half", "two", "none"}),
    "Orchestrator.agents": (Orchestrator, "agent", {"dict"}),
    "Orchestrator.policy": (lambda v: Orchestrator(["a"], v), "policy", set()),
    "Orchestrator.lambda_": (lambda v: Orchestrator(["a"], lambda_=v), "lambda_", {"half", "two"}),
    "Orchestrator.seed": (lambda v: Orchestrator(["a"], seed=v), "seed", {"two"}),
    "Orchestrator.n_features": (lambda v: Orchestrator(["a"], n_features=v), "n_features", {"two", "none"}),
    "Orchestrator.floor": (lambda v: Orchestrator(["a"], floor=v), "floor", {"half"}),
    "Orchestrator.alignment": (lambda v: Orchestrator(["a"], alignment=v), "alignment", {"none"}),
    "Orchestrator.units": (lambda v: Orchestrator(["a"], units=v), "units", {"none"}),
    "Orchestrator.reward": (lambda v: Orchestrator(["a"], reward=v), "reward", {"none"}),
    "Orchestrator.cost_weight": (lambda v: Orchestrator(["a"], cost_weight=v), "cost_weight", {"half", "two"}),
    "decide.task": (lambda v: Orchestrator(["a"]).decide(v), "task", set()),
    "decide.eligible": (lambda v: Orchestrator(["a"]).decide(Task(), v), ("eligible", "agent.id"), {"none", "dict"}),
    "derive.task": (lambda v: Orchestrator(["a"]).derive(v), "task", set()),
    "observe.outcome": (observed, "outcome", set()),
    "observe.decision_id": (lambda v: Orchestrator(["a"]).observe(v, Outcome.completed(1.0)), "decision_id", set()),
    "observe_all.rewards": (observed_all, "rewards", {"dict"}),
    "learn_from.evaluations": (lambda v: Orchestrator(["a"]).learn_from(v), "evaluations", {"array"}),
    "learn_from.features": (lambda v: learned(features=v), "features", {"none"}),
    "learn_from.tasks": (lambda v: learned(tasks=v), "tasks", {"none"}),
    "learn_from.weight": (lambda v: learned(weight=v), "weight", {"half", "two", "list"}),
    "learn_from.most": (lambda v: learned(most=v), "most", {"two", "none"}),
    "learn_from.answers": (lambda v: learned(answers=v), "answers", {"none"}),
    "learn_from.answers.label": (lambda v: learned(answers={"label": v}), "answers.label", set()),
    "add_agent": (lambda v: Orchestrator(["a"]).add_agent(v), "agent.id", {"text"}),
    "remove_agent": (lambda v: Orchestrator(["a", "b"]).remove_agent(v), "agent.id", set()),
    "from_json": (Orchestrator.from_json, ("text", "state"), set()),
    "load": (Orchestrator.load, "path", set()),
    "save": (lambda v: Orchestrator(["a"]).save(v), "path", {"text"}),
    "Router.agents": (Router, ("agent", "functions"), set()),
    "Router.policy": (lambda v: Router(["a"], v), "policy", {"none"}),
    "Router.functions": (lambda v: Router(["a"], functions=v), "functions", {"none"}),
    "Router.judge": (lambda v: Router(["a"], judge=v), "judge", {"none", "class"}),
    "Router.path": (lambda v: Router(["a"], path=v), "path", {"none", "text"}),
    "Router.horizon_s": (lambda v: Router(["a"], horizon_s=v), "horizon_s", {"none", "half", "two"}),
    "Router.silence": (lambda v: Router(["a"], silence=v), "silence", set()),
    "Router.on_alarm": (lambda v: Router(["a"], on_alarm=v), "on_alarm", {"none"}),
    "Router.history": (lambda v: Router(["a"], history=v), "history", {"two"}),
    "Router.seed": (lambda v: Router(["a"], seed=v), "seed", {"two"}),
    "call.task": (lambda v: router().call(v), "task", set()),
    "call.eligible": (lambda v: router().call(Task(), v), ("eligible", "agent.id"), {"none", "dict"}),
    "call.timeout_s": (lambda v: router().call(Task(), timeout_s=v), "timeout_s", {"none", "half", "two"}),
    "call.verdict": (judged, ("outcome.reward", "judge"), {"none", "half", "true"}),
    "plot.kind": (lambda v: router().plot(v), "kind", set()),
    "make_policy.name": (make_policy, "policy", set()),
    "Settings.policy": (Settings, "policy", set()),
    "Settings.floor": (lambda v: Settings(make_policy("ucb1"), floor=v), "floor", {"half"}),
}


def refusal(call, value):
    """The error that a value gives; None if it is taken. Other exceptions are defects."""
    try:
        call(value)
    except BotOrchError as error:
        return str(error)
    return None


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_wrong_values_name_field_and_remedy(argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, fields, right = ARGUMENTS[argument]
    fields = (fields,) if isinstance(fields, str) else fields
    taken = set()
    for name, value in VALUES.items():
        message = refusal(call, value)
        if message is None:
            taken.add(name)
            continue
        assert message.startswith(fields), f"{argument} = {name}: {message}"
        assert ": " in message and ";" in message, f"{argument} = {name}: no remedy in {message!r}"
    assert taken == right


@pytest.mark.parametrize("name", sorted(available_policies()))
def test_settings_of_policies_refuse_wrong_types(name):
    from dataclasses import fields

    for field in fields(available_policies()[name]):
        optional = str(field.type).endswith("| None")
        for wrong in ("text", NAN, [1.0], object(), *(() if optional else (None,))):
            with pytest.raises(InvalidInputError, match=f"^{field.name}: is .*; pass "):
                make_policy(name, **{field.name: wrong})
    with pytest.raises(InvalidInputError, match="nonsense: is not a setting of policy"):
        make_policy(name, nonsense=1)


def test_a_missing_file_and_an_unknown_policy_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="path: .*nothing.json does not exist; pass a file written by save"):
        Orchestrator.load(tmp_path / "nothing.json")
    with pytest.raises(InvalidInputError, match="is not a file"):
        Router.load(tmp_path)
    state = Orchestrator(["a"], "ucb1").to_json()
    (tmp_path / "own.json").write_text(state.replace('"ucb1"', '"mine"'))
    with pytest.raises(InvalidInputError, match="policy: 'mine' is not known; .* or register your own"):
        Orchestrator.load(tmp_path / "own.json")
    (tmp_path / "reward.json").write_text(state.replace('"bounded"', '"mine"'))
    with pytest.raises(InvalidInputError, match="reward.id: 'mine' is not known; .* or import the module"):
        Orchestrator.load(Path(tmp_path / "reward.json"))


def test_right_or_wrong_is_a_reward():
    assert Outcome.completed(np.bool_(True)).reward and Outcome.completed(reward=False).reward == 0.0
    assert math.isclose(Outcome.completed(np.float32(0.5)).reward, 0.5)
    assert Task(profiles={"a": Labels([1.0])}).profiles
