"""The steps of a round between an orchestrator and :mod:`bot_orch.core.teams`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Arrays, Floats
from bot_orch.checks import check_count
from bot_orch.core import outputs, teams
from bot_orch.core.alignment.model import Alignment
from bot_orch.core.engine import Engine, Proposal
from bot_orch.core.roster import Roster
from bot_orch.core.state import State
from bot_orch.core.teams import Seen
from bot_orch.core.warm import Evaluations, WarmStart, label_number, row_lessons
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Choice
from bot_orch.records import builder
from bot_orch.types import Answer, Decision, Outcome

_answer = builder(Answer)


@dataclass(frozen=True, slots=True)
class Round:
    """A round so far: its answers, and the number of agents it may ask."""

    seen: tuple[Answer, ...] = ()
    attempts: int = 1

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts, "pass how many agents may be asked, 1 or more", low=1)
        for each in self.seen:
            require_type("seen", each, Answer, "pass answers: Answer(decision.agent, decision.id, ...)")
        if len({each.agent for each in self.seen}) < len(self.seen):
            raise InvalidInputError("seen", "has two answers of one agent", "pass the answer of each agent once")


def wanted(seen: Sequence[Answer], attempts: int) -> Round | None:
    """The round that a decision belongs to; None for a round of one step."""
    require_type("seen", seen, Sequence, "pass a list of answers")
    found = Round(tuple(seen), attempts)
    return None if attempts == 1 and not seen else found


def numbered(
    wanted: Round, roster: Roster, estimate: Floats, *, alignment: Alignment | None, reference: Floats | None
) -> Round:
    """The round as stored in a decision: labels and keys as numbers, what outputs imply, estimates.

    Labels have the same number in every round.
    """
    keys: dict[Any, int] = {}
    implied = outputs.implied(wanted.seen, alignment, reference)
    seen = tuple(
        _answer(
            each.agent,
            each.decision,
            each.signal,
            each.check,
            None if each.label is None else label_number(each.label),
            None if each.key is None else keys.setdefault(each.key, len(keys)),
            None,
            each.cost_usd,
            each.elapsed_s,
            float(estimate[roster.find(each.agent)]),
            *implied[place],
        )
        for place, each in enumerate(wanted.seen)
    )
    return replace(wanted, seen=seen)


def begun(engine: Engine, parts: dict[str, Arrays], found: Proposal, *, wanted: Round) -> tuple[Floats, Choice] | None:
    """The first step of a round of several; None where it is the policy's own.

    That is so with another policy than ``auto``, with limits, which count what the policy's own mix uses, and where
    nothing has been answered yet.
    """
    policy = engine.settings.policy
    inner = policy.policy if isinstance(policy, WarmStart) else policy
    limited = engine.pacing is not None or engine.settings.guarantee is not None
    if not isinstance(inner, Auto) or limited or wanted.attempts == 1:
        return None
    if not parts["team"]["lessons"].any():
        return None
    choice, penalty = found.drawn.choice, found.alignment + found.cost
    step = teams.first_step(
        parts["team"],
        estimate=choice.estimate,
        penalty=penalty if found.bias is None else penalty + found.bias,
        eligible=found.drawn.situation.eligible,
        floor=engine.settings.floor,
    )
    return step.propensities, Choice(step.propensities, step.estimate, step.exploration)


def stepped(
    engine: Engine, parts: dict[str, Arrays], found: Proposal, *, wanted: Round, roster: Roster, counted: bool = False
) -> tuple[Floats, Choice, Sequence[tuple[Any, ...]]]:
    """The step after the answers of a round: propensities, the choice's terms, and what choosing each agent means.

    That is the end of a decision's fields: see :func:`described`.
    """
    choice = found.drawn.choice
    penalty = found.alignment + found.cost
    seen = _seen(wanted.seen, roster, parts["team"])
    step = teams.next_step(
        parts["team"],
        seen,
        estimate=choice.estimate,
        penalty=penalty if found.bias is None else penalty + found.bias,
        eligible=found.drawn.situation.eligible,  # without agents that a limit cannot afford
        left=wanted.attempts - len(wanted.seen),
        floor=engine.settings.floor,
    )
    action = [described(wanted, "ask")] * len(roster.names)
    for place in seen.at.tolist():
        action[place] = described(wanted, "accept")
    p = _promised(engine, parts, step, wanted=wanted, seen=seen, roster=roster, found=found, counted=counted)
    return p, Choice(p, step.estimate, step.exploration), action


def _promised(
    engine: Engine,
    parts: dict[str, Arrays],
    step: teams.Step,
    *,
    wanted: Round,
    seen: Seen,
    roster: Roster,
    found: Proposal,
    counted: bool,
) -> Floats:
    """Propensities of a step under a guarantee: an answer of the baseline is delivered, and one attempt is kept for it.

    A baseline that may not be asked changes nothing, nor does an answer that was asked for alone (``counted``):
    the control share was drawn then.
    """
    guarantee, p = engine.settings.guarantee, step.propensities
    if guarantee is None:
        return p
    index, eligible = roster.index[guarantee.baseline], found.drawn.situation.eligible
    if index in seen.at:
        return np.asarray(np.eye(len(p))[index])
    if eligible is not None and not eligible[index]:
        return p
    left = wanted.attempts - len(wanted.seen)
    if left < 1 and counted:
        return p
    if left < 1:
        problem = f"leaves none for {guarantee.baseline}, whose answer the guarantee may need"
        raise InvalidInputError("attempts", problem, "pass in every step of a round how many agents it may ask")
    accept = int(seen.at[np.argmax(p[seen.at])])
    return guarantee.restrict_step(parts["guarantee"], p, index, estimate=step.estimate, accept=accept, left=left)


def described(wanted: Round, action: str) -> tuple[Any, ...]:
    """The fields of a decision that is a step of a round: action, answers, attempts."""
    return action, wanted.seen, wanted.attempts


def hear(state: State, roster: Roster, decision: Decision) -> None:
    """Learn the newest answer that a decision was made on."""
    if all(each.agent in roster.index for each in decision.answers):
        team = state.parts["team"]
        teams.hear(team, _seen(decision.answers, roster, team))
        teams.hear_output(team, decision.answers[-1])


def promise(engine: Engine, state: State, roster: Roster, decision: Decision, reward: float | None = None) -> None:
    """Count a decision for the guarantee, with a reward the one that decided what its round delivered.

    That is the step that accepted an answer or asked the baseline; other steps decide nothing.
    """
    guarantee, unknown = engine.settings.guarantee, np.array(np.nan)
    if guarantee is None or guarantee.baseline not in roster.index:
        return
    baseline = guarantee.baseline
    if reward is not None:
        asked = next((each.decision for each in decision.answers if each.agent == baseline), decision.id)
        found = state.pending.get(asked)
        if found is None or decision.attempts == 1:
            return
        decision = found
    p, agent = roster.place(decision, decision.propensities), roster.index.get(decision.agent)
    first, heard = decision.attempts == 1, any(each.agent == baseline for each in decision.answers)
    deciding = decision.agent == baseline or (decision.answers and decision.action == "accept")
    if agent is None or heard or not ((first and not decision.answers) or (not first and deciding)):
        return
    if not first:  # the draw between the answer and the baseline
        other = [each.agent for each in decision.answers if p[roster.index[each.agent]] > 0.0]
        among = [roster.index[each] for each in (baseline, *other)]
        p = np.where(np.isin(np.arange(len(p)), among), p, 0.0)
        p = np.eye(len(p))[agent] if not decision.answers else p / p.sum()
    engine.account(
        state.parts,
        roster.names,
        np.array(agent),
        propensities=p,
        estimate=roster.place(decision, decision.terms.estimate),
        reward=unknown if reward is None else np.array(reward),
        before=None if reward is None else unknown,
    )


def learn(state: State, roster: Roster, decision: Decision, reward: float) -> None:
    """Learn the reward of the answer that a decision accepted."""
    if not all(each.agent in roster.index for each in decision.answers):
        return
    team, seen = state.parts["team"], _seen(decision.answers, roster, state.parts["team"])
    delivered = [each.agent for each in decision.answers].index(decision.agent)
    teams.learn(team, seen, delivered=delivered, reward=reward)


def teach(team: Arrays, given: Evaluations, most: float) -> None:
    """Learn evaluated answers: the agents of a row form pairs at random, by a fixed seed."""
    rng, known = np.random.default_rng(0), np.isfinite(given.rewards)
    for row in row_lessons(given, most).tolist():
        agents = rng.permutation(np.flatnonzero(known[row])).tolist()
        seen = teams.see_all(given.answers_of(row, agents), agents)
        teams.teach(team, seen, given.rewards[row, agents])


def learn_earning(state: State, roster: Roster, steps: Sequence[Decision], reward: float) -> None:
    """Learn by how much a round earned more than its first step expected."""
    first, index = steps[0], roster.index.get(steps[0].agent)
    if index is not None:
        expected = float(first.terms.estimate[first.agents.index(first.agent)])
        teams.learn_earning(state.parts["team"], index, reward - sum(map(_paid, steps[1:])) - expected)


def learn_loss(state: State, roster: Roster, first: Decision, outcome: Outcome) -> None:
    """Learn a round that ended with its first step without an answer: the agent failed, or was silent."""
    if not outcome.reward and "team" in state.parts and first.agent in roster.index:
        teams.learn_loss(state.parts["team"], roster.index[first.agent])


def _paid(step: Decision) -> float:
    """The expected cost of an answer in units of reward."""
    return float(step.terms.penalty()[step.agents.index(step.agent)])


def charged(outcome: Outcome, reward: float | None, later: Decision) -> Outcome:
    """The outcome with its reward reduced by the expected cost of later answers, in units of reward."""
    if reward is None or outcome.reward is None:
        return outcome
    return replace(outcome, reward=min(max(outcome.reward - _paid(later), 0.0), 1.0))


def added(outcome: Outcome, answer: Answer) -> Outcome:
    """The outcome plus the dollars and seconds of an answer, where known."""
    cost_usd = outcome.cost_usd if answer.cost_usd is None else answer.cost_usd
    elapsed_s = outcome.elapsed_s if answer.elapsed_s is None else answer.elapsed_s
    return replace(outcome, cost_usd=cost_usd, elapsed_s=elapsed_s)


def _seen(answers: tuple[Answer, ...], roster: Roster, team: Arrays) -> Seen:
    return teams.see_all(answers, [roster.index[each.agent] for each in answers], team)
