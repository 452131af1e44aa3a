"""Judges against audits, per agent."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.log.judgements import Judgements
from bot_orch.service.judging.views import JudgeAgentView, JudgeView, judge_views
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html, join
from bot_orch.service.web.terms import number

_NONE = Safe('<p class="muted">Nothing was judged yet. <code>judges</code> in the configuration names judges.</p>')
_TABLE = (
    '<table class="cards"><thead><tr><th scope="col">Judge</th><th scope="col">Agent</th><th scope="col">Values</th>'
    '<th scope="col">Mean</th><th scope="col">Audited</th><th scope="col">Judge − truth</th></tr></thead>'
    "<tbody>{rows}</tbody></table>"
)
_ROW = (
    '<tr><th scope="row"><span class="name">{judge}<small class="muted">{kind}</small></span></th>'
    '<td data-label="Agent">{agent}</td><td data-label="Values">{count}</td><td data-label="Mean">{mean}</td>'
    '<td data-label="Audited">{audited}</td><td data-label="Judge − truth">{bias}</td></tr>'
)


def judges_part(runtime: Runtime, judgements: Judgements | None = None) -> Safe:
    """A row per judge and agent; a bias whose interval leaves zero out is marked."""
    rows = [_row(view, each) for view in judge_views(runtime, judgements) for each in view.agents]
    return html(_TABLE, rows=join(rows)) if rows else _NONE


def _row(view: JudgeView, each: JudgeAgentView) -> Safe:
    return html(
        _ROW,
        judge=view.name,
        kind=view.kind,
        agent=each.agent,
        count=f"{each.count:,}",
        mean=number(each.mean, 2),
        audited=f"{each.audited:,}" if each.audited else "–",
        bias=_bias(each),
    )


def _bias(each: JudgeAgentView) -> Safe | str:
    if each.bias is None:
        return "–"
    if each.low is None or each.high is None:
        return f"{each.bias:+.2f}"
    tone = "" if each.low <= 0 <= each.high else "bad" if each.bias > 0 else "warn"
    text = f"{each.bias:+.2f} ({each.low:+.2f} to {each.high:+.2f})"
    return html('<span class="state {tone}">{text}</span>', tone=tone, text=text) if tone else text


def judges_table(runtime: Runtime, judgements: Judgements | None = None) -> list[Sequence[object]]:
    """The table for a file."""
    rows = [(view, each) for view in judge_views(runtime, judgements) for each in view.agents]
    head = ("judge", "kind", *_FIELDS)
    return [head, *((view.name, view.kind, *(getattr(each, name) for name in _FIELDS)) for view, each in rows)]


_FIELDS = ("agent", "count", "mean", "audited", "bias", "low", "high")
