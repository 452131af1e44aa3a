"""Ranking of judges: the latest value of the highest-ranked judge is learned, all stay in the log."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.core.events import FeedbackGiven
from bot_orch.log.ledger import Ledger
from bot_orch.log.log import Row
from bot_orch.service.config import Config
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.reports import ReportSource, feedback_id
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.groups import Group
from bot_orch.types import Outcome


def thumbs_of(config: Config) -> str:
    """The judge that callers' reports count as; empty if their reports are final."""
    return next((judge.name for judge in config.judges if judge.kind == "thumbs"), "")


def outranks(config: Config, judge: str, other: str) -> bool:
    """Whether a value of ``judge`` replaces one of ``other``. Callers without a rank rank first, unknown names last."""
    return _rank(config, judge) <= _rank(config, other)


def _rank(config: Config, judge: str) -> int:
    names = [each.name for each in config.judges]
    return -1 if not judge else names.index(judge) if judge in names else len(names)


async def report(
    runtime: Runtime,
    answer: AnswerGiven,
    judge: str,
    *,
    value: float,
    rate: float,
    audit: bool = False,
) -> tuple[str, Group]:
    """Log a judge's value, or with ``audit`` the truth; the effect, and the group that makes it durable.

    A judge says how good an answer is from 0 to 1, whatever range rewards have.
    """
    value = runtime.ledger.router.reward.range.natural(value)
    writer, refs, known_as = runtime.writer, tuple[str, ...](), answer.decision_id
    while True:  # at most twice; nothing may be staged between the last look and staging
        look = await writer.look_up(refs=refs)
        if answer.learner and answer.decision_id not in runtime.ledger.pending:
            known_as = answer.learner
        outcome = Outcome.completed(value, elapsed_s=answer.elapsed_s)
        effect = _effect(runtime, known_as, judge, outcome=outcome, audit=audit)
        if effect is None and known_as not in refs:
            refs = (known_as,)
            continue
        break
    rows = look.about(known_as) if refs else ()
    event = FeedbackGiven(
        feedback_id(ReportSource.JUDGE, f"{judge}-{known_as}"),
        known_as,
        effect or _too_late(rows, audit=audit),
        value,
        answer.elapsed_s,
        audit=audit,
        judge=judge,
        agent=answer.agent,
        rate=rate,
    )
    group = writer.stage(writer.stamp(), event, known_as)
    runtime.metrics.count("bot_orch_feedback_total", effect=event.effect)
    return event.effect, group


def _effect(runtime: Runtime, decision_id: str, judge: str, *, outcome: Outcome, audit: bool) -> str | None:
    """How a value counts, according to the ledger."""
    ledger: Ledger = runtime.ledger
    effect, kept = ledger.router.effect_of(decision_id, outcome, audit=audit), ledger.router.judge_of(decision_id)
    if effect == "replaced" and kept is not None and not outranks(runtime.config, judge, kept):
        return "outranked"
    return effect


def _too_late(rows: Sequence[Row], *, audit: bool) -> str:
    """The effect of a value that is not learned: another one counts, or the decision is forgotten."""
    events = [row.event() for row in rows if row.holds(FeedbackGiven)]
    rewarded = any(isinstance(event, FeedbackGiven) and event.reward is not None for event in events)
    return "revision" if audit else "outranked" if rewarded else "late"
