"""Tables as ``pandas.DataFrame`` (extra ``notebook``): decisions, evaluations, spending, an arena's results.

A router's recent rounds are ``router.history().frame()``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bot_orch.display import data_frame
from bot_orch.evaluation import Evaluation, Refusal, evaluate, logged_means
from bot_orch.evaluation.export import COLUMNS, decision_rows
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.spend import SpendKey, spent
from bot_orch.lab.arena.league import league_frame, results_frame
from bot_orch.log.log import Log
from bot_orch.log.stores.open import open_whole

__all__ = [
    "decisions_frame",
    "evaluation_frame",
    "league_frame",
    "logged_frame",
    "opened",
    "results_frame",
    "spend_frame",
]


@contextmanager
def opened(log: Log | str | Path) -> Iterator[Log]:
    """The log itself, or the log at a path or URL, which is closed at the end."""
    if not isinstance(log, str | Path):
        yield log
        return
    found = open_whole(log)
    try:
        yield found
    finally:
        found.close()


def decisions_frame(log: Log | str | Path) -> Any:
    """One row per decision, with the columns of ``bot-orch export``."""
    with opened(log) as source:
        return data_frame([{name: line.get(name) for name in COLUMNS} for line in decision_rows(source)])


def evaluation_frame(log: Log | str | Path, targets: Sequence[str], **settings: Any) -> Any:
    """Off-policy estimates, one row per target and estimator; a target without support has one row and ``refused``.

    ``settings`` are ``confidence``, ``min_effective``, ``max_missing``, ``audited`` and ``paths``, as for
    ``bot-orch evaluate``.
    """
    rows: list[dict[str, Any]] = []
    with opened(log) as source:
        rounds = collect(source)
        for target in targets:
            found = evaluate(rounds, target, **settings)
            if isinstance(found, Refusal):
                rows.append({"target": target, "refused": str(found)})
            else:
                rows += _lines(found)
    return data_frame(rows)


def logged_frame(log: Log | str | Path, *, confidence: float = 0.95) -> Any:
    """Mean reward of all decisions and of each agent's, without weights."""
    with opened(log) as source:
        return data_frame([asdict(each) for each in logged_means(source, confidence=confidence)])


def spend_frame(log: Log | str | Path, by: SpendKey = "token") -> Any:
    """Requests, tokens and dollars by ``token``, ``tag``, ``agent`` or ``day``, as ``bot-orch report`` prints them."""
    with opened(log) as source:
        return data_frame([asdict(each) for each in spent(source, by)])


def _lines(found: Evaluation) -> Iterator[dict[str, Any]]:
    about = {"decisions": found.decisions, "missing": found.missing, "logged_mean": found.logged_mean}
    learned = {"learned": found.learned, "logged_first": found.logged_first}
    for each in found.estimates:
        yield {"target": found.target, **asdict(each), **about, **learned, "refused": None}
