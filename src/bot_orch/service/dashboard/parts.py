"""Pieces of the dashboard in HTML: tiles, alarms, kinds of tasks, lists of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bot_orch.evaluation.savings import dollars
from bot_orch.service.dashboard.agents import AgentRow, swatch
from bot_orch.service.dashboard.buckets import OTHERS, BucketView
from bot_orch.service.dashboard.reader import TimelineReader
from bot_orch.service.dashboard.timeline import Recent, Timeline
from bot_orch.service.queue.service import QueueService
from bot_orch.service.routing.rules import BudgetUse, budget_use
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html, join, link, moment
from bot_orch.service.web.terms import number

_ALARMS_SHOWN = 6
_LONGEST_TASK = 40
_TILE = '<div class="tile"><dt>{name}</dt><dd>{value}<small>{unit}</small></dd></div>'


def tiles_part(runtime: Runtime, reader: TimelineReader, view: BucketView, *, timeline: Timeline) -> Safe:
    """Key figures at the top of the page; counts cover the whole log, means the range.

    For one kind of tasks all figures are those of the range and of this kind.
    """
    made = float(view.total("decisions").sum())
    rewards = float(view.total("rewarded").sum())
    mean = float(view.total("reward").sum()) / rewards if rewards else None
    waiting, oldest = _queue(runtime, timeline)
    spent, when = runtime.ledger.spending.recent(runtime.writer.now_us(), 86_400.0), "last 24 h"
    count, told, due = f"{reader.decisions:,}", f"{made:,.0f} in this range", len(runtime.ledger.pending)
    used = _used(runtime)
    if used is not None:
        held = {"pace": ", its pace decides", "exhausted": ", used up"}.get(used.decides, "")
        spent, when = used.spent_usd, f"of ${dollars(used.limit_usd)} in {used.window_s / 3600:g} h{held}"
    if timeline.partial:
        spent, when = float(view.total("cost_usd").sum()), "in this range"
        count, told, due = f"{made:,.0f}", f"of {timeline.kind}, in this range", timeline.due
    tiles: list[tuple[str, str, str]] = [
        ("Decisions", count, told),
        ("Mean reward", "–" if mean is None else number(mean, 2), "in this range"),
        ("Spent", f"${dollars(spent)}", when),
        ("For people", str(waiting), f"oldest {oldest}" if waiting else "nobody waits"),
        ("Outcomes due", f"{due:,}", reader.progress_of(timeline) or f"event {runtime.ledger.seq:,}"),
    ]
    if rounds := float(view.total("rounds").sum()):
        tiles.append(("Asked again", *_asked_again(view, rounds)))
    return join(html(_TILE, name=name, value=value, unit=unit) for name, value, unit in tiles)


def _used(runtime: Runtime) -> BudgetUse | None:
    budget = runtime.config.router.budget
    return budget_use(budget, runtime.ledger, runtime.guards, runtime.writer.now_us())


def _asked_again(view: BucketView, rounds: float) -> tuple[str, str]:
    """How often a second agent was asked, how often that changed the answer, and what it cost."""
    again, changed, usd = (float(view.total(name).sum()) for name in ("asked_again", "changed", "later_usd"))
    return f"{100 * again / rounds:.0f} %", f"changed {100 * changed / rounds:.0f} %, for ${dollars(usd)}"


def _queue(runtime: Runtime, timeline: Timeline) -> tuple[int, str]:
    if not isinstance(runtime.queue, QueueService):
        return 0, ""
    live = [ticket for ticket in runtime.queue.state.live() if timeline.kind in ("", ticket.kind)]
    if not live:
        return 0, ""
    age_s = (runtime.writer.now_us() - min(ticket.opened_us for ticket in live)) / 1e6
    return len(live), f"{age_s:.0f} s" if age_s < 120 else f"{age_s / 60:.0f} min"


_DECISION = (
    '<tr><td data-label="Time"><time>{at}</time></td><td data-label="Task"><a href="/decisions/{id}">{task}</a></td>'
    '<td data-label="Agent">{swatch}{agent}</td><td data-label="p">{p}</td><td data-label="By">{by}</td>'
    '<td data-label="Outcome">{outcome}</td></tr>'
)
_NO_DECISION = Safe('<tr><td colspan="6" class="muted">No decisions yet.</td></tr>')


def decisions_part(entries: Iterable[Recent], agents: tuple[str, ...], now_us: int) -> Safe:
    """Rows of a table of decisions."""
    return join(_decision(entry, agents, now_us) for entry in entries) or _NO_DECISION


def _decision(entry: Recent, agents: tuple[str, ...], now_us: int) -> Safe:
    task = entry.task if len(entry.task) <= _LONGEST_TASK else entry.task[: _LONGEST_TASK - 1] + "…"
    return html(
        _DECISION,
        at=moment(entry.time_us, now_us),
        id=entry.id,
        task=task or entry.id[:8],
        swatch=swatch(agents.index(entry.agent) if entry.agent in agents else None),
        agent=entry.agent,
        p=number(entry.propensity, 2),
        by=entry.by,
        outcome=entry.outcome,
    )


_DRIFT = '<li><span class="state bad">drift</span> the outputs of <b>{agent}</b> changed, {at} UTC, p = {p}</li>'
_LOAD = (
    '<li><span class="state bad">load</span> kept {n} calls from <b>{agent}</b> in this range; '
    "raise its <code>concurrency</code>, or add <code>endpoints</code></li>"
)


_BUDGET = '<li><span class="state bad">budget</span> ${spent} of ${limit} are spent: <b>{what}</b></li>'


def alarms_part(runtime: Runtime, timeline: Timeline, rows: Iterable[AgentRow], now_us: int) -> Safe:
    """A budget that is used up, agents with calls diverted by load in the range, and drift alarms."""
    load = [html(_LOAD, n=f"{row.diverted:,}", agent=row.agent) for row in rows if row.diverted]
    used = _used(runtime)
    if used is not None and used.decides == "exhausted":
        does = {"refuse": "requests are refused", "cheapest": "the cheapest agent serves", "warn": "nothing is stopped"}
        what = does[runtime.config.router.budget.on_exhausted]
        load.insert(0, html(_BUDGET, spent=dollars(used.spent_usd), limit=dollars(used.limit_usd), what=what))
    if not timeline.alarms and not load:
        return Safe('<p class="muted">No alarms: load diverted no calls, and no outputs have changed.</p>')
    shown = timeline.alarms[::-1][:_ALARMS_SHOWN]
    drift = [html(_DRIFT, agent=a.agent, at=moment(a.time_us, now_us), p=number(a.p_value)) for a in shown]
    items = join([*load, *drift])
    rest = len(timeline.alarms) - len(shown)
    more = html('<p class="muted note">and {rest} earlier ones</p>', rest=rest) if rest else Safe("")
    return html('<ul class="alarms">{items}</ul>{more}', items=items, more=more)


_KINDS_SHOWN = 24
_KIND = '<li><a href="{href}"{current}>{kind} <small>{count}</small></a></li>'
_UNNAMED = "<li><span>{kind} <small>{count}</small></span></li>"
_CURRENT = Safe(' aria-current="true"')


def kind_counts(kinds: Mapping[str, int]) -> list[tuple[str, int]]:
    """Kinds with their numbers of decisions, most frequent first.

    Examples
    --------
    >>> kind_counts({"refund": 1, "order": 2})
    [('order', 2), ('refund', 1)]
    """
    return sorted(kinds.items(), key=lambda each: (-each[1], each[0]))


def kinds_part(counts: Sequence[tuple[str, int]], query: Mapping[str, str]) -> Safe:
    """Links to all kinds; empty if tasks have no kinds."""
    chosen = query.get("kind", "")
    if not chosen and not any(name for name, _ in counts):
        return Safe("")
    shown = list(counts[:_KINDS_SHOWN])
    if chosen and chosen not in dict(shown):
        shown.append((chosen, dict(counts).get(chosen, 0)))
    left = len({name for name, _ in counts} - {name for name, _ in shown})
    every = _link("all", sum(number for _, number in counts), link("/", query, kind=None), current=not chosen)
    items = [every, *(_item(name, number, query) for name, number in shown)]
    if left:
        items.append(html('<li class="muted">{n} more: see the CSV</li>', n=left))
    return join(items)


def _item(name: str, number: int, query: Mapping[str, str]) -> Safe:
    if name in ("", OTHERS):
        return html(_UNNAMED, kind=name or "(none)", count=f"{number:,}")
    return _link(name, number, link("/", query, kind=name), current=query.get("kind") == name)


def _link(text: str, number: int, href: str, *, current: bool) -> Safe:
    return html(_KIND, href=href, kind=text, count=f"{number:,}", current=_CURRENT if current else Safe(""))
