"""Pieces of the queue's pages: clocks, drafts, and why a person was asked."""

from __future__ import annotations

from bot_orch.service.queue.views import AgentTerms, DraftView, TicketView, WhyView
from bot_orch.service.web.pages import Safe, html, join

__all__ = ["clock", "drafts_part", "notice", "number", "origin", "status_line", "terms_table", "why_part"]

_UNSEEN = 1e6
_RULES = {
    "pin": "A rule sends tasks of this kind to a person.",
    "kill switch": "An operator sends every task to this agent.",
    "sticky": "The session stays with whoever took it last.",
}


def notice(message: str, *, bad: bool = False) -> Safe:
    """A line above the page, or nothing."""
    tone = "bad" if bad else "good"
    said = html('<p class="notice {tone}" role="status">{message}</p>', tone=tone, message=message)
    return said if message else Safe("")


def clock(label: str, until_us: int, now_us: int) -> Safe:
    """A countdown; the script keeps it going."""
    left_s = max(0, (until_us - now_us) // 1_000_000)
    return html(
        '<span class="clock" data-until="{until}"><span>{label}</span> <b>{left}</b></span>',
        until=until_us,
        label=label,
        left=_minutes(left_s),
    )


def _minutes(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def origin(view: TicketView) -> str:
    """Why it is here and what comes with it, in a few words."""
    words = []
    if view.why is not None:
        alone = view.why.propensity >= 1.0
        drawn = "only agent left" if alone else f"drawn with p = {view.why.propensity:.2f}"
        words.append(drawn if view.why.by == "policy" else f"rule: {view.why.by}")
    if view.drafts is None:
        words.append("blind")
    elif view.drafts:
        words.append("1 draft" if len(view.drafts) == 1 else f"{len(view.drafts)} drafts")
    return " · ".join(words)


def status_line(view: TicketView) -> str:
    """Where it stands, in words."""
    given = view.given
    match view.status:
        case "open":
            return "Skipped by you" if view.skipped else "Waiting"
        case "claimed":
            return "Yours" if view.mine else f"Held by {view.holder}"
        case "answered" | "done" if given is not None:
            done = {"accept": "Draft accepted", "edit": "Draft edited", "answer": "Answered", "reject": "Rejected"}
            return f"{done.get(given.action, given.action)} by {'you' if view.mine else given.by}"
        case "expired":
            return "Nobody answered in time"
    return f"Withdrawn ({view.reason})" if view.reason else view.status


_DRAFT = (
    '<li class="draft"><div class="row between"><b>{agent}</b>{buttons}</div>'
    '<div class="text" dir="auto">{text}</div></li>'
)
_TAKE = (
    '<div class="row"><form method="post" action="/queue/{id}/accept">'
    '<input type="hidden" name="claim" value="{claim}">'
    '<input type="hidden" name="draft" value="{index}"><button data-key="{key}">Accept <kbd>{key}</kbd></button></form>'
    '<a class="button" href="/queue/{id}?edit={index}#answer"{edit_key}>Edit{edit_hint}</a></div>'
)


def drafts_part(view: TicketView) -> Safe:
    """What other agents would answer, unless it is hidden."""
    if view.drafts is None:
        return Safe(
            '<section class="card"><h2>Drafts</h2><p class="muted">Hidden (blind mode): '
            "the answer must be your own. They are shown once it is closed.</p></section>"
        )
    if not view.drafts:
        return Safe("")
    rows = join(_draft(view, index, draft) for index, draft in enumerate(view.drafts))
    return html('<section class="card"><h2>Drafts</h2><ol class="drafts">{rows}</ol></section>', rows=rows)


def _draft(view: TicketView, index: int, draft: DraftView) -> Safe:
    buttons = Safe("")
    if view.mine and view.status == "claimed":
        first = index == 0
        buttons = html(
            _TAKE,
            id=view.id,
            claim=view.claim,
            index=index,
            key=index + 1,
            edit_key=Safe(' data-key="e"') if first else Safe(""),
            edit_hint=Safe(" <kbd>e</kbd>") if first else Safe(""),
        )
    return html(_DRAFT, agent=draft.agent or "draft", buttons=buttons, text=draft.text)


_WHY = '<section class="card why"><h2>Why a person</h2><p>{sentence}</p>{table}<p class="muted">{footer}</p></section>'


def why_part(view: TicketView) -> Safe:
    """The decision that led here, in a sentence and in numbers."""
    why = view.why
    if why is None:
        return Safe("")
    rule = "This was the only agent left: the others were excluded." if why.propensity >= 1.0 else ""
    sentence = _RULES.get(why.by) or rule or f"The policy drew this agent with probability {why.propensity:.2f}."
    footer = "score = estimate + exploration − λ·W − cost; W is the distance to what the task wants."
    return html(_WHY, sentence=sentence, table=terms_table(why, view.agent), footer=footer)


_HEAD = (
    '<div class="scroll"><table class="terms"><thead><tr><th scope="col">Agent</th><th scope="col">p</th>'
    '<th scope="col">Estimate</th><th scope="col">Explore</th><th scope="col">W</th><th scope="col">−λW</th>'
    '{cost}<th scope="col">Score</th></tr></thead><tbody>{rows}</tbody></table></div>'
)
_ROW = (
    '<tr{mark}><th scope="row">{agent}{excluded}</th><td>{p}</td><td>{estimate}</td><td>{explore}</td>'
    "<td>{distance}</td><td>{alignment}</td>{cost}<td>{score}</td></tr>"
)


def terms_table(why: WhyView, chosen: str) -> Safe:
    """The terms of every agent's score, the chosen one marked."""
    priced = any(each.cost for each in why.agents)
    cost = Safe('<th scope="col">−Cost</th>') if priced else Safe("")
    return html(_HEAD, cost=cost, rows=join(_terms(each, chosen, priced) for each in why.agents))


def _terms(each: AgentTerms, chosen: str, priced: bool) -> Safe:
    excluded = html('<small class="muted">{why}</small>', why=each.excluded) if each.excluded else Safe("")
    unseen = each.exploration > _UNSEEN
    return html(
        _ROW,
        mark=Safe(' class="chosen"') if each.agent == chosen else Safe(""),
        agent=each.agent,
        excluded=excluded,
        p=number(each.propensity, 2),
        estimate=number(each.estimate, 2),
        explore="unseen" if unseen else number(each.exploration, 2),
        distance=number(each.distance, 2),
        alignment=number(0.0 - each.alignment, 2),
        cost=html("<td>{cost}</td>", cost=number(0.0 - each.cost, 2)) if priced else Safe(""),
        score="unseen" if unseen else number(each.score, 2),
    )


def number(value: float, digits: int = 3) -> str:
    """A number for people; a real minus sign, no negative zero.

    Examples
    --------
    >>> number(-0.25, 2), number(-0.0)
    ('−0.25', '0.000')
    """
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
