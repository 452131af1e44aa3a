"""Comparison of agents over a time range: traffic, reward, dollars, seconds, failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.evaluation.savings import dollars
from bot_orch.service.dashboard.buckets import BucketView
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html, join, link
from bot_orch.service.web.terms import number
from bot_orch.types import RewardRange

_COLORS, _STYLES = 8, 7
_TONES = {"closed": "good", "half_open": "warn", "open": "bad"}


@dataclass(frozen=True, slots=True)
class AgentRow:
    """Statistics of one agent in a time range; ``None`` where unknown. Dollars are per call.

    ``judged`` and ``truth`` are means over the ``audited`` answers; ``gap_error`` is the standard error of their
    difference.
    """

    index: int
    agent: str
    kind: str
    _: KW_ONLY
    circuit: str
    decisions: int
    share: float | None
    propensity: float | None
    reward: float | None
    usd: float | None
    seconds: float | None
    audited: int
    judged: float | None
    truth: float | None
    gap_error: float | None
    alarms: int
    failed: int
    ended: int
    diverted: int
    calls: str
    cost_usd: float
    rollout: str = ""

    @property
    def gap(self) -> float | None:
        """Judge minus truth on audited answers."""
        return None if self.judged is None or self.truth is None else self.judged - self.truth


def agent_rows(runtime: Runtime, timeline: Timeline, view: BucketView) -> list[AgentRow]:
    """One row per agent, in the order of the settings."""
    kinds = {agent.id: agent.kind for agent in runtime.config.agents}
    known = {} if timeline.partial else runtime.ledger.router.drift_alarms()
    caps = runtime.caps
    sums = {name: view.total(name).tolist() for name in _USED}
    made = sum(sums["decisions"])
    rows = []
    for index, name in enumerate(timeline.agents):
        guard = runtime.guards.get(name)
        state = None if guard is None else guard.view()
        n = sums["decisions"][index]
        rows.append(
            AgentRow(
                index,
                name,
                kinds.get(name, ""),
                circuit="closed" if state is None else str(state.breaker.state).replace("-", "_"),
                decisions=round(n),
                share=_ratio(n, made),
                propensity=_ratio(sums["propensity"][index], made),
                reward=_ratio(sums["reward"][index], sums["rewarded"][index]),
                usd=_ratio(sums["cost_usd"][index], max(n, sums["ended"][index])),  # shadow calls are no decisions
                seconds=_ratio(sums["seconds"][index], sums["completed"][index]),
                **_audit(sums, index),
                alarms=max(known.get(name, 0), sum(alarm.agent == name for alarm in timeline.alarms)),
                failed=round(sums["failed"][index]),
                ended=round(sums["ended"][index]),
                diverted=round(sums["diverted"][index]),
                calls="" if state is None else f"{state.in_flight} / {state.concurrency}",
                cost_usd=sums["cost_usd"][index],
                rollout=_rollout(runtime, name, caps),
            )
        )
    return rows


def _audit(sums: Mapping[str, Sequence[float]], index: int) -> dict[str, Any]:
    """Mean value of the judge and of the truth over audited decisions."""
    n, judged, truth, squares = (sums[name][index] for name in _AUDITS)
    gap = judged - truth
    error = math.sqrt(max(0.0, squares - gap * gap / n) / (n - 1) / n) if n > 1 else None
    return {"audited": round(n), "judged": _ratio(judged, n), "truth": _ratio(truth, n), "gap_error": error}


def _rollout(runtime: Runtime, name: str, caps: Mapping[str, float]) -> str:
    """A short description of what limits an agent's traffic."""
    if name in runtime.ledger.rollout.drained:
        return "draining"
    return f"canary, {100 * caps[name]:g} % at most" if name in caps else ""


_AUDITS = ("audited", "judged", "truth", "gap_squares")
_USED = (
    "decisions",
    "propensity",
    "reward",
    "rewarded",
    "cost_usd",
    "completed",
    "seconds",
    "failed",
    "ended",
    "diverted",
    *_AUDITS,
)


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else None


_Key = Callable[[AgentRow], float | str | None]
SORTS: dict[str, tuple[str, _Key]] = {
    "agent": ("Agent", lambda row: row.agent),
    "circuit": ("Circuit", lambda row: row.circuit),
    "decisions": ("Decisions", lambda row: -row.decisions),
    "p": ("p", lambda row: None if row.propensity is None else -row.propensity),
    "reward": ("Reward", lambda row: None if row.reward is None else -row.reward),
    "usd": ("$ each", lambda row: row.usd),
    "seconds": ("Seconds", lambda row: row.seconds),
    "audit": ("Judge, truth", lambda row: None if (gap := row.gap) is None else -gap),
    "drift": ("Drift", lambda row: -row.alarms),
    "failed": ("Failed", lambda row: None if not row.ended else -row.failed / row.ended),
    "diverted": ("Diverted", lambda row: -row.diverted),
    "calls": ("Calls", lambda row: row.calls),
    "cost": ("Cost", lambda row: -row.cost_usd),
}
"""Columns of the table: heading, and the order in which a click on it sorts (best or largest first, unknown last)."""


