"""The verdict on the page: in words, then every policy against what is done now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bot_orch.lab.arena.comparison import ArenaVerdict, GainInterval

__all__ = ["verdict_part"]

_SHADE = {1: ' class="in"', -1: ' class="out"', 0: ""}
_NAMES = {"reward": "reward per task", "cost_usd": "dollars per task", "net": "net of dollars"}


def verdict_part(verdicts: Sequence[ArenaVerdict], figures: dict[tuple[str, str], str]) -> str:
    """Sentences and a table per verdict; ``figures`` are pictures by data set and order, shown below the table."""
    if not verdicts:
        return ""
    parts = ['<section id="verdict"><h2>Verdict</h2>']
    for each in verdicts:
        first, _, rest = each.text.partition(". ")
        body = f"{_table(each)}{figures.get((each.dataset, each.order), '')}"
        if len(verdicts) > 3:
            body = f"<details><summary>every policy</summary>{body}</details>"
        parts.append(f"<p><b>{escape(first)}.</b> {escape(rest)}</p>{body}")
    return "".join(parts) + "</section>"


def _table(verdict: ArenaVerdict) -> str:
    metrics = list(verdict.differences)
    head = "".join(f"<th>{_NAMES[name]}</th><th>difference [95 %]</th>" for name in metrics)
    now = verdict.baseline if verdict.agent is None else f"{verdict.baseline}: {verdict.agent}"
    base = "".join(f"<td>{_number(verdict.differences[name].baseline, name)}</td><td></td>" for name in metrics)
    lines = [f"<tr><th>{escape(now)}</th>{base}</tr>"]
    ranked = sorted(verdict.policies, key=lambda name: -verdict.policies[name][verdict.metric].policy)
    for policy in ranked:
        cells = "".join(_cells(verdict.policies[policy][name], name) for name in metrics)
        lines.append(f"<tr><th>{escape(policy)}</th>{cells}</tr>")
    return f"<div class=scroll><table><tr><th>policy</th>{head}</tr>{''.join(lines)}</table></div>"


def _cells(d: GainInterval, metric: str) -> str:
    better = -d.sign if metric == "cost_usd" else d.sign
    ends = "" if math.isnan(d.low) else f" [{_signed(d.low, metric)}, {_signed(d.high, metric)}]"
    return f"<td>{_number(d.policy, metric)}</td><td{_SHADE[better]}>{_signed(d.difference, metric)}{ends}</td>"


def _number(value: float, metric: str) -> str:
    return f"{value:.3g}" if metric == "cost_usd" else f"{value:.4f}"


def _signed(value: float, metric: str) -> str:
    return f"{value:+.3g}" if metric == "cost_usd" else f"{value:+.4f}"
