"""The terms of a decision as an HTML table."""

from __future__ import annotations

from bot_orch.service.routing.explanation import AgentTerms, WhyView
from bot_orch.service.web.pages import Safe, html, join

_UNSEEN = 1e6
_HEAD = (
    '<div class="scroll"><table class="terms cards"><thead><tr><th scope="col">Agent</th><th scope="col">p</th>'
    '<th scope="col">Estimate</th><th scope="col">Explore</th><th scope="col">W</th><th scope="col">−λW</th>'
    '{cost}{bias}<th scope="col">Score</th></tr></thead><tbody>{rows}</tbody></table></div>'
)
_ROW = (
    '<tr{mark}><th scope="row">{agent}{excluded}</th><td data-label="p">{p}</td>'
    '<td data-label="Estimate">{estimate}</td><td data-label="Explore">{explore}</td>'
    '<td data-label="W">{distance}</td><td data-label="−λW">{alignment}</td>{cost}{bias}'
    '<td data-label="Score">{score}</td></tr>'
)


def terms_table(why: WhyView, chosen: str) -> Safe:
    """A table of the terms of every agent's score, with the chosen agent marked."""
    priced = any(each.cost for each in why.agents)
    audited = any(each.bias for each in why.agents)
    cost = Safe('<th scope="col">−Cost</th>') if priced else Safe("")
    bias = Safe('<th scope="col">−Bias</th>') if audited else Safe("")
    rows = join(_terms(each, chosen, priced=priced, audited=audited) for each in why.agents)
    return html(_HEAD, cost=cost, bias=bias, rows=rows)


def _terms(each: AgentTerms, chosen: str, *, priced: bool, audited: bool) -> Safe:
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
        cost=html('<td data-label="−Cost">{cost}</td>', cost=number(0.0 - each.cost, 2)) if priced else Safe(""),
        bias=html('<td data-label="−Bias">{bias}</td>', bias=number(0.0 - each.bias, 2)) if audited else Safe(""),
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
