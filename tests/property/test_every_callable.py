"""Every public callable, every argument, values of wrong types: only errors of this project are raised."""

import inspect

import pytest

import bot_orch
from bot_orch import (
    Agent,
    Alignment,
    BotOrchError,
    Labels,
    Orchestrator,
    Outcome,
    Router,
    Task,
    Watch,
)
from bot_orch.core.events import Noted
from bot_orch.transport import ZeroOneLabels

WRONG = {
    "none": None,
    "text": "text",
    "negative": -1,
    "nan": float("nan"),
    "infinite": float("inf"),
    "huge": 10**400,
    "list": [],
    "dict": {},
    "object": object(),
    "list of objects": [object()],
    "ragged": [[1.0], [1.0, 2.0]],
    "bytes": b"x",
    "class": int,
}
#: Bases that users extend: the engine calls their methods with arrays, and their constructors are those of subclasses.
EXTENDED = {"Policy", "RewardModel", "register_policy"}
#: Classes whose methods the engine calls with arrays; constructors and class methods are for users.
INNER = {"Alignment", "Reference", "BoundedReward", "Guarantee", "SurvivalReward"}


def decided(audit_rate=0.0, **settings):
    router = Orchestrator(["a", "b"], "ucb1", audit_rate=audit_rate, **settings)
    return router, router.decide(Task()).id


def on_pending(method, /, **arguments):
    """The method of an orchestrator and of a router with one pending decision, and arguments that fit."""

    def of(cls):
        owner = cls(["a", "b"], "ucb1")
        return getattr(owner, method), {"decision_id": owner.decide(Task()).id, **arguments}

    return of


def method(name, /, **arguments):
    """A method of a new object, and arguments that fit."""
    return lambda cls: (getattr(cls({"a": echo, "b": echo} if cls is Router else ["a", "b"], "ucb1"), name), arguments)


def echo(task):
    return 1.0


def loaded(cls):
    Orchestrator(["a", "b"], "ucb1").save("state.json")
    return cls.load, {"path": "state.json"}


def committed(cls):
    router = cls(["a", "b"], "ucb1")
    return router.commit, {"decision": router.prepare(Task()), "task": Task()}


def waited(cls):
    owner = cls(["a", "b"], "ucb1")
    return owner.patience, {"decision": owner.decide(Task()), "deadline_s": 1.0, "eligible": ["a"], "rule": "half"}


def reconfigured(cls):
    router = cls(["a", "b"], "ucb1")
    return router.reconfigure, {"settings": router.settings, "agents": router.members}


def of_decision(name):
    return lambda cls: (getattr(Orchestrator(["a", "b"], "ucb1").decide(Task()), name), {})


