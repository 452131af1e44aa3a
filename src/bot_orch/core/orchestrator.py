"""The orchestrator: decide who gets a task, learn from what comes back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bot_orch.arrays import Bools, Floats, Schema, allocate, insert_agent, remove_agent
from bot_orch.core import pipeline
from bot_orch.core.alignment import Alignment
from bot_orch.core.calibration import AutoLambda
from bot_orch.core.exclusive import exclusive
from bot_orch.core.reward import BoundedReward, RewardModel, reward_from_spec
from bot_orch.core.state import FORMAT, VERSION, State, parse
from bot_orch.errors import InvalidInputError, UnknownAgentError, UnknownDecisionError
from bot_orch.files import write_atomically
from bot_orch.policies.base import Feedback, Policy, Situation
from bot_orch.policies.registry import from_spec, make_policy, policy_name, to_spec
from bot_orch.rng import derive_key, uniform
from bot_orch.types import Agent, Decision, Measure, Outcome, RandomKey, Task, Terms, check_reward

__all__ = ["Orchestrator"]


class Orchestrator:
    """Routes tasks to agents and learns from outcomes, late or out of order.

    Not thread-safe: it takes one call at a time. A call that would change it, or write it down, while another one is
    under way raises :class:`~bot_orch.errors.ConcurrentUseError` and changes nothing. Threads share a
    :class:`bot_orch.Router`.

    Parameters
    ----------
    agents
        Names, or :class:`bot_orch.Agent` objects with a cost and a profile.
    policy
        A policy or its name.
    lambda_
        Weight of the alignment cost in the score, or ``auto``: distances without units, and a weight that calibrates
        itself so that only agents far outside what others show pay (:mod:`bot_orch.core.calibration`).
    seed
        Same seed, same tasks, same outcomes: same decisions.
    n_features
        Length of ``task.features`` for contextual policies; 0 leaves features unused.
    floor
        Share of all traffic that is spread evenly over the eligible agents, whatever the policy prefers: it keeps every
        propensity positive, for off-policy evaluation and for agents that change.
    alignment
        How distances are found. Unless given, the kind of the first measure seen decides: labels under 0-1 cost,
        samples by quantiles, clouds by sliced W, always the lower confidence distance.
    reward
        How an outcome becomes a reward.

    Examples
    --------
    >>> router = Orchestrator(["fast", "careful"], seed=1)
    >>> decision = router.decide(Task("t-1"))
    >>> router.observe(decision.id, Outcome.completed(reward=1.0))
    >>> sorted(router.agents)
    ['careful', 'fast']
    """

    def __init__(
        self,
        agents: Iterable[str | Agent],
        policy: Policy | str = "auto",
        *,
        lambda_: float | Literal["auto"] = "auto",
        seed: int = 0,
        n_features: int = 0,
        floor: float = 0.02,
        alignment: Alignment | None = None,
        reward: RewardModel | None = None,
    ) -> None:
        self.policy = make_policy(policy) if isinstance(policy, str) else policy
        self._dual = AutoLambda() if lambda_ == "auto" and self.policy.uses_alignment else None
        self.lambda_ = self._weight(lambda_)
        self.floor = _check("floor", floor, 0.0, 1.0)
        self.seed, self.n_features = seed, n_features
        self.alignment = None if alignment is None else self._in_units(alignment)
        self.reward = reward or BoundedReward()
        self._under_way: dict[str, object] = {}
        self._stream = derive_key("orchestrator", seed)
        self._name = policy_name(self.policy)
        self._schema = self.policy.schema(n_features)
        members = tuple(agent if isinstance(agent, Agent) else Agent(agent) for agent in agents)
        parts = {name: allocate(schema, (), len(members)) for name, schema in self._schemas()}
        self._state = State(members, parts)
        self._refresh()
        for agent in members:
            self._expect(f"agents.{agent.id}.profile", agent.profile)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in order."""
        return self._names

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose outcome is awaited, oldest first."""
        return tuple(self._state.pending)

    @exclusive
    def decide(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """Choose an agent for ``task`` and remember that an outcome is due."""
        self._expect("task.reference", task.reference)
        decision = self.derive(task, eligible)
        if self.alignment is not None:
            self.alignment.see_task(self._state.parts, task, decision.key.counter)
        if self._dual is not None:
            paid = float(decision.terms.alignment[self._index[decision.agent]])
            if paid > 0.0:  # nobody pays as a rule, and nothing changes then
                self._dual.accept(self._state.parts["lambda"], np.asarray(paid / decision.lambda_))
        self._state.pending[decision.id] = decision
        self._waiting[self._index[decision.agent]] += 1.0
        self._state.rounds += 1
        self._state.seq += 1
        return decision

    def derive(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """The decision that :meth:`decide` would make now, without making it."""
        counter = self._state.rounds
        mask = None if eligible is None else self._mask(eligible)
        distance, alignment, lambda_ = self._aligned(task)
        penalty, cost = alignment + self._costs, self._costs if self._priced else None
        situation = Situation(counter + 1, penalty, mask, self._context(task), self._waiting, cost)
        u = uniform(self._stream, counter)
        drawn = pipeline.decide(self.policy, self._state.parts["policy"], situation, u, self.floor)
        choice = drawn.choice
        return Decision(
            id=f"{self._stream:016x}-{counter:012x}",
            task_id=task.id,
            agent=self._names[int(drawn.agent)],
            agents=self._names,
            propensities=drawn.propensities,
            terms=Terms(choice.estimate.copy(), choice.exploration, distance, alignment, self._costs),
            policy=self._name,
            lambda_=lambda_,
            state_seq=self._state.seq,
            key=RandomKey(self._stream, counter),
            features=task.features,
        )

    @exclusive
    def observe(self, decision_id: str, outcome: Outcome) -> None:
        """Learn from an outcome, at any time and in any order; each decision takes one outcome."""
        decision, parts = self._pending(decision_id), self._state.parts
        self._expect("outcome.output", outcome.output)
        present = self._index.get(decision.agent)
        reward = None if present is None else self.reward.read(parts["reward"], present, outcome)
        index = self._settle(decision)
        if index is None:
            return  # the agent left; there is nobody to credit
        self.reward.learn(parts["reward"], index, outcome)
        output = None if self.alignment is None else self.alignment.output_of(outcome)
        if output is not None and self.alignment is not None:
            self.alignment.see_output(parts, decision.agent, index, output, reward, decision.key.counter)
        if reward is not None:
            observed = np.zeros(len(self._names), dtype=bool)
            observed[index] = True
            rewards = np.full(len(self._names), reward)
            pipeline.apply(self.policy, parts["policy"], self._feedback(decision, index, observed, rewards))

    @exclusive
    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """Full feedback: what every agent would have earned (the printed algorithms, and the theory)."""
        decision = self._pending(decision_id)
        missing = set(self._names) - set(rewards)
        if missing:
            raise InvalidInputError("rewards", f"lacks {sorted(missing)}", "give a reward for every agent")
        values = np.array([check_reward(rewards[name], f"rewards.{name}") for name in self._names])
        index = self._settle(decision)
        if index is not None:
            observed = np.ones(len(self._names), dtype=bool)
            pipeline.apply(self.policy, self._state.parts["policy"], self._feedback(decision, index, observed, values))

    @exclusive
    def add_agent(self, agent: str | Agent) -> None:
        """Let a new agent take part from the next decision on."""
        new = agent if isinstance(agent, Agent) else Agent(agent)
        if new.id in self._index:
            raise InvalidInputError("agent.id", f"{new.id!r} is taken", "choose another name or remove the old agent")
        self._expect("agent.profile", new.profile)
        for name, schema in self._schemas():
            insert_agent(schema, self._state.parts[name])
        self._state.agents = (*self._state.agents, new)
        self._state.seq += 1
        self._refresh()

    @exclusive
    def remove_agent(self, agent_id: str) -> None:
        """Take an agent out; outcomes still due for it are accepted and ignored."""
        index = self._find(agent_id)
        if len(self._names) == 1:
            raise InvalidInputError("agent.id", f"{agent_id!r} is the last agent", "add another one first")
        for name, schema in self._schemas():
            remove_agent(schema, self._state.parts[name], index)
        self._state.agents = tuple(agent for agent in self._state.agents if agent.id != agent_id)
        self._state.seq += 1
        self._refresh()

    def drift_alarms(self) -> dict[str, int]:
        """How often each agent's outputs have been found to drift; zeros where nobody watches."""
        counts = self._state.parts["drift"]["alarms"] if "drift" in self._state.parts else np.zeros(len(self._names))
        return {name: int(count) for name, count in zip(self._names, counts, strict=True)}

    def task_drift_alarms(self) -> int:
        """How often the stream of task references has been found to drift."""
        return int(self._state.parts["task_drift"]["alarms"]) if "task_drift" in self._state.parts else 0

    def fingerprint(self) -> str:
        """A hash of the state, equal for equal states."""
        return self._state.fingerprint()

    @exclusive
    def to_json(self) -> str:
        """Settings and state as one versioned JSON document."""
        settings = {
            "policy": to_spec(self.policy),
            "lambda": self.lambda_,
            "seed": self.seed,
            "n_features": self.n_features,
            "floor": self.floor,
            "alignment": None if self.alignment is None else self.alignment.spec(),
            "reward": self.reward.spec(),
        }
        document = {"format": FORMAT, "version": VERSION, "settings": settings, "state": self._state.to_dict()}
        return json.dumps(document, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Orchestrator:
        """The orchestrator that wrote ``text``, continuing exactly where it was."""
        document = parse(text)
        s = document["settings"]
        state = State.from_dict(document["state"])
        router = cls(
            state.agents,
            from_spec(s["policy"]),
            lambda_=s["lambda"],
            seed=s["seed"],
            n_features=s["n_features"],
            floor=s["floor"],
            alignment=None if s["alignment"] is None else Alignment.from_spec(s["alignment"]),
            reward=reward_from_spec(s["reward"]),
        )
        for name, schema in router._schemas():  # a setting, or what a policy keeps, may have changed since
            state.parts[name] = allocate(schema, (), len(state.agents)) | state.parts.get(name, {})
        router._state = state
        router._refresh()
        return router

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_json` to a file, atomically."""
        write_atomically(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> Orchestrator:
        """Read what :meth:`save` wrote."""
        return cls.from_json(Path(path).read_text())

    def _refresh(self) -> None:
        """Recompute what is derived from the set of agents."""
        agents = self._state.agents
        self._names: tuple[str, ...] = tuple(agent.id for agent in agents)
        if not agents:
            raise InvalidInputError("agents", "is empty", "pass at least one agent")
        if len(set(self._names)) != len(agents):
            raise InvalidInputError("agents", "holds a name twice", "give every agent its own name")
        self._index = {name: index for index, name in enumerate(self._names)}
        self._costs: Floats = np.array([agent.cost for agent in agents], dtype=float)
        self._no_distance: Floats = np.zeros(len(agents))
        self._priced = bool(self._costs.any())
        self._costs.flags.writeable = self._no_distance.flags.writeable = False
        self._waiting: Floats = np.zeros(len(agents))
        for decision in self._state.pending.values():
            if decision.agent in self._index:
                self._waiting[self._index[decision.agent]] += 1.0

    def _schemas(self) -> list[tuple[str, Schema]]:
        aligned = self.alignment.schemas.items() if self.alignment else ()
        dual = () if self._dual is None else (("lambda", self._dual.schema),)
        return [("policy", self._schema), ("reward", self.reward.schema), *dual, *aligned]

    def _weight(self, lambda_: float | Literal["auto"]) -> float | Literal["auto"]:
        if not self.policy.uses_alignment:
            return 0.0
        return "auto" if lambda_ == "auto" else _check("lambda_", lambda_, 0.0, np.inf)

    def _in_units(self, alignment: Alignment) -> Alignment:
        """The same alignment, in units of the reference if lambda calibrates itself."""
        return alignment if self._dual is None else replace(alignment, units="reference")

    def _expect(self, name: str, measure: Measure | None) -> None:
        """Check a measure against the geometry; the first one ever seen chooses it."""
        if measure is None:
            return
        if self.alignment is None:
            self.alignment = self._in_units(Alignment.for_measure(measure))
            self._state.parts |= self.alignment.start(len(self._names))
        self.alignment.check(name, measure)

    def _aligned(self, task: Task) -> tuple[Floats, Floats, float]:
        """W, what it costs, and the lambda behind that."""
        parts, agents = self._state.parts, self._state.agents
        dual = None if self._dual is None else parts["lambda"]
        lambda_ = float(self.lambda_) if dual is None else float(dual["lambda"])
        alignment = self.alignment
        if alignment is None and task.reference is not None:
            alignment = self._in_units(Alignment.for_measure(task.reference))  # what deciding would choose
        if alignment is None or lambda_ == 0.0:
            return self._no_distance, self._no_distance, lambda_
        for name, profile in task.profiles.items():
            alignment.check(f"task.profiles.{name}", profile)
        if alignment is not self.alignment:
            parts = alignment.start(len(agents))  # deriving must not change anything
        if self._dual is None or dual is None:
            distance = alignment.distances(parts, task, agents)
            return distance, lambda_ * distance, lambda_
        found = alignment.relative(parts, task, agents)
        return found.lower, self._dual.penalty(dual, self._dual.excess(found)), lambda_

    def _context(self, task: Task) -> Floats | None:
        if self.n_features == 0:
            return None
        if len(task.features) != self.n_features:
            problem = f"has {len(task.features)} numbers, this orchestrator expects {self.n_features}"
            raise InvalidInputError("task.features", problem, "pass as many as n_features says")
        return np.array(task.features)

    def _mask(self, eligible: Collection[str]) -> Bools:
        mask = np.zeros(len(self._names), dtype=bool)
        for name in eligible:
            mask[self._find(name)] = True
        if not mask.any():
            raise InvalidInputError("eligible", "is empty", "name at least one agent, or pass None for all")
        return mask

    def _find(self, agent_id: str) -> int:
        if agent_id not in self._index:
            raise UnknownAgentError("agent.id", f"{agent_id!r} is not registered", f"choose from {self._names}")
        return self._index[agent_id]

    def _pending(self, decision_id: str) -> Decision:
        decision = self._state.pending.get(decision_id)
        if decision is None:
            raise UnknownDecisionError(decision_id)
        return decision

    def _settle(self, decision: Decision) -> int | None:
        """Cross a decision off; the chosen agent's index, or None if it has left."""
        del self._state.pending[decision.id]
        self._state.seq += 1
        index = self._index.get(decision.agent)
        if index is not None:
            self._waiting[index] -= 1.0
        return index

    def _feedback(self, decision: Decision, index: int, observed: Bools, reward: Floats) -> Feedback:
        propensities, penalty = decision.propensities, decision.terms.alignment + decision.terms.cost
        if decision.agents != self._names:  # agents came or went since
            propensities, penalty = self._realign(decision, propensities), self._realign(decision, penalty)
        context = np.array(decision.features) if self.n_features else None
        t = decision.key.counter + 1
        return Feedback(t, np.array(index), observed, reward, propensities, penalty, context)

    def _realign(self, decision: Decision, values: Floats) -> Floats:
        by_name = dict(zip(decision.agents, values.tolist(), strict=True))
        return np.array([by_name.get(name, 0.0) for name in self._names])


def _check(name: str, value: Any, low: float, high: float) -> float:
    if not (isinstance(value, int | float) and low <= value <= high and np.isfinite(value)):
        raise InvalidInputError(name, f"is {value}", f"pass a finite number in [{low}, {high}]")
    return float(value)
