"""Values of judges per agent, and their errors on audited decisions, for the API and the dashboard."""

from __future__ import annotations

import math

import msgspec
from scipy.special import stdtrit

from bot_orch.log.judgements import AUDIT, Judgements, JudgeTally
from bot_orch.service.judges.registry import OWN
from bot_orch.service.runtime import Runtime

_LEVEL = 0.95


class JudgeAgentView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One judge and one agent.

    ``bias`` is the mean of judge minus truth over ``audited`` answers, with a 95 % interval (Student's t) in [-1, 1]
    from two on.
    """

    agent: str
    count: int
    mean: float
    audited: int = 0
    bias: float | None = None
    low: float | None = None
    high: float | None = None


class JudgeView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One judge: its rank from 1 (0 for the truth of audits, and for judges that are no longer configured)."""

    name: str
    kind: str
    rank: int
    rate: float
    agents: list[JudgeAgentView]


def judge_views(runtime: Runtime, judgements: Judgements | None = None) -> list[JudgeView]:
    """Judges by rank, then the agents' own rewards, judges of the past, and the truth; of the whole log by default."""
    tallies = (runtime.ledger.judgements if judgements is None else judgements).tallies
    audit = runtime.config.audit
    rates = 0.0 if audit is None else audit.rate
    found = [
        _view(tallies, judge.name, kind=judge.kind, rank=rank, rate=judge.rate)
        for rank, judge in enumerate(runtime.config.judges, 1)
        if audit is None or judge.name != audit.by
    ]
    known = {view.name for view in found}
    others = sorted({name for name, _ in tallies} - known - {AUDIT})
    found += [_view(tallies, name, kind="own" if name == OWN else "former", rank=0, rate=1.0) for name in others]
    if audit is not None or any(name == AUDIT for name, _ in tallies):
        kind = "caller" if audit is None else audit.by
        found.append(_view(tallies, AUDIT, kind=kind, rank=0, rate=rates))
    return found


def _view(tallies: dict[tuple[str, str], JudgeTally], name: str, *, kind: str, rank: int, rate: float) -> JudgeView:
    agents = [_agent(agent, tally) for (judge, agent), tally in sorted(tallies.items()) if judge == name]
    return JudgeView(name=name, kind=kind, rank=rank, rate=rate, agents=agents)


def _agent(agent: str, tally: JudgeTally) -> JudgeAgentView:
    n = tally.pairs
    bias = tally.gap if n else None
    half = float(stdtrit(n - 1, 0.5 + _LEVEL / 2)) * math.sqrt(tally.square / (n - 1) / n) if n > 1 else None
    low, high = (None, None) if half is None else (max(-1.0, tally.gap - half), min(1.0, tally.gap + half))
    return JudgeAgentView(agent=agent, count=tally.count, mean=tally.mean, audited=n, bias=bias, low=low, high=high)
