"""Health, metrics, agents and their reset, state and the kill switch."""

from __future__ import annotations

import asyncio

from bot_orch.core.events import Noted
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.log.ledger import fingerprint
from bot_orch.log.rollout import DRAINED, RESUMED
from bot_orch.service.api.bodies import AgentView, KillSwitchRequest, ReloadView, StateView
from bot_orch.service.cluster.forwarding import alone, process_name
from bot_orch.service.metrics import exposition, merged
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Request

#: Topic of the note that an agent was reset.
RESET = "agent.reset"


async def live(_: Request) -> Reply:
    """``GET /health/live``: the process answers."""
    return json_reply({"status": "live"})


async def ready(request: Request) -> Reply:
    """``GET /health/ready``: the log has taken a write within the last seconds."""
    runtime = request.runtime
    forwarder = runtime.forwarder
    if forwarder is not None:
        forwarder.check()
    if not runtime.away:
        runtime.check_loaded()
        if not await runtime.writer.confirm():
            why = runtime.writer.failed or "none was committed in the last seconds"
            raise Problem(503, "not_ready", f"the log does not take writes ({why})", headers={"retry-after": "1"})
    if forwarder is not None and not alone(request.headers):
        for said in await forwarder.ask("GET", request.path, request.headers, near=True):
            if said.status != 200:
                raise Problem(503, "not_ready", "another worker is not ready", headers={"retry-after": "1"})
    return json_reply({"status": "ready"})


async def metrics(request: Request) -> Reply:
    """``GET /metrics``: those of this process and of the workers behind its port."""
    runtime, forwarder = request.runtime, request.runtime.forwarder
    passed_on = [] if forwarder is None else [forwarder.counts]
    text = exposition([*passed_on, runtime.metrics], _gauges(runtime) if runtime.loaded else {})
    if forwarder is not None and not alone(request.headers):
        others = await forwarder.ask("GET", request.path, request.headers, near=True)
        text = merged([text, *(said.body.decode() for said in others if said.status == 200)])
    return Reply(200, text.encode(), [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])


def _gauges(runtime: Runtime) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Values that are read at the time of the request."""
    writer, ledger = runtime.writer, runtime.ledger
    states = ("closed", "open", "half_open")
    circuit: list[tuple[dict[str, str], float]] = []
    for name, guard in runtime.guards.items():
        now = str(guard.breaker.state).replace("-", "_")
        circuit += [({"agent": name, "state": state}, float(now == state)) for state in states]
    return {
        "bot_orch_ready": [({}, float(runtime.ready and writer.fresh))],
        "bot_orch_log_events": [({}, float(ledger.seq))],
        "bot_orch_log_groups": [({}, float(writer.groups))],
        "bot_orch_pending_decisions": [({}, float(len(ledger.pending)))],
        "bot_orch_open_tasks": [({}, float(len(ledger.tasks)))],
        "bot_orch_spent_last_day_usd": [({}, ledger.spending.recent(writer.now_us(), 86_400.0))],
        "bot_orch_circuit_state": circuit,
        "bot_orch_budget_used": _budgets(runtime),
        "bot_orch_drift_alarms": [
            *(({"agent": name}, float(count)) for name, count in ledger.router.drift_alarms().items()),
            ({"agent": ""}, float(ledger.router.task_drift_alarms())),
        ],
        "bot_orch_judge_bias": [({"agent": name}, bias) for name, bias in runtime.events.biases.items()],
        **_guarantee(ledger.router),
        "bot_orch_calls_in_flight": [({"agent": n}, float(g.view().in_flight)) for n, g in runtime.guards.items()],
    }


def _budgets(runtime: Runtime) -> list[tuple[dict[str, str], float]]:
    """The used share of the router's budget, and of each token with a limit on dollars."""
    now_us, budget = runtime.writer.now_us(), runtime.config.router.budget
    dollars: list[tuple[str, float, float]] = []
    if budget.window_usd is not None:
        dollars.append(("router", runtime.ledger.spending.recent(now_us, budget.window_s), budget.window_usd))
    dollars += [(f"token {name}", used, most) for name, used, most in runtime.usage.spent(now_us)]
    return [({"of": name}, used / most if most > 0 else 1.0) for name, used, most in dollars]


