"""Converts outcomes of a log to evaluations, for the warm start of another router."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from bot_orch.core.events import DecisionMade, EvaluationsGiven, FeedbackGiven
from bot_orch.core.text import TextFeatures
from bot_orch.errors import InvalidInputError
from bot_orch.log.log import Log
from bot_orch.log.stores.open import open_whole


def outcomes_in(log: Log | str | Path, *, among: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Records with ``agent``, ``reward``, ``features``, their ``names`` and ``encoder``: the last reward of a decision.

    Parameters
    ----------
    log
        A log, or the path of one.
    among
        Names of agents; decisions for others are left out.
    """
    if isinstance(log, str | Path):
        opened = open_whole(log)
        try:
            return outcomes_in(opened, among=among)
        finally:
            opened.close()
    made: dict[str, dict[str, Any]] = {}
    names: tuple[str, ...] = ()
    for row in log.read():
        if row.holds(DecisionMade) or row.holds(FeedbackGiven) or row.holds(EvaluationsGiven):
            event: Any = row.event()
            names = getattr(event, "names", ()) or names
            _take(made, event)
    records = [each for each in made.values() if "reward" in each and (among is None or each["agent"] in among)]
    if not records:
        raise InvalidInputError("log", "holds no reward of these agents", "pass a log with outcomes of the same agents")
    if not any(each["features"] for each in records):
        return [{"agent": each["agent"], "reward": each["reward"]} for each in records]
    records = _with_empty_texts(records)
    return [{**each, "names": names} for each in records] if names else records


def _with_empty_texts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pad records from before the first text with zeros, as the router does."""
    encoded = next((each for each in records if each["encoder"]), None)
    if encoded is None:
        return records
    width = TextFeatures.parse(encoded["encoder"]).width
    own, empty = len(encoded["features"]) - width, (0.0,) * width
    return [
        each
        if each["encoder"]
        else each | {"features": (*each["features"][:own], *empty), "encoder": encoded["encoder"]}
        for each in records
    ]


def _take(made: dict[str, dict[str, Any]], event: Any) -> None:
    if isinstance(event, DecisionMade):
        made[event.id] = {"agent": event.agent, "features": event.seen(), "encoder": event.encoder}
    elif isinstance(event, FeedbackGiven) and event.reward is not None and event.decision_id in made:
        made[event.decision_id]["reward"] = event.reward
