"""Learning from one decision: its outcome, in place of its silence if that was counted before, output and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import takewhile
from math import isfinite

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core import pipeline
from bot_orch.core.completion.model import FAILED
from bot_orch.core.completion.silences import PROVISIONAL, Silence, remember
from bot_orch.core.engine import Details, Engine
from bot_orch.core.roster import Roster
from bot_orch.core.settings import Settings
from bot_orch.core.state import FirstVerdict, MeasuredUsage, State
from bot_orch.core.text import numbers_of
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import indices
from bot_orch.policies.base import Feedback
from bot_orch.types import Decision, Measure, Outcome

#: The outcome of a decision of which nothing was heard, for an unknown time.
FORGOTTEN = Outcome(False, None, None, "horizon")
_NOTHING = Details()
_MOST_VERDICTS = 4096  # first verdicts that wait for their second one
_WITHDRAWN = 32  # lessons that one report takes back at most


@dataclass(slots=True, eq=False)
class Reading:
    """Reward and outputs of an outcome, and the silence that it replaces.

    ``used``: dollars and times that were learned before. ``shown``: the outputs were learned before. ``audit``: the
    reward is the truth, not the judge's verdict. ``provisional``: another reward may replace this one, of ``judge``.
    ``default``: it is what an answer earns unless somebody reports.
    """

    reward: float | None = None
    raw: Floats | None = None
    earlier: Silence | None = None
    _: KW_ONLY
    shown: bool = False
    audit: bool = False
    provisional: bool = False
    judge: str = ""
    default: bool = False
    again: bool = False
    used: MeasuredUsage | None = None


def overdue(pending: Mapping[str, Decision], counter: int) -> list[Decision]:
    """Pending decisions, oldest first, with a number smaller than ``counter``."""
    made: Iterable[Decision] = pending.values()
    return list(takewhile(lambda decision: decision.key.counter < counter, made))


def learn(
    engine: Engine, state: State, roster: Roster, *, decision: Decision, outcome: Outcome, read: Reading | None = None
) -> bool:
    """Turn an outcome into a lesson and learn it; a decision whose reward is missing or provisional is remembered.

    Returns whether an alarm started the agent afresh.
    """
    index = roster.index.get(decision.agent)
    if index is None:
        return False  # the agent was removed
    read = read or Reading()
    earlier, part = read.earlier, state.parts["completion"]
    undone = None
    if earlier is not None and is_fresh(engine, state, index, decision=decision):
        undone = earlier.effect
        engine.completion.undo(part, index, undone)
    taken = engine.completion.take(part, index, outcome, reward=read.reward, default=read.default, earlier=undone)
    paid = earlier is not None and earlier.paid
    cost_usd = None if paid or outcome.cost_usd is None else np.array(outcome.cost_usd)
    shown, lesson = read.shown, np.array(np.nan if taken.lesson is None else taken.lesson)
    learned = _NOTHING
    if engine.accounts or read.raw is not None or cost_usd is not None:
        learned = _learned(engine, roster, decision, outcome=outcome, read=read, cost_usd=cost_usd)
    if read.audit or shown:
        audited = read.audit and is_verdict(outcome, read.reward) and _fits(engine.settings, decision)
        learned = replace(learned, truth=lesson if audited else None, output_known=shown)
        lesson = _number(None) if audited else lesson
    if engine.settings.guarantee is not None and decision.attempts == 1:
        _account(engine, state, roster, decision=decision, outcome=outcome, read=read)
    replaces = None if earlier is None else _replaced(engine, roster, decision, earlier=earlier)
    restarted = engine.learn(
        state.parts,
        roster.names,
        feedback(engine, roster, decision, reward=lesson),
        learned=learned,
        replaces=replaces,
    )
    if undone is not None and undone.default is not None and not read.default:
        _withdraw(engine, state, roster)
    silent = outcome.reward is None and taken.exit.cause != FAILED
    if silent or (read.provisional and outcome.reward is not None):
        policy = engine.policy
        revised = not silent and replaces is not None and policy.can_revise
        position = replaces[1] if revised and replaces else policy.position(state.parts["policy"], index)
        paid, shown = paid or cost_usd is not None, shown or outcome.output is not None
        elapsed_s = outcome.elapsed_s if engine.accounts else None
        silence = Silence(decision, taken, position=position, paid=paid, shown=shown, elapsed_s=elapsed_s)
        if silent:
            remember(state.silences, silence)
        else:
            remember(state.provisional, replace(silence, judge=read.judge) if read.judge else silence, PROVISIONAL)
    return restarted


def _account(
    engine: Engine, state: State, roster: Roster, *, decision: Decision, outcome: Outcome, read: Reading
) -> None:
    """Count the reward of a decision for the guarantee; default rewards and silence stay the worst case."""
    known = is_verdict(outcome, read.reward) and not read.default
    counted = read.again and read.earlier is not None and read.earlier.effect.default is None
    engine.account(
        state.parts,
        roster.names,
        roster.places[roster.index[decision.agent]],
        propensities=roster.place(decision, decision.propensities),
        estimate=roster.place(decision, decision.terms.estimate),
        reward=_number(read.reward if known else None),
        before=_number(read.earlier.effect.lesson if counted and read.earlier is not None else None),
    )


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
        if decision.attempts == 1 or asked not in state.pending:
            return
        decision = state.pending[asked]
    p, agent = roster.place(decision, decision.propensities), roster.index.get(decision.agent)
    alone, heard = decision.attempts == 1, any(each.agent == baseline for each in decision.answers)
    deciding = decision.agent == baseline or (decision.answers and decision.action == "accept")
    if agent is None or heard or not (not decision.answers if alone else deciding):
        return
    if not alone:  # the draw between the answer and the baseline
        other = [each.agent for each in decision.answers if p[roster.index[each.agent]] > 0.0]
        among = [roster.index[each] for each in (baseline, *other)]
        p = np.where(np.isin(np.arange(len(p)), among), p, 0.0)
        p = np.eye(len(p))[agent] if not decision.answers else p / p.sum()
    place, known = np.array(agent), unknown if reward is None else np.array(reward)
    estimate, before = roster.place(decision, decision.terms.estimate), None if reward is None else unknown
    engine.account(state.parts, roster.names, place, propensities=p, estimate=estimate, reward=known, before=before)


def _withdraw(engine: Engine, state: State, roster: Roster) -> None:
    """Withdraw lessons of silent answers that are no longer believed, oldest first."""
    if not engine.policy.can_withdraw:
        return
    completion, part = engine.completion, state.parts["completion"]
    excess, left = completion.excess(part), _WITHDRAWN
    for key, kept in state.provisional.items() if excess.max() >= 1.0 else ():
        index = roster.index.get(kept.decision.agent, -1)
        if index < 0 or excess[index] < 1.0 or kept.effect.default is None or kept.effect.lesson is None:
            continue
        if is_fresh(engine, state, index, decision=kept.decision):
            lesson = feedback(engine, roster, kept.decision, reward=_number(kept.effect.lesson))
            if isfinite(lesson.reward[index]):  # else it was made with other features
                engine.policy.withdraw(state.parts["policy"], lesson)
        state.provisional[key] = replace(kept, effect=completion.withdrawn(part, index, kept.effect))
        excess[index], left = excess[index] - 1.0, left - 1
        if left == 0 or excess.max() < 1.0:
            return


def see_usage(
    engine: Engine, state: State, roster: Roster, *, decision: Decision, used: MeasuredUsage, charged: bool = False
) -> None:
    """Learn the usage of a pending decision; its outcome will not count it again.

    ``charged``: the limits are charged now, because the decision gets no outcome of its own.
    """
    state.seq += 1
    state.used[decision.id] = used
    index = roster.index.get(decision.agent)
    if index is None or not is_fresh(engine, state, index, decision=decision):
        return
    learned = Details(
        cost_usd=_time(used.cost_usd),
        elapsed_s=_time(used.elapsed_s),
        completed=np.array(True),
        price=roster.price,
        first_token_s=_time(used.first_token_s),
    )
    context = _context(engine.settings, decision)
    agent = indices(len(roster.names))[index]
    engine.see_usage(state.parts, agent, learned, context=context)
    if charged:
        engine.charge(state.parts, roster.names, agent, learned, context=context)


def check_audit(decision: Decision) -> None:
    """Refuse the truth about a decision that is not marked for an audit."""
    if not decision.audit:
        problem = f"is True, and decision {decision.id} is not marked for an audit"
        raise InvalidInputError("audit", problem, "pass audit=True only where decision.audit is True, see audit_rate")


def keep_verdict(state: State, decision: Decision, reward: float, *, audit: bool) -> None:
    """Store the first verdict on an audited decision; the oldest is dropped if too many wait for their second."""
    verdicts = state.verdicts
    verdicts[decision.id] = FirstVerdict(decision.agent, decision.key.counter + 1, reward=reward, audit=audit)
    if len(verdicts) > _MOST_VERDICTS:
        del verdicts[next(iter(verdicts))]


def second_verdict(
    engine: Engine, state: State, roster: Roster, *, decision_id: str, outcome: Outcome, audit: bool
) -> None:
    """Learn the second verdict on an audited decision, which only affects the bias."""
    first = state.verdicts[decision_id]
    if first.audit == audit:
        problem = "has been audited" if audit else "has its outcome"
        raise InvalidInputError("decision_id", problem, "report the judge's outcome and the truth once each")
    index, model = roster.index.get(first.agent), engine.settings.reward
    found = None if index is None else model.read(state.parts["reward"], index, outcome)
    del state.verdicts[decision_id]
    state.seq += 1
    if index is not None and found is not None and engine.audits.rate:
        judge, truth = (first.reward, found) if audit else (found, first.reward)
        engine.compare(state.parts, np.array(index), first.round, judge=np.array(judge), truth=np.array(truth))


def read_output(engine: Engine, output: Measure) -> Floats | None:
    """The output as the alignment compares it."""
    return None if engine.alignment is None else engine.alignment.outcomes_of(Outcome.completed(0.0, output=output))


def see_output(engine: Engine, state: State, roster: Roster, *, decision: Decision, raw: Floats | None) -> bool:
    """Learn the output of a pending decision; returns whether an alarm restarted its agent."""
    state.shown[decision.id] = None
    state.seq += 1
    index = roster.index.get(decision.agent)
    if index is None or raw is None:
        return False
    return engine.see_outputs(state.parts, roster.names, np.array(index), raw=raw, t=decision.key.counter + 1)


def is_verdict(outcome: Outcome, reward: float | None) -> bool:
    """Whether an outcome rates an answer; a timeout does not, even though its reward is read as zero."""
    return reward is not None and (outcome.event or outcome.reward is not None)


def is_fresh(engine: Engine, state: State, index: int, *, decision: Decision) -> bool:
    """Whether the agent at ``index`` has not been restarted since the decision."""
    restarts = engine.restarts
    return not restarts.wanted or bool(restarts.fresh(state.parts, np.array(index), decision.key.counter + 1))


def feedback(
    engine: Engine, roster: Roster, decision: Decision, *, reward: Floats, everybody: bool = False
) -> Feedback:
    """Feedback with the propensities, penalties, features and claims stored in the decision.

    No reward of a decision made with other features can be learned: it counts as missing.
    """
    terms, claims, propensities = decision.terms, decision.claims, decision.propensities
    width = engine.settings.context_width
    free = terms.cost is roster.cost and roster.free and terms.bias is None
    penalty = terms.alignment if free else terms.penalty()
    if decision.agents is not roster.names:
        propensities, penalty = roster.place(decision, propensities), roster.place(decision, penalty)
    agent, t = roster.places[roster.index[decision.agent]], decision.key.counter + 1
    context = _context(engine.settings, decision) if width else None
    fits = not width or context is not None
    stated = roster.place(decision, np.array(claims), absent=np.nan) if claims else None
    if fits and not everybody and isfinite(reward):  # the usual case
        return Feedback.of_chosen(t, agent, reward, at_decision=(propensities, penalty, context, stated))
    return pipeline.feedback(
        t,
        agent,
        reward if fits else np.full_like(reward, np.nan),
        propensities=propensities,
        penalty=penalty,
        context=context,
        claims=stated,
        everybody=everybody and fits,
    )


def _learned(
    engine: Engine, roster: Roster, decision: Decision, *, outcome: Outcome, read: Reading, cost_usd: Floats | None
) -> Details:
    """Outcome data other than the reward; ``cost_usd`` is None if it was counted with the earlier silence."""
    if not engine.accounts:
        return Details(read.raw, cost_usd)
    learned = Details(
        read.raw,
        cost_usd,
        elapsed_s=_time(outcome.elapsed_s),
        completed=np.array(outcome.event),
        price=roster.price,
        first_token_s=None if read.used is None else _time(read.used.first_token_s),
        usage_known=read.used is not None,
        reset_s=_time(outcome.reset_s),
    )
    if read.earlier is None:
        return replace(learned, estimate=roster.place(decision, decision.terms.estimate))
    before = Details(elapsed_s=_time(read.earlier.elapsed_s), completed=np.array(read.earlier.effect.exit.completed))
    return replace(learned, earlier=before)


def _time(elapsed_s: float | None) -> Floats | None:
    return None if elapsed_s is None else np.array(elapsed_s)


def _fits(settings: Settings, decision: Decision) -> bool:
    """Whether the policy can learn from a decision: its features must match the current features and encoder."""
    return not settings.context_width or numbers_of(decision, settings) is not None


def _context(settings: Settings, decision: Decision) -> Floats | None:
    """The numbers that a decision was made on."""
    found = numbers_of(decision, settings) if settings.context_width else None
    return None if found is None else np.array(found)


def _replaced(engine: Engine, roster: Roster, decision: Decision, *, earlier: Silence) -> tuple[Feedback, float] | None:
    """The lesson that the silence counted as, and its position; None if it gave no lesson."""
    if earlier.effect.lesson is None:
        return None
    return feedback(engine, roster, decision, reward=_number(earlier.effect.lesson)), earlier.position


def _number(lesson: float | None) -> Floats:
    return np.array(np.nan if lesson is None else lesson)