def _guarantee(router: Orchestrator) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The certificate of the guarantee; nothing without one."""
    found, promised = router.certificate(), router.settings.guarantee
    if found is None or promised is None:
        return {}
    others = [name for name in router.agents if name != promised.baseline]
    held = [({"agent": name}, float(not found.serves_others or name in found.held_back)) for name in others]
    return {
        "bot_orch_guarantee_credit": [({}, found.credit)],
        "bot_orch_guarantee_loss_bound": [({}, found.loss_bound)],
        "bot_orch_guarantee_held_back": held,
    }


async def agents(request: Request) -> Reply:
    """``GET /v1/agents``: the agents and the state of their circuit breakers."""
    runtime = request.runtime
    kinds = {agent.id: agent.kind for agent in runtime.config.agents}
    caps = runtime.caps
    views = [guard.view() for guard in request.runtime.guards.values()]
    return json_reply(
        [
            AgentView(
                id=view.agent,
                kind=kinds[view.agent],
                circuit=str(view.breaker.state),
                available=view.available,
                in_flight=view.in_flight,
                concurrency=view.concurrency,
                waiting=view.waiting,
                held_s=view.held_s,
                reason=view.reason,
                retry_in_s=view.retry_in_s,
                draining=view.agent in runtime.ledger.rollout.drained,
                canary_share=caps.get(view.agent),
            )
            for view in views
        ]
    )


async def reset(request: Request) -> Reply:
    """``POST /v1/admin/agents/{id}/reset``: end a hold and close the circuit breaker."""
    runtime, name = request.runtime, request.params["id"]
    guard = runtime.guards.get(name)
    if guard is None:
        raise Problem(404, "unknown_agent", "there is no such agent; see /v1/agents")
    note = Noted(RESET, name, {"by": request.caller.name})
    await runtime.writer.stage(runtime.writer.stamp(), note, name).durable()
    guard.reset()
    return json_reply({"agent": name, "available": guard.available})


async def kill_switch(request: Request) -> Reply:
    """``POST /v1/admin/kill-switch``."""
    body: KillSwitchRequest = request.body
    if body.agent is not None and body.agent not in request.runtime.ledger.router.agents:
        names = ", ".join(request.runtime.ledger.router.agents)
        raise Problem(422, "unknown_agent", f"agent: is not an agent; choose from {names}", param="agent")
    await request.runtime.kill_switch(body.agent, request.caller.name).durable()
    return json_reply({"kill_switch": body.agent})


async def reload(request: Request) -> Reply:
    """``POST /v1/admin/reload``: every process of the service reads its configuration file again and applies it."""
    if request.runtime.reload is None:
        raise Problem(409, "no_file", "this service was not started from a file; restart it")
    found = await request.runtime.reload()
    forwarder = request.runtime.forwarder
    if forwarder is not None and not alone(request.headers):
        others = await forwarder.ask("POST", request.path, request.headers)
        if any(said.status != 200 for said in others):
            raise Problem(503, "not_reloaded", "another process did not reload; its log has details, try again")
    return json_reply(ReloadView(changed=found.changed, after_restart=found.after_restart))


async def state(request: Request) -> Reply:
    """``GET /v1/admin/state``: the state, once everything staged is durable."""
    runtime = request.runtime
    await runtime.writer.barrier()
    ledger = runtime.ledger
    time_us, pending = ledger.time_us, len(ledger.pending)
    seq, found = ledger.seq, await asyncio.to_thread(fingerprint, ledger.capture())
    return json_reply(
        StateView(
            process=process_name(),
            seq=seq,
            time_us=time_us,
            fingerprint=found,
            pending=pending,
            kill_switch=ledger.kill_switch,
            spent_usd=ledger.spending.recent(runtime.writer.now_us(), 86_400.0),
        )
    )


async def drain(request: Request) -> Reply:
    """``POST /v1/admin/agents/{id}/drain``: stop sending work to the agent; calls in progress continue."""
    return await _note(request, DRAINED)


async def resume(request: Request) -> Reply:
    """``POST /v1/admin/agents/{id}/resume``."""
    return await _note(request, RESUMED)


async def _note(request: Request, topic: str) -> Reply:
    """Log the change unless it is already in effect; the next start, or the next owner, reads it from the log."""
    runtime, name = request.runtime, request.params["id"]
    if name not in runtime.ledger.router.agents:
        raise Problem(404, "unknown_agent", "there is no such agent; see /v1/agents")
    if (name in runtime.ledger.rollout.drained) != (topic == DRAINED):
        note = Noted(topic, name, {"by": request.caller.name})
        await runtime.writer.stage(runtime.writer.stamp(), note, name).durable()
    guard = runtime.guards.get(name)
    in_flight = 0 if guard is None else guard.view().in_flight
    return json_reply({"agent": name, "draining": topic == DRAINED, "in_flight": in_flight})
