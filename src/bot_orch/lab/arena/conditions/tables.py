"""Tables of conditions: one per condition, data sets by policies."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.arena.conditions.catalog import CONDITIONS, PLAIN
from bot_orch.lab.arena.league import Results, draws_with_best, stage_of

__all__ = ["conditions_part", "normalised_under", "played_conditions", "without_conditions"]

_HEAD = (
    '<section id="conditions"><h2>Conditions</h2><p>The same tasks under conditions, each a change of the replay that '
    "every policy meets alike; our policies play through <code>decide</code>, <code>observe</code> and "
    "<code>expire</code> of an orchestrator. Normalised reward; where agents change on the way, 1 is the best single "
    'agent of every phase. <span class="in">Green</span>: best, or within one standard error of the best.</p>'
)


def played_conditions(results: Results) -> list[tuple[str, str]]:
    """(order, condition) of a run in the order played, without ``plain``."""
    found = dict.fromkeys(stage_of(key[1]) for key in results)
    return [each for each in found if each[1] != PLAIN]


def without_conditions(results: Results) -> Results:
    """The results of the replay as it is."""
    return {key: payload for key, payload in results.items() if stage_of(key[1])[1] == PLAIN}


def normalised_under(results: Results, order: str, condition: str) -> dict[str, dict[str, Floats]]:
    """``normalised`` over seeds by data set and policy, baselines left out."""
    table: dict[str, dict[str, Floats]] = {}
    for (dataset, stage, policy), payload in results.items():
        values = payload["metrics"].get("normalised")
        if stage_of(stage) == (order, condition) and values is not None and payload["kind"] != "baseline":
            table.setdefault(dataset, {})[policy] = np.asarray(values, dtype=float)
    return table


def conditions_part(results: Results) -> str:
    """The section of the page, empty without conditions."""
    played = played_conditions(results)
    if not played:
        return ""
    parts = [_HEAD]
    for order, condition in played:
        about = CONDITIONS[condition].about if condition in CONDITIONS else ""
        title = condition if order == "shuffled" else f"{condition}, {order} order"
        parts.append(f"<h3>{escape(title)}</h3><p>{escape(about[:1].upper() + about[1:])}.</p>")
        parts.append(_table(normalised_under(results, order, condition)))
        parts.append(_unchanged(results, order, condition))
    return "".join(parts) + "</section>"


def _table(table: dict[str, dict[str, Floats]]) -> str:
    policies = list(dict.fromkeys(policy for values in table.values() for policy in values))
    lines = []
    for dataset, values in table.items():
        best = draws_with_best(values)
        cells = "".join(_cell(values.get(policy), policy in best) for policy in policies)
        lines.append(f"<tr><th>{escape(dataset)}</th>{cells}</tr>")
    means = "".join(_cell(_mean(table, policy), False) for policy in policies)
    head = "".join(f"<th>{escape(policy)}</th>" for policy in policies)
    body = "".join(lines) + f"<tr><th>mean</th>{means}</tr>"
    return f"<div class=scroll><table><tr><th>data set</th>{head}</tr>{body}</table></div>"


def _mean(table: dict[str, dict[str, Floats]], policy: str) -> Floats:
    return np.array([values[policy].mean() for values in table.values() if policy in values])


def _cell(values: Floats | None, best: bool) -> str:
    if values is None or not values.size:
        return "<td></td>"
    shade = ' class="in"' if best else ""
    return f"<td{shade}>{round(float(values.mean()), 2) + 0.0:.2f}</td>"


def _unchanged(results: Results, order: str, condition: str) -> str:
    """Who chose otherwise after a restart."""
    shares: dict[str, list[float]] = {}
    for (_, stage, policy), payload in results.items():
        found: Sequence[float] | None = payload["metrics"].get("unchanged")
        if stage_of(stage) == (order, condition) and found is not None:
            shares.setdefault(policy, []).extend(found)
    if not shares:
        return ""
    other = [f"{escape(policy)} {1.0 - np.mean(v):.3f}" for policy, v in shares.items() if min(v) < 1.0]
    text = f"Share of rounds chosen otherwise: {', '.join(other)}." if other else "Every choice is the same."
    return f"<p>Against the run without restarts: {text}</p>"
