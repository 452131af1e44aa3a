"""Pieces of the dashboard in HTML: tiles, the table of agents, drift alarms, the last decisions."""

from __future__ import annotations

from datetime import UTC, datetime

from bot_orch.service.dashboard.charts import regret
from bot_orch.service.dashboard.timeline import Bucket, Recent, Timeline
from bot_orch.service.queue.desk import Desk
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html, join
from bot_orch.service.web.terms import number

__all__ = ["agents_part", "alarms_part", "moment", "recent_part", "tiles_part"]

_LAST = 20
_ALARMS_SHOWN = 6


def moment(time_us: int) -> str:
    """The time of day in UTC."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%H:%M:%S")


_TILE = '<div class="tile"><dt>{name}</dt><dd>{value}<small>{unit}</small></dd></div>'


def tiles_part(runtime: Runtime, timeline: Timeline, skipped: int) -> Safe:
    """Key figures at the top of the page."""
    last = timeline.buckets[-_LAST:]
    span_s = max(len(last) * timeline.width_us / 1e6, 1.0)
    made = sum(float(bucket.decisions.sum()) for bucket in last)
    rewards = sum(float(bucket.rewarded.sum()) for bucket in last)
    mean = sum(float(bucket.reward.sum()) for bucket in last) / rewards if rewards else None
    estimate = regret(timeline.buckets)
    spent = runtime.ledger.spending.within(runtime.writer.now_us(), 86_400.0)
    waiting, oldest = _queue(runtime)
    tiles: list[tuple[str, str, str]] = [
        ("Decisions", f"{timeline.decisions:,}", f"{made / span_s:.1f} /s"),
        ("Mean reward", "–" if mean is None else number(mean, 2), "recent"),
        ("Regret estimate", number(estimate[-1], 1) if estimate else "–", "since start"),
        ("Spent", f"${spent:,.2f}", "last 24 h"),
        ("For people", str(waiting), f"oldest {oldest}" if waiting else "nobody waits"),
        ("Outcomes due", f"{len(runtime.ledger.pending):,}", "sampled" if skipped else f"event {runtime.ledger.seq:,}"),
    ]
    return join(html(_TILE, name=name, value=value, unit=unit) for name, value, unit in tiles)


def _queue(runtime: Runtime) -> tuple[int, str]:
    if not isinstance(runtime.queue, Desk):
        return 0, ""
    live = runtime.queue.state.live()
    if not live:
        return 0, ""
    age_s = (runtime.writer.now_us() - min(ticket.opened_us for ticket in live)) / 1e6
    return len(live), f"{age_s:.0f} s" if age_s < 120 else f"{age_s / 60:.0f} min"


_AGENT = (
    '<tr><th scope="row"><i class="dot c{color}"></i>{agent}<small class="muted">{kind}</small></th>'
    '<td><span class="state {tone}">{circuit}</span></td><td>{share}</td><td>{p}</td><td>{reward}</td>'
    "<td>{distance}</td><td>{alarms}</td><td>{failed}</td><td>{flight}</td><td>{cost}</td></tr>"
)
_TONES = {"closed": "good", "half_open": "warn", "open": "bad"}


def agents_part(runtime: Runtime, timeline: Timeline) -> Safe:
    """One row per agent: circuit, traffic, reward, distance, drift alarms, failures, cost."""
    kinds = {agent.id: agent.kind for agent in runtime.config.agents}
    known = runtime.ledger.router.drift_alarms()
    rows = []
    for index, name in enumerate(timeline.agents):
        guard = runtime.guards.get(name)
        view = None if guard is None else guard.view()
        circuit = "closed" if view is None else str(view.breaker.state).replace("-", "_")
        alarms = max(known.get(name, 0), sum(alarm.agent == name for alarm in timeline.alarms))
        ended = timeline.endings.get(name, {})
        failed = sum(count for ending, count in ended.items() if ending != "completed")
        rows.append(
            html(
                _AGENT,
                color=index % 8,
                agent=name,
                kind=kinds.get(name, ""),
                tone=_TONES.get(circuit, ""),
                circuit=circuit.replace("_", " "),
                alarms=html('<span class="state bad">{n}</span>', n=alarms) if alarms else "–",
                failed=f"{failed} / {sum(ended.values())}" if ended else "–",
                flight="–" if view is None else f"{view.in_flight} / {view.concurrency}",
                cost=f"${sum(float(bucket.cost_usd[index]) for bucket in timeline.buckets):.2f}",
                **_recent_numbers(timeline.buckets[-_LAST:], index),
            )
        )
    return join(rows)


def _recent_numbers(buckets: list[Bucket], index: int) -> dict[str, str]:
    made = sum(float(bucket.decisions.sum()) for bucket in buckets)
    rewarded = sum(float(bucket.rewarded[index]) for bucket in buckets)

    def mean(name: str, by: float, digits: int = 2) -> str:
        return number(sum(float(getattr(bucket, name)[index]) for bucket in buckets) / by, digits) if by else "–"

    share = sum(float(bucket.decisions[index]) for bucket in buckets)
    return {
        "share": f"{100 * share / made:.0f} %" if made else "–",
        "p": mean("propensity", made),
        "reward": mean("reward", rewarded),
        "distance": mean("distance", made),
    }


_RECENT = (
    '<tr><td><time>{at}</time></td><td><a href="/decisions/{id}">{task}</a></td>'
    '<td><i class="dot c{color}"></i>{agent}</td><td>{p}</td><td>{by}</td><td>{outcome}</td></tr>'
)


def recent_part(timeline: Timeline) -> Safe:
    """The last decisions, the newest first."""
    return join(_decision(entry, timeline.agents) for entry in list(timeline.recent)[::-1][:12])


def _decision(entry: Recent, agents: tuple[str, ...]) -> Safe:
    color = agents.index(entry.agent) % 8 if entry.agent in agents else 7
    task = entry.task if len(entry.task) <= 40 else entry.task[:39] + "…"
    return html(
        _RECENT,
        at=moment(entry.time_us),
        id=entry.id,
        task=task or entry.id[:8],
        color=color,
        agent=entry.agent,
        p=number(entry.propensity, 2),
        by=entry.by,
        outcome=entry.outcome,
    )


def alarms_part(timeline: Timeline) -> Safe:
    """Drift alarms: agent, time, p-value."""
    if not timeline.alarms:
        return Safe('<p class="muted">No drift: nobody\'s outputs have changed.</p>')
    row = '<li><span class="state bad">drift</span> the outputs of <b>{agent}</b> changed, {at} UTC, p = {p}</li>'
    shown = timeline.alarms[::-1][:_ALARMS_SHOWN]
    items = join(html(row, agent=a.agent, at=moment(a.time_us), p=number(a.p_value)) for a in shown)
    return html('<ul class="alarms">{items}</ul>', items=items)
