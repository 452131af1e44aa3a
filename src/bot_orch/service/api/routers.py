"""``/v1/routers``: the routers of a service with several."""

from __future__ import annotations

import msgspec

from bot_orch.service.api.bodies import RouterView
from bot_orch.service.cluster.forwarding import alone, process_name
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.router_selection import ROUTER_PATH

__all__ = ["listing"]

_VIEWS = msgspec.json.Decoder(list[RouterView])


async def listing(request: Request) -> Reply:
    """``GET /v1/routers``: those that the caller's token may use, the default one first."""
    runtime, caller = request.runtime, request.caller
    every = runtime.peers or {runtime.config.name: runtime}
    default = next(iter(every))
    here = {name: each for name, each in every.items() if not (each.away and alone(request.headers))}
    views = {name: _view(name, each, default=name == default, counts=not caller.tenant) for name, each in here.items()}
    if runtime.forwarder is not None and not alone(request.headers):
        for said in await runtime.forwarder.ask("GET", request.path, request.headers):
            if said.status == 200:
                views.update((each.name, each) for each in _VIEWS.decode(said.body) if each.name in views)
    return json_reply([view for name, view in views.items() if caller.may_use(name)])


def _view(name: str, runtime: Runtime, *, default: bool, counts: bool) -> RouterView:
    """One router; tenants are not told how much others use it."""
    several, loaded = bool(runtime.peers), runtime.loaded
    return RouterView(
        name=name,
        default=default,
        path=f"{ROUTER_PATH}{name}" if several else "",
        model=f"auto:{name}" if several else "auto",
        agents=[agent.id for agent in runtime.config.agents],
        ready=runtime.ready,
        decisions=None if not counts else runtime.ledger.router.rounds if loaded else 0,
        pending=None if not counts else len(runtime.ledger.pending) if loaded else 0,
        process=process_name() if counts and runtime.forwarder is not None and not runtime.away else None,
    )