SETTINGS = {
    "policy": "ucb1",
    "lambda_": 0.0,
    "seed": 1,
    "n_features": 0,
    "floor": 0.1,
    "alignment": None,
    "units": None,
    "reward": None,
    "cost_weight": 0.0,
    "encoder": None,
    "patience_s": 1.0,
    "horizon": 5,
    "audit_rate": 0.1,
    "on_alarm": "count",
    "objective": None,
    "constraints": (),
    "guarantee": None,
    "ids": "derived",
}
TABLE = {"features": None, "tasks": None, "weight": 1.0, "answers": None}
STEP = {"seen": (), "attempts": 1}
#: By class: arguments of the constructor that fit, and methods with arguments that fit.
CASES = {
    "Agent": {"": {"id": "a", "cost": 0.1, "profile": Labels([1.0]), "price": 0.1}},
    "Alignment": {
        "": {"geometry": ZeroOneLabels(2), "level": 0.9, "watch": Watch(), "units": "native"},
        "to_latency": {"target_s": 2.0},
        "for_measure": {"measure": Labels([0.5, 0.5]), "units": "native"},
        "from_spec": {"document": Alignment(ZeroOneLabels(2)).spec()},
    },
    "Answer": {
        "": {
            "agent": "a",
            "decision": "d",
            "signal": 0.5,
            "check": True,
            "label": "x",
            "key": None,
            "cost_usd": 0.1,
            "elapsed_s": 1.0,
        },
        "covariates": lambda cls: (cls("a", "d").covariates, {}),
    },
    "BoundedReward": {"": {"low": -1.0, "high": 1.0}},
    "Budget": {"": {"usd": 1.0, "per": 10}},
    "Capacity": {"": {"agent": "a", "share": 0.5}},
    "Cloud": {"": {"points": [[1.0]], "weights": [1.0]}, "to_dict": lambda cls: (cls([[1.0]]).to_dict, {})},
    "Deadline": {"": {"seconds": 1.0, "late": 0.1}},
    "FirstToken": {"": {"seconds": 1.0, "late": 0.1}},
    "Decision": {name: of_decision(name) for name in ("columns", "explain", "rows", "to_dict")},
    "Gaussian": {
        "": {"mean": [0.0], "covariance": [1.0]},
        "to_dict": lambda cls: (cls([0.0], [1.0]).to_dict, {}),
    },
    "Labels": {
        "": {"probabilities": [1.0]},
        "one_hot": {"label": 0, "n_labels": 2},
        "to_dict": lambda cls: (cls([1.0]).to_dict, {}),
    },
    "Guarantee": {
        "": {"baseline": "a", "loss_at_most": 0.1, "confidence": 0.95, "control": 0.25},
        "from_spec": {"document": {"baseline": "a", "loss_at_most": 0.1}},
    },
    "Objective": {
        "": {"quality": 1.0, "usd": 1.0, "seconds": 1.0, "first_token": 1.0},
        "from_spec": {"document": {"usd": 1.0}},
    },
    "Outcome": {
        "": {"event": True, "reward": 1.0, "elapsed_s": 1.0, "reason": None, "output": None, "cost_usd": 1.0}
        | {"reset_s": 1.0},
        "completed": {"reward": 1.0, "elapsed_s": 1.0, "output": None, "cost_usd": 1.0, "reset_s": 1.0},
        "censored": {"elapsed_s": 1.0, "reason": "timeout", "cost_usd": 1.0, "reset_s": 1.0},
    },
    "Quality": {"": {"within": 0.1}},
    "Quota": {"": {"agent": "a", "requests": 5, "every": "5h"}},
    "Reference": {
        "": {"source": "fixed", "measure": Labels([1.0]), "threshold": 0.5},
        "from_spec": {"document": bot_orch.Reference().spec()},
    },
    "Samples": {"": {"values": [1.0], "weights": [1.0]}, "to_dict": lambda cls: (cls([1.0]).to_dict, {})},
    "SurvivalReward": {"": {"curve": "own", "censored": "zero", "capacity": 16}},
    "Task": {
        "": {
            "id": "t",
            "kind": "",
            "text": "",
            "features": (1.0,),
            "reference": None,
            "profiles": {},
            "claims": {},
            "time_s": 1.0,
            "encoded": "",
            "names": (),
        }
    },
    "Watch": {"": {"recent": 8, "older": 16, "alpha": 0.01}},
    "Orchestrator": {
        "": {"agents": ["a", "b"], **SETTINGS},
        "certificate": method("certificate"),
        "add_agent": method("add_agent", agent="c"),
        "capture": method("capture"),
        "commit": committed,
        "decide": method("decide", task=Task(), eligible=["a"], caps={"a": 0.5}, decision_id="x", **STEP),
        "derive": method("derive", task=Task(), eligible=["a"], caps={"a": 0.5}, decision_id="x", **STEP),
        "patience": waited,
        "prepare": method("prepare", task=Task(), eligible=["a"], caps={"a": 0.5}, decision_id="x", **STEP),
        "described": method("described", name="x"),
        "drift_alarms": method("drift_alarms"),
        "expected_usage": method("expected_usage"),
        "encoded": method("encoded", task=Task()),
        "expire": method("expire", decision_ids=(), older_than_round=1),
        "fingerprint": method("fingerprint"),
        "from_capture": lambda cls: (cls.from_capture, {"captured": cls(["a"]).capture(), "encoder": None}),
        "from_json": lambda cls: (cls.from_json, {"text": cls(["a"]).to_json(), "encoder": None}),
        "from_settings": lambda cls: (
            cls.from_settings,
            {"settings": cls(["a"]).settings, "agents": [Agent("a")]},
        ),
        "apply": method("apply", event=Noted("topic", "ref"), made=None),
        "effect_of": method("effect_of", decision_id="x", outcome=Outcome.completed(1.0), audit=False),
        "judge_of": method("judge_of", decision_id="x"),
        "is_pending": method("is_pending", decision_id="x"),
        "is_provisional": method("is_provisional", decision_id="x"),
        "is_silent": method("is_silent", decision_id="x"),
        "round_of": method("round_of", decision_id="x"),
        "accepted_in": method("accepted_in", decision_id="x"),
        "learn_from": method("learn_from", evaluations={"a": [1.0]}, **TABLE, most=10.0),
        "load": loaded,
        "meaning": method("meaning", outcome=Outcome.completed(1.0)),
        "checked": method("checked", outcome=Outcome.completed(1.0)),
        "multipliers": method("multipliers", task=Task()),
        "observe": on_pending(
            "observe", outcome=Outcome.completed(1.0), audit=False, provisional=False, default=False, judge=""
        ),
        "observe_all": on_pending("observe_all", rewards={"a": 1.0, "b": 0.0}),
        "observe_output": on_pending("observe_output", output=Labels([0.5, 0.5])),
        "observe_usage": on_pending("observe_usage", cost_usd=0.1, elapsed_s=1.0, first_token_s=0.5),
        "read_evaluations": method("read_evaluations", evaluations={"a": [1.0]}, **TABLE),
        "reconfigure": reconfigured,
        "remove_agent": method("remove_agent", agent_id="a"),
        "start_afresh": method("start_afresh", agent_id="a", keep=""),
        "restarts": method("restarts"),
        "save": method("save", path="other.json"),
        "task_drift_alarms": method("task_drift_alarms"),
        "to_json": method("to_json"),
        "use_encoder": method("use_encoder", encoder=None),
    },
    "Router": {
        "": {
            "agents": ["a", "b"],
            **SETTINGS,
            "functions": {"a": echo},
            "judge": None,
            "path": None,
            "horizon_s": 1.0,
            "silence": "horizon",
            "on_alarm": "count",
            "history": 10,
            "clock": None,
        },
        "acall": None,  # a coroutine: the same checks as call
        "add_agent": method("add_agent", agent="c", function=None),
        "call": method("call", task=Task(), eligible=["a"], timeout_s=None, attempts=1, patience="half", check=None),
        "certificate": method("certificate"),
        "close": method("close"),
        "decide": method("decide", task=Task(), eligible=["a"], decision_id="x", **STEP),
        "derive": method("derive", task=Task(), eligible=["a"]),
        "drift_alarms": method("drift_alarms"),
        "expire": method("expire"),
        "fingerprint": method("fingerprint"),
        "history": method("history"),
        "learn_from": method("learn_from", evaluations={"a": [1.0]}, **TABLE, most=10.0),
        "load": loaded,
        "observe": on_pending("observe", outcome=Outcome.completed(1.0), audit=False, default=False),
        "observe_all": on_pending("observe_all", rewards={"a": 1.0, "b": 0.0}),
        "observe_output": on_pending("observe_output", output=Labels([0.5, 0.5])),
        "patience": waited,
        "plot": None,  # needs an extra; tests/property/test_wrong_arguments.py has its argument
        "remove_agent": method("remove_agent", agent_id="a"),
        "save": method("save", path="other.json"),
    },
    "available_policies": {"": {}},
    "make_policy": {"": {"name": "ucb1"}},
}


