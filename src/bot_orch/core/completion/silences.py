"""Recent decisions that ended without a reward, or with a provisional one: a later reward replaces their lesson."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from bot_orch.arrays import nan_for_null, null_for_nan
from bot_orch.core.completion.model import OutcomeEffect
from bot_orch.types import Decision, RandomKey, Terms

#: How many decisions without a reward, and with a provisional one, are kept; the oldest is forgotten first.
REMEMBERED, PROVISIONAL = 1024, 4096


@dataclass(frozen=True, slots=True, eq=False)
class Silence:
    """A decision that ended without a final reward, and all that is needed to replace its lesson.

    Parameters
    ----------
    decision
        The decision, reduced to what learning needs.
    effect
        What its outcome changed, to be undone.
    position
        Number of lessons of the agent when this one was learned, for policies that forget.
    paid
        Whether its dollar cost was reported.
    shown
        Whether its output was learned.
    elapsed_s
        Seconds until observation ended, where seconds or constraints count.
    judge
        Name of the judge that gave a provisional reward, if it has one.
    """

    decision: Decision
    effect: OutcomeEffect
    _: KW_ONLY
    position: float
    paid: bool
    shown: bool = False
    elapsed_s: float | None = None
    judge: str = ""


def remember(silences: dict[str, Silence], silence: Silence, most: int = REMEMBERED) -> None:
    """Store a silence; drop the oldest beyond ``most``."""
    silences[silence.decision.id] = replace(silence, decision=_slim(silence.decision))
    if len(silences) > most:
        del silences[next(iter(silences))]


def silence_to_dict(silence: Silence) -> dict[str, Any]:
    """JSON values; :func:`silence_from_dict` is the inverse."""
    decision = silence.decision
    claims = null_for_nan(decision.claims)
    return {
        "id": decision.id,
        "task_id": decision.task_id,
        "agent": decision.agent,
        "agents": list(decision.agents),
        "propensities": decision.propensities.tolist(),
        "penalty": decision.terms.alignment.tolist(),
        "counter": decision.key.counter,
        "features": null_for_nan(decision.features),
        **({"claims": claims} if claims else {}),
        **({"encoder": decision.encoder} if decision.encoder else {}),
        "taken": silence.effect.to_list(),
        "position": silence.position,
        "paid": silence.paid,
        **({"shown": True} if silence.shown else {}),
        **({"audit": True} if decision.audit else {}),
        **({} if silence.elapsed_s is None else {"elapsed_s": silence.elapsed_s}),
        **({"judge": silence.judge} if silence.judge else {}),
    }


def silence_from_dict(document: dict[str, Any]) -> Silence:
    """The inverse of :func:`silence_to_dict`."""
    decision = Decision(
        document["id"],
        document["task_id"],
        document["agent"],
        tuple(document["agents"]),
        np.array(document["propensities"], dtype=float),
        _only(np.array(document["penalty"], dtype=float)),
        "",
        0.0,
        0,
        RandomKey(0, document["counter"]),
        nan_for_null(document["features"]),
        nan_for_null(document.get("claims", ())),
        document.get("encoder", ""),
        audit=document.get("audit", False),
    )
    effect, shown = OutcomeEffect.from_list(document["taken"]), document.get("shown", False)
    rest = {"position": document["position"], "paid": document["paid"], "shown": shown}
    return Silence(decision, effect, **rest, elapsed_s=document.get("elapsed_s"), judge=document.get("judge", ""))


def _slim(decision: Decision) -> Decision:
    """The decision reduced to the fields that learning needs."""
    terms, key = _only(decision.terms.penalty()), RandomKey(0, decision.key.counter)
    p = decision.propensities
    head = (decision.id, decision.task_id, decision.agent, decision.agents)
    known = (decision.features, decision.claims, decision.encoder)
    return Decision(*head, p, terms, "", 0.0, 0, key, *known, audit=decision.audit)


def _only(penalty: Any) -> Terms:
    nothing = np.zeros_like(penalty)
    return Terms(nothing, nothing, nothing, penalty, nothing)