def agents_head(query: Mapping[str, str]) -> Safe:
    """The table headings; each links to the table sorted by its column."""
    cell = '<th scope="col"{sorted}><a href="{href}#agents">{text}</a></th>'
    mark = Safe(' aria-sort="other"')
    return join(
        html(cell, text=text, href=link("/", query, sort=name), sorted=mark if query.get("sort") == name else Safe(""))
        for name, (text, _) in SORTS.items()
    )


_ROW = (
    '<tr><th scope="row">{swatch}<span class="name">{agent}<small class="muted">{kind}</small>{rollout}</span></th>'
    '<td data-label="Circuit"><span class="state {tone}">{circuit}</span></td>'
    '<td data-label="Decisions">{decisions}<small class="muted">{share}</small></td><td data-label="p">{p}</td>'
    '<td data-label="Reward">{reward}</td><td data-label="$ each">{usd}</td><td data-label="Seconds">{seconds}</td>'
    '<td data-label="Judge, truth">{audit}</td>'
    '<td data-label="Drift">{alarms}</td><td data-label="Failed">{failed}</td>'
    '<td data-label="Diverted">{diverted}</td>'
    '<td data-label="Calls">{calls}</td><td data-label="Cost">{cost}</td></tr>'
)


def agents_part(rows: Sequence[AgentRow], sort: str, rewards: RewardRange) -> Safe:
    """The rows of the table; bars compare rewards with their range, dollars and seconds with the most of them."""
    if sort in SORTS:
        key = SORTS[sort][1]
        rows = sorted(rows, key=lambda row: ((value := key(row)) is None, value if value is not None else 0))
    most = {name: max((getattr(row, name) or 0.0 for row in rows), default=0.0) for name in ("usd", "seconds")}
    return join(_row(row, most, rewards) for row in rows)


def _row(row: AgentRow, most: Mapping[str, float], rewards: RewardRange) -> Safe:
    return html(
        _ROW,
        swatch=swatch(row.index),
        agent=row.agent,
        kind=row.kind,
        rollout=html('<small class="state warn">{text}</small>', text=row.rollout) if row.rollout else Safe(""),
        tone=_TONES.get(row.circuit, ""),
        circuit=row.circuit.replace("_", " "),
        decisions=f"{row.decisions:,}",
        share="" if row.share is None else f"{100 * row.share:.0f} %",
        p=_known(row.propensity),
        reward=_bar(None if row.reward is None else rewards.unit(row.reward), _known(row.reward), 1.0),
        usd=_bar(row.usd, _dollars(row.usd), most["usd"]),
        seconds=_bar(row.seconds, _seconds(row.seconds), most["seconds"]),
        audit=_against(row),
        alarms=html('<span class="state bad">{n}</span>', n=row.alarms) if row.alarms else "–",
        failed=f"{row.failed:,} / {row.ended:,}" if row.ended else "–",
        diverted=html('<span class="state bad">{n}</span>', n=row.diverted) if row.diverted else "–",
        calls=row.calls or "–",
        cost=_dollars(row.cost_usd),
    )


def _against(row: AgentRow) -> Safe | str:
    """The judge's mean and the truth; marked where they differ by more than two standard errors."""
    if row.gap is None or row.judged is None or row.truth is None:
        return "–"
    text = f"{row.judged:.2f}, {row.truth:.2f}"
    if row.gap_error is None or abs(row.gap) <= 2.0 * row.gap_error:
        return text
    return html('<span class="state {tone}">{text}</span>', tone="bad" if row.gap > 0 else "warn", text=text)


def swatch(index: int | None) -> Safe:
    """A short line in the colour and style of an agent, the same as in the charts."""
    if index is None:
        return Safe('<i class="swatch other"></i>')
    return html('<i class="swatch c{color} d{style}"></i>', color=index % _COLORS, style=index // _COLORS % _STYLES)


def _bar(value: float | None, text: str, most: float) -> Safe:
    if value is None:
        return Safe("–")
    share = min(max(value / most, 0.0), 1.0) if most > 0 else 0.0
    return html('{text}<meter value="{share}" aria-hidden="true"></meter>', text=text, share=f"{share:.3f}")


def _known(value: float | None) -> str:
    return "–" if value is None else number(value, 2)


def _dollars(value: float | None) -> str:
    return "–" if value is None else f"${dollars(value)}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 1:
        return f"{value * 1000:.1f} ms" if value < 0.01 else f"{value * 1000:.0f} ms"
    return f"{value:,.1f} s" if value < 600 else f"{value / 60:,.0f} min"


_FIELDS = ("agent", "kind", "decisions", "share", "propensity", "reward", "usd", "seconds")
_MORE = ("audited", "judged", "truth", "failed", "ended", "diverted", "cost_usd")


def agents_table(rows: Sequence[AgentRow]) -> list[Sequence[object]]:
    """The table for a file; unknown values are empty, ``usd`` is per call."""
    names = (*_FIELDS, *_MORE)
    return [names, *([getattr(row, name) for name in names] for row in rows)]
