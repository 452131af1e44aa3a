"""Parts of the queue's pages: countdowns, drafts, and why a person was chosen."""

from __future__ import annotations

from collections.abc import Mapping

from bot_orch.service.queue.views import DraftView, TicketView
from bot_orch.service.web.pages import Safe, html, join
from bot_orch.service.web.terms import terms_table

__all__ = ["clock", "drafts_part", "kept_part", "notice", "origin", "status_line", "why_part"]

_RULES = {
    "pin": "A rule sends tasks of this kind to a person.",
    "kill switch": "An operator sends every task to this agent.",
    "sticky": "The session stays with whoever took it last.",
}


def notice(message: str, *, bad: bool = False) -> Safe:
    """A message above the page; nothing if it is empty."""
    tone = "bad" if bad else "good"
    said = html('<p class="notice {tone}" role="status">{message}</p>', tone=tone, message=message)
    return said if message else Safe("")


def clock(label: str, until_us: int, now_us: int) -> Safe:
    """A countdown; the script updates it."""
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
    """How the ticket came to the queue, and how many drafts it has, in a few words."""
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
    """The status in words."""
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
    '<a class="button" href="/queue/{id}?edit={index}"{edit_key}>Edit{edit_hint}</a></div>'
)


def drafts_part(view: TicketView) -> Safe:
    """Drafts of other agents, unless they are hidden."""
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


_KEPT = (
    '<section class="card kept"><h2>What you typed</h2><p class="muted">It was not sent. Copy what you need.</p>'
    "{texts}</section>"
)
_KEPT_TEXT = '<textarea readonly rows="4" aria-label="{label}">{text}</textarea>'


def kept_part(form: Mapping[str, str]) -> Safe:
    """What a form brought that was refused, where its ticket has no form any more."""
    typed = [(label, form.get(name, "")) for name, label in (("text", "Your answer"), ("reason", "Your reason"))]
    texts = join(html(_KEPT_TEXT, label=label, text=text) for label, text in typed if text.strip())
    return html(_KEPT, texts=texts) if texts else Safe("")


_WHY = '<section class="card why"><h2>Why a person</h2><p>{sentence}</p>{table}<p class="muted">{footer}</p></section>'


def why_part(view: TicketView) -> Safe:
    """Why the policy or a rule chose a person: a sentence and the terms of the decision."""
    why = view.why
    if why is None:
        return Safe("")
    rule = "This was the only agent left: the others were excluded." if why.propensity >= 1.0 else ""
    sentence = _RULES.get(why.by) or rule or f"The policy drew this agent with probability {why.propensity:.2f}."
    footer = "score = estimate + exploration − λ·W − cost; W is the distance to what the task wants."
    return html(_WHY, sentence=sentence, table=terms_table(why, view.agent), footer=footer)
