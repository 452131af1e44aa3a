"""One self-contained HTML page: league table, every data set, learning curves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.files import write_atomically
from bot_orch.lab.arena.comparison import ArenaVerdict
from bot_orch.lab.arena.conditions.tables import conditions_part, without_conditions
from bot_orch.lab.arena.league import Results, Standing, draws_with_best, league, mean_std
from bot_orch.lab.arena.plane import draw_plane, has_plane
from bot_orch.lab.arena.plots import draw_curves, draw_league, draw_set
from bot_orch.lab.arena.registry import BASELINES, discover_entrants
from bot_orch.lab.arena.verdict_part import verdict_part
from bot_orch.lab.harness.facts import machine_facts
from bot_orch.lab.harness.figures import save_figure
from bot_orch.lab.harness.frame import Chapter, facts_table, figure_html, fold, html_page
from bot_orch.lab.harness.runner import Progress

__all__ = ["write_page"]

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
_DIGITS = {"par10": 0, "cost_usd": 6, "mean_observed_time": 2}


def write_page(
    out: Path, results: Results, command: str, *, progress: Progress, verdicts: Sequence[ArenaVerdict] = ()
) -> Path:
    """Draw the figures, write ``index.html`` and return its path."""
    under, results = conditions_part(results), without_conditions(results)
    orders = list(dict.fromkeys(key[1] for key in results))
    kinds = {key[2]: payload["kind"] for key, payload in results.items()}
    figures = sum((2 if league(results, order) else 0) + len(_datasets(results, order)) for order in orders)
    planes = [(dataset, order) for order in orders for dataset in _datasets(results, order)]
    planes = [place for place in planes if has_plane(results, *place)]
    draw = _Drawer(out, progress, figures + len(planes))
    shown = {place: _plane(results, *place, index=index, draw=draw) for index, place in enumerate(planes)}
    parts = [_TITLE, verdict_part(verdicts, shown), _INTRO]
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
    progress(figures + len(planes), figures + len(planes), "drawn")
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
    standings = league(results, order)
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
            _set_table(results, order, [s.policy for s in standings]),
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
    entrants, several = discover_entrants(), any(s.sets > 1 for s in standings)
    lines = []
    for place, s in enumerate(standings, 1):
        about = escape(entrants[s.policy].about) if s.policy in entrants else ""
        lines.append(
            f"<tr><td>{place}</td><th style=text-align:left>{escape(s.policy)}</th><td>{kinds[s.policy]}</td>"
            f"<td>{s.mean:.3f} ± {s.error:.3f}</td>"
            f"{_among_sets(s) if several else ''}<td>{about}</td></tr>"
        )
    head = "<tr><th></th><th>policy</th><th></th><th>mean normalised ± s.e.</th>"
    head += "<th>best or draw</th><th>worst set</th>" if several else ""
    return f"<div class=scroll><table class=summary>{head}<th>settings</th></tr>{''.join(lines)}</table></div>"


def _among_sets(s: Standing) -> str:
    return f"<td>{s.best_or_draw} of {s.sets}</td><td>{_two_digits(s.worst)}</td>"


def _set_table(results: Results, order: str, policies: Sequence[str]) -> str:
    lines = []
    for dataset in _datasets(results, order):
        values = {
            policy: np.asarray(results[dataset, order, policy]["metrics"]["normalised"], dtype=float)
            for policy in policies
            if "normalised" in results.get((dataset, order, policy), {"metrics": {}})["metrics"]
        }
        best = draws_with_best(values) if values else set()
        cells = "".join(_shaded(values.get(policy), policy in best) for policy in policies)
        lines.append(f"<tr><th>{escape(dataset)}</th>{cells}</tr>")
    head = "".join(f"<th>{escape(policy)}</th>" for policy in policies)
    return f"<div class=scroll><table><tr><th>data set</th>{head}</tr>{''.join(lines)}</table></div>"


def _shaded(values: Any, best: bool) -> str:
    if values is None:
        return "<td></td>"
    shade = ' class="in"' if best else ""
    return f"<td{shade}>{_two_digits(values.mean())}</td>"


def _two_digits(value: float) -> str:
    return f"{round(float(value), 2) + 0.0:.2f}"  # zero without a sign


def _metric_table(results: Results, dataset: str, order: str) -> str:
    rows = {key[2]: payload["metrics"] for key, payload in results.items() if key[:2] == (dataset, order)}
    metrics = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = []
    for policy, row in rows.items():
        cells = "".join(_cell(row.get(metric), _DIGITS.get(metric, 3)) for metric in metrics)
        lines.append(f"<tr><th>{escape(policy)}</th>{cells}</tr>")
    head = "".join(f"<th>{escape(metric)}</th>" for metric in metrics)
    return f"<div class=scroll><table><tr><th>policy</th>{head}</tr>{''.join(lines)}</table></div>"


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
