"""Settings that change while the log goes on: agents come and go, lambda moves, a policy is replaced."""

from __future__ import annotations

import json
from typing import Any

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.state import agent_from_dict
from bot_orch.eventlog.events import Configured

__all__ = ["change_to", "reconfigured"]

_LEARNED_UNDER = ("policy", "n_features", "alignment", "reward")  # other settings may change without forgetting


def reconfigured(router: Orchestrator | None, event: Configured) -> Orchestrator:
    """The orchestrator after a change: what was learned and what is awaited stay, unless the event says otherwise."""
    if router is None:
        return Orchestrator.from_json(event.document)
    wanted = json.loads(event.document)
    _change_agents(router, [agent_from_dict(entry) for entry in wanted["state"]["agents"]])
    current = json.loads(router.to_json())
    current["settings"] = wanted["settings"]
    costs = {entry["id"]: entry for entry in wanted["state"]["agents"]}
    current["state"]["agents"] = [costs[entry["id"]] for entry in current["state"]["agents"]]
    if not event.keep_learned:
        fresh = _fresh(wanted, current["state"]["agents"])
        kept = {name: current["state"][name] for name in ("agents", "pending", "rounds", "seq")}
        current["state"] = {**fresh["state"], **kept}
    return Orchestrator.from_json(json.dumps(current))


def change_to(router: Orchestrator | None, wanted: Orchestrator) -> Configured | None:
    """The event that brings ``router`` to the settings of ``wanted``; ``None`` if nothing changes."""
    document = wanted.to_json()
    if router is None:
        return Configured(document)
    old, new = json.loads(router.to_json()), json.loads(document)
    if new["settings"].get("alignment") is None:  # an orchestrator chooses it by the first measure it sees
        new["settings"]["alignment"] = _in_units(old["settings"].get("alignment"), new["settings"]["lambda"])
    document = json.dumps(new)
    same_agents = _by_id(old) == _by_id(new)
    if old["settings"] == new["settings"] and same_agents:
        return None
    keep = all(_without_units(old, name) == _without_units(new, name) for name in _LEARNED_UNDER)
    return Configured(document, keep_learned=keep)


def _in_units(alignment: dict[str, Any] | None, lambda_: float | str) -> dict[str, Any] | None:
    """An alignment that was not configured, as the new lambda wants it."""
    return None if alignment is None else {**alignment, "units": "reference" if lambda_ == "auto" else "native"}


def _without_units(document: dict[str, Any], name: str) -> Any:
    """A setting; what distances are told in does not touch what was learned."""
    value = document["settings"].get(name)
    return {**value, "units": None} if name == "alignment" and value is not None else value


def _by_id(document: dict[str, Any]) -> dict[str, Any]:
    return {entry["id"]: entry for entry in document["state"]["agents"]}


def _change_agents(router: Orchestrator, wanted: list[Any]) -> None:
    names = {agent.id for agent in wanted}
    for agent in wanted:
        if agent.id not in router.agents:
            router.add_agent(agent)
    for name in router.agents:
        if name not in names:
            router.remove_agent(name)


def _fresh(wanted: dict[str, Any], agents: list[dict[str, Any]]) -> dict[str, Any]:
    """A document with nothing learned, for these agents in this order."""
    router = Orchestrator.from_json(json.dumps(wanted))
    ordered = [agent_from_dict(entry) for entry in agents]
    twin = Orchestrator(
        ordered,
        router.policy,
        lambda_=router.lambda_,
        seed=router.seed,
        n_features=router.n_features,
        floor=router.floor,
        alignment=router.alignment,
        reward=router.reward,
    )
    document: dict[str, Any] = json.loads(twin.to_json())
    return document
