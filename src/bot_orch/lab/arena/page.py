"""One self-contained HTML page: league table, every data set, learning curves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.files import write_atomically
from bot_orch.lab.arena.conditions import CONDITIONS, PLAIN
from bot_orch.lab.arena.league import (
    Results,
    Standing,
    draws_with_best,
    league,
    mean_std,
    normalised_under,
    stage_of,
    without_conditions,
)
from bot_orch.lab.arena.plots import draw_curves, draw_league, draw_plane, draw_set, has_plane
from bot_orch.lab.arena.registry import BASELINES, discover_entrants, entrant
from bot_orch.lab.arena.verdict import ArenaVerdict, GainInterval
from bot_orch.lab.harness.figures import save_figure
from bot_orch.lab.harness.frame import Chapter, facts_table, figure_html, fold, html_page, machine_facts, scroll_box
from bot_orch.lab.harness.runner import Progress

_TITLE = "<h1>BOT-Orch: the arena</h1>"
_INTRO = (
    "<h2>How to read it</h2><p>Bandit replay: a policy sees a task's features, chooses an agent and sees only "
    "that agent's outcome. Our policies get features and text as they are and prepare them online; peers bring no "
    "preparation and get features prepared in hindsight, a control that favours them, and the words of texts unless "
    "their settings say that they do not. "
    "<b>normalised</b> = (reward − random) / (best single agent in hindsight − random): 0 is a "
    "random choice, 1 the best single agent, more than 1 is earned by choosing task by task. Every policy meets the "
    'same tasks in the same order, seed by seed. <span class="in">Green</span>: best of the data set, or within one '
    "standard error of the best over paired seeds; in the verdict: better, zero outside the interval. Runtime "
    "sets are learned from through the survival reward "
    "(right-censored at the cutoff, failures as competing risks) and reported as "
    "event · (1 − log(1+t)/log(1+cutoff)).</p>"
)
_NO_LEAGUE = (
    "<p>No data set here has a best single agent that beats a random one, so there is nothing to normalise by and no "
    "league.</p>"
)
_SHADE = {1: ' class="in"', -1: ' class="out"', 0: ""}
_NAMES = {"reward": "reward per task", "cost_usd": "dollars per task", "net": "net of dollars"}
_CONDITIONS = (
    '<section id="conditions"><h2>Conditions</h2><p>The same tasks under conditions, each a change of the replay that '
    "every policy meets alike; our policies play through <code>decide</code>, <code>observe</code> and "
    "<code>expire</code> of an orchestrator. Normalised reward; where agents change on the way, 1 is the best single "
    'agent of every phase. <span class="in">Green</span>: best, or within one standard error of the best.</p>'
)
_DIGITS = {"par10": 0, "cost_usd": 6, "mean_observed_time": 2}


def write_page(
    out: Path, results: Results, command: str, *, progress: Progress, verdicts: Sequence[ArenaVerdict] = ()
) -> Path:
    """Draw the figures, write ``index.html`` and return its path."""
    under, results = _conditions_part(results), without_conditions(results)
    orders = list(dict.fromkeys(key[1] for key in results))
    kinds = {key[2]: payload["kind"] for key, payload in results.items()}
    places = [(dataset, order) for order in orders for dataset in _datasets(results, order)]
    planes = [place for place in places if has_plane(results, *place)]
    figures = 2 * sum(bool(league(results, order)) for order in orders) + len(places) + len(planes)
    draw = _Drawer(out, progress, figures)
    shown = {place: _plane(results, *place, index=index, draw=draw) for index, place in enumerate(planes)}
    parts = [_TITLE, _verdict_part(verdicts, shown), _INTRO]
    parts += [_order_part(results, order, kinds, draw=draw) for order in orders]
    parts.append(under)
    parts.append(_facts(results, command))
    chapters = [
        Chapter(
            order,
            f"{order.capitalize()} order",
            [(f"{order}-{index:02d}", dataset) for index, dataset in enumerate(_datasets(results, order))],
        )
        for order in orders
    ]
    chapters += [Chapter("conditions", "Conditions")] if under else []
    chapters = [*([Chapter("verdict", "Verdict")] if verdicts else []), *chapters]
    write_atomically(out / "index.html", html_page("BOT-Orch: the arena", "".join(parts), chapters))
    progress(figures, figures, "drawn")
    return out / "index.html"


class _Drawer:
    """Saves figures and counts them for the progress bar."""

    def __init__(self, out: Path, progress: Progress, total: int) -> None:
        self._out, self._progress, self._total, self._done = out, progress, total, 0

    def __call__(self, name: str, caption: str, draw: Callable[[], Any]) -> str:
        self._progress(self._done, self._total, f"drawing {name}")
        self._done += 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font does not have
            paths = save_figure(draw, self._out / "figures" / name)
        return figure_html(name, caption, paths)


def _order_part(results: Results, order: str, kinds: dict[str, str], *, draw: _Drawer) -> str:
    standings, found = league(results, order), normalised_under(results, order)
    parts = [f'<section id="{order}"><h2>{order.capitalize()} order</h2>']
    if standings:
        parts += [
            _league_table(standings, kinds),
            draw(
                f"league-{order}",
                f"League, {order} order. Hatched: peers.",
                partial(draw_league, standings, kinds, order),
            ),
            "<h3>normalised, by data set</h3>",
            _normalised_table(
                {dataset: found.get(dataset, {}) for dataset in _datasets(results, order)},
                [s.policy for s in standings],
            ),
            draw(
                f"curves-{order}",
                f"Normalised reward so far, {order} order, leaders of the league. Dotted: best single, random.",
                partial(draw_curves, results, standings, order),
            ),
        ]
    else:
        parts.append(_NO_LEAGUE)
    for index, dataset in enumerate(_datasets(results, order)):
        caption = f"{dataset}, {order} order: normalised reward and shares of agents."
        figure = draw(f"set-{order}-{index:02d}", caption, partial(draw_set, results, dataset, order))
        table = _metric_table(results, dataset, order)
        parts.append(fold(escape(dataset), figure + table, ident=f"{order}-{index:02d}"))
    return "".join(parts) + "</section>"


def _plane(results: Results, dataset: str, order: str, *, index: int, draw: _Drawer) -> str:
    caption = (
        f"{dataset}, {order} order: reward against dollars per task. Above the dashed line: more than any fixed mix of "
        "agents earns for the same money. White: baselines."
    )
    return draw(f"plane-{order}-{index:02d}", caption, partial(draw_plane, results, dataset, order))


def _league_table(standings: Sequence[Standing], kinds: dict[str, str]) -> str:
    known, several = discover_entrants(), any(s.sets > 1 for s in standings)
    lines = []
    for place, s in enumerate(standings, 1):
        about = escape(entrant(s.policy).about) if s.policy.partition("@")[0] in known else ""
        among = f"<td>{s.best_or_draw} of {s.sets}</td><td>{_two_digits(s.worst)}</td>" if several else ""
        lines.append(
            f"<tr><td>{place}</td><th style=text-align:left>{escape(s.policy)}</th><td>{kinds[s.policy]}</td>"
            f"<td>{s.mean:.3f} ± {s.error:.3f}</td>{among}<td>{about}</td></tr>"
        )
    head = "<tr><th></th><th>policy</th><th></th><th>mean normalised ± s.e.</th>"
    head += "<th>best or draw</th><th>worst set</th>" if several else ""
    return scroll_box(f"<table class=summary>{head}<th>settings</th></tr>{''.join(lines)}</table>")


def _normalised_table(table: Mapping[str, Mapping[str, Floats]], policies: Sequence[str], *, mean: bool = False) -> str:
    """Table of data sets by policies, with the best of each shaded."""
    lines = []
    for dataset, values in table.items():
        best = draws_with_best(values) if values else set()
        lines.append((dataset, [_shaded(values.get(policy), policy in best) for policy in policies]))
    if mean:
        means = [np.array([v[name].mean() for v in table.values() if name in v]) for name in policies]
        lines.append(("mean", [_shaded(each, False) for each in means]))
    return _table("data set", [f"<th>{escape(policy)}</th>" for policy in policies], lines)


def _table(corner: str, head: Sequence[str], lines: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A table of cells in HTML, each line with its name."""
    rows = "".join(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>" for name, cells in lines)
    return scroll_box(f"<table><tr><th>{corner}</th>{''.join(head)}</tr>{rows}</table>")


def _conditions_part(results: Results) -> str:
    """The section on conditions, empty without any."""
    played = [each for each in dict.fromkeys(stage_of(key[1]) for key in results) if each[1] != PLAIN]
    if not played:
        return ""
    parts = [_CONDITIONS]
    for order, condition in played:
        about = CONDITIONS[condition].about if condition in CONDITIONS else ""
        title = condition if order == "shuffled" else f"{condition}, {order} order"
        parts.append(f"<h3>{escape(title)}</h3><p>{escape(about[:1].upper() + about[1:])}.</p>")
        table = normalised_under(results, order, condition)
        policies = list(dict.fromkeys(policy for values in table.values() for policy in values))
        remarks = [_unchanged(results, order, condition), _steered(results, order, condition)]
        parts += [_normalised_table(table, policies, mean=True), *remarks]
    return "".join(parts) + "</section>"


def _unchanged(results: Results, order: str, condition: str) -> str:
    """Policies that chose differently after a restart."""
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


def _steered(results: Results, order: str, condition: str) -> str:
    """What steering costs, by data set and policy."""
    lines = []
    for (dataset, stage, policy), payload in results.items():
        found = {name: float(np.mean(values)) for name, values in payload["metrics"].items() if len(values)}
        if stage_of(stage) == (order, condition) and "steered" in found:
            dollars = f"{found['cost_usd_change']:+.3g}" if "cost_usd_change" in found else ""
            shares = [_two_digits(found[name]) for name in ("unsteered", "steered")]
            cells = [f"<td>{each}</td>" for each in (*shares, f"{found['reward_change']:+.4f}", dollars)]
            lines.append((f"{dataset}, {policy}", cells))
    head = "<th>target's share of attacked prompts</th><th>with suffix</th><th>reward per task</th><th>dollars</th>"
    return _table("", [head], lines) if lines else ""


def _shaded(values: Any, best: bool) -> str:
    if values is None or not values.size:
        return "<td></td>"
    shade = ' class="in"' if best else ""
    return f"<td{shade}>{_two_digits(values.mean())}</td>"


def _two_digits(value: float) -> str:
    return f"{round(float(value), 2) + 0.0:.2f}"  # zero without a sign


def _metric_table(results: Results, dataset: str, order: str) -> str:
    rows = {key[2]: payload["metrics"] for key, payload in results.items() if key[:2] == (dataset, order)}
    metrics = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [
        (policy, [_cell(row.get(metric), _DIGITS.get(metric, 3)) for metric in metrics]) for policy, row in rows.items()
    ]
    return _table("policy", [f"<th>{escape(metric)}</th>" for metric in metrics], lines)


def _cell(values: Sequence[float] | None, digits: int) -> str:
    mean, std, _ = mean_std(values or [])
    return "<td></td>" if math.isnan(mean) else f"<td>{mean:.{digits}f} <small>± {std:.{digits}f}</small></td>"


def _facts(results: Results, command: str) -> str:
    yard = "; ".join(f"{name}: {about}" for name, about in BASELINES.items())
    seeds = next((str(len(p["metrics"]["reward"])) for p in results.values()), "0")
    facts = {
        "Command": command,
        **machine_facts(),
        "Seeds": seeds,
        "Rounds": ", ".join(f"{k[0]} {p['rounds']}" for k, p in results.items() if k[2] == "random"),
        "Baselines": yard,
        "± in tables": "standard deviation over seeds; in the league, standard error",
    }
    return facts_table(facts)


def _datasets(results: Results, order: str) -> list[str]:
    return list(dict.fromkeys(key[0] for key in results if key[1] == order))


def _verdict_part(verdicts: Sequence[ArenaVerdict], figures: dict[tuple[str, str], str]) -> str:
    """Sentences and a table per verdict; ``figures`` are pictures by data set and order, shown below the table."""
    if not verdicts:
        return ""
    parts = ['<section id="verdict"><h2>Verdict</h2>']
    for each in verdicts:
        first, _, rest = each.text.partition(". ")
        body = f"{_verdict_table(each)}{figures.get((each.dataset, each.order), '')}"
        if len(verdicts) > 3:
            body = f"<details><summary>every policy</summary>{body}</details>"
        parts.append(f"<p><b>{escape(first)}.</b> {escape(rest)}</p>{body}")
    return "".join(parts) + "</section>"


def _verdict_table(verdict: ArenaVerdict) -> str:
    metrics = list(verdict.differences)
    head = [f"<th>{_NAMES[name]}</th><th>difference [95 %]</th>" for name in metrics]
    now = verdict.baseline if verdict.agent is None else f"{verdict.baseline}: {verdict.agent}"
    base = [f"<td>{_number(verdict.differences[name].baseline, name)}</td><td></td>" for name in metrics]
    ranked = sorted(verdict.policies, key=lambda name: -verdict.policies[name][verdict.metric].policy)
    lines = [(policy, [_gain_cells(verdict.policies[policy][name], name) for name in metrics]) for policy in ranked]
    return _table("policy", head, [(now, base), *lines])


def _gain_cells(d: GainInterval, metric: str) -> str:
    better = -d.sign if metric == "cost_usd" else d.sign
    ends = "" if math.isnan(d.low) else f" [{_signed(d.low, metric)}, {_signed(d.high, metric)}]"
    return f"<td>{_number(d.policy, metric)}</td><td{_SHADE[better]}>{_signed(d.difference, metric)}{ends}</td>"


def _number(value: float, metric: str) -> str:
    return f"{value:.3g}" if metric == "cost_usd" else f"{value:.4f}"


def _signed(value: float, metric: str) -> str:
    return f"{value:+.3g}" if metric == "cost_usd" else f"{value:+.4f}"