def public(cls):
    """Names of the public methods that a class defines; of :data:`INNER` ones, those that make an object."""
    for name, value in inspect.getmembers(cls, callable):
        own = any(name in vars(base) for base in cls.__mro__ if base.__module__.startswith("bot_orch"))
        if own and not name.startswith("_") and (cls.__name__ not in INNER or inspect.ismethod(value)):
            yield name


def foreign(make, arguments):
    """Errors that are not of this project, by argument and value."""
    for name in arguments:
        for word, value in WRONG.items():
            call, fitting = make()
            try:
                call(**{**fitting, name: value})
            except BotOrchError as error:
                if ";" not in str(error):
                    yield f"{name}={word}: no remedy in {error}"
            except Exception as error:
                yield f"{name}={word}: {type(error).__name__} {error}"


def maker(owner, case):
    """A function that returns a callable and fitting arguments afresh."""
    found, what = getattr(bot_orch, owner), CASES[owner][case]
    if callable(what):
        return lambda: what(found)
    return lambda: (getattr(found, case) if case else found, what)


ALL = [(owner, case) for owner, cases in CASES.items() for case, what in cases.items() if what is not None]


@pytest.mark.parametrize(("owner", "case"), ALL)
def test_only_errors_of_this_project(owner, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make = maker(owner, case)
    call, arguments = make()
    call(**arguments)  # what is said to fit does
    assert list(foreign(make, arguments)) == []


def test_every_public_callable_is_here():
    names = {name for name in bot_orch.__all__ if callable(getattr(bot_orch, name))} - EXTENDED
    names -= {name for name in names if isinstance(getattr(bot_orch, name), type) and name.endswith("Error")}
    assert set(CASES) == names
    for name in names:
        found = getattr(bot_orch, name)
        if isinstance(found, type):
            assert {case for case in CASES[name] if case} == set(public(found)), name


def test_arguments_are_complete(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some cases write a file
    for owner, case in ALL:
        call, arguments = maker(owner, case)()
        taken = {
            each.name
            for each in inspect.signature(call).parameters.values()
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        }
        optional = {"agent", "distance", "eligible", "encoder", "keep_learned", "memory", "reference"}
        assert taken - optional <= set(arguments), (owner, case)


def test_a_callable_that_lets_a_foreign_error_through_is_found():
    def careless(value):
        return float(value)

    found = list(foreign(lambda: (careless, {"value": 1.0}), ["value"]))
    assert any(each.startswith("value=none: TypeError") for each in found)
    assert any(each.startswith("value=text: ValueError") for each in found)
