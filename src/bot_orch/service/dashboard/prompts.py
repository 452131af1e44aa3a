"""Kinds of prompts as rows: which agents get them, what they earn and cost, how often a second agent is asked.

These kinds are found by the router from features, texts and outcomes
(:meth:`~bot_orch.core.orchestrator.Orchestrator.kind_of`); clients name the ``kind`` of a task themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.core.events import DecisionMade
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import Difference
from bot_orch.evaluation.rounds import LoggedRounds
from bot_orch.evaluation.savings import ServedRequests, compare, dollars
from bot_orch.service.dashboard.agents import swatch
from bot_orch.service.web.pages import Safe, html, join
from bot_orch.service.web.terms import number
from bot_orch.types import Task

_AGENTS_SHOWN = 3
_RARE = 0.02  # share of the requests below which kinds are one row
_CARD = (
    '<section class="card" id="prompts"><h2>Kinds of prompts <small class="muted">'
    "found by the router from prompts and outcomes; of the newest events</small></h2>"
    '<table class="prompts cards"><thead><tr><th scope="col">Kind</th><th scope="col">Requests</th>'
    '<th scope="col">Answered by</th><th scope="col">Reward</th><th scope="col">$ each</th>'
    '<th scope="col">Second agent</th><th scope="col">{saved}</th></tr></thead><tbody>{rows}</tbody></table></section>'
)
_ROW = (
    '<tr><th scope="row"><a href="/decisions/{example}" title="the newest of these requests">{name}</a></th>'
    '<td data-label="Requests">{requests}</td><td data-label="Answered by">{agents}</td>'
    '<td data-label="Reward">{reward}</td><td data-label="$ each">{usd}</td>'
    '<td data-label="Second agent">{again}</td><td data-label="{label}">{saved}</td></tr>'
)
_AGENT = '<span class="share">{swatch}{agent} {share}</span>'


@dataclass(frozen=True, slots=True)
class PromptKind:
    """Requests of one kind: ``shares`` of the agents that answered, largest first; means per request, None if unknown.

    ``kind`` is its number, None for all rare kinds together.
    ``again`` is the share of requests for which a second agent was asked, ``saved`` the dollars per request less those
    of the baseline, with its interval, ``example`` the newest decision.
    """

    kind: int | None
    requests: int
    shares: Sequence[tuple[int, str, float]]
    _: KW_ONLY
    reward: float | None
    usd: float | None
    again: float
    saved: Difference | None
    example: str


def prompt_kinds(
    rounds: LoggedRounds, requests: ServedRequests, *, router: Orchestrator, baseline: str | None
) -> list[PromptKind]:
    """The kinds of a log's requests as the router sees them now, most frequent first, rare ones last as one row.

    Empty before the router finds any.
    """
    asked: dict[str, list[DecisionMade]] = {}
    for event in rounds.made:
        asked.setdefault(event.round or event.id, []).append(event)
    found = [found_kind(router, asked[one][0].given()) for one in requests.ids]
    counts = Counter(kind for kind in found if kind is not None)
    usual = [kind for kind, count in counts.most_common() if count >= _RARE * counts.total()]
    of = np.array([-1 if kind is None else usual.index(kind) if kind in usual else len(usual) for kind in found])
    rows = [_kind(kind, of == row, requests, asked, baseline) for row, kind in enumerate(usual)]
    rare = of == len(usual)
    return [*rows, _kind(None, rare, requests, asked, baseline)] if rare.any() else rows


def found_kind(router: Orchestrator, task: Task) -> int | None:
    """The kind that the router puts a task into now, if it can."""
    try:
        return router.kind_of(task)
    except InvalidInputError:  # it has other numbers than now, as before a change of the encoder
        return None


def _kind(
    kind: int | None,
    rows: Bools,
    requests: ServedRequests,
    asked: Mapping[str, Sequence[DecisionMade]],
    baseline: str | None,
) -> PromptKind:
    mine = requests.only(rows)
    chains = [asked[one] for one in mine.ids]
    answered = Counter(chain[-1].agent for chain in chains)
    compared = None if baseline not in mine.agents else compare(mine, str(baseline))
    return PromptKind(
        kind,
        len(mine),
        [(requests.agents.index(name), name, count / len(mine)) for name, count in answered.most_common()],
        reward=_mean(mine.served["reward"]),
        usd=_mean(mine.served["usd"]),
        again=sum(sum(event.action != "accept" for event in chain) > 1 for chain in chains) / len(mine),
        saved=None if compared is None else compared.differences.get("usd"),
        example=mine.ids[-1],
    )


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def prompts_part(rows: Sequence[PromptKind], baseline: str | None) -> Safe:
    """The table; empty without kinds."""
    if not rows:
        return Safe("")
    saved = f"$ saved against {baseline}" if baseline else "$ saved"
    return html(_CARD, saved=saved, rows=join(_row(each, saved) for each in rows))


def _row(row: PromptKind, label: str) -> Safe:
    shown, rest = row.shares[:_AGENTS_SHOWN], row.shares[_AGENTS_SHOWN:]
    agents = [html(_AGENT, swatch=swatch(at), agent=name, share=f"{100 * share:.0f} %") for at, name, share in shown]
    if rest:
        agents.append(html(_AGENT, swatch=swatch(None), agent=f"{len(rest)} more", share=f"{_percent(rest)} %"))
    return html(
        _ROW,
        example=row.example,
        name="Rare kinds" if row.kind is None else f"Kind {row.kind}",
        requests=f"{row.requests:,}",
        agents=join(agents),
        reward="–" if row.reward is None else number(row.reward, 2),
        usd="–" if row.usd is None else f"${dollars(row.usd)}",
        again=f"{100 * row.again:.0f} %" if row.again else "–",
        label=label,
        saved=_saved(row.saved),
    )


def _percent(shares: Sequence[tuple[int, str, float]]) -> str:
    return f"{100 * sum(share for _, _, share in shares):.0f}"


def _saved(found: Difference | None) -> str:
    """Dollars saved per request with half the width of the interval."""
    if found is None:
        return "–"
    half = 0.5 * (found.high - found.low)
    return f"{dollars(-found.value, half)} ± {dollars(half)}"
